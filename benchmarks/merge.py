"""Merges several reports of one machine into one."""

from typing import Any, Dict, List, Sequence

from . import limits

EQUAL = ("machine", "versions")  # these must be the same in all reports
KEYS = ("shape", "cell", "dtype", "fraction", "mode", "threads", "contestant")  # together they identify a measurement


def merge(reports: Sequence[Dict[str, Any]]) -> Dict[str, Any]:
    """Merge reports. If several contain the same measurement, the last report's is kept.

    The ratio of a measurement stays the one to the peers in the same run. ``parts`` lists the heading of each report.

    Raises:
        ValueError: the reports come from different machines, or were measured with different packages.
    """
    first = reports[0]
    for other, name in ((other, name) for other in reports[1:] for name in EQUAL):
        differ = [key for key in {**first[name], **other[name]} if first[name].get(key) != other[name].get(key)]
        if differ:
            values = "; ".join(f"{key} {first[name].get(key)!r} and {other[name].get(key)!r}" for key in differ)
            raise ValueError(f"expected reports of one machine and the same packages, got {name} with {values}")
    measurements = {tuple(entry[key] for key in KEYS): entry for report in reports for entry in report["measurements"]}
    merged = {
        "suite": _all(reports, "suite"),
        "date": _all(reports, "date"),
        "commit": _all(reports, "commit"),
        **{name: first[name] for name in EQUAL},
        "parts": [part for report in reports for part in report.get("parts") or [_heading(report)]],
        "limits": {
            kind: [limit for report in reports for limit in report.get("limits", {}).get(kind, [])]
            for kind in ("products", "streams")
        },
        "seconds_in_all": sum(report["seconds_in_all"] for report in reports),
        "left_out": _left_out(reports, list(measurements.values())),
        "measurements": list(measurements.values()),
    }
    limits.fill(merged["measurements"], merged["limits"])
    return merged


def too_late(entry: Dict[str, Any]) -> str:
    """The note on a problem that was not measured because the time was over."""
    return f"{entry['shape']} {entry['cell']} {entry['fraction']} {entry['dtype']}: the time was over"


def _left_out(reports: Sequence[Dict[str, Any]], measurements: List[Dict[str, Any]]) -> List[str]:
    """The notes of all reports, except those on problems without time that another report has measured."""
    notes = dict.fromkeys(note for report in reports for note in report["left_out"])
    measured = set(map(too_late, measurements))
    return [note for note in notes if note not in measured]


def _heading(report: Dict[str, Any]) -> Dict[str, Any]:
    return {name: report[name] for name in ("suite", "date", "commit", "options")}


def _all(reports: Sequence[Dict[str, Any]], name: str) -> str:
    return ", ".join(dict.fromkeys(report[name] or "unknown" for report in reports))
