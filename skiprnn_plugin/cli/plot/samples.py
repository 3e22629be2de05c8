"""``skiprnn-plot samples``: which steps of held-out sequences a model used (as in the paper's figures)."""

import argparse
from typing import Any, Callable, NamedTuple, Optional

from ...arguments import UserError
from ...runs.checkpoint import Loaded, load_checkpoint
from ...runs.find import find_named_checkpoint
from ...runs.samples import Read, choose_sequences, read_samples
from ..loading import CHECKPOINT_HELP, add_loading_arguments, add_split_argument, check_split, prepare_loading
from . import features, images, panels, text
from .figures import FORMATS, add_picture_arguments, check_picture, write_output, write_picture

HELP = "draw which samples, pixels or words of a few held-out sequences a model used"
HTML = ".html"  # for texts
FEW = 4
MOST_SEQUENCES = 50  # few programs open a picture of more sequences


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help=CHECKPOINT_HELP)
    add_picture_arguments(parser, "samples.png")
    parser.add_argument("--num-sequences", type=int, metavar="N", help=f"how many (default: {FEW}, or all if fewer)")
    add_split_argument(parser)
    add_loading_arguments(parser)


def run(args: argparse.Namespace) -> None:
    look = check_picture(args, (*FORMATS, HTML))
    check_split(args.split)
    if args.num_sequences is not None and not 1 <= args.num_sequences <= MOST_SEQUENCES:
        raise UserError(f"--num-sequences: expected 1 to {MOST_SEQUENCES}, got {args.num_sequences}")
    path = find_named_checkpoint(args.checkpoint)
    loaded = load_checkpoint(path, args.split, prepare_loading(args))
    kind, size = KINDS[find_kind(loaded)], len(loaded.dataset)
    count = min(FEW, size) if args.num_sequences is None else args.num_sequences
    if count > size:
        raise UserError(f"--num-sequences: split {args.split} has {size}, got {count}")
    if args.output.suffix == HTML and kind.as_html is None:
        formats = " or ".join(FORMATS)
        raise UserError(f"--output {args.output}: expected a name that ends in {formats}; {HTML} is for texts")
    samples = kind.make(loaded.task, read_samples(loaded, choose_sequences(loaded, count)))
    if args.output.suffix == HTML:
        write_output(args.output, kind.as_html(samples, args.title))
    else:
        write_picture(lambda: kind.draw(samples, args.title), args.output, look)


class Kind(NamedTuple):
    """How samples of one kind are drawn.

    Attributes:
        make: a function from the task and a :class:`Read` to what is drawn.
        draw: a function from that and a title to a matplotlib figure; None is no title, and an empty one leaves out the
            captions of sequences too.
        as_html: a function from the same to a page; None if there is no page of this kind.
    """

    make: Callable[[Any, Read], Any]
    draw: Callable[[Any, Optional[str]], Any]
    as_html: Optional[Callable[[Any, Optional[str]], str]] = None


KINDS = {  # by the kind that a task's drawing has
    "points": Kind(panels.make, panels.draw),
    "curves": Kind(features.make, features.draw),
    "images": Kind(images.make, images.draw),
    "text": Kind(text.make, text.draw, text.as_html),
}


def find_kind(loaded: Loaded) -> str:
    """The key of ``KINDS`` that fits the task; :class:`UserError` if the task does not say how it is drawn."""
    name, drawing = loaded.options["task"], getattr(loaded.task, "drawing", None)
    if drawing is None:
        raise UserError(
            f"{loaded.path}: expected a model of a SequenceTask, which says how it is drawn, got task {name}"
        )
    if drawing.kind is None:
        return "curves" if getattr(loaded.model, "embedding", None) is None else "text"
    if drawing.kind not in KINDS:
        raise UserError(f"task {name}: expected drawing.kind to be {' or '.join(KINDS)}, got {drawing.kind!r}")
    return drawing.kind
