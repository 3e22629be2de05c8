"""``skiprnn-plot samples``: what of held-out sequences a model used (the paper's figures)."""

import argparse
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional

import numpy as np

from ...arguments import UserError
from ...runs.checkpoint import Loaded, add_loading_arguments, check_split, load_checkpoint, prepare_loading
from ...runs.run import find_checkpoint
from . import features, images, panels, text
from .figures import FORMATS, check_output, replace, save
from .read_samples import Read, read_samples

HELP = "draw which samples, pixels or words of a few held-out sequences a model used"
HTML = ".html"  # for texts
MOST_SEQUENCES = 50  # more make a picture that few programs open


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="a checkpoint (*.pt), or a save-dir for its last one")
    parser.add_argument("--output", type=Path, default=Path("samples.png"), help="default: %(default)s")
    parser.add_argument("--num-sequences", type=int, default=4, metavar="N", help="default: %(default)s")
    parser.add_argument("--split", default="valid", help="held-out split to take them from (default: %(default)s)")
    add_loading_arguments(parser)


def run(args: argparse.Namespace) -> None:
    check_output(args.output, (*FORMATS, HTML))
    check_split(args.split)
    if not 1 <= args.num_sequences <= MOST_SEQUENCES:
        raise UserError(f"--num-sequences: expected 1 to {MOST_SEQUENCES}, got {args.num_sequences}")
    path = find_checkpoint(args.checkpoint)
    loaded = load_checkpoint(path, args.split, prepare_loading(args))
    kind, size = TASKS.get(loaded.options["task"]), len(loaded.dataset)
    if kind is None:
        raise UserError(f"{path}: expected a model of task {' or '.join(TASKS)}, got {loaded.options['task']}")
    if args.num_sequences > size:
        raise UserError(f"--num-sequences: split {args.split} has {size}, got {args.num_sequences}")
    if args.output.suffix == HTML and kind.as_html is None:
        check_output(args.output)
    chosen = np.linspace(0, size - 1, args.num_sequences).round() if kind.spread else np.arange(args.num_sequences)
    samples = kind.make(loaded, read_samples(loaded, chosen.astype(int).tolist()))
    if args.output.suffix == HTML:
        replace(args.output, lambda part: part.write_text(kind.as_html(samples), encoding="utf-8"))
    else:
        save(kind.draw(samples), args.output)


class Kind(NamedTuple):
    """How a task's samples are drawn.

    Attributes:
        make: what is drawn, from a :class:`Loaded` and a :class:`Read`.
        draw: a matplotlib figure of that.
        as_html: the same as a page; None where there is none.
        spread: whether to take sequences from the whole split, not its first ones: its data may be sorted by label.
    """

    make: Callable[[Loaded, Read], Any]
    draw: Callable[[Any], Any]
    as_html: Optional[Callable[[Any], str]] = None
    spread: bool = False


TASKS = {
    "adding": Kind(panels.make_adding, panels.draw),
    "feature_classification": Kind(features.make, features.draw, spread=True),
    "feature_localization": Kind(features.make_localization, features.draw, spread=True),
    "frequency_discrimination": Kind(panels.make_frequency, panels.draw),
    "sequential_mnist": Kind(images.make, images.draw),
    "imdb_sentiment": Kind(text.make, text.draw, text.as_html, spread=True),
}
