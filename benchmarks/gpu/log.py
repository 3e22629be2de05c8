"""The log: everything that the phases print is also a line of JSON, written at once."""

import json
import os
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple


class Log(NamedTuple):
    """A file that several processes append to.

    Attributes:
        path: the file.
        started: when the program started, in seconds since 1970.
    """

    path: Path
    started: float

    def write(self, phase: str, text: str = "", **numbers) -> None:
        """Print the text, if there is any, and append the record to the file."""
        seconds = round(time.time() - self.started, 2)
        line = json.dumps({"phase": phase, "at": seconds, **numbers, "text": text}) + "\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line.encode())  # in one piece, so that the lines of processes do not mix
        finally:
            os.close(descriptor)
        if text:
            print(f"{seconds:6.1f} {phase:<12} {text}", flush=True)

    def read(self, phase: str = "") -> List[Dict[str, Any]]:
        """The records so far, of one phase or of all; without a last line that another process is writing."""
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
        records = [json.loads(line) for line in lines if line.endswith("\n")]
        return [record for record in records if phase in ("", record["phase"])]


def describe(error: BaseException) -> str:
    """The last line of the traceback."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"[:300]
