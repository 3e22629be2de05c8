"""The phase ``policy``: what the measurements suggest, in two tables. It needs no device, only the log."""

import math
from collections import defaultdict
from statistics import geometric_mean
from typing import Any, Dict, List, Tuple

from .log import Log

BATCHES = (1, 32, 132, 256, 1024, 4096)
PER_UPDATE = {"inference": ("forward",), "training": ("forward", "chain")}  # kernels that depend on rows and warps


def suggest(log: Log) -> None:
    """Write the plan with the least time for each batch, and the summary of the phase ``times``."""
    plans = suggest_plans(log.read("kernels"))
    for (cell, hidden, precision, mode), chosen in plans.items():
        words = [f"B {batch}: R{rows} warps {warps}, {us:.2f} us" for batch, (rows, warps, us) in chosen.items()]
        log.write(
            "policy", f"{cell} H{hidden} {precision} {mode}, us per update: {'; '.join(words)}",
            cell=cell, hidden_size=hidden, precision=precision, mode=mode,
            plans=[[batch, *plan] for batch, plan in chosen.items()],
        )  # fmt: skip
    for (mode, cell, precision), contestants in summarize(log.read("times")).items():
        summary = {}
        for contestant, ratios in contestants.items():
            worst, at = min(ratios)
            mean = geometric_mean(ratio for ratio, _ in ratios)
            summary[contestant] = {"worst": worst, "at": at, "geometric_mean": mean, "shapes": len(ratios)}
        words = [f"{name} {s['worst']:.2f} ({s['geometric_mean']:.2f})" for name, s in summary.items()]
        log.write(
            "policy", f"{mode} {cell} {precision}, times as fast as torch, worst shape (mean): {', '.join(words)}",
            mode=mode, cell=cell, precision=precision, summary=summary,
        )  # fmt: skip


def time_of_update(record: Dict[str, Any], mode: str) -> float:
    """Microseconds of an update in the kernels that depend on the plan; of the whole call without a profile."""
    kernels = record["us_of_kernels"][mode]
    found = [us for name, us in kernels.items() if any(word in name for word in PER_UPDATE[mode])]
    return sum(found) if found else record["us_per_step"][mode]


def suggest_plans(records: List[Dict[str, Any]]) -> Dict[Tuple, Dict[int, Tuple[int, int, float]]]:
    """For each cell, size, precision and mode: for each batch the rows, the warps, and the microseconds in which all of
    its sequences make an update."""
    measured: Dict[Tuple, Dict[Tuple[int, int], Dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for record in records:
        if record.get("error"):
            continue
        for mode in PER_UPDATE:
            key = record["cell"], record["hidden_size"], record["precision"], mode
            measured[key][record["rows"], record["warps"]][record["programs"]] = time_of_update(record, mode)
    chosen: Dict[Tuple, Dict[int, Tuple[int, int, float]]] = {}
    for key, plans in measured.items():
        chosen[key] = {}
        for batch in BATCHES:
            times = {plan: extrapolate(by_programs, -(-batch // plan[0])) for plan, by_programs in plans.items()}
            best = min(times, key=times.get)
            chosen[key][batch] = (*best, times[best])
    return chosen


def extrapolate(by_programs: Dict[int, float], programs: int) -> float:
    """The time of an update by so many programs, from that of one and that of a full device: between the two in
    proportion, and as often as the device must be filled beyond."""
    full = max(by_programs)
    if programs >= full:
        return math.ceil(programs / full) * by_programs[full]
    few = min(by_programs)
    share = (programs - few) / max(1, full - few)
    return by_programs[few] + share * (by_programs[full] - by_programs[few])


def summarize(records: List[Dict[str, Any]]) -> Dict[Tuple, Dict[str, List[Tuple[float, str]]]]:
    """For each mode, cell and precision, by contestant of the engine: the ratio for each shape, and the shape."""
    found: Dict[Tuple, Dict[str, List[Tuple[float, str]]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        for result in record.get("results", []):
            if result["ratio"] is not None and result["fraction_ran"] is not None:
                key = record["mode"], record["cell"], record["precision"]
                shape = f"H{record['hidden_size']} B{record['batch']} D{record['input_size']}"
                found[key][result["contestant"]].append((result["ratio"], shape))
    return dict(sorted(found.items()))
