"""``python -m benchmarks.run``: check the engines and their peers, time them in turn, and measure their memory."""

import datetime
import sys
import time
from itertools import product
from typing import Any, Dict, List, Optional, Sequence

import torch
from tqdm import tqdm

from . import limits, report
from .checks import Expected, expect, find_fault
from .contestants import PEERS, CannotRun, prepare
from .machine import describe_machine, describe_versions, find_commit
from .merge import too_late
from .options import Options, parse
from .problem import Problem, Spec, build
from .shapes import DTYPES, MIXED, SHAPES
from .timing import peak_memory, time_interleaved


class Run:
    """One call of the command, with what it has measured so far.

    Attributes:
        heading: the first part of the report: suite, date, commit, machine, versions and options.
        limits: the limits of the machine, if the device is a CPU.
        entries: a dictionary for each problem, mode, number of threads and contestant.
        left_out: notes on what was not measured, and why, in the order in which they arose.
    """

    def __init__(self, options: Options):
        self.options = options
        self.started = time.monotonic()
        self.heading = {
            "suite": options.suite,
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "commit": find_commit(),
            "machine": describe_machine(options.device),
            "versions": describe_versions(options.device),
            "options": {**options._asdict(), "output": options.output and options.output.name},
        }
        o = options
        self.limits: limits.Limits = {"products": [], "streams": []}
        if options.device == "cpu":
            self.limits = limits.measure(o.threads, o.shapes, o.cells, o.seconds)
        self.entries: List[Dict[str, Any]] = []
        self.left_out: Dict[str, None] = {}

    def run(self) -> int:
        """Measure everything, print the tables and write the files. Returns 1 if a contestant was wrong, else 0."""
        specs = self._specs()
        with tqdm(specs, unit="problem", file=sys.stderr) as progress:
            for spec in progress:
                progress.set_description(f"{spec.name} {spec.cell} {spec.fraction}")
                limit = self.options.time_limit
                if limit is not None and time.monotonic() - self.started > limit:
                    self.left_out[too_late(_problem(spec))] = None
                    continue
                self._measure(spec)
                self._write()  # so that an interrupted run leaves what it has measured
        print(self._write(), end="")
        return int(any(entry["fault"] for entry in self.entries))

    def _specs(self) -> List[Spec]:
        o = self.options
        return [
            Spec(name, SHAPES[name], cell, fraction, DTYPES[dtype], o.device)
            for fraction, name, cell, dtype in product(o.fractions, o.shapes, o.cells, o.dtypes)
            if fraction != MIXED or SHAPES[name].batch > 1
        ]

    def _measure(self, spec: Spec) -> None:
        """Measure one problem in all modes and with all numbers of threads."""
        torch.set_num_threads(max(self.options.threads))
        problem = build(spec)
        expected = expect(problem, "training" in self.options.modes)
        memory: Dict[str, Optional[int]] = {}
        for mode, threads in product(self.options.modes, self.options.threads):
            torch.set_num_threads(threads)
            entries = self._time(problem, expected, mode, threads)
            if mode == "training" and self.options.memory:
                for entry in entries:
                    name = entry["contestant"]
                    if name not in memory and not entry["fault"]:
                        memory[name] = peak_memory(name, problem)
                    entry["peak_memory"] = memory.get(name)
            self.entries += entries

    def _time(self, problem: Problem, expected: Expected, mode: str, threads: int) -> List[Dict[str, Any]]:
        """Check and time all contestants; those with wrong results are not timed. Returns an entry for each."""
        spec, right, faults = problem.spec, {}, {}
        for name in [*self.options.engines, *self.options.peers]:
            try:
                contestant = prepare(name, problem, mode, threads)
                faults[name] = find_fault(contestant, expected)
                if faults[name] is None:
                    contestant.run()  # warm-up
                    right[name] = contestant
            except CannotRun as reason:
                self.left_out[f"{name}, {mode}, {spec.cell}, {_dtype(spec)}: {reason}"] = None
            except Exception as error:
                faults[name] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        times = time_interleaved(right, self.options.seconds, spec.device)
        used = expected.gated.updates.float().mean(1)
        entries = [
            {
                **_problem(spec),
                **spec.shape._asdict(),
                "fraction_ran": used.mean().item(),
                "fraction_of_rows_min": used.min().item(),
                "fraction_of_rows_max": used.max().item(),
                "seed": problem.seed,
                "mode": mode,
                "threads": threads,
                "contestant": name,
                "kind": "peer" if name in PEERS else "engine",
                "fault": fault,
                **report.summarize(times.get(name, []), spec.shape.steps),
                "peak_memory": None,
            }
            for name, fault in faults.items()
        ]
        report.fill_ratios(entries)
        limits.fill(entries, self.limits)
        return entries

    def _write(self) -> str:
        """Write the files, if they are asked for. Returns the tables."""
        so_far = {
            **self.heading,
            "limits": self.limits,
            "seconds_in_all": time.monotonic() - self.started,
            "left_out": list(self.left_out),
            "measurements": self.entries,
        }
        return report.write(so_far, self.options.output)


def _problem(spec: Spec) -> Dict[str, Any]:
    """The part of an entry that identifies its problem."""
    return {"shape": spec.name, "cell": spec.cell, "dtype": _dtype(spec), "fraction": spec.fraction}


def _dtype(spec: Spec) -> str:
    return next(name for name, dtype in DTYPES.items() if dtype == spec.dtype)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = parse(arguments)
    # TF32 is off, so that float32 means float32 for engines and peers
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    return Run(options).run()


if __name__ == "__main__":
    sys.exit(main())
