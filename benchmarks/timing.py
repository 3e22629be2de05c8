"""Time and memory of a call."""

import multiprocessing
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Callable, Dict, List, Optional, Sequence

import torch

from .contestants import Contestant, prepare
from .problem import Problem, Spec

ROUNDS = 3  # at least
SLOTS = 8  # rounds that the time is meant for
PAUSE = 0.05  # seconds for the threads of the one before to stop spinning: onnxruntime's go on for tens of milliseconds


def time_on_cpu(function: Callable) -> float:
    """Seconds that a call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def time_on_cuda(function: Callable) -> float:
    """Seconds between two events around a call, the host's part in it included."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    function()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1000


TIMERS = {"cpu": time_on_cpu, "cuda": time_on_cuda}


def time_interleaved(contestants: Dict[str, Contestant], seconds: float, device: str) -> Dict[str, List[float]]:
    """Seconds of each ``run``, by name. Round after round each contestant has its turn, a slot of calls or one call if
    that is longer, so that whatever else the machine does hits all of them. It ends after ``seconds`` and ``ROUNDS``
    rounds.
    """
    times: Dict[str, List[float]] = {name: [] for name in contestants}
    slot = seconds / (SLOTS * max(1, len(contestants)))
    end, rounds = time.perf_counter() + seconds, 0
    while contestants and (rounds < ROUNDS or time.perf_counter() < end):
        for name, contestant in contestants.items():
            time.sleep(PAUSE)
            stop = time.perf_counter() + slot
            while True:
                contestant.refresh()  # not timed
                times[name].append(TIMERS[device](contestant.run))
                if time.perf_counter() >= stop:
                    break
        rounds += 1
    return times


def peak_memory(name: str, problem: Problem) -> Optional[int]:
    """Bytes that a training step adds at its peak; None if there is not enough.

    On the CPU it is how far the largest resident set of a process of its own (one thread) grows in its first real
    step, after a step of a small batch; on a GPU what torch's allocator counts.
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
    # not forked from here: torch's backward cannot run in a fork of a process in which one ran
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.timing"])
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        try:
            return pool.submit(_growth, name, spec, problem.seed, problem.gate).result()
        except (MemoryError, RuntimeError):  # it was killed, or torch found no memory
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
    """Of this process so far, in bytes."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024
