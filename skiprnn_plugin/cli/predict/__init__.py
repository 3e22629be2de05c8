"""``skiprnn-predict``: what a trained model makes of sequences of your own, and how many of their steps it used."""

import argparse
import itertools
import json
import os
import sys
from typing import Any, Iterator, Optional, Sequence, TextIO, Tuple

from ...arguments import UserError
from ...reading import show_progress
from ...runs.checkpoint import HUB_HELP, add_loading_arguments, load_hub, prepare_loading
from ..command import run_command
from .videos import add_weights_argument, open_videos

PROGRAM = "skiprnn-predict"
WARM_UP = 3
DESCRIPTION = """
Let a trained model predict sequences of your own, on the CPU. Prints a line for each, columns separated by tabs: the
likeliest class and its probability, or the predicted numbers; steps used, all steps (of a bidirectional model in both
directions); and the model's time in ms, without loading, reading and encoding, that of a video's frames too, after a
few runs that do not count. Of a model that predicts classes at every step it prints a line for each span of steps in
which a class has at least --threshold: the class, its highest probability there, and start and end, in seconds, or in
steps if their rate is not known (a step ends where the next one starts); if there is no span, - and the highest
probability.
"""
THRESHOLD = 0.5
INPUT_HELP = """
for a model that reads numbers, a file .npy or .csv (a line for each step, perhaps a header): [T, D], or [T] where D is
1, or whatever else its task reads, as images [28, 28], of whole numbers 0 to 255 or else of floats 0 to 1 (.png too, of
8 bits and opaque, if Pillow is installed); .npy may hold N of them; for a model whose data skiprnn-prepare video made,
a video too, with --weights; for a model that reads words, a file .txt that is one text, a file .npy of its words'
numbers in the dictionary, [T] or N of them, or - for standard input, a text on each line (empty ones are passed over)
"""


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog=PROGRAM, description=DESCRIPTION)
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help=HUB_HELP)
    parser.add_argument("inputs", metavar="INPUT", nargs="*", help=INPUT_HELP)
    parser.add_argument("--text", action="append", default=[], help="a text; may be given several times")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print a JSON list, unrounded, with every class's probability (of a model that predicts at every step a "
        "list of them, and the spans) and which steps were used (from 0)",
    )
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="P",
        help="probability from which on a class is there, of a model that predicts classes at every step (default: "
        f"{THRESHOLD})",
    )
    parser.add_argument(
        "--batch-size",
        type=int,
        default=1,
        metavar="N",
        help="sequences that go through the model at once; the time is then a batch's, divided by its sequences "
        "(default: %(default)s)",
    )
    add_weights_argument(parser)
    add_loading_arguments(parser)
    args = parser.parse_intermixed_args(argv)
    try:
        return run_command(PROGRAM, run, args, sys.stdout)
    except BrokenPipeError:  # as of "| head"; Python would complain once more when it flushes
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def run(args: argparse.Namespace, output: TextIO) -> Optional[str]:
    """Print lines to ``output`` as they come, or return JSON."""
    from .inputs import check_inputs, read_inputs
    from .outcomes import as_json, has_spans, print_rows

    if args.batch_size < 1:
        raise UserError(f"--batch-size: expected at least 1, got {args.batch_size}")
    threshold = THRESHOLD if args.threshold is None else args.threshold
    if not 0 < threshold <= 1:
        raise UserError(f"--threshold: expected a number above 0 and at most 1, got {threshold}")
    if not args.inputs and not args.text:
        raise UserError("expected an INPUT or --text, got none")
    hub = load_hub(args.checkpoint, prepare_loading(args))
    if args.threshold is not None and not has_spans(hub):
        raise UserError(f"--threshold: expected a model that predicts classes at every step, got {hub.cfg.task._name}")
    check_inputs(hub, args.inputs, args.text)
    videos = open_videos(hub, args.inputs, args.weights)
    try:
        predictions = predict(hub, read_inputs(hub, args.inputs, args.text, videos), args.batch_size)
        among_lines = output.isatty() and not args.json  # there a bar would be in the way
        predictions = show_progress(predictions, args.checkpoint, disable=among_lines or None)
        if args.json:
            items = [json.dumps(as_json(hub, *each, threshold)) for each in predictions]
            return "[\n" + ",\n".join(items) + "\n]"
        print_rows(hub, predictions, threshold, output)
    except (ImportError, ValueError) as error:  # an engine that can't run here; no library for the task's encode
        raise UserError(f"{args.checkpoint}: {error}") from error
    return None


def predict(hub, inputs: Iterator, batch_size: int) -> Iterator[Tuple[Any, Any]]:
    """The inputs and what the model makes of them, after the first batch has run ``WARM_UP`` times."""
    first = list(itertools.islice(inputs, batch_size))
    for _ in range(WARM_UP):
        list(hub.run([each.encoded for each in first], batch_size))
    kept, read = itertools.tee(itertools.chain(first, inputs))
    return zip(kept, hub.run((each.encoded for each in read), batch_size))
