"""``skiprnn-predict``: what a trained model makes of sequences of your own, and how many of their steps it used."""

import argparse
import itertools
import json
import os
import sys
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, TextIO, Tuple

from ..reading import show_progress
from .checkpoint import add_loading_arguments, prepare_loading
from .command import UserError, run_command

PROGRAM = "skiprnn-predict"
WARM_UP = 3
DESCRIPTION = """
Let a trained model predict sequences of your own, on the CPU. Prints a line for each, columns separated by tabs: the
likeliest class and its probability (of a model that predicts at every step, at the step where that is highest), or the
predicted numbers; steps used, all steps (of a bidirectional model in both
directions); and the model's time in ms, without loading, reading and encoding, after a few runs that do not count.
"""
INPUT_HELP = """
for a model that reads numbers, a file .npy or .csv (a line for each step, perhaps a header): [T, D], or [T] where D is
1, or whatever else its task reads, as images [28, 28] (.png too, if Pillow is installed); .npy may hold N of them; for
a model that reads words, a file .txt that is one text, or - for standard input, a text on each line
"""


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog=PROGRAM, description=DESCRIPTION)
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="a checkpoint (*.pt), or a save-dir for its checkpoint_best.pt, or else its checkpoint_last.pt",
    )
    parser.add_argument("inputs", metavar="INPUT", nargs="*", help=INPUT_HELP)
    parser.add_argument("--text", action="append", default=[], help="a text; may be given several times")
    parser.add_argument(
        "--json",
        action="store_true",
        help="print a JSON list, unrounded, with every class's probability (of a model that predicts at every step a "
        "list of them) and which steps were used (from 0)",
    )
    parser.add_argument(
        "--batch-size",
        type=int,
        default=1,
        metavar="N",
        help="sequences that go through the model at once; the time is then a batch's, divided by its sequences "
        "(default: %(default)s)",
    )
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

    if args.batch_size < 1:
        raise UserError(f"--batch-size: expected at least 1, got {args.batch_size}")
    if not args.inputs and not args.text:
        raise UserError("expected an INPUT or --text, got none")
    hub = _load(args.checkpoint, prepare_loading(args))
    check_inputs(hub, args.inputs, args.text)
    try:
        predictions = predict(hub, read_inputs(hub, args.inputs, args.text), args.batch_size)
        among_lines = output.isatty() and not args.json  # there a bar would be in the way
        predictions = show_progress(predictions, args.checkpoint, disable=among_lines or None)
        if args.json:
            items = [json.dumps(as_json(hub, name, prediction)) for name, prediction in predictions]
            return "[\n" + ",\n".join(items) + "\n]"
        _print_rows(hub, predictions, output)
    except (ImportError, ValueError) as error:  # an engine that can't run here; no library for the task's encode
        raise UserError(f"{args.checkpoint}: {error}") from error
    return None


def _load(checkpoint: str, overrides: Dict[str, Any]):
    from ..hub import from_pretrained

    try:
        return from_pretrained(checkpoint, **overrides)
    except (OSError, TypeError, ValueError) as error:
        raise UserError(str(error)) from error


def predict(hub, inputs: Iterator, batch_size: int) -> Iterator[Tuple[str, Any]]:
    """Names of the inputs and what the model makes of them, after the first batch has run ``WARM_UP`` times."""
    first = list(itertools.islice(inputs, batch_size))
    for _ in range(WARM_UP):
        list(hub.run([each.encoded for each in first], batch_size))
    named, read = itertools.tee(itertools.chain(first, inputs))
    return zip((each.name for each in named), hub.run((each.encoded for each in read), batch_size))


def _print_rows(hub, predictions: Iterable[Tuple[str, Any]], output: TextIO) -> None:
    outcome = ("label", "probability") if hub.task.predicts in ("classes", "labels") else ("prediction",)
    print(*outcome, "used", "steps", "ms", "input", sep="\t", file=output)
    for name, prediction in predictions:
        print(*as_row(name, prediction), sep="\t", file=output, flush=True)


def as_row(name: str, prediction) -> List[str]:
    values, used = prediction.values, prediction.used
    if prediction.label is None:
        outcome = [" ".join(f"{value:.6g}" for value in values.ravel())]
    else:
        outcome = [prediction.label, f"{values.max():.4f}"]
    return [*outcome, str(used.sum()), str(used.size), f"{1000 * prediction.seconds:.3f}", name]


def as_json(hub, name: str, prediction) -> Dict[str, Any]:
    """An item of the list; of a bidirectional model ``used`` is a list for each direction."""
    values, used = prediction.values, prediction.used
    if prediction.label is None:
        outcome = {"prediction": values.tolist()}
    else:
        names = hub.task.class_names or range(values.shape[-1])
        probabilities = {str(name): each for name, each in zip(names, values.T.tolist())}
        outcome = {"label": prediction.label, "probabilities": probabilities}
    indices = [row.nonzero()[0].tolist() for row in used] if used.ndim == 2 else used.nonzero()[0].tolist()
    return {"input": name, **outcome, "used": indices, "steps": used.size, "ms": 1000 * prediction.seconds}


if __name__ == "__main__":
    sys.exit(main())
