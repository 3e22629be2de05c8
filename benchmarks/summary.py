"""Summarizes in two small tables how many times as fast as the fastest peer the engine ``native`` is."""

from itertools import product
from statistics import geometric_mean
from typing import Any, Dict, List

from .shapes import MIXED, MODES

ENGINE = "native"
NARROW, WIDE = ("adding", "mnist"), ("imdb", "ucf101", "charades")  # families of shapes, by the width of their input
CELLS = {"gru": "GRU", "lstm": "LSTM"}
BATCHES = {"1": range(1, 2), ">= 16": range(16, 1 << 62)}


def summarize(entries: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Summarize the speed of ``ENGINE`` in float32 over all shapes and numbers of threads.

    There is a dictionary for each mode and fraction of updates, and for each cell and batch of the narrow shapes or
    each family of the wide ones. Its cases are ratios of the fastest peer's median time to the engine's (above 1, the
    engine is faster). ``smallest`` is the smallest ratio, ``smallest_at`` the case that has it, ``geometric_mean`` the
    mean of the ratios, ``cases`` their number, and ``wrong`` the number of cases not timed because of wrong results.
    """
    entries = [e for e in entries if e["contestant"] == ENGINE and e["dtype"] == "float32" and e["fraction"] != MIXED]
    fractions = sorted({entry["fraction"] for entry in entries}, reverse=True)
    rows = []
    for mode, fraction in product(MODES, fractions):
        chosen = [e for e in entries if (e["mode"], e["fraction"]) == (mode, fraction)]
        for cell, (batch, sizes) in product(CELLS, BATCHES.items()):
            part = {"families": NARROW, "cell": cell, "batch": batch, "mode": mode, "fraction": fraction}
            fit = [e for e in chosen if _family(e) in NARROW and e["cell"] == cell and e["batch"] in sizes]
            rows.append({**part, **_smallest(fit)})
        for family in WIDE:
            part = {"families": (family,), "cell": None, "batch": None, "mode": mode, "fraction": fraction}
            rows.append({**part, **_smallest([e for e in chosen if _family(e) == family and e["cell"] in CELLS])})
    return [row for row in rows if row["cases"] + row["wrong"] > 0]


def as_tables(summary: List[Dict[str, Any]]) -> List[str]:
    """Markdown tables: one of the narrow shapes, with a line for each mode and fraction, and one of the wide shapes,
    with a line for each family."""
    narrow = {_line(row): {} for row in summary if row["cell"]}
    wide: Dict[str, Dict[str, str]] = {}
    for row in summary:
        if row["cell"]:
            narrow[_line(row)][f"{CELLS[row['cell']]}, batch {row['batch']}"] = _text(row)
        else:
            wide.setdefault(row["families"][0], {})[_line(row)] = _text(row)
    columns = [f"{name}, batch {batch}" for name, batch in product(CELLS.values(), BATCHES)]
    lines = _table(" and ".join(NARROW), columns, narrow) if narrow else []
    if wide:
        lines += [""] * bool(lines) + _table("", list(dict.fromkeys(_line(r) for r in summary if not r["cell"])), wide)
    return lines


def _table(corner: str, columns: List[str], rows: Dict[str, Dict[str, str]]) -> List[str]:
    lines = [[corner, *columns], ["---"] * (1 + len(columns))]
    lines += [[name, *(row.get(column, "-") for column in columns)] for name, row in rows.items()]
    return [f"| {' | '.join(line)} |" for line in lines]


def _line(row: Dict[str, Any]) -> str:
    return f"{row['mode']}, {100 * row['fraction']:.0f}%"


def _text(row: Dict[str, Any]) -> str:
    """A cell of the table: the numbers, or "wrong" if any result was wrong."""
    if row["wrong"]:
        return "wrong"
    return f"{row['smallest']:.2f} ({row['geometric_mean']:.2f})"


def _family(entry: Dict[str, Any]) -> str:
    return entry["shape"].split("-")[0]


def _smallest(entries: List[Dict[str, Any]]) -> Dict[str, Any]:
    cases = {
        f"{e['shape']}, {e['cell']}, threads: {e['threads']}": 1 / e["ratio"] for e in entries if e["ratio"] is not None
    }
    return {
        "cases": len(cases),
        "wrong": sum(entry["fault"] is not None for entry in entries),
        "smallest": min(cases.values(), default=None),
        "smallest_at": min(cases, key=cases.get, default=None),
        "geometric_mean": geometric_mean(cases.values()) if cases else None,
    }
