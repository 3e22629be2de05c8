import pytest
import torch


def pytest_addoption(parser):
    parser.addoption("--device", default="cpu", help="where the tests of ops and modules put their tensors, as cuda")


def pytest_configure(config):
    if config.getoption("--device") != "cpu":
        torch.set_default_device(config.getoption("--device"))


torch.set_num_threads(1)  # the tensors here are too small to gain from more


@pytest.fixture(autouse=True)
def uninitialized_memory_is_nan():
    """``torch.empty`` holds NaN in every test, so that reading what was never written shows."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)
