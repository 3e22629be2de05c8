"""The phase ``times``: the engine at 100, 50 and 20% of the updates beside the fastest of torch's RNNs.

On a CUDA device torch's RNNs are cuDNN's, with padded and with packed sequences, in the same precision; beside bfloat16
also in float16, because cuDNN may have no faster code for bfloat16. All contestants take turns in one process. Those of
the engine are called ``gate 50%``, where the gate decides, with a bias found by bisection, or ``schedule 50%``, where
exactly half of each sequence's steps are prescribed.
"""

import copy
from itertools import product
from statistics import median
from typing import Dict, NamedTuple, Optional

import torch
from torch import Tensor

from ..checks import find_difference
from ..contestants import CannotRun, Contestant, Engine, prepare
from ..problem import SATURATED, Problem, Spec
from ..shapes import MODES, Shape
from ..timing import time_interleaved
from .log import Log, describe
from .precision import PRECISIONS, use
from .settings import Settings

FRACTIONS = (1.0, 0.5, 0.2)
PEERS = ("torch", "torch-packed")
STEPS, WIDE = 784, 128
SECONDS = 0.25  # for all contestants of a problem in a mode; at least three rounds
# How far results of torch may be from those of the engine at 100%, as in benchmarks.checks; tf32 rounds more
TOLERANCE = {"float32": (1e-4, 1e-3), "tf32": (2e-2, 1e-1), "bfloat16": (5e-2, 2e-1), "float16": (1e-2, 5e-2)}

# What comes first: the sum of these
RANKS = {
    "hidden_size": {110: 0, 256: 1, 128: 3, 512: 2},
    "batch": {256: 0, 32: 1, 1: 1},
    "input_size": {1: 0, WIDE: 1},
    "precision": {"bfloat16": 0, "tf32": 0, "float32": 1, "float16": 3},
    "cell": {"gru": 0, "lstm": 0},
    "mode": {"training": 0, "inference": 0},
}


class Item(NamedTuple):
    """Sizes, and what to time."""

    hidden_size: int
    batch: int
    input_size: int
    precision: str
    cell: str
    mode: str
    steps: int

    def describe(self) -> str:
        return f"{self.mode} {self.cell} H{self.hidden_size} B{self.batch} D{self.input_size} {self.precision}"

    @property
    def rank(self) -> int:
        """The smaller, the more important."""
        return sum(RANKS[name].get(getattr(self, name), 0) for name in RANKS)


def make_items(settings: Settings) -> Dict[str, Item]:
    """All items, the most important first."""
    if settings.small:
        items = [Item(5, 3, 1, "float32", "gru", mode, 12) for mode in MODES]
    else:
        items = sorted((Item(*values, STEPS) for values in product(*RANKS.values())), key=lambda item: item.rank)
    return {item.describe(): item for item in items}


def list_items(settings: Settings, log: Log) -> Dict[str, Item]:
    """Those whose kernels are compiled come first."""
    items, compiled = make_items(settings), log.read("compile")
    ready = {record["item"] for record in compiled if not record.get("error")}
    names = sorted(items, key=lambda name: f"{name}, gate" not in ready) if compiled else list(items)
    return {name: items[name] for name in names}


class Ours(Contestant):
    """The engine, deciding by the gate with a given bias or by a schedule."""

    def __init__(self, problem: Problem, mode: str, engine: str, bias: float, schedule: Optional[Tensor] = None):
        problem = copy.copy(problem)
        problem.model = copy.deepcopy(problem.model)
        with torch.no_grad():
            problem.model.update_bias.fill_(bias)
        super().__init__(problem, mode, 1)
        self.engine, self.schedule = Engine(problem, mode, 1, engine), schedule
        self.refresh = self.engine.refresh

    def run(self, schedule=None):
        return self.engine.run(self.schedule if schedule is None else schedule)


def make_problem(item: Item, device: str) -> Problem:
    shape = Shape(item.steps, item.input_size, item.hidden_size, item.batch)
    return Problem(Spec(item.describe(), shape, item.cell, 1.0, PRECISIONS[item.precision].dtype, device))


def find_bias(problem: Problem, mode: str, engine: str, target: float) -> float:
    """A bias of the gate at which about this fraction of the steps is updated, by the engine itself."""
    low, high = -SATURATED, SATURATED
    if target == 1:
        return SATURATED
    best, distance = 0.0, 1.0
    for _ in range(12):
        bias = (low + high) / 2
        with torch.inference_mode(mode == "inference"):  # the mode decides which kernel runs
            _, updates = Ours(problem, mode, engine, bias).engine.forward(None)
        fraction = updates.mean().item()
        if abs(fraction - target) < distance:
            best, distance = bias, abs(fraction - target)
        if distance <= 0.02 * target:
            break
        low, high = (bias, high) if fraction < target else (low, bias)
    return best


def draw_schedule(item: Item, fraction: float, device: str) -> Tensor:
    """Exactly this fraction of each sequence's steps, rounded, at random; bool [B, T]."""
    generator = torch.Generator().manual_seed(0)
    order = torch.rand(item.batch, item.steps, generator=generator, device="cpu").argsort(1).argsort(1)
    return (order < round(fraction * item.steps)).to(device)


def make_ours(item: Item, problem: Problem, settings: Settings, scheduled: bool) -> Dict[str, Ours]:
    """The engine's contestants, by name."""
    found = {}
    for fraction in FRACTIONS:
        bias = find_bias(problem, item.mode, settings.engine, fraction)
        found[f"gate {fraction:.0%}"] = Ours(problem, item.mode, settings.engine, bias)
        if scheduled:
            schedule = draw_schedule(item, fraction, settings.device)
            found[f"schedule {fraction:.0%}"] = Ours(problem, item.mode, settings.engine, 1.0, schedule)
    return found


def run_item(name: str, item: Item, settings: Settings, log: Log) -> None:
    use(item.precision)
    device = settings.device
    problem = make_problem(item, device)
    compiled = log.read("compile")
    scheduled = not compiled or any(r["item"] == f"{name}, schedule" and not r.get("error") for r in compiled)
    ours = make_ours(item, problem, settings, scheduled)
    contestants: Dict[str, Contestant] = dict(ours)
    left_out = {}
    problems = {peer: problem for peer in PEERS}
    if item.precision == "bfloat16":
        problems.update({f"{peer} float16": make_problem(item._replace(precision="float16"), device) for peer in PEERS})
    for label, its_problem in problems.items():
        try:
            contestants[label] = prepare(label.split()[0], its_problem, item.mode, 1)
            contestants[label].run()
        except (CannotRun, RuntimeError) as error:
            contestants.pop(label, None)
            left_out[label] = describe(error)
    used = {label: contestant.run().updates.mean().item() for label, contestant in ours.items()}
    fault = find_fault(item, contestants, problem)
    times = time_interleaved(contestants, SECONDS, settings.device, pause=0.0)
    medians = {label: median(values) for label, values in times.items()}
    peers = {label: medians[label] for label in problems if label in medians}
    fastest = min(peers, key=peers.get, default=None)
    memory = {}
    if item.mode == "training" and settings.device == "cuda":
        memory = measure_memory(contestants)
    results = [
        {
            "contestant": label,
            "seconds_median": medians[label],
            "seconds_min": min(times[label]),
            "runs": len(times[label]),
            "fraction_ran": used.get(label),
            "ratio": None if fastest is None else medians[fastest] / medians[label],
            "peak_memory": memory.get(label),
        }
        for label in contestants
    ]
    words = [f"{label} x{medians[fastest] / medians[label]:.2f}" for label in ours] if fastest else []
    peer = f"{fastest} {1e3 * peers[fastest]:.2f} ms" if fastest else "no peer"
    log.write(
        "times",
        f"{'WRONG ' if fault else ''}{name}: {peer}, {', '.join(words)}{'; ' + fault if fault else ''}",
        item=name,
        **item._asdict(),
        error=fault,
        fastest=fastest,
        results=results,
        left_out=left_out,
    )


def find_fault(item: Item, contestants: Dict[str, Contestant], problem: Problem) -> Optional[str]:
    """What is wrong with the engine's results at 100%, beside those of torch; None if nothing is."""
    full = contestants["gate 100%"].run()
    if full.updates.mean().item() != 1:
        return "a step was left out at 100%"
    for peer in PEERS:
        if peer in contestants:
            different = find_difference(contestants[peer].run(), full, TOLERANCE[item.precision], problem.rows.bool())
            return different and f"beside {peer}, {different}"
    return None


def measure_memory(contestants: Dict[str, Contestant]) -> Dict[str, int]:
    """The bytes that a training update of each contestant adds at its peak."""
    found = {}
    for label, contestant in contestants.items():
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        contestant.run()
        found[label] = torch.cuda.max_memory_allocated() - before
    return found
