"""What the small benchmarks' commands share: checks of their options, and the frame of their reports."""

import argparse
import datetime
import json
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

from skiprnn_plugin.arguments import UserError, as_option
from skiprnn_plugin.writing import write_whole

from .machine import describe_machine, describe_versions, find_commit


def check_options(args: argparse.Namespace, least: Mapping[str, int]) -> None:
    """Raise UserError for an option, or one of its values, below the value that ``least`` has for its name, for
    ``fractions`` that are none, and for an ``output`` in a folder that does not exist."""
    for name, smallest in least.items():
        values = getattr(args, name)
        for value in values if isinstance(values, list) else [values]:
            if value < smallest:
                raise UserError(f"{as_option(name)}: expected at least {smallest}, got {value}")
    for fraction in getattr(args, "fractions", []):
        if not 0 < fraction <= 1:
            raise UserError(f"--fractions: expected numbers above 0 and up to 1, got {fraction}")
    output = getattr(args, "output", None)
    if output and not output.parent.is_dir():
        raise UserError(f"--output {output}: the folder {output.parent} does not exist")


def begin_report(**settings: Any) -> Dict[str, Any]:
    """When, where and with which settings a benchmark ran, and an empty list ``measurements``."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": find_commit(),
        "machine": describe_machine("cpu"),
        "versions": describe_versions("cpu"),
        **settings,
        "measurements": [],
    }


def describe_origin(report: Mapping[str, Any]) -> str:
    """The commit and the date of a report, as in "commit 1234567, 2026-11-30T12:00:00+00:00"."""
    return f"commit {report['commit'] or 'unknown'}, {report['date']}"


def write_report(report: Dict[str, Any], output: Optional[Path], text: Optional[str] = None) -> None:
    """Write the JSON to ``output``, if it is given, and ``text``, if it is given, to a file .md beside it."""
    if output is None:
        return
    write_whole(output, json.dumps(report, indent=1) + "\n")
    if text is not None:
        write_whole(output.with_suffix(".md"), text)
