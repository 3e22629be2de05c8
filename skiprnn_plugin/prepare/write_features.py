"""Writes a folder of features, one sequence after the other, so that an interrupted run can be resumed."""

import json
import zlib
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from ..arguments import UserError
from ..data.features import FEATURES, STATISTICS, FeatureStore, Statistics, as_finite, read_items
from ..data.manifest import CLASSES, MANIFEST, write_line
from ..reading import first_sentence, show_progress
from .record import RECORD, read_record

# Files of an unfinished run: its source and options, a line for each sequence that it has finished, and by how much the
# dtype has rounded each feature at most, float64 [D]
STATE, LOG, ROUNDING = "unfinished.json", "unfinished.log", "unfinished.rounding"
HEADER = 128  # bytes; numpy's header for an array of two dimensions
COLUMNS = ("sequence", "steps", "split")
LABELS, NUMBERS = "labels", "numbers"  # of the record, where the labels are numbers to predict
# Of the record: the features that the dtype rounds by more than this part of their standard deviation
ROUNDED, ROUGH = "rounded", 0.01
LEFT_OUT = "passed_over"  # of the record: why sequences were left out, by their names


class Source(NamedTuple):
    """The sequences to write.

    Attributes:
        path: the file or folder that they come from.
        rows: the manifest's columns for each sequence, without ``steps``.
        width: the number of features of a step, D.
        classes: the lines of ``classes.txt``; None if the labels are numbers to predict.
        load: a function from the index of a row to its sequence, [T, D]; it raises ValueError for a sequence that can't
            be read.
        leaves_out: whether sequences that can't be read are left out.
        features: the names of the features, for ``prepare.json``; None if they have none.
    """

    path: Path
    rows: List[Dict[str, str]]
    width: int
    classes: Optional[List[str]]
    load: Callable[[int], np.ndarray]
    leaves_out: bool = False
    features: Optional[List[str]] = None


class Outcome(NamedTuple):
    """The result for a sequence: its number of steps, or 0 and the reason why it was left out."""

    steps: int
    reason: str


def write_features(source: Source, folder: Path, dtype: str, options: Dict[str, Any]) -> Dict[str, Any]:
    """Write ``manifest.tsv``, ``features.npy``, ``statistics.npz``, ``classes.txt`` and ``prepare.json``.

    If the folder holds an interrupted run for the same source and options, that run is resumed: finished sequences are
    neither read nor written again, and the result is the same as without the interruption. A file that has changed
    since then is another source; whether the files of a folder have changed is not checked. Only one sequence at a time
    is in memory.

    Args:
        source: what to write.
        folder: the folder to write to, empty or with an interrupted run.
        dtype: "float16", "float32" or "float64".
        options: the options of the run, for ``prepare.json``.

    Returns:
        What ``prepare.json`` holds: the options; the numbers of sequences and steps of each split; and which sequences
        were left out, and why.

    Raises:
        ValueError: a sequence can't be read or does not fit ``dtype``, and may not be left out; or a split has no
            sequence; or there are fewer than two classes.
        UserError: the system can't read a file of the source; the run can be resumed.
    """
    if source.classes is not None and len(source.classes) < 2:
        raise ValueError(f"expected at least two classes, got {source.classes}")
    outcomes, rounding = _write_sequences(source, folder, dtype, options)
    splits = _count(source, outcomes)
    _write_header(folder / FEATURES, dtype, sum(outcome.steps for outcome in outcomes), source.width)
    _write_manifest(folder / MANIFEST, source, outcomes)
    if source.classes is not None:
        (folder / CLASSES).write_text("".join(f"{name}\n" for name in source.classes), encoding="utf-8")
    statistics = compute_statistics(folder, "train")
    np.savez(folder / STATISTICS, **statistics._asdict())
    rounded = np.flatnonzero(rounding > ROUGH * statistics.std).tolist()
    record = {
        "source": source.path.resolve().name,
        **options,
        "features": source.width,
        **({} if source.features is None else {"feature_names": source.features}),
        **({LABELS: NUMBERS} if source.classes is None else {}),
        **({ROUNDED: rounded} if rounded else {}),
        "splits": splits,
        LEFT_OUT: _find_left_out(source, outcomes),
    }
    (folder / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    for name in (STATE, LOG, ROUNDING):
        (folder / name).unlink()
    return record


def _write_sequences(
    source: Source, folder: Path, dtype: str, options: Dict[str, Any]
) -> Tuple[List[Outcome], np.ndarray]:
    """Write the sequences that an interrupted run has not finished; returns the outcomes of all, and by how much the
    dtype has rounded each feature at most, [D]."""
    known = json.dumps(
        {
            "path": str(source.path.resolve()),
            "version": _find_version(source.path),
            "options": options,
            "rows": zlib.crc32(repr(source.rows).encode()),
            "width": source.width,
        }
    )
    outcomes, rounding = _resume(folder, known, source.width, np.dtype(dtype))
    with (
        open(folder / FEATURES, "ab") as data,
        open(folder / ROUNDING, "r+b") as rounded,
        open(folder / LOG, "a", encoding="utf-8") as log,
    ):
        done, total = len(outcomes), len(source.rows)
        left = show_progress(range(done, total), str(source.path), initial=done, total=total, unit=" sequences")
        for position in left:
            array, outcome, largest = _load(source, position, dtype)
            rounding = np.maximum(rounding, largest)
            rounded.seek(0)
            rounded.write(rounding.tobytes())
            data.write(array.tobytes())
            for file in (rounded, data):
                file.flush()  # both must be written before the log says that they are
            log.write(f"{outcome.steps}\t{outcome.reason}\n")
            log.flush()
            outcomes.append(outcome)
    return outcomes, rounding


def find_options(folder: Path) -> Optional[Dict[str, Any]]:
    """The options of the run that has written a folder of features, or has begun to; None if it has not got as far as
    its first file, and none if the files say nothing of a run."""
    try:
        if (folder / STATE).is_file():
            options = json.loads((folder / STATE).read_text(encoding="utf-8"))["options"]
            return options if isinstance(options, dict) else {}
        return read_record(folder) if (folder / RECORD).is_file() else None
    except (OSError, ValueError, KeyError, TypeError):  # written by another program
        return {}


def _find_version(path: Path) -> Optional[Tuple[int, int]]:
    """What tells a file from the one that was there before: its size in bytes and when it changed; None of a folder."""
    if not path.is_file():
        return None
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _load(source: Source, position: int, dtype: str) -> Tuple[np.ndarray, Outcome, np.ndarray]:
    """A sequence in the dtype, its outcome, and by how much the dtype rounds each feature, [D]."""
    try:
        array = source.load(position)
        if array.ndim != 2 or array.shape[1] != source.width or len(array) == 0:
            raise ValueError(f"expected steps of {source.width} features, got shape {array.shape}")
        converted = as_finite(array, np.dtype(dtype))
        rounding = np.abs(converted.astype(np.float64) - array).max(0).astype(np.float64)
        return converted, Outcome(len(array), ""), rounding
    except ValueError as error:
        if not source.leaves_out:
            raise ValueError(f"sequence {source.rows[position]['sequence']!r}: {error}") from error
        # A path in it may have bytes that are not UTF-8, which the log could not hold
        reason = " ".join(str(error).split()).encode("utf-8", "backslashreplace").decode()
        return np.zeros((0, source.width), dtype), Outcome(0, reason), np.zeros(source.width)
    except OSError as error:  # which would otherwise be taken for one of writing
        reason = error.strerror or first_sentence(error)
        raise UserError(f"{error.filename or source.path}: can't be read ({reason})") from error


def _resume(folder: Path, known: str, width: int, dtype: np.dtype) -> Tuple[List[Outcome], np.ndarray]:
    """The outcomes of the sequences that an interrupted run has finished, and by how much the dtype has rounded each
    feature of them, [D]; empty and zeros without an interrupted run.

    Afterwards the files hold these sequences and nothing after them.
    """
    state, log, data, rounding = (folder / name for name in (STATE, LOG, FEATURES, ROUNDING))
    step_bytes = width * dtype.itemsize
    outcomes: List[Outcome] = []
    is_known = state.exists() and state.read_text(encoding="utf-8") == known
    if is_known and rounding.is_file() and rounding.stat().st_size == np.zeros(width).nbytes:
        for line in log.read_text(encoding="utf-8").split("\n")[:-1]:  # the last line may be incomplete
            steps, tab, reason = line.partition("\t")
            if not (tab and steps.isdigit()):  # the machine crashed while it wrote the log
                break
            outcomes.append(Outcome(int(steps), reason))
    else:
        for path in folder.iterdir():
            path.unlink()
        data.write_bytes(bytes(HEADER))
        rounding.write_bytes(np.zeros(width).tobytes())
        log.touch()
        state.write_text(known, encoding="utf-8")
    size = HEADER + step_bytes * sum(outcome.steps for outcome in outcomes)
    while outcomes and data.stat().st_size < size:  # the machine crashed before all data was on the disk
        size -= step_bytes * outcomes.pop().steps
    with open(data, "r+b") as file:
        file.truncate(size)
    log.write_text("".join(f"{outcome.steps}\t{outcome.reason}\n" for outcome in outcomes), encoding="utf-8")
    return outcomes, np.frombuffer(rounding.read_bytes())


def _count(source: Source, outcomes: List[Outcome]) -> Dict[str, Dict[str, int]]:
    """The numbers of sequences and steps that were written of each split. Raises ValueError if one has none."""
    order = {split: place for place, split in enumerate(("train", "valid", "test"))}
    present = sorted({row["split"] for row in source.rows}, key=lambda split: (order.get(split, len(order)), split))
    splits = {split: {"sequences": 0, "steps": 0} for split in present}
    for row, outcome in zip(source.rows, outcomes):
        splits[row["split"]]["sequences"] += outcome.steps > 0
        splits[row["split"]]["steps"] += outcome.steps
    for split in ("train", *splits):
        if not splits.get(split, {}).get("sequences"):
            left_out = _find_left_out(source, outcomes)
            name, reason = next(iter(left_out.items()), ("", "no sequence is of that split"))
            raise ValueError(f"expected sequences of split {split!r}, got none ({name}{': ' if name else ''}{reason})")
    return splits


def _find_left_out(source: Source, outcomes: List[Outcome]) -> Dict[str, str]:
    """Why sequences were left out, by their names."""
    return {row["sequence"]: outcome.reason for row, outcome in zip(source.rows, outcomes) if not outcome.steps}


def _write_header(path: Path, dtype: str, steps: int, width: int) -> None:
    """Write numpy's header of an array [steps, width] in the room that was left for it."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": (steps, width)}
    with open(path, "r+b") as file:
        np.lib.format.write_array_header_1_0(file, header)


def _write_manifest(path: Path, source: Source, outcomes: List[Outcome]) -> None:
    others = [column for column in source.rows[0] if column not in COLUMNS]
    with open(path, "w", encoding="utf-8") as file:
        file.write(write_line([*COLUMNS, *others]))
        for row, outcome in zip(source.rows, outcomes):
            if outcome.steps:
                values = (row[name] for name in others)
                file.write(write_line([row["sequence"], str(outcome.steps), row["split"], *values]))


def compute_statistics(folder: Path, split: str) -> Statistics:
    """The mean and standard deviation of each feature over all steps of a split, read one sequence at a time.

    The means and sums of squared deviations of the sequences are merged by the formula of Chan, Golub and LeVeque
    (1979), which stays exact when the mean is large.
    """
    items = read_items(folder, ())
    store = FeatureStore(folder, items)
    count, mean, squares = 0, np.zeros(store.width), np.zeros(store.width)
    chosen = [position for position, item in enumerate(items) if item.split == split]
    for position in show_progress(chosen, "mean and deviation", unit=" sequences"):
        array = store.view(position).astype(np.float64)
        difference = array.mean(0) - mean
        squares += ((array - array.mean(0)) ** 2).sum(0) + difference**2 * (count * len(array) / (count + len(array)))
        mean += difference * len(array) / (count + len(array))
        count += len(array)
    return Statistics(mean, np.sqrt(squares / count))
