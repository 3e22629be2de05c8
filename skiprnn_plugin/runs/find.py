"""Find the file that a command's argument names: a save-dir's checkpoint or log, or the file itself."""

from pathlib import Path
from typing import Callable, List, Optional, Sequence, Set, Tuple

from .. import zoo
from ..arguments import UserError
from ..reading import is_hidden


def find_file(path: str, checkpoint: Optional[str] = None) -> Path:
    """The file that a RUN argument names: a model of the zoo, a save-dir's checkpoint, or the file itself.

    ``checkpoint`` is ``last`` or ``best``; None means the last one, or else the save-dir's log, or, if it has no log,
    its best checkpoint: ``skiprnn-train`` keeps only that.
    """
    if zoo.is_name(path):
        try:
            return zoo.find(path)
        except FileNotFoundError as error:
            raise UserError(str(error)) from error
    run = _existing(path)
    if not run.is_dir():
        return run
    file = run / f"checkpoint_{checkpoint or 'last'}.pt"
    if file.is_file():
        return file
    if checkpoint:
        raise UserError(f"{run}: holds no {file.name}")
    return _log_or_best(run, f"holds no {file.name} and")


def find_history(path: str) -> Path:
    """The file with the validations of the run that a RUN argument names: a save-dir's only log or, if it has no log,
    its best checkpoint, in which ``skiprnn-train`` keeps them; or the file itself."""
    if zoo.is_name(path):
        raise UserError(f"{path}: expected a run with a log, got a model of the zoo, which has none")
    run = _existing(path)
    return _log_or_best(run, "holds") if run.is_dir() else run


def _existing(path: str) -> Path:
    run = Path(path)
    if not run.exists():
        raise UserError(f"{run}: no such file or folder")
    return run


def _log_or_best(folder: Path, found: str) -> Path:
    """The only log of a folder or, if it has none, its best checkpoint. ``found`` begins what the error says."""
    logs, best = _logs(folder), folder / "checkpoint_best.pt"
    if not logs and best.is_file():
        return best
    if len(logs) != 1:
        names = f"several logs ({', '.join(log.name for log in logs)}): name one" if logs else "no log (*.log)"
        raise UserError(f"{folder}: {found} {names}")
    return logs[0]


def _logs(folder: Path) -> List[Path]:
    return sorted(log for log in folder.glob("*.log") if log.is_file() and not is_hidden(log.name))


def find_files(paths: Sequence[str], find: Callable[[str], Path] = find_file) -> List[Path]:
    """The files that RUN arguments stand for; :class:`UserError` if one is given twice."""
    files: List[Path] = []
    found: Set[Tuple[int, int]] = set()  # what tells a file from all others, whatever its path
    for file in map(find, paths):
        status = file.stat()
        key = (status.st_dev, status.st_ino)
        if key in found:
            raise UserError(f"{file}: given twice")
        found.add(key)
        files.append(file)
    return files


def find_named_checkpoint(path: str) -> Path:
    """The checkpoint that an argument names: a save-dir's last one, or the file itself."""
    file = find_file(path)
    if not is_checkpoint(file):
        raise UserError(f"{file}: expected a checkpoint (*.pt) or a save-dir that holds one")
    return file


def is_checkpoint(path: Path) -> bool:
    return path.suffix == ".pt"
