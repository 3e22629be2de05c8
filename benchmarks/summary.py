"""How many times as fast as the best peer our fastest engine is, in two small tables."""

from itertools import product
from statistics import geometric_mean
from typing import Any, Dict, List

from .shapes import MIXED, MODES

ENGINE = "native"
NARROW, WIDE = ("adding", "mnist"), ("imdb", "ucf101", "charades")  # families of shapes, by the width of their input
CELLS = {"gru": "GRU", "lstm": "LSTM"}
BATCHES = {"1": range(1, 2), ">= 16": range(16, 1 << 62)}


def summarize(entries: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """A dictionary for each part of what ``ENGINE`` was measured at in float32, over all shapes and numbers of threads.

    Narrow shapes are told apart by cell and batch, wide ones by family. ``smallest`` is that of the ratios of the
    fastest peer's median to the engine's (above 1: faster), at ``smallest_at``; ``geometric_mean`` is theirs;
    ``cases`` says how many there are, ``wrong`` how many were not timed as the values were wrong.
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
    """Markdown: the narrow shapes by mode and fraction, and the wide ones by family."""
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
    """A part with something wrong has no number."""
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
