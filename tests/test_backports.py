"""What is done for fairseq 0.12.2, on stand-ins for its functions: with other versions it is not applied."""

from types import SimpleNamespace

import pytest
from fairseq import checkpoint_utils, tasks
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from fairseq.trainer import Trainer
from omegaconf import OmegaConf

from skiprnn_plugin._fairseq import backports


class Task:
    """A task that keeps a number."""

    number = 0

    def get_checkpoint_dict(self):
        return {"Task": self.number}

    def set_checkpoint_dict(self, state):
        self.number = state


@pytest.mark.parametrize(
    "changes, is_last_there, restored",
    [
        ({}, False, 7),
        ({"reset_dataloader": True}, False, 0),
        ({"finetune_from_model": "other.pt"}, False, 0),
        ({"finetune_from_model": "other.pt"}, True, 7),
    ],
)
def test_the_state_of_a_task_is_kept(monkeypatch, tmp_path, changes, is_last_there, restored):
    saved = {}
    monkeypatch.setattr(Trainer, "save_checkpoint", lambda self, filename, extra: saved.update({filename: extra}))
    monkeypatch.setattr(checkpoint_utils, "load_checkpoint", lambda cfg, trainer: (saved["file"], "batches"))
    backports.keep_state_of_task()
    trainer = SimpleNamespace(task=Task(), checkpoint_suffix="")
    trainer.task.number = 7
    Trainer.save_checkpoint(trainer, "file", {"val_loss": 1})
    assert saved == {"file": {"val_loss": 1, "Task": 7}}
    if is_last_there:
        (tmp_path / "checkpoint_last.pt").touch()
    cfg = SimpleNamespace(save_dir=str(tmp_path), reset_dataloader=False, finetune_from_model=None)
    vars(cfg).update(changes)
    trainer.task = Task()
    assert checkpoint_utils.load_checkpoint(cfg, trainer) == (saved["file"], "batches")
    assert trainer.task.number == restored


def test_tasks_know_that_they_are_of_a_trained_model(monkeypatch):
    """And options that this version does not have are left out."""
    stored = OmegaConf.create({"_name": "adding", "valid_size": 5, "of_another_version": 3})
    calls = []
    monkeypatch.setattr(tasks, "setup_task", lambda cfg, **kwargs: calls.append(({*cfg}, kwargs)))
    monkeypatch.setattr(checkpoint_utils, "load_model_ensemble_and_task", lambda: tasks.setup_task(stored))
    backports.load_tasks_from_checkpoints()
    tasks.setup_task(stored)
    checkpoint_utils.load_model_ensemble_and_task()
    tasks.setup_task(stored)
    assert [kwargs for _, kwargs in calls] == [{}, {"from_checkpoint": True}, {}]
    assert "of_another_version" in calls[0][0] and "of_another_version" not in calls[1][0]
    other = OmegaConf.create({"_name": "translation"})  # fairseq's own, which may not expect it
    monkeypatch.setitem(tasks.TASK_REGISTRY, "translation", object)
    monkeypatch.setattr(checkpoint_utils, "load_model_ensemble_and_task", lambda: tasks.setup_task(other))
    backports.load_tasks_from_checkpoints()
    checkpoint_utils.load_model_ensemble_and_task()
    assert calls[-1] == ({*other}, {})


def test_transformers_take_no_fast_path(monkeypatch):
    def build(self):
        self.can_use_fastpath = True

    monkeypatch.setattr(TransformerEncoderLayerBase, "__init__", build)
    backports.evaluate_transformers()
    layer = TransformerEncoderLayerBase.__new__(TransformerEncoderLayerBase)
    TransformerEncoderLayerBase.__init__(layer)
    assert layer.can_use_fastpath is False
