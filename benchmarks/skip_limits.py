"""``python -m benchmarks.skip_limits``: what limits of skips, ``max_skip`` and ``min_skip``, cost in evaluation.

A Skip GRU reads random sequences without limits and with limits, in turns. The limits are the fewest and the most steps
that its gate skips by itself, so that both make the same updates and differ only in the limits. Random weights; a
bisection of the gate's bias gives the fraction of updates. Everything runs on one thread of the CPU, in float32, and
times are those of the processor.
"""

import argparse
import sys
from pathlib import Path
from statistics import median
from typing import Any, Dict, Optional, Sequence, Tuple

import torch
from torch import Tensor
from tqdm import tqdm

from skiprnn_plugin.cli.command import as_table, run_command
from skiprnn_plugin.modules import SkipGRU

from .command import begin_report, check_options, describe_origin, write_report
from .shapes import SHAPES, Shape
from .stream import Contestant, build, set_fraction
from .timing import time_interleaved

SIZES = {
    "mnist-b256": SHAPES["mnist-b256"],
    "sensor-b1": Shape(steps=2000, input_size=40, hidden_size=110, batch=1),
    "tiny": Shape(steps=420, input_size=3, hidden_size=8, batch=2),  # for tests
}
ENGINES = ("native", "indexed", "reference")


def find_limits(updates: Tensor) -> Tuple[int, int]:
    """The fewest steps that are skipped between two updates of a sequence, and the most steps that are skipped; of
    ``updates`` [B, T]."""
    between, ends = [], []
    for row in updates:
        times = row.nonzero().squeeze(1)
        between += (times.diff() - 1).tolist()
        ends += [int(times[0]), len(row) - 1 - int(times[-1])]
    return min(between), max(between + ends)


def run_module(rnn: SkipGRU, x: Tensor, limits: Tuple[int, Optional[int]]) -> Tuple[Tensor, Tensor]:
    """The last output and the updates."""
    rnn.min_skip, rnn.max_skip = limits
    output, _, updates = rnn(x, last_only=True)
    return output, updates


def measure(args: argparse.Namespace, name: str, engine: str, fraction: float) -> Dict[str, Any]:
    shape = SIZES[name]
    rnn = build(shape.input_size, shape.hidden_size, args.seed)
    x = torch.randn(shape.batch, shape.steps, shape.input_size)
    set_fraction(rnn, x, fraction)
    rnn.engine = engine
    output, updates = run_module(rnn, x, (0, None))
    limits = find_limits(updates)
    limited = run_module(rnn, x, limits)
    if not (torch.equal(limited[0], output) and torch.equal(limited[1], updates)):
        raise RuntimeError(f"{engine}: expected the same results with the limits {limits} as without")
    contestants = {
        given: Contestant(lambda given=given: run_module(rnn, x, given), shape.steps) for given in ((0, None), limits)
    }
    times = time_interleaved(contestants, args.seconds, "processor")
    without, within = (median(times[given]) for given in contestants)
    return {
        "sizes": name,
        **{key: getattr(shape, key) for key in ("batch", "steps", "input_size", "hidden_size")},
        "engine": engine,
        "updates": updates.mean().item(),
        "min_skip": limits[0],
        "max_skip": limits[1],
        "runs": [len(values) for values in times.values()],
        "seconds": without,
        "seconds_with_limits": within,
        "times_as_long": within / without,
    }


def as_markdown(report: Dict[str, Any]) -> str:
    machine, versions = report["machine"], report["versions"]
    rows = [
        [
            *(f"{entry[name]:,}" for name in ("batch", "steps", "input_size", "hidden_size")),
            entry["engine"],
            f"{entry['updates']:.0%}",
            f"{entry['min_skip']} to {entry['max_skip']}",
            *(f"{entry[name] * 1e3:.2f}" for name in ("seconds", "seconds_with_limits")),
            f"{entry['times_as_long']:.2f}",
        ]
        for entry in report["measurements"]
    ]
    headers = ["batch", "steps", "features", "units", "engine", "updates", "skips"]
    headers += ["ms without limits", "ms with limits", "times as long"]
    return (
        f"Evaluation of a Skip GRU with limits that change no update; {machine['processor']} "
        f"({machine['instructions']}), one thread, torch {versions['torch']}; {describe_origin(report)}.\n"
        f"Median processor time of a call.\n\n{as_table(headers, rows)}\n"
    )


def run(args: argparse.Namespace) -> str:
    check_options(args, {})
    torch.set_num_threads(1)
    report = begin_report(
        **{name: getattr(args, name) for name in ("sizes", "engines", "fractions", "seconds", "seed")}
    )
    cases = [(name, engine, f) for name in args.sizes for engine in args.engines for f in args.fractions]
    with torch.inference_mode():
        for case in tqdm(cases, unit="case", file=sys.stderr):
            report["measurements"].append(measure(args, *case))
    text = as_markdown(report)
    write_report(report, args.output, text)
    return text


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.skip_limits", description=__doc__.splitlines()[0])
    add = parser.add_argument
    sizes = ["mnist-b256", "sensor-b1"]
    add("--sizes", nargs="*", choices=list(SIZES), default=sizes, help=f"(default: {' '.join(sizes)})")
    add("--engines", nargs="*", choices=ENGINES, default=["native", "indexed"], help="(default: native indexed)")
    add("--fractions", type=float, nargs="*", default=[0.5, 0.1], help="of steps that are updated (default: 0.5 0.1)")
    add("--seconds", type=float, default=10, help="seconds for each case (default: %(default)s)")
    add("--seed", type=int, default=0, help="seed of weights and sequences (default: %(default)s)")
    add("--output", type=Path, metavar="FILE.json", help="all numbers; the table goes to FILE.md")
    return run_command("benchmarks.skip_limits", run, parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
