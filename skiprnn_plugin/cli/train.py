"""``skiprnn-train``: Train a model on a file of recordings; print a table and how to predict, and draw a picture."""

import argparse
import contextlib
import math
import os
import shlex
import signal
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, NoReturn, Optional, Sequence, Set

from ..arguments import UserError, as_option, as_option_errors
from ..locking import HeldByAnother, hold
from ..parameters import PLANNED
from ..reading import first_sentence
from ..writing import is_part, write_whole
from .command import add_version, as_table, run_command
from .plot import samples
from .prepare.feature_file import OF_COLUMNS, ONE_FILE, add_file_arguments, name_division, read_file, refuse
from .prepare.feature_folder import write_folder

PROGRAM = "skiprnn-train"
HEADS = {  # of the table, by what the model predicts
    "classes": ["accuracy"],
    "numbers": ["root mean square error", "deviation of labels"],
}
DATA, CHECKPOINT, PICTURE = "data", "checkpoint_best.pt", "samples.png"  # in the folder of the run
PARAMS = ("cell", "hidden_size", "num_layers", "target_fraction", "good_enough", "learning_rate", "batch_size")
PARAMS += ("max_updates",)  # those of the estimators that are options of the same name, with the same defaults
SPLIT_SEED = "split_seed"
DATA_HELP = """
recordings and their labels, classes or numbers to predict: an .npz file, such as numpy.savez(FILE, *arrays,
labels=labels) writes, a .csv or .tsv file with a line for each sample, or a folder (see skiprnn-prepare features
--help)
"""


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog=PROGRAM, description=__doc__.partition(": ")[2], allow_abbrev=False)
    add_version(parser)
    parser.add_argument("source", metavar="DATA", type=Path, help=DATA_HELP)
    parser.add_argument(
        "--save-dir", type=Path, required=True, metavar="RUN", help="the folder to make, for the model and a picture"
    )
    parser.add_argument(
        "--target-fraction",
        type=float,
        metavar="F",
        help="fraction of the samples to use (default: none, accuracy alone counts)",
    )
    parser.add_argument(
        "--good-enough",
        type=float,
        metavar="A",
        help="an accuracy (if labels are numbers, a mean squared error) on the split valid that is good enough: of the "
        "checkpoints that reach it, the one that uses the fewest samples is kept (default: the best one is kept; with "
        "--target-fraction, a good one that keeps to it)",
    )
    parser.add_argument("--cell", choices=("gru", "lstm"), default="gru", help="the cell (default: %(default)s)")
    parser.add_argument("--hidden-size", type=int, default=64, metavar="H", help="its units (default: %(default)s)")
    parser.add_argument("--num-layers", type=int, default=1, metavar="L", help="layers (default: %(default)s)")
    parser.add_argument("--learning-rate", type=float, default=2e-3, metavar="LR", help="Adam's (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=32, metavar="N", help="recordings (default: %(default)s)")
    parser.add_argument(
        "--max-updates", type=int, default=3000, metavar="N", help="training updates (default: %(default)s)"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        help="seed of the initial weights and of the order of training (default: %(default)s)",
    )
    add_file_arguments(parser, SPLIT_SEED)
    return run_command(PROGRAM, run, parser.parse_args(argv))


def run(args: argparse.Namespace) -> str:
    _read_params(args, None)  # a wrong option is an error before the data are read
    _check_save_dir(args.save_dir, args.source)
    if not args.source.exists():
        raise UserError(f"{args.source}: no such file or folder")
    with _hold(args.save_dir), _unwound_by_sigterm():
        _check_save_dir(args.save_dir, args.source)  # another process may have ended just now
        _remove_parts(args.save_dir)
        prepared = _prepare(args)
        held_out = _held_out(prepared.data)
        checkpoint = _train(args, prepared)
        try:
            results = _evaluate(args, checkpoint, held_out, prepared.predicts)
        except ValueError as error:  # in a split that training has not read
            raise UserError(str(error)) from error
    return "\n\n".join([*results, _say_how_to_predict(args)])


@contextlib.contextmanager
def _hold(folder: Path) -> Iterator[None]:
    """Make the folder of the run, and let no other process train in it meanwhile. A new folder that is empty in the end
    is removed."""
    is_new = not folder.exists()
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(hold(folder))
        except HeldByAnother as error:
            raise UserError(
                f"--save-dir: expected a folder of this run alone, another {PROGRAM} writes to {folder}"
            ) from error
        except OSError as error:
            raise _not_written(error) from error
        try:
            yield
        finally:
            if is_new:
                with contextlib.suppress(OSError):  # it is not empty
                    folder.rmdir()


@contextlib.contextmanager
def _unwound_by_sigterm() -> Iterator[None]:
    """A block that SIGTERM ends as an exception does, so that the checkpoints in the temporary folder are removed. In a
    program that has a handler of its own, and in another thread, this changes nothing."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def end(number, frame) -> NoReturn:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _not_written(error: OSError) -> UserError:
    return UserError(f"--save-dir: {error.filename} can't be written ({error.strerror})")


def _evaluate(args: argparse.Namespace, checkpoint: Path, held_out: Sequence[str], predicts: str) -> List[str]:
    """A table of what the model reaches on the held-out splits, and what :func:`_draw` returns."""
    from ..runs.checkpoint import evaluate, load_checkpoint

    lines = []
    for split in held_out:
        loaded = load_checkpoint(checkpoint, split, {})
        found = evaluate(loaded)
        numbers = found.metrics
        lines.append(
            [
                split,
                *_say_how_well(loaded, numbers),
                f"{numbers['update_fraction']:.1%}",
                f"{numbers['updates']:.1f}",
                f"{found.sequences:,}",
            ]
        )
    head = ["split", *HEADS[predicts], "samples used", "samples used per recording", "recordings"]
    return [as_table(head, lines), *_draw(args, checkpoint, split, found.sequences)]


def _say_how_well(loaded, numbers: Dict[str, float]) -> List[str]:
    """What stands under :data:`HEADS`: the accuracy, or the error and the deviation of each of the numbers to predict,
    which can have different units."""
    from ..runs.checkpoint import measure_errors

    if loaded.task.predicts == "classes":
        return [f"{numbers['accuracy']:.3f}"]
    deviations = loaded.dataset.targets.std(0) * loaded.task.target_scale
    errors = [math.sqrt(numbers["mse"])] if len(deviations) == 1 else measure_errors(loaded)
    return [" ".join(f"{value:.4g}" for value in values) for values in (errors, deviations)]


def _read_params(args: argparse.Namespace, predicts: Optional[str]) -> Dict[str, Any]:
    """The parameters of the estimator that is trained; UserError for an option that is wrong. Some ranges depend on
    what the model predicts; None allows both."""
    from ..parameters import draw_seed, read_params

    try:
        with as_option_errors(vars(args)):
            params = read_params({name: getattr(args, name) for name in PARAMS}, predicts)
            return {**params, "random_state": draw_seed("seed", args.seed)}
    except ValueError as error:
        raise UserError(str(error)) from error


def _check_save_dir(folder: Path, source: Path) -> None:
    """Raise UserError if the folder holds more than the data of a run that was interrupted, or of ``source``."""
    from ..data.features import STATISTICS

    if not os.path.lexists(folder):
        return
    wrong = f"--save-dir: expected a folder that does not exist yet, got {folder}"
    if not folder.is_dir():
        raise UserError(wrong)
    for path in sorted(folder.iterdir()):
        is_source = path.name == DATA and path.resolve() == source.resolve() and (path / STATISTICS).is_file()
        if not (is_source or _is_interrupted(path)):
            raise UserError(f"{wrong}, which holds {path.name}, not from an interrupted {PROGRAM}")


def _is_interrupted(path: Path) -> bool:
    """Whether an interrupted run of this command has left this: its data, whole or in part, or part of a checkpoint."""
    from ..prepare.new_folder import is_leftover
    from ..prepare.write_features import find_options

    if is_part(path, CHECKPOINT):
        return True
    is_begun = is_leftover(path, DATA)
    if path.name != DATA and not is_begun:
        return False
    options = find_options(path)
    return is_begun if options is None else options.get("command") == PROGRAM


def _remove_parts(folder: Path) -> None:
    """Remove what processes left that were killed while they wrote the checkpoint."""
    for path in folder.iterdir():
        if is_part(path, CHECKPOINT):
            with contextlib.suppress(OSError):
                path.unlink()


class _Prepared(NamedTuple):
    """What to train on.

    Attributes:
        data: the folder of features: the user's own if it has statistics to normalise by, or one in the folder of the
            run.
        predicts: whether its labels are "classes" or "numbers".
        params: those of the estimator that is trained.
    """

    data: Path
    predicts: str
    params: Dict[str, Any]


def _prepare(args: argparse.Namespace) -> _Prepared:
    from ..data.features import STATISTICS

    is_prepared = (args.source / STATISTICS).is_file()
    try:
        source, options = _read_folder(args) if args.source.is_dir() else read_file(args, SPLIT_SEED)
    except ValueError as error:
        raise UserError(str(error)) from error
    if "label" not in source.rows[0]:
        raise UserError(f"{args.source}: expected a column 'label' in its manifest, got {', '.join(source.rows[0])}")
    predicts = "numbers" if source.classes is None else "classes"
    params = _read_params(args, predicts)
    _check_splits(args.source, {row["split"] for row in source.rows})
    if is_prepared:
        return _Prepared(args.source, predicts, params)
    folder = args.save_dir / DATA
    options = {"command": PROGRAM, **options}
    # Twice the room, but large numbers that differ little, such as times, stay apart
    settings = argparse.Namespace(source=args.source, dest=folder, dtype="float64", overwrite=True)
    print(write_folder(source, settings, options), file=sys.stderr)
    return _Prepared(folder, predicts, params)


def _read_folder(args: argparse.Namespace):
    """What :func:`read_file` returns, of a folder. Raises UserError or ValueError."""
    from ..prepare.feature_sources import find_origin, read_folder

    refuse(args, {**name_division(SPLIT_SEED), **OF_COLUMNS}, ONE_FILE)
    return read_folder(args.source, args.regression), find_origin(args.source)


def _held_out(data: Path) -> List[str]:
    """The held-out splits of a folder of features, first the one that chooses the checkpoint."""
    from ..data.features import read_items

    try:
        present = {item.split for item in read_items(data, ("label",))}
    except ValueError as error:
        raise UserError(str(error)) from error
    _check_splits(data, present)
    return [split for split in ("valid", "test") if split in present]


def _check_splits(data: Path, present: Set[str]) -> None:
    """Raise UserError if there is nothing to train on, or nothing to choose the checkpoint by."""
    if not {"train", "valid"} <= present:
        found = ", ".join(sorted(present))
        raise UserError(f"{data}: expected sequences of split train and of split valid, got only {found}")


def _train(args: argparse.Namespace, prepared: _Prepared) -> Path:
    from ..parameters import describe
    from ..training import choose_checkpoint, plan_training, train

    data, predicts, params = prepared
    planned = {name: params[name] for name in PLANNED if name in params}
    choose = choose_checkpoint(predicts, params["target_fraction"], params["good_enough"])
    try:
        plan = plan_training(data, predicts, seed=params["random_state"], **planned)
        with _shown_warnings():
            trained = train(plan, choose, True, describe(params, predicts))
    except ValueError as error:
        raise UserError(str(error)) from error
    except OSError as error:
        place = tempfile.gettempdir()
        raise UserError(
            f"the temporary folder {place} can't be used ({error.strerror}); TMPDIR names another"
        ) from error
    checkpoint = args.save_dir / CHECKPOINT
    try:
        args.save_dir.mkdir(parents=True, exist_ok=True)
        write_whole(checkpoint, trained.checkpoint)
    except OSError as error:
        raise _not_written(error) from error
    print(f"wrote {checkpoint}", file=sys.stderr)
    return checkpoint


@contextlib.contextmanager
def _shown_warnings() -> Iterator[None]:
    """A block after which its warnings about an option are printed; other warnings are not."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in caught:
        name, _, text = str(warning.message).partition(":")
        name = name.removeprefix("--").replace("-", "_")
        if name in PARAMS:
            print(f"{PROGRAM}: warning: {as_option(name)}:{text}", file=sys.stderr)


def _draw(args: argparse.Namespace, checkpoint: Path, split: str, recordings: int) -> List[str]:
    """Draw a few recordings of the split; returns a sentence that says what was drawn. If that can't be done, a warning
    says why, and nothing is returned: the model and its table are worth more than the picture."""
    parser, picture = argparse.ArgumentParser(), args.save_dir / PICTURE
    samples.add_arguments(parser)
    number = str(min(recordings, 4))
    options = [str(checkpoint), "--split", split, "--output", str(picture), "--num-sequences", number]
    try:
        samples.run(parser.parse_args(options))
    except Exception as error:  # matplotlib, which is optional, is missing or broken in any way
        reason = error if isinstance(error, UserError) else first_sentence(error)
        print(f"{PROGRAM}: warning: {picture} is not drawn: {reason}", file=sys.stderr)
        return []
    return [f"{picture}: which samples the model used, of {number} recordings of split {split}"]


def _say_how_to_predict(args: argparse.Namespace) -> str:
    suffix = ".npy" if args.source.is_dir() or args.source.suffix.lower() == ".npz" else args.source.suffix
    command = f"skiprnn-predict {shlex.quote(str(args.save_dir))} RECORDING{suffix}"
    return f"{args.save_dir}: the model, which predicts by\n\n    {command}"


if __name__ == "__main__":
    sys.exit(main())
