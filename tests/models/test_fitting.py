"""Architectures that do not go with a task are refused in one line that names one that does, or the reason."""

import argparse
import sys
from types import SimpleNamespace

import pytest

import skiprnn_plugin  # noqa: F401
from skiprnn_plugin.models.fitting import ENDINGS, REASONS, explain_misfit, find_reason
from skiprnn_plugin.models.skip_rnn import SkipRNNConfig, SkipRNNModel
from skiprnn_plugin.models.text import SkipRNNTextConfig, SkipRNNTextModel

from ..command_line import ROOT

from fairseq.data import Dictionary  # isort: skip
from fairseq.models import ARCH_MODEL_REGISTRY  # isort: skip
from fairseq.tasks import TASK_REGISTRY, FairseqTask  # isort: skip
from fairseq.tasks.language_modeling import LanguageModelingTask  # isort: skip

MISFITS = [
    ("sentence_prediction", "skip_lstm", "--arch: expected skip_lstm_text, got skip_lstm, "),
    ("sentence_prediction", "random_skip_gru", "--arch: expected random_skip_gru_text, got random_skip_gru, "),
    ("translation", "skip_lstm_text", "--arch: expected skip_lstm_seq2seq, got skip_lstm_text, "),
    ("translation", "full_gru", "--arch: expected full_gru_seq2seq, got full_gru, "),
    ("translation_from_pretrained_bart", "skip_lstm", "--arch: expected skip_lstm_seq2seq, got skip_lstm, "),
    ("translation_multi_simple_epoch", "skip_gru", "--arch: expected skip_gru_seq2seq, got skip_gru, "),
    ("speech_to_text", "skip_lstm_text", "--arch: expected skip_lstm_s2t, got skip_lstm_text, "),
    *((task, arch, reason) for arch in ("skip_lstm", "skip_gru_text") for task, reason in REASONS.items()),
]


def refusal(task, arch, monkeypatch):
    """What a command line ends in, before fairseq reads the task's options."""
    monkeypatch.setattr(sys, "argv", ["fairseq-train", "data", "--task", task, "--arch", arch, "--unknown", "1"])
    with pytest.raises(ValueError) as error:
        ARCH_MODEL_REGISTRY[arch].add_args(argparse.ArgumentParser())
    return str(error.value)


@pytest.mark.parametrize("task,arch,expected", MISFITS)
def test_command_line(task, arch, expected, monkeypatch):
    if task not in TASK_REGISTRY:
        pytest.skip(f"this fairseq has no task {task}")
    message = refusal(task, arch, monkeypatch)
    assert expected in message and "\n" not in message
    if task in REASONS:
        name = TASK_REGISTRY[task].__name__
        assert message.startswith(f"--task: expected one that a Skip RNN goes with, got {name} for {arch}: ")


@pytest.mark.parametrize(
    "task,arch",
    [
        ("sentence_prediction", "skip_lstm_text"),
        ("adding", "skip_lstm"),
        ("unknown", "skip_lstm"),
        ("language_modeling", "my_lstm"),
    ],
)
def test_a_command_line_that_fits(task, arch, monkeypatch):
    """Or is of a user's own architecture."""
    monkeypatch.setattr(sys, "argv", ["fairseq-train", "data", "--task", task, "--arch", arch])
    for model in (SkipRNNModel, SkipRNNTextModel):
        if arch == "my_lstm" or ARCH_MODEL_REGISTRY[arch] is model:
            parser = argparse.ArgumentParser()
            model.add_args(parser)
            assert "--update-rule" in parser._option_string_actions


@pytest.mark.parametrize(
    "task,model,config,expected",
    [
        ("sentence_prediction", SkipRNNModel, SkipRNNConfig, "--arch: expected skip_gru_text, got skip_gru, "),
        ("masked_lm", SkipRNNModel, SkipRNNConfig, "got MaskedLMTask for skip_gru: it restores"),
        ("translation", SkipRNNTextModel, SkipRNNTextConfig, "--arch: expected skip_gru_seq2seq, got skip_gru_text, "),
        ("language_modeling", SkipRNNTextModel, SkipRNNTextConfig, "got LanguageModelingTask for skip_gru_text: it"),
        (
            "adding",
            SkipRNNTextModel,
            SkipRNNTextConfig,
            "that goes with AddingTask, such as skip_gru, got skip_gru_text",
        ),
    ],
)
def test_a_model_of_another_task(task, model, config, expected):
    """As hydra builds it, without a command line."""
    made = TASK_REGISTRY[task].__new__(TASK_REGISTRY[task])
    if task == "imdb_sentiment":
        made.source_dictionary, made.input_size = Dictionary(), 300
    with pytest.raises(ValueError) as error:
        model.build_model(SimpleNamespace(**vars(config())), made)
    assert expected in str(error.value)


def test_tasks_of_a_users_own():
    """One that extends a task of fairseq's goes with the same architectures."""

    class Own(FairseqTask):
        pass

    class OwnLM(LanguageModelingTask):
        pass

    assert find_reason(Own) is None and find_reason(OwnLM) == REASONS["language_modeling"]
    assert "expected one that goes with the task, got skip_lstm, " in str(explain_misfit("skip_lstm", "", Own))


# Tasks that have no reason and no ending: they may go with what their users make of them
OPEN = {"dummy_lm", "dummy_masked_lm", "dummy_mt", "dummy_task"}


def test_every_task_of_fairseq_has_an_answer():
    """And the page has the reasons."""
    page = (ROOT / "docs/pipelines.md").read_text()
    for name, task in TASK_REGISTRY.items():
        if task.__module__.startswith("fairseq.") and name not in OPEN:
            assert find_reason(task) is not None or issubclass(task, tuple(ENDINGS)), name
    rows = page[page.index("## What does not fit") :].partition("\n## ")[0]
    assert {name for name in REASONS if f"`{name}`" not in rows} == set()
