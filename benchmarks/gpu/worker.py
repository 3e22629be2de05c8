"""A process that works through the items of a phase.

Before an item it claims it, by making a file, so that several workers share the items, and a worker that takes the
place of one that died goes on with the rest. An item that takes too long ends the process: a kernel that never ends
leaves no other way. The process imports what it needs ahead of time, and begins when its standard input says until when
it may work.
"""

import importlib
import os
import signal
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Dict

from ..machine import describe_machine, describe_versions, find_commit
from .log import Log, describe
from .settings import Settings, make_parser, read_settings

# The longest that an item may take on a GPU, and how much longer on a CPU
SECONDS = {"compile": 60.0, "correctness": 15.0, "kernels": 45.0, "times": 60.0, "graphs": 20.0, "epoch": 120.0}
ON_CPU = 4.0
BROKEN = 3  # exit status of a worker whose CUDA context no longer works


def most_seconds(phase: str, settings: Settings) -> float:
    return SECONDS[phase] * (1.0 if settings.device == "cuda" else ON_CPU)


class Claims:
    """Which items of a phase are taken: a file for each, with the process and the item's name; ``.done`` when done."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def take(self, number: int, name: str) -> bool:
        """Claim an item; False if another process did."""
        try:
            with open(self.folder / str(number), "x", encoding="utf-8") as file:
                file.write(f"{os.getpid()} {name}")
        except FileExistsError:
            return False
        return True

    def finish(self, number: int) -> None:
        (self.folder / f"{number}.done").touch()

    def unfinished(self) -> Dict[int, str]:
        """The item that each process is at, by the process's number."""
        found = {}
        for file in self.folder.iterdir():
            if file.suffix != ".done" and not file.with_suffix(".done").exists():
                process, _, name = file.read_text(encoding="utf-8").partition(" ")
                if name:
                    found[int(process)] = name
        return found


def is_broken(settings: Settings) -> bool:
    """Whether an error, such as an access to a wrong address, has made the CUDA context useless."""
    if settings.device != "cuda":
        return False
    import torch

    try:
        torch.cuda.synchronize()
    except Exception:
        return True
    return False


def work(module: ModuleType, phase: str, settings: Settings, log: Log, claims: Claims, until: float) -> int:
    """Work through the items until ``until``, seconds since 1970. Returns the exit status."""
    status, parent = 0, os.getppid()
    for number, (name, item) in enumerate(module.list_items(settings, log).items()):
        if time.time() > until or os.getppid() != parent:
            break
        if not claims.take(number, name):
            continue
        signal.setitimer(signal.ITIMER_REAL, min(most_seconds(phase, settings), max(1.0, until + 5 - time.time())))
        try:
            module.run_item(name, item, settings, log)
        except Exception as error:
            log.write(phase, f"{name}: {describe(error)}", item=name, error=describe(error))
            status = BROKEN if is_broken(settings) else 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        claims.finish(number)
        if status == BROKEN:
            break
    return status


def describe_all(settings: Settings, log: Log) -> None:
    """The machine and the versions."""
    machine, versions = describe_machine(settings.device), describe_versions(settings.device)
    text = f"{machine['device'] or machine['processor']}, torch {versions['torch']}"
    date = time.strftime("%Y-%m-%d")
    log.write("machine", text, machine=machine, versions=versions, commit=find_commit(), date=date)


def main() -> int:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the alarm ends the process, even while it waits for the device
    parser = make_parser()
    parser.add_argument("--phase", required=True)
    parser.add_argument("--claims", type=Path, required=True)
    parser.add_argument("--started", type=float, required=True)
    parser.add_argument("--describe", action="store_true")
    given = parser.parse_args()
    settings = read_settings(given)
    log = Log(settings.output, given.started)
    try:
        module = importlib.import_module(f".{given.phase}", __package__)
        if given.describe:
            describe_all(settings, log)
        if settings.device == "cuda":
            import torch

            torch.zeros(1, device="cuda")  # makes the CUDA context, which takes a second
        until = sys.stdin.readline()  # comes when it is this phase's turn
        return work(module, given.phase, settings, log, Claims(given.claims), float(until)) if until else 0
    except Exception as error:
        log.write(given.phase, f"not started: {describe(error)}", item=None, error=describe(error))
        return 1


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # freeing all that torch and CUDA hold takes a second
