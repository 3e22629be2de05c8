"""The hub, tasks and criterions can be copied, pickled, saved and sent to a process that is spawned."""

import argparse
import copy
import io
import pickle

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from skiprnn_plugin.criterions.with_budget import WithBudgetConfig, WithBudgetCriterion
from skiprnn_plugin.hub import from_pretrained
from skiprnn_plugin.tasks.frequency_discrimination import FrequencyDiscriminationConfig, FrequencyDiscriminationTask

from .frozen.make import FOLDER, arrays
from .own_tasks import make_checkpoint


def save_and_load(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "save": save_and_load,
}
every_copy = pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES.keys())


@pytest.fixture(params=["frozen", "own task", "configured by argparse"])
def hub(request, tmp_path):
    """A hub. Its task may have an attribute of its own, or its configuration a part that omegaconf does not manage."""
    path = FOLDER / "skip_lstm.pt"
    if request.param == "own task":
        make_checkpoint(path, "words", tmp_path / "words.pt")
        path = tmp_path / "words.pt"
    elif request.param == "configured by argparse":
        checkpoint = torch.load(path, weights_only=False)
        checkpoint["cfg"]["optimizer"] = argparse.Namespace(_name="sgd", momentum=0.5)
        path = tmp_path / "sgd.pt"
        torch.save(checkpoint, path)
    return from_pretrained(path)


def inputs(hub):
    return ["good film", "bad"] if hub.reads_words else arrays("skip_lstm")


@every_copy
def test_hub(hub, copied):
    other, expected = copied(hub), hub.predict(inputs(hub))
    np.testing.assert_array_equal(other.predict(inputs(hub)), expected)
    assert dict(other.cfg) == dict(hub.cfg) and other.task.cfg == hub.task.cfg  # omegaconf 2.0 compares no Namespace
    assert other.class_names == hub.class_names
    with torch.no_grad():
        other.model.head.weight.zero_()
    np.testing.assert_array_equal(hub.predict(inputs(hub)), expected)


def predict(hub):
    return hub.predict(inputs(hub))


def test_hub_in_a_spawned_process():
    hub = from_pretrained(FOLDER / "skip_lstm.pt")
    with torch.multiprocessing.get_context("spawn").Pool(1) as pool:
        got = pool.apply_async(predict, [hub]).get(timeout=120)
    np.testing.assert_array_equal(got, predict(hub))


def make_task():
    task = FrequencyDiscriminationTask(OmegaConf.structured(FrequencyDiscriminationConfig(seed=1, valid_size=6)))
    task.load_dataset("valid")
    return task


@every_copy
def test_task_that_is_in_use(copied):
    """The copy has its data, and iterators of its own."""
    task = make_task()
    cut = {"max_sentences": 4}
    first, second = (task.get_batch_iterator(task.dataset("valid"), **cut).next_epoch_itr() for _ in range(2))
    next(first)
    other = copied(task)
    assert other.dataset_to_epoch_iter == {} and task.dataset_to_epoch_iter
    batch = next(other.get_batch_iterator(other.dataset("valid"), **cut).next_epoch_itr())
    assert torch.equal(batch["net_input"]["x"], next(second)["net_input"]["x"])
    assert other.state.state_dict == task.state.state_dict
    with pytest.raises(AttributeError, match="Task state has no factory for attribute nothing"):
        other.state.nothing  # noqa: B018


@every_copy
def test_criterion_with_a_class_of_its_own(copied):
    """Its progress is that of the task's state, as before."""
    options = {"base_criterion": "cross_entropy", "base_options": {"sentence_avg": True}}
    cfg = OmegaConf.structured(WithBudgetConfig(**options, target_fraction=0.5))
    criterion = WithBudgetCriterion.build_criterion(cfg, make_task())
    criterion.budget.cost.step(0.75, 1.0)
    other = copied(criterion)
    assert type(other) is type(criterion) and other.budget.cost.progress == criterion.budget.cost.progress
    assert other.task is other.base.task and other.task is not criterion.task
    other.budget.cost.step(0.25, 0.5)
    assert other.task.state.state_dict["cost"] == other.budget.cost.progress != criterion.budget.cost.progress
