"""Measures the time and the memory of a call."""

import multiprocessing
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Callable, Dict, List, Optional, Sequence

import torch

from .contestants import Contestant, prepare
from .problem import Problem, Spec

ROUNDS = 3  # the least number of rounds
SLOTS = 8  # the number of rounds that the time is divided into
PAUSE = 0.05  # seconds; the previous contestant's threads may still spin, onnxruntime's for tens of milliseconds


def time_on_cpu(function: Callable) -> float:
    """The seconds that a call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def time_on_cuda(function: Callable) -> float:
    """The seconds between two CUDA events around a call; they include the host's part."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    function()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1000


def time_of_processor(function: Callable) -> float:
    """The seconds that a call takes on the processor, by all threads of this process together; other programs that run
    on the same cores add little."""
    start = time.process_time()
    function()
    return time.process_time() - start


TIMERS = {"cpu": time_on_cpu, "cuda": time_on_cuda, "processor": time_of_processor}


def time_interleaved(
    contestants: Dict[str, Contestant], seconds: float, device: str, pause: float = PAUSE
) -> Dict[str, List[float]]:
    """The seconds of each call of ``run``, by the contestant's name; ``device`` is a key of ``TIMERS``.

    The contestants take turns, so that other load on the machine affects all of them. In each round a contestant is
    called for a short time, or once if a call takes longer, after a ``pause`` in seconds. Timing ends after ``seconds``
    and at least ``ROUNDS`` rounds.
    """
    times: Dict[str, List[float]] = {name: [] for name in contestants}
    slot = seconds / (SLOTS * max(1, len(contestants)))
    end, rounds = time.perf_counter() + seconds, 0
    while contestants and (rounds < ROUNDS or time.perf_counter() < end):
        for name, contestant in contestants.items():
            time.sleep(pause)
            stop = time.perf_counter() + slot
            while True:
                contestant.refresh()  # not timed
                times[name].append(TIMERS[device](contestant.run))
                if time.perf_counter() >= stop:
                    break
        rounds += 1
    return times


def peak_memory(name: str, problem: Problem) -> Optional[int]:
    """The bytes that a training update adds to memory at its peak; None if the memory does not suffice.

    On the CPU a separate process with one thread runs one with a small batch and then the real one. The result is
    the growth of its largest resident set in the real one. On a GPU it is the count of torch's allocator.
    """
    spec = problem.spec
    if spec.device == "cuda":
        run = prepare(name, problem, "training", 1).run
        run()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        return torch.cuda.max_memory_allocated() - before
    # a forkserver, because torch's backward can't run in a fork of a process that has run one
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.timing"])
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        try:
            return pool.submit(_growth, name, spec, problem.seed, problem.gate).result()
        except (MemoryError, RuntimeError):  # the process was killed, or torch could not allocate memory
            return None


def _growth(name: str, spec: Spec, seed: int, gate: Sequence) -> int:
    torch.set_num_threads(1)
    for small in (True, False):
        shape = spec.shape._replace(batch=1, steps=2) if small else spec.shape
        problem = Problem(spec._replace(shape=shape), seed)
        problem.set_gate(*gate)
        contestant = prepare(name, problem, "training", 1)
        before = _largest_resident_set()
        contestant.run()
    return _largest_resident_set() - before


def _largest_resident_set() -> int:
    """The largest resident set of this process so far, in bytes."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024
