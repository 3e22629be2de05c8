"""Large areas of memory, used again: a training step needs one as large as the last, and what the system gives anew is
cleared first, and slow to come on virtual machines."""

import mmap
import sys
import threading
from contextlib import suppress
from typing import List

from .library import in_forks

MOST = 4  # areas that are kept, though nobody may be using them
NORESERVE = 0x4000 if sys.platform == "linux" else 0  # what Python's mmap has no name for before 3.13
FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", NORESERVE)

_lock = threading.Lock()
_areas: List[mmap.mmap] = []
_alone = [object()]
UNUSED = sys.getrefcount(_alone[0])  # references to what only a list has


@in_forks
def _start_anew() -> None:
    """Another thread of the parent's may have held the lock."""
    global _lock
    _lock = threading.Lock()


def take(size: int) -> mmap.mmap:
    """An area of so many bytes or more, whose pages become memory only as they are written; it is in use as long as
    someone has a reference to it, as a tensor made by ``torch.frombuffer`` does."""
    with _lock:
        unused = [i for i in range(len(_areas)) if sys.getrefcount(_areas[i]) == UNUSED]
        large = [i for i in unused if len(_areas[i]) >= size]
        if large:
            return _areas[min(large, key=lambda i: len(_areas[i]))]
        if len(_areas) >= MOST:  # the oldest goes, of those in use its entry alone
            del _areas[min(unused, default=0)]
        area = mmap.mmap(-1, size, flags=FLAGS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # of a kernel without them
                area.madvise(mmap.MADV_HUGEPAGE)
        _areas.append(area)
        return area
