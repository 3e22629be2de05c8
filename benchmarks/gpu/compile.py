"""The phase ``compile``: calls everything that the other phases will call, on a few steps, so that Triton's cache, a
folder that all processes share, holds the kernels when these are timed.

A kernel that can't be built, such as one that needs more shared memory than there is, is named here.
"""

import time
from typing import Callable, Dict, Tuple

import torch

from ..shapes import MODES
from . import correctness, kernels, times
from .log import Log, describe
from .plans import force_plan
from .precision import PRECISIONS, use
from .settings import Settings

STEPS = 9  # more than the engine searches for an update at once


def list_items(settings: Settings, log: Log) -> Dict[str, Tuple[Callable, tuple]]:
    """Functions with their arguments: first for the phase ``correctness``, then by importance."""
    found: Dict[str, Tuple[Callable, tuple]] = {}
    if "correctness" in settings.phases:
        for name, case in correctness.list_items(settings, log).items():
            found[f"case {name}"] = compile_case, (case,)
    ranked = []
    if "times" in settings.phases:
        for name, item in times.make_items(settings).items():
            ranked.append((item.rank, f"{name}, gate", compile_problem, (item, False)))
            ranked.append((item.rank + 1, f"{name}, schedule", compile_problem, (item, True)))
    if "kernels" in settings.phases:
        for name, item in kernels.make_items(settings).items():
            ranked.append((item.rank, f"plan {name}", compile_plan, (item,)))
    if "epoch" in settings.phases and not settings.small:
        item = times.Item(110, 256, 1, "float32", "gru_reset_before", "training", times.STEPS)
        ranked.append((1, f"{item.describe()}, gate", compile_problem, (item, False)))
    for _, name, function, arguments in sorted(ranked, key=lambda entry: entry[0]):
        found[name] = function, arguments
    return found


def compile_case(settings: Settings, case: correctness.Case) -> None:
    precision = PRECISIONS[case.precision]
    use(case.precision)
    with correctness.limit(case, settings.engine):
        inputs = correctness.move(
            correctness.make_inputs(case, precision.dtype), precision.dtype, settings.device, case.transposed
        )
        results = correctness.run(case, inputs, settings.engine)
        sum(value.sum() for value in results.values()).backward()
        with torch.no_grad():
            correctness.run(case, inputs, settings.engine)


def compile_problem(settings: Settings, item: times.Item, scheduled: bool) -> None:
    use(item.precision)
    item = item._replace(steps=STEPS)
    problem = times.make_problem(item, settings.device)
    schedule = times.draw_schedule(item, 0.5, settings.device) if scheduled else None
    times.Ours(problem, item.mode, settings.engine, 1.0, schedule).run()


def compile_plan(settings: Settings, item: kernels.Item) -> None:
    use(item.precision)
    with force_plan(settings.engine, **item.plan):
        for mode in MODES:
            kernels.make_contestant(item, settings, mode, 1, STEPS).run()


def run_item(name: str, item: Tuple[Callable, tuple], settings: Settings, log: Log) -> None:
    function, arguments = item
    start = time.time()
    try:
        function(settings, *arguments)
    except Exception as error:
        if type(error).__name__ != "OutOfResources":
            raise
        # Plans that don't fit are tried on purpose; the policy must not choose one
        fault = None if name.startswith("plan ") else describe(error)
        log.write("compile", f"{name}: {describe(error)}", item=name, fits=False, error=fault)
        return
    log.write("compile", item=name, fits=True, error=None, took=round(time.time() - start, 2))
