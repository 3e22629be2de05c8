"""Several reports of one machine as one."""

from typing import Any, Dict, List, Sequence

from . import limits

SAME = ("machine", "versions")
ONE = ("shape", "cell", "dtype", "fraction", "mode", "threads", "contestant")  # what tells measurements apart


def merge(reports: Sequence[Dict[str, Any]]) -> Dict[str, Any]:
    """All measurements; of the same one the last report's, with the ratio to the peers of its own run.

    ``parts`` lists what each report begins with.

    Raises:
        ValueError: they come from different machines, or were measured with different packages.
    """
    first = reports[0]
    for other, name in ((other, name) for other in reports[1:] for name in SAME):
        differ = [key for key in {**first[name], **other[name]} if first[name].get(key) != other[name].get(key)]
        if differ:
            what = "; ".join(f"{key} {first[name].get(key)!r} and {other[name].get(key)!r}" for key in differ)
            raise ValueError(f"expected reports of one machine and the same packages, got {name} with {what}")
    measurements = {tuple(entry[key] for key in ONE): entry for report in reports for entry in report["measurements"]}
    merged = {
        "suite": _all(reports, "suite"),
        "date": _all(reports, "date"),
        "commit": _all(reports, "commit"),
        **{name: first[name] for name in SAME},
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
    """The note on a problem that the time did not suffice for."""
    return f"{entry['shape']} {entry['cell']} {entry['fraction']} {entry['dtype']}: the time was over"


def _left_out(reports: Sequence[Dict[str, Any]], measurements: List[Dict[str, Any]]) -> List[str]:
    """Their notes, but not that there was no time for what another has."""
    notes = dict.fromkeys(note for report in reports for note in report["left_out"])
    measured = set(map(too_late, measurements))
    return [note for note in notes if note not in measured]


def _heading(report: Dict[str, Any]) -> Dict[str, Any]:
    return {name: report[name] for name in ("suite", "date", "commit", "options")}


def _all(reports: Sequence[Dict[str, Any]], name: str) -> str:
    return ", ".join(dict.fromkeys(report[name] or "unknown" for report in reports))
