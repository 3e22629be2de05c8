"""Keeps the meters of a training apart from those of the program around it, and those of two losses of one name."""

import contextlib
import copy
import functools
from collections import OrderedDict
from typing import Iterator

from fairseq.logging import metrics
from fairseq.logging.meters import AverageMeter, MetersDict

BASE_LOSS = "_base_loss"  # fairseq does not show names that begin with _


@contextlib.contextmanager
def separate_meters() -> Iterator[None]:
    """A block that begins without meters, and after which fairseq has those that it had before.

    fairseq keeps the meters of its trainer in the process, by names such as ``train``. Without this workaround a second
    training reuses those of the first, and fails where a metric of the same name is logged in another way. Needed
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


@contextlib.contextmanager
def base_loss_apart() -> Iterator[None]:
    """A block in which the meter ``loss`` of every active aggregator is the base criterion's own.

    Outside it, that meter has the name ``_base_loss``, and ``loss`` is another one. What the base criterion derives
    from ``loss``, such as a perplexity, is derived from its own. Without this workaround both losses would be added up
    in one meter. Needed until a criterion can log under names of its own.
    """
    aggregators = []
    for meters in metrics.get_active_aggregators():
        total = meters.get("loss")
        is_new = total is not None and BASE_LOSS not in meters
        aggregators.append((meters, set(meters), total, copy.deepcopy(total.state_dict()) if is_new else None))
        if BASE_LOSS in meters:
            _replace(meters, "loss", meters[BASE_LOSS])
    try:
        yield
    finally:
        for meters, known, total, before in aggregators:
            for name in set(meters) - known:
                if isinstance(meters[name], MetersDict._DerivedMeter):
                    meters[name].fn = functools.partial(_derive, meters[name].fn)
            if BASE_LOSS in known:
                _replace(meters, "loss", total)
            elif "loss" in meters and (total is None or total.state_dict() != before):  # the base criterion logged it
                meters.add_meter(BASE_LOSS, meters["loss"], 0)
                _replace(meters, "loss", AverageMeter())


def _replace(meters: MetersDict, name: str, meter) -> None:
    OrderedDict.__setitem__(meters, name, meter)  # fairseq's own method refuses names that exist


def _derive(function, meters: MetersDict) -> float:
    """A number that the base criterion derives from its meters."""
    if BASE_LOSS not in meters:
        return function(meters)
    view = MetersDict()
    for name, meter in meters.items():
        _replace(view, name, meters[BASE_LOSS] if name == "loss" else meter)
    return function(view)
