"""The phase ``kernels``: time per update of the engine's kernels, by rows and warps of a program.

Every step is updated, by one program and by as many as the device has multiprocessors. Kernels are timed by torch's
profiler; the whole calls by events, in case the profiler finds nothing.
"""

from itertools import product
from statistics import median
from typing import Dict, NamedTuple, Optional

import torch

from ..problem import SATURATED, Problem, Spec
from ..shapes import MODES, Shape
from ..timing import TIMERS
from .log import Log
from .plans import force_plan
from .precision import PRECISIONS, use
from .settings import Settings
from .times import Ours

STEPS = 128  # few enough that the backward pass takes all sequences at once
RUNS = 5
RANKS = {
    "cell": {"gru": 0, "lstm": 0},
    "precision": {"bfloat16": 0, "tf32": 1, "float32": 1},
    "rows": {8: 0, 1: 0, 16: 0},
    "warps": {8: 0, 4: 2},
}


class Item(NamedTuple):
    """A plan, and what to time with it."""

    cell: str
    precision: str
    rows: int
    warps: int
    hidden_size: int
    steps: int

    def describe(self) -> str:
        return f"{self.cell} H{self.hidden_size} {self.precision} R{self.rows} warps {self.warps}"

    @property
    def plan(self) -> Dict[str, object]:
        """The fields of the plan to force."""
        precision = {"float32": "ieee", "tf32": "tf32", "bfloat16": "half"}[self.precision]
        return {"on_chip": True, "rows": self.rows, "warps": self.warps, "precision": precision}

    @property
    def rank(self) -> int:
        """The smaller, the more important."""
        return sum(RANKS[name][getattr(self, name)] for name in RANKS)


def make_items(settings: Settings) -> Dict[str, Item]:
    """All items, the most important first."""
    if settings.small:
        items = [Item("gru", "float32", 1, 4, 5, 6)]
    else:
        items = [item for item in (Item(*values, 110, STEPS) for values in product(*RANKS.values())) if exists(item)]
        items.sort(key=lambda item: item.rank)
    return {item.describe(): item for item in items}


def exists(item: Item) -> bool:
    """Whether there are such kernels. Products of float32 are made for one row alone, an LSTM of this size has no room
    in tf32, and with four warps all but those in bfloat16 spill kilobytes."""
    if item.precision == "float32":
        return item.rows == 1 and item.warps == 8
    return item.precision == "bfloat16" or (item.cell == "gru" and item.warps == 8)


def list_items(settings: Settings, log: Log) -> Dict[str, Item]:
    """Those whose kernels are compiled; all, if the phase ``compile`` did not run."""
    items, compiled = make_items(settings), log.read("compile")
    ready = {record["item"] for record in compiled if not record.get("error") and record.get("fits", True)}
    return {name: item for name, item in items.items() if not compiled or f"plan {name}" in ready}


def make_contestant(item: Item, settings: Settings, mode: str, programs: int, steps: int) -> Ours:
    shape = Shape(steps, 1, item.hidden_size, item.rows * programs)
    spec = Spec(item.describe(), shape, item.cell, 1.0, PRECISIONS[item.precision].dtype, settings.device)
    return Ours(Problem(spec), mode, settings.engine, SATURATED)


def count_multiprocessors(settings: Settings) -> int:
    if settings.device != "cuda":
        return 2
    return torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count


def run_item(name: str, item: Item, settings: Settings, log: Log) -> None:
    use(item.precision)
    for programs in (1, count_multiprocessors(settings)):
        calls, kernels = {}, {}
        with force_plan(settings.engine, **item.plan):
            for mode in MODES:
                contestant = make_contestant(item, settings, mode, programs, item.steps)
                contestant.run()
                times = [TIMERS[settings.device](contestant.run) for _ in range(RUNS)]
                calls[mode] = 1e6 * median(times) / item.steps
                kernels[mode] = try_profile(contestant, settings, item.steps)
        words = [f"{mode} {calls[mode]:.2f} us a step" for mode in MODES]
        words += [f"{kernel} {kernels[mode][kernel]:.2f}" for mode in MODES for kernel in sorted(kernels[mode])]
        log.write(
            "kernels",
            f"{name}, {programs} programs: {', '.join(words)}",
            item=name,
            **item._asdict(),
            programs=programs,
            us_per_step=calls,
            us_of_kernels=kernels,
        )


def try_profile(contestant: Ours, settings: Settings, steps: int) -> Dict[str, float]:
    """As :func:`profile`; nothing where the profiler does not work."""
    try:
        return profile(contestant, settings, steps)
    except RuntimeError:
        return {}


def profile(contestant: Ours, settings: Settings, steps: int, calls: int = 2) -> Dict[str, float]:
    """Microseconds per step of the kernels that take at least a hundredth of the time, by name; nothing where the
    profiler sees no device."""
    if settings.device != "cuda":
        return {}
    from torch.profiler import ProfilerActivity

    with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(calls):
            contestant.run()
        torch.cuda.synchronize()
    found: Dict[str, float] = {}
    for event in profiler.key_averages():
        seconds: Optional[float] = getattr(event, "self_device_time_total", None)
        if seconds:
            found[event.key[:60]] = found.get(event.key[:60], 0.0) + seconds / calls / steps
    total = sum(found.values())
    return {kernel: us for kernel, us in found.items() if us >= 0.01 * total}
