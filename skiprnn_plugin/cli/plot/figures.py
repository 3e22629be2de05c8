"""Shared by the pictures: the options that say how one looks, and writing it to a file. Matplotlib is imported only
when a picture is made."""

import argparse
import contextlib
import io
import math
import os
import sys
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple, Optional, Sequence, Union

from ...arguments import UserError
from ...reading import first_sentence
from ...writing import write_whole

FORMATS = (".png", ".pdf", ".svg")
STYLE = Path(__file__).with_name("skiprnn.mplstyle")
WIDTHS, RESOLUTIONS = (2, 40), (30, 1200)  # inches, and pixels per inch
NO_STYLE = "--style: expected a file, or a style of matplotlib's such as ggplot, got"
MOST_PIXELS = 2**16 - 1  # in a direction, for matplotlib's renderer


class Look(NamedTuple):
    """How a picture looks; by default as the package's style sheet says.

    Attributes:
        style: a style sheet that is read after the package's: the name of one of matplotlib's, or its settings.
        width: inches; None for that of the style.
        dpi: pixels per inch; None for those of the style.
    """

    style: Any = None
    width: Optional[float] = None
    dpi: Optional[int] = None

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """A block in which matplotlib has these settings. Raises OSError for a style that matplotlib does not know."""
        load_matplotlib()
        from matplotlib import rc_context, rcParams, style

        with rc_context():
            style.use(["default", STYLE] if self.style is None else ["default", STYLE, self.style])
            width, height = rcParams["figure.figsize"]
            rcParams["figure.figsize"] = (self.width or width, height)
            if self.dpi is not None:
                rcParams["savefig.dpi"] = self.dpi
            rcParams["savefig.bbox"] = None  # "tight" would change the width
            yield


def load_matplotlib() -> None:
    """Import matplotlib, even where MPLBACKEND names a backend that is not installed; pictures here need none of those.

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


def add_picture_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    """The options of a picture, whose file is ``name`` by default; :func:`check_picture` reads them."""
    parser.add_argument("--output", type=Path, default=Path(name), metavar="FILE", help="default: %(default)s")
    parser.add_argument(
        "--width", type=float, metavar="INCHES", help="default: 6.9, two columns of a page; one column is about 3.3"
    )
    parser.add_argument("--dpi", type=int, metavar="N", help="pixels per inch of a .png file (default: 200)")
    parser.add_argument("--title", metavar="TEXT", help="the title of the picture; '' leaves out all titles")
    parser.add_argument(
        "--style",
        metavar="FILE",
        help="your own style sheet of matplotlib (.mplstyle), or the name of one of its styles: fonts, colours, sizes",
    )


def check_picture(args: argparse.Namespace, formats: Sequence[str] = FORMATS) -> Look:
    """How the picture is to look. Raises :class:`UserError`, before any work is done, if an option is wrong or the file
    can't be written."""
    path = args.output
    if path.suffix not in formats:
        raise UserError(f"--output {path}: expected a name that ends in {' or '.join(formats)}")
    if not path.parent.is_dir():
        raise UserError(f"--output {path}: there is no folder {path.parent}")
    for option, value, (least, most) in (("--width", args.width, WIDTHS), ("--dpi", args.dpi, RESOLUTIONS)):
        if value is not None and not least <= value <= most:
            raise UserError(f"{option}: expected {least} to {most}, got {value:g}")
    if path.suffix not in FORMATS:  # not drawn by matplotlib
        return Look(None, args.width, args.dpi)
    try:
        load_matplotlib()
    except ImportError as error:
        raise UserError(f"needs matplotlib ({error}); install it with: pip install 'skiprnn-plugin[plot]'") from error
    look = Look(args.style and _read_style(args.style), args.width, args.dpi)
    try:
        with look.applied():
            pass
    except OSError as error:
        raise UserError(f"{NO_STYLE} {args.style}") from error
    return look


def _read_style(name: str) -> Any:
    """The settings in a file, or the name itself if there is no such file. Raises UserError for a file that is not a
    style sheet."""
    from matplotlib import rc_params_from_file

    if "://" in name:  # which matplotlib would download
        raise UserError(f"{NO_STYLE} {name}")
    if not os.path.exists(name):
        return name
    try:
        settings = rc_params_from_file(name, fail_on_error=True, use_default_template=False)
    except Exception as error:  # of a kind that depends on the setting
        raise UserError(f"--style {name}: expected a style sheet of matplotlib's ({first_sentence(error)})") from error
    if not settings:
        raise UserError(f"--style {name}: expected a style sheet of matplotlib's, got a file without any setting")
    return settings


def choose_title(args: argparse.Namespace, title: str) -> str:
    """The title that the user gave, or else this one."""
    return title if args.title is None else args.title


def write_picture(draw: Callable[[], Any], path: Path, look: Look) -> None:
    """Draw a matplotlib figure with this look, and write it in the format of the suffix; the file is written whole or
    not at all. Raises UserError if it can't be drawn in the user's style, or written."""
    with look.applied():
        try:
            figure = draw()
            if path.suffix == ".png" and max(figure.bbox.size) > MOST_PIXELS:
                width, height = figure.get_size_inches()
                raise UserError(
                    f"--dpi: expected at most {math.floor(MOST_PIXELS / max(width, height))} for a picture of "
                    f"{width:.1f} by {height:.1f} inches, got {figure.dpi:g}"
                )
            content = io.BytesIO()
            figure.savefig(content, format=path.suffix[1:], dpi="figure")
        except RuntimeError as error:
            if look.style is None:
                raise
            raise UserError(f"--style: can't be drawn in ({first_sentence(error)})") from error  # LaTeX is missing, say
    write_output(path, content.getvalue())


def write_output(path: Path, content: Union[str, bytes]) -> None:
    """Write the file that ``--output`` names, and say so on standard error. Raises UserError if it can't be written."""
    try:
        write_whole(path, content)
    except OSError as error:
        raise UserError(f"--output {path}: can't be written ({error.strerror})") from error
    print(f"wrote {path}", file=sys.stderr)
