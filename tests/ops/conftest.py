import pytest
import torch

from skiprnn_plugin.ops.native import library


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
