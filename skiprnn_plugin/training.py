"""Train a model by fairseq's trainer within a program: without its command line, its logs and its folder of
checkpoints."""

import contextlib
import itertools
import logging
import random
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np
import torch
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from fairseq.data import iterators
from fairseq.dataclass.configs import FairseqConfig
from fairseq.logging import metrics
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, MODEL_DATACLASS_REGISTRY
from fairseq.optim.adam import FairseqAdamConfig
from fairseq.optim.lr_scheduler.fixed_schedule import FixedLRScheduleConfig
from fairseq.tasks import TASK_DATACLASS_REGISTRY, setup_task
from fairseq.trainer import Trainer
from omegaconf import DictConfig, OmegaConf

from .reading import show_progress

VALIDATIONS = 25  # of a classifier, in a training
TOLERANCE = 1.2  # a stage counts as having reached the target with at most this many times the samples


class Plan(NamedTuple):
    """What to train, and how long.

    Attributes:
        task: the task's name and its options, by their names in its dataclass.
        arch: the architecture.
        model: the model's options.
        criterion: the criterion's name and its options.
        lr: the learning rate, of Adam.
        batch_size: sequences of a training update.
        max_update: training updates.
        validate_interval: training updates between two validations.
        seed: of the initial weights and of the batches' order.
    """

    task: Tuple[str, Dict[str, Any]]
    arch: str
    model: Dict[str, Any]
    criterion: Tuple[str, Dict[str, Any]]
    lr: float
    batch_size: int
    max_update: int
    validate_interval: int
    seed: int


def plan_classifier(
    folder: Path,
    *,
    cell: str,
    hidden_size: int,
    num_layers: int,
    target_fraction: Optional[float],
    learning_rate: float,
    batch_size: int,
    max_updates: int,
    seed: int,
    normalize: bool = True,
) -> Plan:
    """The plan for a Skip RNN that tells the classes of the sequences in a folder of features. The arguments are those
    of :class:`skiprnn_plugin.SkipRNNClassifier`."""
    budget = {} if target_fraction is None else {"target_fraction": target_fraction}
    return Plan(
        task=("feature_classification", {"data_dir": str(folder), "normalize": normalize, "seed": seed}),
        arch=f"skip_{cell}",
        model={"cell": cell, "hidden_size": hidden_size, "num_layers": num_layers},
        criterion=("cross_entropy_with_budget", budget),
        lr=learning_rate,
        batch_size=batch_size,
        max_update=max_updates,
        validate_interval=max(1, max_updates // VALIDATIONS),
        seed=seed,
    )


def rank_by_target(target_fraction: Optional[float]) -> Callable[[Dict[str, float]], Any]:
    """Ranks the stages of a classifier for :func:`train`: a stage is better if it is thrifty enough, then by its
    accuracy, then with fewer samples."""
    most = 1.0 if target_fraction is None else TOLERANCE * target_fraction

    def rank(measured: Dict[str, float]):
        fraction = measured["update_fraction"]
        return fraction <= most, measured["accuracy"], -fraction

    return rank


class Trained(NamedTuple):
    """A trained model.

    Attributes:
        checkpoint: the content of fairseq's checkpoint file of the best validation.
        history: what was measured in each validation, with ``num_updates``, the training updates before it.
    """

    checkpoint: bytes
    history: List[Dict[str, float]]


def train(plan: Plan, rank: Callable[[Dict[str, float]], Any], shows: bool, extra: Dict[str, Any]) -> Trained:
    """Train, and keep the checkpoint of the validation that ``rank`` places highest.

    torch's and numpy's random numbers go on afterwards as if nothing had been drawn.

    Args:
        plan: what to train.
        rank: turns what a validation has measured into a key; of equal keys the last one wins.
        shows: whether to show a progress bar on a terminal.
        extra: further values to store in the checkpoint, under ``extra_state``; plain types of Python.
    """
    cfg = configure(plan)
    with _quiet(), _own_random_numbers(plan.seed), metrics.aggregate(new_root=True):
        task = setup_task(cfg.task)
        model, criterion = task.build_model(cfg.model), task.build_criterion(cfg.criterion)
        task.load_dataset("valid")
        trainer = Trainer(cfg, task, model, criterion)
        best, history, checkpoint = None, [], b""
        batches = _batches(trainer, plan.max_update)
        hides = None if shows else True  # None: shown on a terminal
        batches = show_progress(batches, "training", hides, total=plan.max_update, unit=" updates")
        for number, samples in enumerate(batches, 1):
            trainer.train_step(samples)
            if number % plan.validate_interval and number < plan.max_update:
                continue
            measured = {**_validate(trainer), "num_updates": number}
            history.append(measured)
            if best is None or rank(measured) >= best:
                best, checkpoint = rank(measured), _save(trainer, extra)
    return Trained(checkpoint, history)


def configure(plan: Plan) -> DictConfig:
    """fairseq's configuration for the plan."""
    cfg = OmegaConf.structured(FairseqConfig())
    cfg.common.seed, cfg.common.cpu = plan.seed, not torch.cuda.is_available()
    cfg.dataset.batch_size = cfg.dataset.batch_size_valid = plan.batch_size
    cfg.dataset.num_workers = 0
    cfg.dataset.required_batch_size_multiple = 1
    cfg.optimization.lr, cfg.optimization.max_update, cfg.optimization.clip_norm = [plan.lr], plan.max_update, 1.0
    cfg.distributed_training.distributed_world_size = 1
    cfg.checkpoint.no_save_optimizer_state = True
    model = MODEL_DATACLASS_REGISTRY[ARCH_MODEL_NAME_REGISTRY[plan.arch]]
    for part, dataclass, name, values in (
        ("task", TASK_DATACLASS_REGISTRY[plan.task[0]], *plan.task),
        ("model", model, plan.arch, plan.model),
        ("criterion", CRITERION_DATACLASS_REGISTRY[plan.criterion[0]], *plan.criterion),
        ("optimizer", FairseqAdamConfig, "adam", {}),
        ("lr_scheduler", FixedLRScheduleConfig, "fixed", {}),
    ):
        cfg[part] = OmegaConf.structured(dataclass(**values))
        cfg[part]._name = name
    return cfg


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """A block in which fairseq's notes on its progress are not logged; warnings are."""
    level = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(level)


@contextlib.contextmanager
def _own_random_numbers(seed: int) -> Iterator[None]:
    """A block whose random numbers depend on the seed alone, and after which the program's go on as before."""
    states = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            random.seed(seed)
            np.random.seed(seed % 2**32)
            torch.manual_seed(seed)
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


def _batches(trainer: Trainer, max_update: int) -> Iterator[list]:
    """The batches of as many training updates, epoch by epoch, each in a list, as ``Trainer.train_step`` takes them."""

    def epochs():
        for epoch in itertools.count(1):
            batches = trainer.get_train_iterator(epoch, load_dataset=epoch == 1)
            trainer.begin_epoch(epoch)
            yield iterators.GroupedIterator(batches.next_epoch_itr(shuffle=True), 1)

    return itertools.islice(itertools.chain.from_iterable(epochs()), max_update)


def _validate(trainer: Trainer) -> Dict[str, float]:
    """What the criterion logs on the split valid."""
    batches = trainer.get_valid_iterator("valid").next_epoch_itr(shuffle=False, set_dataset_epoch=False)
    with metrics.aggregate(new_root=True) as measured:
        for sample in batches:
            trainer.valid_step(sample)
    return {name: float(value) for name, value in measured.get_smoothed_values().items()}


def _save(trainer: Trainer, extra: Dict[str, Any]) -> bytes:
    trainer.consolidate_optimizer()  # the trainer expects it
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.pt"
        trainer.save_checkpoint(str(path), extra)
        return path.read_bytes()
