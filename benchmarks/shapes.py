"""Named shapes, fractions of updates and suites: the data that say what is timed."""

import os
from typing import Dict, List, NamedTuple, Tuple, Union

import torch


class Shape(NamedTuple):
    """Sizes of a stack of layers and its batch.

    Attributes:
        steps: steps of a sequence, T.
        input_size: features of the input, D.
        hidden_size: units of each layer, H.
        batch: rows of the batch, B.
        layers: layers of the stack.
        every_step: whether the loss reads the output of every step instead of only the last.
    """

    steps: int
    input_size: int
    hidden_size: int
    batch: int
    layers: int = 1
    every_step: bool = False


def _at(batches: Tuple[int, ...], *sizes, **more) -> Dict[str, Shape]:
    return {f"b{batch}": Shape(*sizes, batch, **more) for batch in batches}


# The paper's experiments, and "tiny", which is for tests.
FAMILIES = {
    "adding": _at((1, 16, 256), 50, 2, 110),
    "mnist": _at((1, 16, 256), 784, 1, 110),
    "imdb": _at((1, 32, 256), 400, 300, 128),
    "ucf101": _at((1, 32), 250, 2048, 512, layers=2),
    "charades": _at((1, 32), 173, 4096, 256, layers=2, every_step=True),
    "tiny": _at((1, 8), 20, 3, 8, layers=2),
}
SHAPES = {f"{family}-{batch}": shape for family, sizes in FAMILIES.items() for batch, shape in sizes.items()}

CELLS = ("gru", "gru_reset_before", "lstm")
MODES = ("inference", "training")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

Fraction = Union[float, str]
MIXED = "mixed"  # instead of a fraction: rows differ much in how many steps they update; in all it is MIXED_MEAN
MIXED_MEAN = 0.3


class Suite(NamedTuple):
    """What is measured by default on one kind of device.

    Attributes:
        device: "cpu" or "cuda".
        shapes: the names of the shapes, in the order of measuring. All are measured at one fraction before the next.
        quick: the shapes and fractions for ``--quick``.
        peers: names in ``contestants.PEERS``.
        dtypes: names in ``DTYPES``.
        threads: numbers of threads.
        fractions: fractions of updates, in the order of measuring.
        cells: names in ``CELLS``.
    """

    device: str
    shapes: List[str]
    quick: Tuple[List[str], List[Fraction]]
    peers: List[str]
    dtypes: List[str]
    threads: List[int]
    fractions: Tuple[Fraction, ...] = (0.2, 0.5, 1.0, MIXED)
    cells: Tuple[str, ...] = ("gru", "lstm")


def available_threads() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


SUITES = {
    "cpu": Suite(
        device="cpu",
        shapes=[name for name in SHAPES if not name.startswith("tiny-")],
        quick=(["adding-b1", "adding-b256", "mnist-b16"], [0.2, 1.0]),
        peers=["torch", "onnxruntime"],
        dtypes=["float32"],
        threads=sorted({1, available_threads()}),
    ),
    "gpu": Suite(
        device="cuda",
        shapes=["mnist-b256", "adding-b256", "mnist-b1", "adding-b1"],
        quick=(["adding-b256", "mnist-b256"], [0.2]),
        peers=["torch", "torch-packed"],
        dtypes=["float32", "bfloat16"],
        threads=[1],
        fractions=(0.2, 1.0),
    ),
}
