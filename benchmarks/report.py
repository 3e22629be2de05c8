"""Writes the numbers as JSON and Markdown.

``python -m benchmarks.report a.json b.json --output c.json`` merges several reports into one.
"""

import argparse
import json
import math
import sys
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Dict, List, Optional, Sequence

from skiprnn_plugin.writing import write_whole

from . import limits, summary
from .command import describe_origin
from .merge import merge

MIB = 1024 * 1024
LIMITS = {
    "share_of_peak": "Operations of the recurrent product per second, over those of the best large product",
    "times_streaming": "Time of a step, over that of reading the recurrent weights once",
}


def fill_ratios(entries: List[Dict[str, Any]]) -> None:
    """Add to each entry its ratio to the fastest peer; None without one. All entries must be of the same problem, mode
    and number of threads."""
    peers = [entry["seconds_median"] for entry in entries if entry["kind"] == "peer" and entry["seconds_median"]]
    for entry in entries:
        seconds = entry["seconds_median"]
        entry["ratio"] = seconds / min(peers) if peers and seconds else None


def summarize(times: List[float], steps: int) -> Dict[str, Any]:
    """The numbers of an entry, from the seconds of its runs; they are None without runs."""
    middle, least = (median(times), min(times)) if times else (None, None)
    return {
        "runs": len(times),
        "seconds_median": middle,
        "seconds_min": least,
        "us_per_step_median": middle and middle / steps * 1e6,
        "us_per_step_min": least and least / steps * 1e6,
    }


def write(report: Dict[str, Any], output: Optional[Path]) -> str:
    """Write the JSON to ``output``, if it is given, and the Markdown to a file beside it. Returns the Markdown."""
    report = {**report, "summary": summary.summarize(report["measurements"])}
    text = as_markdown(report)
    if output is not None:
        write_whole(output, as_json(report))
        write_whole(output.with_suffix(".md"), text)
    return text


def as_json(report: Dict[str, Any]) -> str:
    return json.dumps(report, indent=1) + "\n"


def as_markdown(report: Dict[str, Any]) -> str:
    """The summary, and a table for each mode, precision and number of threads, with a line for each shape, cell and
    fraction of updates."""
    machine, versions = report["machine"], report["versions"]
    lines = [
        f"Suite {report['suite']}, {machine['device'] or machine['processor']}, {machine['cores']} cores, "
        + ", ".join(f"{name} {version}" for name, version in versions.items() if version)
        + f"; {describe_origin(report)}.",
        "",
        "By mode: microseconds per step of the whole batch, median (minimum), x ratio of median to fastest peer's.",
    ]
    described = limits.describe(report["limits"])
    lines += ["", described] if described else []
    if report["summary"]:
        title = f"How many times as fast as the fastest peer {summary.ENGINE} is, float32"
        note = "The worst case of all shapes, batches and numbers of threads; their geometric mean in parentheses."
        lines += ["", f"## {title}", "", note, "", *summary.as_tables(report["summary"])]
    entries = report["measurements"]
    for mode, dtype, threads in dict.fromkeys((e["mode"], e["dtype"], e["threads"]) for e in entries):
        chosen = [e for e in entries if (e["mode"], e["dtype"], e["threads"]) == (mode, dtype, threads)]
        lines += ["", f"## {mode}, {dtype}, {_count(threads, 'thread')}", "", *_table(chosen, _speed)]
    for threads in dict.fromkeys(e["threads"] for e in entries):
        for field, title in LIMITS.items():
            chosen = [e for e in entries if e[field] is not None and e["threads"] == threads]
            if chosen:
                lines += ["", f"## {title}, {_count(threads, 'thread')}", "", *_table(chosen, partial(_value, field))]
    measured = [e for e in entries if e["peak_memory"] is not None]
    for dtype in dict.fromkeys(e["dtype"] for e in measured):
        chosen = [e for e in measured if e["dtype"] == dtype]
        lines += ["", f"## Peak memory of a training update, {dtype}, MiB", "", *_table(chosen, _memory)]
    wrong = [f"- {_name(e)}, {e['contestant']}: {e['fault']}" for e in entries if e["fault"]]
    for title, notes in (("Wrong, so not timed", wrong), ("Left out", [f"- {note}" for note in report["left_out"]])):
        if notes:
            lines += ["", f"## {title}", "", *notes]
    return "\n".join(lines) + "\n"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _name(entry: Dict[str, Any]) -> str:
    threads = _count(entry["threads"], "thread")
    parts = [entry["shape"], entry["cell"], entry["fraction"], entry["dtype"], entry["mode"], threads]
    return ", ".join(map(str, parts))


def _table(entries: List[Dict[str, Any]], cell) -> List[str]:
    names = list(dict.fromkeys(entry["contestant"] for entry in entries))
    rows: Dict[tuple, Dict[str, str]] = {}
    for entry in entries:
        key = entry["shape"], entry["cell"], entry["fraction"]
        rows.setdefault(key, {"updates": _updates(entry)})[entry["contestant"]] = cell(entry)
    shapes, cells = ([*dict.fromkeys(entry[name] for entry in entries)] for name in ("shape", "cell"))
    rows = dict(sorted(rows.items(), key=lambda row: (shapes.index(row[0][0]), cells.index(row[0][1]))))
    table = [["shape", "cell", "updates", *names], ["---"] * (3 + len(names))]
    table += [[key[0], key[1], row["updates"], *(row.get(name, "-") for name in names)] for key, row in rows.items()]
    return [f"| {' | '.join(line)} |" for line in table]


def _updates(entry: Dict[str, Any]) -> str:
    """The fraction of updates that ran; for mixed rows also the smallest and largest fraction of a row."""
    text = f"{100 * entry['fraction_ran']:.1f}%"
    if entry["fraction"] != "mixed":
        return text
    return f"{text} (rows {100 * entry['fraction_of_rows_min']:.0f}% to {100 * entry['fraction_of_rows_max']:.0f}%)"


def _speed(entry: Dict[str, Any]) -> str:
    if entry["fault"]:
        return "wrong"
    text = f"{_digits(entry['us_per_step_median'])} ({_digits(entry['us_per_step_min'])})"
    return text if entry["ratio"] is None else f"{text} x{entry['ratio']:.2f}"


def _value(field: str, entry: Dict[str, Any]) -> str:
    return f"{entry[field]:.2f}"


def _memory(entry: Dict[str, Any]) -> str:
    return _digits(entry["peak_memory"] / MIB)


def _digits(value: Optional[float]) -> str:
    """The number rounded to three significant digits."""
    if not value:
        return "0"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def json_file(text: str) -> Path:
    """A type for argparse: the path of a report to write."""
    path = Path(text)
    if path.suffix != ".json" or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"expected a file in a folder that exists, as x.json; got {text}")
    return path


def read(text: str) -> Dict[str, Any]:
    """A type for argparse: the report in a file."""
    try:
        report = json.loads(Path(text).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"expected a report of benchmarks.run; {text}: {error}") from None
    if not isinstance(report, dict) or "measurements" not in report:
        raise argparse.ArgumentTypeError(f"expected a report of benchmarks.run; {text} is not one")
    return report


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=merge.__doc__.splitlines()[0])
    parser.add_argument("reports", nargs="+", type=read, metavar="FILE.json", help="the reports to merge")
    parser.add_argument("--output", type=json_file, metavar="FILE.json", help="the tables go to FILE.md")
    given = parser.parse_args(arguments)
    try:
        merged = merge(given.reports)
    except ValueError as error:
        parser.error(f"argument FILE.json: {error}")
    print(write(merged, given.output), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
