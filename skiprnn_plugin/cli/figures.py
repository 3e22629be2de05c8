"""Matplotlib, imported only when a figure is drawn, and writing a figure to a file."""

import os
from pathlib import Path

from .command import UserError, first_sentence

WIDTH = 9.0  # inches; 900 pixels, a README's width, at DPI
DPI = 100
FORMATS = (".png", ".pdf", ".svg")


def new_figure(height: float):
    """An empty matplotlib figure, ``WIDTH`` by ``height`` inches, without pyplot's global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def check_output(path: Path) -> None:
    """Raise :class:`UserError`, before any work is done, if there is no drawing to ``path``."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise UserError(f"needs matplotlib ({error}); install it with: pip install 'skiprnn-plugin[plot]'") from error
    if path.suffix not in FORMATS:
        raise UserError(f"--output {path}: expected a name that ends in {' or '.join(FORMATS)}")
    if not path.parent.is_dir():
        raise UserError(f"--output {path}: there is no folder {path.parent}")


def save(figure, path: Path) -> None:
    """Write the figure, in the format of the suffix; there is a whole file or none, never a part of one."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        figure.savefig(part, format=path.suffix[1:])
        os.replace(part, path)
    except OSError as error:
        raise UserError(f"--output {path}: can't be written ({first_sentence(error)})") from error
    finally:
        if part.exists():
            part.unlink()
