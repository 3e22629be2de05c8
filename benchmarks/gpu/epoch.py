"""The phase ``epoch``: MNIST by pixels through ``fairseq-train``, in seconds an epoch.

Without the database, images of random pixels are used, in the database's files and of its size.
"""

import json
import logging
import os
import sys
import tempfile
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Dict, List, NamedTuple
from unittest import mock

import torch

from .log import Log
from .precision import use
from .settings import Settings

os.environ["LOGLEVEL"] = "WARNING"  # of fairseq
with suppress(ImportError):  # run_item says so if fairseq can't be imported
    import fairseq_cli.train  # noqa: F401

ROOT = Path(__file__).parent.parent.parent
TRAIN, VALID, TEST = 55_000, 5_000, 100
EPOCHS = 2  # the first one includes what happens once
PARTS = {"train": TRAIN + VALID, "t10k": TEST}


class Item(NamedTuple):
    """A training: flags of fairseq-train beside those in ``run_item``, and the precision of float32 products."""

    flags: List[str]
    precision: str = "float32"


ITEMS = {
    "gru, float32": Item([]),
    "gru, bfloat16": Item(["--bf16"]),
    "gru, tf32": Item([], "tf32"),
    "gru, bfloat16, every fifth step": Item(["--bf16", "--update-bias", "-2"]),  # at the start p is about 0.12
    "lstm, bfloat16": Item(["--arch", "skip_lstm", "--bf16"]),
    "the paper's gru, float32": Item(["--gru-reset", "before"]),
    "gru, float16": Item(["--fp16"]),
}


def list_items(settings: Settings, log: Log) -> Dict[str, Item]:
    names = list(ITEMS)[:1] if settings.small else list(ITEMS)
    return {name: ITEMS[name] for name in names}


def write_images(folder: Path, sizes: Dict[str, int]) -> None:
    """Files of the MNIST database's format with random images and labels."""
    generator = torch.Generator().manual_seed(0)
    for part, count in sizes.items():
        for kind, shape in (("images-idx3", (count, 28, 28)), ("labels-idx1", (count,))):
            numbers = torch.randint(0, 256 if len(shape) == 3 else 10, shape, generator=generator, dtype=torch.uint8)
            header = bytes([0, 0, 8, len(shape)]) + b"".join(size.to_bytes(4, "big") for size in shape)
            (folder / f"{part}-{kind}-ubyte").write_bytes(header + numbers.numpy().tobytes())


class _Collector(logging.Handler):
    """Keeps what fairseq logs after an epoch."""

    def __init__(self):
        super().__init__()
        self.epochs: List[Dict[str, str]] = []

    def emit(self, record):
        message = record.getMessage()
        if record.name == "train" and message.startswith("{"):
            self.epochs.append(json.loads(message))


def run_item(name: str, item: Item, settings: Settings, log: Log) -> None:
    use(item.precision)
    small = settings.small
    with tempfile.TemporaryDirectory() as folder:
        data, made_up = settings.mnist, settings.mnist is None
        if made_up:
            data = Path(folder) / "data"
            data.mkdir()
            write_images(data, {"train": 68, "t10k": 4} if small else PARTS)
        flags = ["--user-dir", str(ROOT / "skiprnn_plugin"), "--task", "sequential_mnist", "--data-dir", str(data)]
        flags += ["--criterion", "cross_entropy_with_budget", "--cost-per-sample", "1e-4", "--arch", "skip_gru"]
        flags += ["--engine", settings.engine, "--optimizer", "adam", "--lr", "1e-4", "--adam-eps", "1e-8"]
        flags += ["--clip-norm", "1.0", "--num-workers", "0", "--no-save", "--disable-validation"]
        flags += ["--save-dir", folder, "--log-format", "json", "--log-interval", "1000", "--max-epoch", str(EPOCHS)]
        flags += ["--valid-size", "4" if small else str(VALID), "--batch-size", "32" if small else "256"]
        flags += ["--rows", "--hidden-size", "5"] if small else []
        flags += ["--cpu"] if settings.device == "cpu" else []
        start = time.time()
        seconds, logged = train([*flags, *item.flags])
        whole = time.time() - start
    last = logged[-1] if logged else {}
    loss, fraction = last.get("train_loss"), last.get("train_update_fraction")
    images = "random images" if made_up else "MNIST"
    log.write(
        "epoch",
        f"{name}: {', '.join(f'{value:.2f}' for value in seconds)} s an epoch, {whole:.1f} s with the start; "
        f"{images}, loss {loss}, updates {fraction}",
        item=name,
        seconds_of_epochs=seconds,
        seconds=whole,
        images=images,
        flags=item.flags,
        precision=item.precision,
        logged=last,
        error=None if loss is not None and float(loss) < 1e3 else f"loss {loss}",  # a NaN too
    )


def train(flags: List[str]):
    """Run ``fairseq-train`` in this process. Returns the seconds of each epoch, and what it logged after it."""
    import fairseq_cli.train as program

    warnings.simplefilter("ignore")  # those of fairseq with current versions of hydra and torch
    collector, seconds, train_epoch = _Collector(), [], program.train

    def timed(*arguments, **options):
        synchronize()
        start = time.perf_counter()
        result = train_epoch(*arguments, **options)
        synchronize()
        seconds.append(time.perf_counter() - start)
        return result

    logger = logging.getLogger("fairseq.logging.progress_bar")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(collector)
    try:
        with mock.patch.object(program, "train", timed), mock.patch.object(sys, "argv", ["fairseq-train", *flags]):
            program.cli_main()
    finally:
        logger.removeHandler(collector)
    return seconds, collector.epochs


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
