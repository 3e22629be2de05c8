"""A pool of large areas of memory: a training update needs one as large as the last one did, and new memory
has to be cleared by the system first, which is slow on virtual machines."""

import mmap
import sys
import threading
import weakref
from contextlib import suppress
from typing import List

from .library import in_forks

MOST = 4  # areas that are kept for later use
NORESERVE = 0x4000 if sys.platform == "linux" else 0  # Python's mmap has no name for it before 3.13
FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", NORESERVE)


class _Area:
    """Memory that has one user at a time, the holder of the last lease."""

    def __init__(self, size: int):
        self.memory = mmap.mmap(-1, size, flags=FLAGS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # the kernel has no huge pages
                self.memory.madvise(mmap.MADV_HUGEPAGE)

    def lend(self) -> memoryview:
        lease = memoryview(self.memory)
        self._lease = weakref.ref(lease)
        return lease

    def is_free(self) -> bool:
        return self._lease() is None


_lock = threading.Lock()
_areas: List[_Area] = []  # oldest first


@in_forks
def _replace_lock() -> None:
    """Another thread of the parent may have held the lock, and the child has no such thread to release it."""
    global _lock
    _lock = threading.Lock()


def take(size: int) -> memoryview:
    """Lease an area of at least ``size`` bytes, whose pages become memory only when they are written.

    Returns:
        the lease. Nobody else gets the area until the lease is deleted, and ``torch.frombuffer`` keeps the lease for
        as long as any tensor shares the storage that it makes.
    """
    with _lock:
        free = [area for area in _areas if area.is_free()]
        large = [area for area in free if len(area.memory) >= size]
        if large:
            return min(large, key=lambda area: len(area.memory)).lend()
        if free:  # all too small, so the new one replaces the largest of them
            _areas.remove(max(free, key=lambda area: len(area.memory)))
        elif len(_areas) >= MOST:  # forget the oldest: a lease keeps its memory without this list
            del _areas[0]
        area = _Area(size)
        lease = area.lend()
        _areas.append(area)
        return lease
