import shutil
import subprocess
import sys

import pytest
import torch

from .command_line import ROOT, run


def pytest_addoption(parser):
    parser.addoption("--device", default="cpu", help="the device for the tests of ops and modules, such as cuda")


def pytest_configure(config):
    if config.getoption("--device") != "cpu":
        torch.set_default_device(config.getoption("--device"))


torch.set_num_threads(1)  # the tests' tensors are too small to gain from more threads


@pytest.fixture(autouse=True)
def uninitialized_memory_is_nan():
    """Make ``torch.empty`` hold NaN in every test, so that a read of uninitialised memory is noticed."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(scope="session")
def resnet50_weights(tmp_path_factory):
    """A file of random weights of torchvision's ResNet-50; tests that use it are skipped without torchvision."""
    pytest.importorskip(f"{__package__}.torchvision_beside_cpu_torch")
    from torchvision import models

    path = tmp_path_factory.mktemp("weights") / "resnet50.pth"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        torch.save(models.resnet50().state_dict(), path)
    return path


@pytest.fixture(scope="session")
def copied_tree(tmp_path_factory):
    """A function that copies the files that git tracks or would add, without build outputs, to a new folder."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")

    def copy():
        folder = tmp_path_factory.mktemp("tree")
        for name in filter(None, names):
            if (ROOT / name).exists():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, folder / name)
        return folder

    return copy


@pytest.fixture(scope="session")
def distributions(copied_tree, tmp_path_factory):
    """The source distribution, and the wheel that this machine's compiler builds from it."""
    folder = tmp_path_factory.mktemp("dist")
    process = run(sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", folder, cwd=copied_tree())
    assert process.returncode == 0, process.stderr
    (source,) = folder.glob("*.tar.gz")
    process = run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", folder, source)
    assert process.returncode == 0, process.stderr
    (wheel,) = folder.glob("*.whl")
    return source, wheel
