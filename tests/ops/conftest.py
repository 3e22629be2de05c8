import pytest
import torch

from skiprnn_plugin.ops.native import library

from .problems import is_interpreted


def pytest_collection_modifyitems(items):
    """Of every test over the table of engines, ``--all`` has time for the first case that interprets triton; the
    marker ``interpreted`` has the rest."""
    seen = set()
    for item in items:
        engine = getattr(item, "callspec", None) and item.callspec.params.get("engine")
        if engine is not None and is_interpreted(engine):
            test = item.path, item.originalname
            item.add_marker(pytest.mark.interpreted if test in seen else pytest.mark.thorough)
            seen.add(test)


@pytest.fixture
def level(request):
    """One of the library's instruction sets, in use during a test."""
    before = library.level()
    library.set_level(request.param)
    yield request.param
    library.set_level(before)


@pytest.fixture
def threads(request):
    """Sets the number of threads during a test."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)
