"""The options of ``python -m benchmarks.gpu``, which the parent process passes on to its workers."""

import argparse
import os
from pathlib import Path
from typing import List, NamedTuple, Optional, Sequence

PHASES = ("compile", "correctness", "kernels", "times", "graphs", "epoch", "policy")


class Settings(NamedTuple):
    """What to do.

    Attributes:
        device: ``cuda``, or ``cpu`` to try the program out.
        engine: a key of ``ENGINES``.
        small: whether sizes are so small that an emulated engine is done in seconds.
        phases: some of ``PHASES``, in this order.
        limit: seconds for everything.
        output: the file of JSON lines.
        wheels: a folder of wheels with fairseq and what it needs; None if fairseq is installed.
        mnist: the folder of the MNIST database; None for made-up images.
        workers: processes that compile.
    """

    device: str
    engine: str
    small: bool
    phases: List[str]
    limit: float
    output: Optional[Path]
    wheels: Optional[Path]
    mnist: Optional[Path]
    workers: int

    def arguments(self) -> List[str]:
        """The options for a process that takes over."""
        words = ["--device", self.device, "--engine", self.engine, "--limit", str(self.limit)]
        words += ["--workers", str(self.workers), "--phases", *self.phases]
        for name in ("output", "wheels", "mnist"):
            if getattr(self, name) is not None:
                words += [f"--{name}", str(getattr(self, name))]
        return words + ["--small"] * self.small


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description="Check and time an engine on a GPU.")
    add = parser.add_argument
    add("--device", choices=("cuda", "cpu"), default="cuda", help="cpu tries the program out; its times mean nothing")
    add("--engine", default="triton", help="the engine to check and time (default: triton)")
    add("--small", action="store_true", help="tiny sizes and few items, to try the program out")
    add("--phases", nargs="+", choices=PHASES, default=list(PHASES), metavar="PHASE", help=", ".join(PHASES))
    add("--limit", type=float, default=240.0, metavar="SECONDS", help="for everything (default: 240)")
    add("--output", type=Path, metavar="FILE.jsonl", help="gets a line of JSON for everything that is printed")
    add("--wheels", type=Path, metavar="FOLDER", help="wheels to install to a temporary folder for the phase epoch")
    add("--mnist", type=Path, metavar="FOLDER", help="the MNIST database (default: made-up images of its size)")
    add("--workers", type=int, default=os.cpu_count() or 1, help="processes that compile (default: one per core)")
    return parser


def read_settings(given: argparse.Namespace) -> Settings:
    return Settings(**{name: getattr(given, name) for name in Settings._fields})


def parse(arguments: Optional[Sequence[str]] = None) -> Settings:
    """The settings; a wrong option ends the program with exit code 2."""
    parser = make_parser()
    given = parser.parse_args(arguments)
    if given.limit <= 0 or given.workers < 1:
        parser.error("argument --limit, --workers: expected numbers above 0")
    for name in ("wheels", "mnist"):
        folder = getattr(given, name)
        if folder is not None and not folder.is_dir():
            parser.error(f"argument --{name}: expected a folder, got {folder}")
    if given.output is not None and not given.output.absolute().parent.is_dir():
        parser.error(f"argument --output: expected a file in a folder that exists, got {given.output}")
    return read_settings(given)._replace(phases=[phase for phase in PHASES if phase in given.phases])
