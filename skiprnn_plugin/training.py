"""Train a model by fairseq's trainer within a program: without its command line, its logs and its folder of
checkpoints."""

import contextlib
import io
import itertools
import math
import random
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

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

from ._fairseq.meters import separate_meters
from .predictions import CRITERIONS
from .quiet import quiet_training
from .reading import show_progress

VALIDATIONS = 25  # in a training
TASKS = {"classes": "feature_classification", "numbers": "feature_regression"}
LOCK = threading.RLock()  # around what changes global state
TOLERANCE = 1.2  # a checkpoint has reached the target if it uses at most this many times the samples


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
        device: ``cpu`` or ``cuda``.
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
    device: str


def plan_training(
    folder: Path,
    predicts: str,
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
    device: Optional[str] = None,
) -> Plan:
    """The plan for a Skip RNN that predicts something of the sequences in a folder of features.

    Args:
        folder: the folder.
        predicts: "classes" or "numbers".
        cell, ...: the other arguments are those of :class:`skiprnn_plugin.SkipRNNClassifier`.
    """
    budget = {} if target_fraction is None else {"target_fraction": target_fraction}
    return Plan(
        task=(TASKS[predicts], {"data_dir": str(folder), "normalize": normalize, "seed": seed}),
        arch=f"skip_{cell}",
        model={"cell": cell, "hidden_size": hidden_size, "num_layers": num_layers},
        criterion=(CRITERIONS[predicts], budget),
        lr=learning_rate,
        batch_size=batch_size,
        max_update=max_updates,
        validate_interval=-(-max_updates // VALIDATIONS),
        seed=seed,
        device=device or ("cuda" if torch.cuda.is_available() else "cpu"),
    )


Choose = Callable[[List[Dict[str, float]], int], int]


class Metric(NamedTuple):
    """What says how well a model predicts.

    Attributes:
        name: as it is logged.
        compared: the logged number by which checkpoints are compared: the metric, or for numbers the task loss, half
            the mean squared error of outputs at standard deviation 1, as outputs can have different units.
        sign: 1 if more is better, -1 if less is.
        deviation: its standard error, from its value and the number of sequences. That of a mean squared error is the
            one of errors with a normal distribution.
    """

    name: str
    compared: str
    sign: int
    deviation: Callable[[float, int], float]


def accuracy_deviation(accuracy: float, size: int) -> float:
    """The standard error of an accuracy, as Agresti and Coull (1998) estimate it: with two successes and two failures
    more. Otherwise it would be 0 where all recordings are right, however few they are."""
    accuracy, size = (accuracy * size + 2) / (size + 4), size + 4
    return math.sqrt(accuracy * (1 - accuracy) / size)


METRICS = {
    "classes": Metric("accuracy", "accuracy", 1, accuracy_deviation),
    "numbers": Metric("mse", "task_loss", -1, lambda loss, size: loss * math.sqrt(2 / size)),
}


def choose_checkpoint(
    predicts: str, target_fraction: Optional[float] = None, good_enough: Optional[float] = None
) -> Choose:
    """Chooses the checkpoint that :func:`train` keeps.

    With ``good_enough``, of the checkpoints whose metric is at least as good, the one that uses the fewest samples; if
    there are none, the best one, with a warning.

    Otherwise only checkpoints are considered whose metric is within one standard error of the best one, so that a gate
    that has closed is not preferred because it uses few samples. Of those that use at most 1.2 times the target
    fraction, the best one is taken, and of several the one that uses the fewest samples; if there are none, that one of
    all considered, with a warning.
    """
    metric = METRICS[predicts]

    def choose(history: List[Dict[str, float]], size: int) -> int:
        name = metric.compared if good_enough is None else metric.name
        values = [metric.sign * measured[name] for measured in history]
        values = [-math.inf if math.isnan(value) else value for value in values]
        used = [measured["update_fraction"] for measured in history]

        def best(places: Iterable[int]) -> int:
            return max(places, key=lambda place: (values[place], -used[place]))

        places = range(len(history))
        if good_enough is not None:
            good = [place for place in places if values[place] >= metric.sign * good_enough]
            if good:
                return min(good, key=lambda place: (used[place], -values[place]))
            found = best(places)
            warnings.warn(
                f"good_enough: expected a checkpoint with {metric.name} {good_enough:g} or better, the best one has "
                f"{history[found][metric.name]:.4g} on the recordings held out. Train longer, or expect less",
                stacklevel=4,
            )
            return found
        lowest = max(values) - metric.deviation(abs(max(values)), size)
        considered = [place for place in places if values[place] >= lowest]
        if target_fraction is None:
            return best(considered)
        thrifty = [place for place in considered if used[place] <= TOLERANCE * target_fraction]
        if thrifty:
            return best(thrifty)
        found = min(considered, key=used.__getitem__)
        warnings.warn(
            f"target_fraction: {used[found]:.1%} of the samples are used, where {target_fraction:.1%} are wanted: no "
            f"checkpoint with fewer was as {'accurate' if predicts == 'classes' else 'exact'}. Train longer, or choose "
            "a larger target",
            stacklevel=4,
        )
        return found

    return choose


class Trained(NamedTuple):
    """A trained model.

    Attributes:
        checkpoint: the content of the checkpoint that was chosen, a file of fairseq.
        history: what was measured in each validation, with ``num_updates``, the training updates before it.
    """

    checkpoint: bytes
    history: List[Dict[str, float]]


def train(plan: Plan, choose: Choose, shows: bool, extra: Dict[str, Any]) -> Trained:
    """Train, and return the checkpoint of one of the validations.

    It runs in :func:`usual_torch`. One training runs at a time in a process, as fairseq's metrics are global too; other
    threads wait.

    Args:
        plan: what to train.
        choose: returns which validation to take, from what all of them have measured, and the number of sequences that
            they had.
        shows: whether to show a progress bar on a terminal.
        extra: further values to store in the checkpoint, under ``extra_state``, beside ``history``; plain types of
            Python.

    Raises:
        ValueError: training diverged; or an option is wrong.
    """
    with usual_torch(plan.seed), tempfile.TemporaryDirectory() as folder, _quiet():
        cfg = configure(plan, folder)
        with separate_meters():
            try:
                history, size = _train(cfg, plan, shows, Path(folder))
            except FloatingPointError as error:
                raise ValueError(
                    f"learning_rate: training with {plan.lr:g} diverged: the loss or a gradient is not finite"
                ) from error
        # The files were written here, so nothing foreign is loaded
        state = torch.load(_name(folder, choose(history, size)), map_location="cpu", weights_only=False)
        state["extra_state"].update({**extra, "history": history})
        content = io.BytesIO()
        torch.save(state, content)
        return Trained(content.getvalue(), history)


def _train(cfg: DictConfig, plan: Plan, shows: bool, folder: Path) -> Tuple[List[Dict[str, float]], int]:
    """Train, and write a checkpoint at each validation; returns what they measured, and how many sequences they had."""
    task = setup_task(cfg.task, alone=True)
    model, criterion = task.build_model(cfg.model), task.build_criterion(cfg.criterion)
    task.load_dataset("valid")
    trainer, history = Trainer(cfg, task, model, criterion), []
    hides = None if shows else True  # None: shown on a terminal
    batches = _batches(trainer, plan.max_update)
    batches = show_progress(batches, "training", hides, total=plan.max_update, unit=" updates")
    for number, samples in enumerate(batches, 1):
        trainer.train_step(samples)
        if number % plan.validate_interval and number < plan.max_update:
            continue
        trainer.consolidate_optimizer()  # the trainer expects it
        trainer.save_checkpoint(str(_name(folder, len(history))), {})
        history.append({**_validate(trainer), "num_updates": number})
    return history, len(task.dataset("valid"))


def _name(folder, number: int) -> Path:
    return Path(folder) / f"{number}.pt"


def configure(plan: Plan, save_dir: str) -> DictConfig:
    """fairseq's configuration for the plan."""
    cfg = OmegaConf.structured(FairseqConfig())
    # fairseq adds numbers of epochs and updates to it for numpy, which takes seeds up to 2**32 - 1
    cfg.common.seed, cfg.common.cpu = plan.seed % 2**31, plan.device == "cpu"
    cfg.dataset.batch_size = cfg.dataset.batch_size_valid = plan.batch_size
    cfg.dataset.num_workers = cfg.dataset.data_buffer_size = 0  # no thread that would wait for ever at the end
    cfg.dataset.required_batch_size_multiple = 1
    cfg.optimization.lr, cfg.optimization.max_update, cfg.optimization.clip_norm = [plan.lr], plan.max_update, 1.0
    cfg.distributed_training.distributed_world_size = 1
    cfg.checkpoint.no_save_optimizer_state, cfg.checkpoint.save_dir = True, save_dir
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
    """A block in which fairseq's notes on its progress are not logged, nor warnings of what fairseq asks of torch, nor
    those of the criterion about the samples used at the end, as another checkpoint may be chosen."""
    with quiet_training(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning)
        warnings.filterwarnings("ignore", message=".*pin_memory")
        warnings.filterwarnings("ignore", message="--target-fraction: ")
        yield


@contextlib.contextmanager
def usual_torch(seed: int) -> Iterator[None]:
    """A block in which torch's default dtype is float32, gradients are computed and random numbers depend on the seed
    alone, whatever the program has set. Afterwards all is as before, as if no random number had been drawn.

    This state is that of all threads, so only one is in such a block; the others wait.
    """
    with LOCK, _seeded(seed):
        dtype = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
        try:
            with torch.inference_mode(False), torch.enable_grad():
                yield
        finally:
            torch.set_default_dtype(dtype)


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """A block whose random numbers depend on the seed alone, and after which the program's go on as before."""
    states = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng([torch.cuda.current_device()] if torch.cuda.is_available() else []):
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
