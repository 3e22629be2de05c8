"""``skiprnn-predict``: what a trained model predicts for your own sequences, and how many of their steps it used."""

import argparse
import json
import sys
from typing import Optional, Sequence, TextIO

from ...arguments import UserError
from ...reading import show_progress
from ...runs.checkpoint import load_named_hub
from ..command import add_version, drop_output, run_command
from ..loading import HUB_HELP, add_loading_arguments, add_video_arguments, prepare_loading

PROGRAM = "skiprnn-predict"
DESCRIPTION = """
Let a trained model predict sequences of your own, on the CPU. It prints a line for each sequence, with columns
separated by tabs: the likeliest class and its probability, or the predicted numbers; the number of used steps and of
all steps (of a bidirectional model, in both directions); and the model's time in ms. The time includes neither loading
the model, nor reading and encoding its input (such as a video's frames), nor the first few runs. Of a video only the
frames that the model uses are encoded; standard error says how many these are and how long that took. For a model that
predicts classes at every step it prints a line for each span of steps in which a class has at least the probability
--threshold: the class, its highest probability in the span, and the span's start and end, in seconds, or in steps if
their rate is not known (a span ends when the step after it starts). If there is no span, it prints - and the highest
probability.
"""
THRESHOLD = 0.5
INPUT_HELP = """
what the model's task reads. Numbers: a file .npy, .csv or .tsv (a line for each step; a header is allowed, and if the
model was trained on a table, its columns are taken by their names) of [T, D], or [T] if D is 1, or whatever else the
task reads, such as images [28, 28] of integers 0 to 255 or of floats 0 to 1 (or a file .png, opaque and of 8 bits, if
Pillow is installed); .npy may hold N sequences. Texts: a file .txt that is one text, or - for standard input, with a
text on each line (empty lines are skipped). Token ids: a file .npy, [T] or N sequences of them. For a model whose data
skiprnn-prepare video made also a video, with --weights. Files of other kinds, if a task of your own reads them.
"""


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog=PROGRAM, description=DESCRIPTION)
    add_version(parser)
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help=HUB_HELP)
    parser.add_argument("inputs", metavar="INPUT", nargs="*", help=INPUT_HELP)
    parser.add_argument("--text", action="append", default=[], help="a text to predict; may be given several times")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print a JSON list, unrounded, with the probability of every class (for a model that predicts at every "
        "step: of every class at every step, and the spans) and the numbers of the used steps (from 0)",
    )
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="P",
        help="lowest probability at which a class is present, if the model predicts classes at every step (default: "
        f"{THRESHOLD})",
    )
    parser.add_argument(
        "--batch-size",
        type=int,
        default=1,
        metavar="N",
        help="sequences that go through the model at once; the time is then that of the batch divided by their number "
        "(default: %(default)s)",
    )
    add_video_arguments(parser)
    add_loading_arguments(parser)
    args = parser.parse_intermixed_args(argv)
    try:
        return run_command(PROGRAM, run, args, sys.stdout)
    except BrokenPipeError:  # as with "| head"
        drop_output()
        return 1


def run(args: argparse.Namespace, output: TextIO) -> Optional[str]:
    """Print lines to ``output`` as they come, or return JSON."""
    from ...runs.inputs import check_inputs, open_videos, read_inputs
    from ...runs.outcomes import has_spans, predict_inputs
    from .output import as_json, print_rows

    if args.batch_size < 1:
        raise UserError(f"--batch-size: expected at least 1, got {args.batch_size}")
    threshold = THRESHOLD if args.threshold is None else args.threshold
    if not 0 < threshold <= 1:
        raise UserError(f"--threshold: expected a number above 0 and at most 1, got {threshold}")
    if not args.inputs and not args.text:
        raise UserError("expected an INPUT or --text, got none")
    hub = load_named_hub(args.checkpoint, prepare_loading(args))
    if args.threshold is not None and not has_spans(hub):
        raise UserError(f"--threshold: expected a model that predicts classes at every step, got {hub.cfg.task._name}")
    check_inputs(hub, args.inputs, args.text)
    videos = open_videos(hub, args.inputs, args.weights, args.encode_all)
    try:
        predictions = predict_inputs(hub, read_inputs(hub, args.inputs, args.text, videos), args.batch_size)
        among_lines = output.isatty() and not args.json  # a progress bar would be between them
        predictions = show_progress(predictions, args.checkpoint, disable=among_lines or None)
        if args.json:
            items = [json.dumps(as_json(hub, read, prediction, threshold)) for read, prediction in predictions]
            return "[\n" + ",\n".join(items) + "\n]"
        print_rows(hub, predictions, threshold, output)
    except (ImportError, ValueError) as error:  # an engine that can't run here; no library for the task's encode
        raise UserError(f"{args.checkpoint}: {error}") from error
    return None
