"""The memory of the ``native`` engine: records, results and packed weights."""

import os
import random
import signal
import sys
import threading
import time
from ctypes import c_void_p

import pytest
import torch

from skiprnn_plugin.modules import SkipGRU
from skiprnn_plugin.ops.native import areas, library, packing
from skiprnn_plugin.ops.native import engine as native_engine

from ..compare import assert_equal, assert_gradients_close, assert_results_close
from .native_problems import bitwise_parts, names, native, skip_by
from .problems import Problem

measures_memory = pytest.mark.skipif(
    not sys.platform.startswith("linux") or "asan" in os.environ.get("LD_PRELOAD", ""),
    reason="reads /proc, and the address sanitizer keeps freed memory",
)


@pytest.fixture(autouse=True)
def no_areas(monkeypatch):
    """Which area is taken depends on those that earlier tests have left."""
    monkeypatch.setattr(areas, "_areas", [])


@native
def test_the_saved_records_grow_with_the_updates(engine):
    problem = Problem("lstm", 8, 400, 2, 64, 1, dtype=torch.float32, scale=0.1)
    most, fewer = (largest_saved(problem, engine, (torch.arange(400) % every == 0).expand(8, -1)) for every in (1, 4))
    assert 3.5 < most / fewer < 4.5


def largest_saved(problem, engine, schedule):
    """The number of elements in the largest tensor that is kept for the backward, besides the problem's tensors."""
    inputs, sizes = {id(value) for value in problem.tensors.values()}, []

    def note(value):
        if id(value) not in inputs:
            sizes.append(value.numel())
        return value

    with torch.autograd.graph.saved_tensors_hooks(note, lambda value: value):
        problem.run(engine, schedule=schedule)
    return max(sizes)


@measures_memory
@native
def test_records_take_memory_as_they_are_written(engine):
    before, kept = resident(), []
    problem = Problem("lstm", 64, 2000, 1, 64, 1, dtype=torch.float32, scale=0.1)
    schedule = (torch.arange(2000) % 50 == 0).expand(64, -1)
    for _ in range(2):
        kept.append(problem.run(engine, schedule=schedule, last_only=True)[0])
    sizes = library.Problem(library.Shape(0, 1, 1, 64), 64, 2000, keep_limit=native_engine.KEEP_LIMIT // 4)
    record = library.load().skiprnn_record_size(sizes) * 4
    assert resident() - before < 2 * 64 * 2000 * record / 4


def resident():
    """Bytes of memory that the process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def room():
    """A tensor in an area of memory."""
    return torch.frombuffer(areas.take(1 << 26), dtype=torch.float32, count=1000)


def test_areas_are_used_again_but_never_by_two():
    first = room()
    part, place = first[:10], first.data_ptr()
    del first
    second = room()
    assert second.data_ptr() != place
    del part
    assert room().data_ptr() == place
    held = [room() for _ in range(areas.MOST + 2)]
    assert len({tensor.data_ptr() for tensor in [second, *held]}) == areas.MOST + 3
    assert len(areas._areas) == areas.MOST


def test_a_larger_area_takes_the_place_of_a_smaller_one():
    """Otherwise batches that grow would leave several behind."""
    areas.take(1 << 20)
    before = len(areas._areas)
    for power in range(27, 30):
        areas.take(1 << power)
    sizes = [len(area.memory) for area in areas._areas]
    assert len(sizes) <= before and sum(size >= 1 << 27 for size in sizes) == 1


@pytest.mark.parametrize(
    "keep",
    [
        lambda tensor: tensor[3:4],
        torch.Tensor.detach,
        torch.Tensor.untyped_storage,
        torch.Tensor.numpy,
    ],
    ids=["view", "detach", "storage", "numpy"],
)
def test_an_area_is_in_use_as_long_as_anything_shares_its_memory(keep):
    tensor = room()
    place, kept = tensor.data_ptr(), keep(tensor)
    del tensor
    assert room().data_ptr() != place
    del kept
    assert room().data_ptr() == place


def test_an_area_is_free_whatever_else_refers_to_it():
    """Debuggers and other threads hold references for a while that are nobody's use of the memory."""
    place = room().data_ptr()
    references = [(area, area.memory) for area in areas._areas]
    assert room().data_ptr() == place and references


def test_two_threads_never_get_one_area():
    wrong = []

    def work(value):
        for _ in range(300):
            tensor = room()
            tensor.fill_(value)
            time.sleep(0)  # lets the other thread run
            if not bool((tensor == value).all()):
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(areas._areas) <= areas.MOST


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_in_the_middle_of_another_threads_take_has_areas_of_its_own():
    held = room().fill_(1)
    with areas._lock:  # as another thread would hold it
        child = os.fork()
        if child == 0:
            signal.alarm(10)  # ends it if it hangs
            try:
                tensor = room().fill_(2)
                place = tensor.data_ptr()
                del tensor
                good = bool((held == 1).all()) and place != held.data_ptr() and room().data_ptr() == place
                os._exit(0 if good else 1)
            finally:
                os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert bool((held == 1).all())


@pytest.mark.thorough
@measures_memory
@native
def test_500_training_steps_at_flat_memory(engine):
    rnn, draw, sizes = SkipGRU(2, 48, 2, engine=engine), random.Random(0), []
    optimizer = torch.optim.SGD(rnn.parameters(), 1e-3)
    for step in range(500):
        x = torch.randn(16, draw.randint(1, 120), 2)
        optimizer.zero_grad()
        output, _, updates = rnn(x)
        (output.square().mean() + 1e-4 * updates.sum()).backward()
        optimizer.step()
        if step % 50 == 49:
            sizes.append(resident())
    assert sizes[-1] - sizes[1] < 8e6, sizes


@native
def test_results_have_memory_of_their_own(engine):
    problem = Problem("lstm", dtype=torch.float32)
    with torch.no_grad():
        parts = bitwise_parts(problem.run(engine))
    assert len({part.untyped_storage().data_ptr() for part in parts}) == len(parts)


@native
@pytest.mark.parametrize("how", ["optimizer", "data", "copy_", "another tensor"])
def test_changed_weights_are_laid_out_again(engine, how):
    torch.manual_seed(0)
    rnn, x = SkipGRU(3, 9, 2, engine=engine), torch.randn(4, 12, 3)
    optimizer = torch.optim.SGD(rnn.parameters(), 0.05)
    for _ in range(3):
        results = rnn(x)
        expected = skip_by("reference", rnn, x)
        assert_results_close(results, expected)
        gradients, reference = (
            dict(zip(names(rnn), torch.autograd.grad(parts[0].sum() + parts[2].sum(), list(rnn.parameters()))))
            for parts in (results, expected)
        )
        assert_gradients_close(gradients, reference)
        with torch.no_grad():
            weight = rnn.weight_hh_l1
            if how == "optimizer":
                for name, parameter in rnn.named_parameters():
                    parameter.grad = gradients[name]
                optimizer.step()
            elif how == "data":
                weight.data[3, 5] += 1.0  # as fairseq's optimizers write; no version counter moves
            elif how == "copy_":
                weight.copy_(weight.flip(0))
            else:
                rnn.weight_hh_l1 = torch.nn.Parameter(weight.flip(0))


class Packing:
    """The weights of one GRU, and how they are packed for a forward."""

    def __init__(self):
        self.weights = [weight.detach() for weight in SkipGRU(3, 5)._weights("")[0][:4]]

    def pack(self):
        return packing.pack((1, 1, 3, 5), self.weights, library.FORWARD)

    def change(self):
        self.weights[1][0, 0] += 1


@native
def test_packing_tells_whether_anything_changed(engine):
    gru = Packing()
    with gru.pack() as packed:
        array = (c_void_p * 4)(*(weight.data_ptr() for weight in gru.weights))
        again = (packed.shape, array, library.FORWARD, 1, packed.address, packed.known)
        assert library.load().skiprnn_pack(*again) == 0
        gru.change()
        assert library.load().skiprnn_pack(*again) == 1
        with gru.pack() as other:
            assert other is packed


@native
def test_weights_that_another_thread_reads_are_laid_out_elsewhere(engine):
    gru = Packing()
    with gru.pack() as used:
        before = used.buffer.nan_to_num()  # unused elements may be NaN
        with gru.pack() as same:
            assert same is used
        gru.change()
        with gru.pack() as other:
            assert other is not used and not torch.equal(other.buffer.nan_to_num(), before)
            assert_equal(used.buffer.nan_to_num(), before)
            with gru.pack() as same:
                assert same is other
    gru.change()
    with gru.pack() as same:
        assert same is other, "nobody reads it: it is used again"


@native
def test_weights_that_are_read_no_longer_are_laid_out_in_place_whatever_refers_to_them(engine):
    gru = Packing()
    with pytest.raises(KeyError), gru.pack() as packed:
        raise KeyError  # an error ends the reading too
    gru.change()
    with gru.pack() as again:
        assert again is packed


@native
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_lays_weights_out_for_itself(engine):
    """The child has no thread that could release the parent's locks or end its reading."""
    gru = Packing()
    with gru.pack() as packed, packed.lock, packing._lock:
        expected = packed.buffer.nan_to_num()
        child = os.fork()
        if child == 0:
            signal.alarm(10)  # ends it if it hangs
            try:
                with gru.pack() as first:
                    good = first is not packed and torch.equal(first.buffer.nan_to_num(), expected)
                gru.change()
                with gru.pack() as again:
                    good = good and again is first
                os._exit(0 if good else 1)
            finally:
                os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@native
def test_packed_weights_are_forgotten_with_the_weights(engine):
    gru, before = Packing(), len(packing._cache)
    with gru.pack() as packed:
        assert len(packing._cache) == before + 1
        del gru
        assert len(packing._cache) == before and packed.buffer.numel() > 0


@native
def test_weights_that_were_laid_out_elsewhere_are_forgotten_too(engine):
    gru, before = Packing(), len(packing._cache)
    with gru.pack() as packed:
        gru.change()
        with gru.pack() as other:
            assert other is not packed
    del packed, other
    assert len(packing._cache) == before + 1
    del gru
    assert len(packing._cache) == before


@native
def test_two_models_do_not_mix_and_the_cache_is_bounded(engine):
    x = torch.randn(2, 6, 3)
    models = [SkipGRU(3, 5, engine=engine) for _ in range(packing.CAPACITY + 3)]
    with torch.no_grad():
        for _ in range(2):
            for rnn in models:
                assert_results_close(rnn(x), skip_by("reference", rnn, x))
    assert len(packing._cache) <= packing.CAPACITY
