"""The command line of ``python -m benchmarks.run``."""

import argparse
import math
from pathlib import Path
from typing import Callable, Collection, List, NamedTuple, Optional, Sequence

import torch

import benchmarks
from skiprnn_plugin.ops import ENGINES

from .contestants import PEERS
from .report import json_file
from .shapes import CELLS, DTYPES, FAMILIES, MIXED, MODES, SHAPES, SUITES, Fraction, available_threads

QUICK_SECONDS, QUICK_TIME_LIMIT = 0.3, 75.0


class Options(NamedTuple):
    """What to measure. ``seconds`` is the time for each problem, mode and number of threads. After ``time_limit``
    seconds no further problem begins."""

    suite: str
    device: str
    shapes: List[str]
    cells: List[str]
    fractions: List[Fraction]
    dtypes: List[str]
    modes: List[str]
    threads: List[int]
    engines: List[str]
    peers: List[str]
    memory: bool
    seconds: float
    time_limit: Optional[float]
    output: Optional[Path]


def parse(arguments: Optional[Sequence[str]] = None) -> Options:
    """Parse the options; the suite sets those that are not given. A wrong option ends the program with exit code 2."""
    parser = _parser()
    given = parser.parse_args(arguments)
    suite = SUITES[given.suite]
    shapes, fractions = suite.quick if given.quick else (suite.shapes, list(suite.fractions))
    seconds, limit = (QUICK_SECONDS, QUICK_TIME_LIMIT) if given.quick else (5.0, None)
    device = given.device or suite.device
    options = Options(
        suite=given.suite,
        device=device,
        shapes=_members(given.shapes) if given.shapes else shapes,
        cells=given.cells or list(suite.cells),
        fractions=given.fractions or fractions,
        dtypes=given.dtypes or suite.dtypes,
        modes=list(MODES) if given.mode is None else [given.mode],
        threads=given.threads or (suite.threads[:1] if given.quick else suite.threads),
        engines=given.engines or [name for name, engine in ENGINES.items() if device not in engine.emulated_devices],
        peers=suite.peers if given.peers is None else given.peers,
        memory=not given.no_memory,
        seconds=given.seconds or seconds,
        time_limit=given.time_limit or limit,
        output=given.output,
    )
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("argument --device: expected a CUDA device, found none (--device cpu tries the suite without)")
    if options.fractions == [MIXED] and all(SHAPES[name].batch == 1 for name in options.shapes):
        parser.error(f"argument --fractions: {MIXED} needs a shape with several rows, got {' '.join(options.shapes)}")
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.run", usage="python -m benchmarks.run [options]", description=benchmarks.__doc__
    )
    add = parser.add_argument
    add(
        "--suite",
        choices=SUITES,
        default="cpu",
        help="the suite of problems, which sets the defaults of the other options",
    )
    add("--quick", action="store_true", help="a few shapes and runs, for two minutes at most")
    shape = _one_of({**FAMILIES, **SHAPES}, "a shape, such as mnist-b256, or a family for all of its batches, as mnist")
    add("--shapes", nargs="+", type=shape, metavar="NAME", help=f"shapes among {', '.join(SHAPES)}")
    add("--cells", nargs="+", type=_one_of(CELLS), metavar="CELL", help=f"cells among {', '.join(CELLS)}")
    add("--fractions", nargs="+", type=_fraction, metavar="F", help=f"fractions of steps to update, or {MIXED}")
    add("--dtypes", nargs="+", type=_one_of(DTYPES), metavar="DTYPE", help=f"types among {', '.join(DTYPES)}")
    add("--mode", choices=MODES, help="only this mode (default: both)")
    add("--threads", nargs="+", type=_threads, metavar="N", help="numbers of threads")
    add("--engines", nargs="+", type=_one_of(ENGINES), metavar="NAME", help=f"engines among {', '.join(ENGINES)}")
    add("--peers", nargs="*", type=_one_of(PEERS), metavar="NAME", help=f"peers among {', '.join(PEERS)}, or no name")
    add("--no-memory", action="store_true", help="leave out the peak memory of a training update")
    add("--seconds", type=_positive, help="seconds of timing for each problem, mode and number of threads (default 5)")
    add("--time-limit", type=_positive, metavar="SECONDS", help="seconds after which no further problem begins")
    add("--device", choices=("cpu", "cuda"), help="the device (default: the suite's)")
    add("--output", type=json_file, metavar="FILE.json", help="all numbers; the tables go to FILE.md")
    return parser


def _members(names: Sequence[str]) -> List[str]:
    """The shapes of these names; the name of a family means all of its shapes. Repeated shapes are dropped."""
    found = [s for name in names for s in ([name] if name in SHAPES else [f"{name}-{b}" for b in FAMILIES[name]])]
    return list(dict.fromkeys(found))


def _one_of(known: Collection[str], expected: str = "a name") -> Callable[[str], str]:
    def check(text: str) -> str:
        if text not in known:
            raise argparse.ArgumentTypeError(f"expected {expected} ({', '.join(known)}); got {text!r}")
        return text

    return check


def _fraction(text: str) -> Fraction:
    if text == MIXED:
        return text
    value = _number(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0 and up to 1, or {MIXED}; got {text!r}")
    return value


def _threads(text: str) -> int:
    most = available_threads()
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"expected a number from 1 to the {most} cores; got {text!r}")
    return int(text)


def _positive(text: str) -> float:
    value = _number(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0; got {text!r}")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
