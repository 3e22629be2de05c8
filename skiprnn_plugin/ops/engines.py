"""The table of engines, and the choice among them.

An engine is a row of :data:`ENGINES`. To add one, write its row; the tests that run over the table then test it too.
:data:`INFERENCE_ENGINES` are further ones, whose results differ a little from the specification.
"""

import logging
from typing import Callable, Collection, Dict, FrozenSet, NamedTuple, Optional

import torch
from torch import Tensor

from . import reference
from .indexed import engine as indexed
from .native import engine as native
from .native import library
from .tracing import refuse_transforms
from .triton import call
from .triton import engine as triton

logger = logging.getLogger(__name__)

DEVICES = {"cpu": "the CPU", "cuda": "CUDA"}  # in messages
LIMITS = ("min_skip", "max_skip")
FEATURES = ("layer_norm", "recurrent_dropout", "zoneout", *LIMITS)  # optional features of engines


class Kernels(NamedTuple):
    """The functions of an engine that has a backward of its own; see :mod:`.indexed.engine` for what they take.

    Attributes:
        forward: results, and what ``backward`` needs if it is told to keep that.
        backward: the gradients of the operands and weights; None if the engine has none.
        fake_saved: tensors like those that ``forward`` keeps, for ``torch.compile``.
        accepts_none: whether ``p`` may be None for 1, ``acc`` for 0, and a result's gradient for 0.
    """

    forward: Callable
    backward: Optional[Callable]
    fake_saved: Callable
    accepts_none: bool = False


class Engine(NamedTuple):
    """What runs the recurrence. It has either ``scan`` or ``kernels``.

    Attributes:
        scan: a function like ``reference.scan``, which autograd differentiates; it is given ``zoneout_mask``,
            ``recurrent_dropout_mask``, ``min_skip`` and ``max_skip`` only if its ``features`` name them.
        kernels: the functions of an engine with a backward of its own. Its forward is given ``min_skip`` and
            ``max_skip`` only if its ``features`` name them, its backward never: see :func:`.types.prescribe_updates`.
        features: which of ``FEATURES`` it has.
        cells: keys of ``CELLS`` that it has; None for every cell, those registered later too.
        dtypes: of ``x``; None for every dtype.
        devices: device types of ``x``; None for every device.
        emulated_devices: device types of ``x`` on which it is only emulated, slowly, for tests; ``auto`` never takes it
            there.
        missing: why it cannot be used on this machine; None if it can.
    """

    scan: Optional[Callable] = None
    kernels: Optional[Kernels] = None
    features: FrozenSet[str] = frozenset()
    cells: Optional[Collection[str]] = None
    dtypes: Optional[Collection[torch.dtype]] = None
    devices: Optional[Collection[str]] = None
    emulated_devices: Collection[str] = ()
    missing: Callable[[], Optional[str]] = lambda: None

    def refuse(self, x: Tensor, cell: str, emulated: bool = False) -> Optional[str]:
        """Why the engine cannot run ``cell`` on ``x`` now; None if it can. With ``emulated``
        a device on which it is only emulated will do."""
        if self.cells is not None and cell not in self.cells:
            return f"has no cell {cell!r}"
        if self.kernels is not None:
            reason = refuse_transforms()
            if reason is not None:
                return reason
        return self._refuse_tensor(x, emulated) or self.missing()

    def _refuse_tensor(self, x: Tensor, emulated: bool) -> Optional[str]:
        device = x.device.type
        runs_there = self.devices is None or device in self.devices or (emulated and device in self.emulated_devices)
        if not runs_there or (self.dtypes is not None and x.dtype not in self.dtypes):
            return f"takes {self._describe()}, got {x.dtype} on {x.device}"
        return None

    def _describe(self) -> str:
        dtypes = "any dtype" if self.dtypes is None else " or ".join(map(str, self.dtypes))
        devices = "any device" if self.devices is None else " or ".join(DEVICES.get(d, d) for d in self.devices)
        return f"{dtypes} on {devices}"


# ``auto`` takes the first one that can do what is asked, so the fastest comes first
ENGINES: Dict[str, Engine] = {
    "native": Engine(
        kernels=Kernels(native.forward, native.backward, native.fake_saved, accepts_none=True),
        features=frozenset(LIMITS),
        cells=native.CELLS,
        dtypes=(torch.float32,),
        devices=("cpu",),
        missing=library.missing,
    ),
    "triton": Engine(
        kernels=Kernels(triton.forward, triton.backward, triton.fake_saved),
        cells=triton.CELLS,
        dtypes=triton.DTYPES,
        devices=("cuda",),
        emulated_devices=("cpu",) if call.EMULATED else (),
        missing=triton.missing,
    ),
    "indexed": Engine(
        kernels=Kernels(indexed.forward, indexed.backward, indexed.fake_saved), features=frozenset(LIMITS)
    ),
    "reference": Engine(scan=reference.scan, features=frozenset(FEATURES)),
}

# Faster ones for trained models, which only approximate the specification and have no gradients. ``auto`` never takes
# one of them
INFERENCE_ENGINES: Dict[str, Engine] = {
    "int8": ENGINES["native"]._replace(
        kernels=Kernels(native.forward_int8, None, native.fake_saved, accepts_none=True),
    ),
}

_announced = set()


def find_engine(name: str) -> Engine:
    """The engine of that name, which exists."""
    return ENGINES[name] if name in ENGINES else INFERENCE_ENGINES[name]


def choose_engine(name: str, features: Collection[str], x: Tensor, cell: str) -> str:
    """The engine's name, ``name`` itself or, for ``auto``, the first that has the ``features`` and can run ``cell`` on
    ``x``.

    Raises:
        ValueError: there is no such engine, or it cannot do what is asked.
    """
    check_engine(name, features)
    if name != "auto":
        reason = find_engine(name).refuse(x, cell, emulated=True)
        if reason is not None:
            others = [other for other, engine in ENGINES.items() if engine.refuse(x, cell) is None]
            raise ValueError(f"engine: {name!r} {reason}; expected auto or one of {', '.join(sorted(others))}")
        return name
    refused = ""
    for candidate, engine in ENGINES.items():
        if engine.features.issuperset(features):
            reason = engine.refuse(x, cell)
            if reason is None:
                break
            refused += f"; {candidate} {reason}"
    if not torch.compiler.is_compiling() and (candidate, refused) not in _announced:
        _announced.add((candidate, refused))
        logger.info(f"engine auto: chose {candidate}{refused}")
    return candidate


def check_engine(name: str, features: Collection[str]) -> None:
    """Raise ValueError unless the engine, or ``auto``, exists and has these of ``FEATURES``."""
    if name == "auto":
        return
    if name not in ENGINES and name not in INFERENCE_ENGINES:
        raise ValueError(f"engine: unknown engine {name!r}; expected one of {', '.join(sorted({*ENGINES, 'auto'}))}")
    for feature in features:
        if feature not in find_engine(name).features:
            able = ", ".join(sorted(other for other, engine in ENGINES.items() if feature in engine.features))
            raise ValueError(f"engine: {name!r} has no {feature}; expected auto or one of {able}")
