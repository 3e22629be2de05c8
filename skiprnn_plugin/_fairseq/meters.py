"""Keeps the meters of a training within a program apart from those of the program."""

import contextlib
from typing import Iterator

from fairseq.logging import metrics


@contextlib.contextmanager
def separate_meters() -> Iterator[None]:
    """A block that begins without meters, and after which fairseq has those that it had before.

    fairseq keeps the meters of its trainer in the process, by names such as ``train``. Without this workaround a second
    training goes on with those of the first, and fails where a metric of the same name is logged in another way. Needed
    until a trainer has its meters itself.
    """
    stores = metrics._aggregators, metrics._active_aggregators, metrics._active_aggregators_cnt
    saved = [dict(store) for store in stores]
    metrics.reset()
    try:
        yield
    finally:
        for store, values in zip(stores, saved):
            store.clear()
            store.update(values)
