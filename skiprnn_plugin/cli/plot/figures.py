"""Shared by the figures: making one by matplotlib, which is imported only then, and writing it to a file."""

import argparse
import contextlib
import os
import sys
from pathlib import Path
from typing import Callable, Sequence

from ...arguments import UserError
from ...reading import first_sentence

WIDTH = 9.0  # inches; 900 pixels, a README's width, at DPI
DPI = 100
LEGEND = 140  # characters in a line of a legend
FORMATS = (".png", ".pdf", ".svg")

# Okabe and Ito's colours, which readers of any colour vision can tell apart
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
# Titles of axes, by metric
TITLES = {
    "update_fraction": "samples used (updates / steps)",
    "updates": "samples used (updates per sequence)",
    "mse": "mean squared error",
    "bleu": "BLEU",
    "wer": "word error rate",
    "ppl": "perplexity",
}


def load_matplotlib() -> None:
    """Import matplotlib, even where MPLBACKEND names a backend that is not installed; figures here need none of those.

    matplotlib would refuse to be imported. It keeps a backend that it knows, for whoever imports it next. Raises
    ImportError if matplotlib is not installed.
    """
    if sys.modules.get("matplotlib") is not None:
        return
    backend = os.environ.pop("MPLBACKEND", None)
    try:
        import matplotlib
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend
    if backend:
        with contextlib.suppress(ValueError):
            matplotlib.rcParams["backend"] = backend


def new_figure(height: float, dpi: int = DPI):
    """An empty matplotlib figure, ``WIDTH`` by ``height`` inches, without pyplot's global state."""
    load_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), dpi=dpi, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def add_legend(figure, labels: Sequence[str]) -> None:
    """Add a legend of these labels below the axes, where it hides nothing."""
    columns = max(min(LEGEND // (max(map(len, labels)) + 8), 4), 1)  # a key is as wide as 8 characters
    figure.legend(loc="outside lower left", ncol=columns, frameon=False, fontsize=9)


def add_output_argument(parser: argparse.ArgumentParser, name: str) -> None:
    """``--output``, by default ``name``; :func:`check_output` reads it."""
    parser.add_argument("--output", type=Path, default=Path(name), metavar="FILE", help="default: %(default)s")


def check_output(path: Path, formats: Sequence[str] = FORMATS) -> None:
    """Raise :class:`UserError`, before any work is done, if no figure can be written to ``path``."""
    if path.suffix not in formats:
        raise UserError(f"--output {path}: expected a name that ends in {' or '.join(formats)}")
    if not path.parent.is_dir():
        raise UserError(f"--output {path}: there is no folder {path.parent}")
    if path.suffix in FORMATS:
        try:
            load_matplotlib()
        except ImportError as error:
            raise UserError(
                f"needs matplotlib ({error}); install it with: pip install 'skiprnn-plugin[plot]'"
            ) from error


def save(figure, path: Path) -> None:
    """Write the figure, in the format of the suffix; the file is written whole or not at all."""
    replace(path, lambda part: figure.savefig(part, format=path.suffix[1:]))


def replace(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` make a temporary file, rename it to ``path``, and say so on standard error. Raises UserError if it
    can't be written."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write(part)
        os.replace(part, path)
    except OSError as error:
        raise UserError(f"--output {path}: can't be written ({first_sentence(error)})") from error
    finally:
        if part.exists():
            part.unlink()
    print(f"wrote {path}", file=sys.stderr)
