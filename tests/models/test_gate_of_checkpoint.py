"""Checkpoints of models without a gate start models with one, and the other way round."""

import logging

import pytest
import torch

from . import test_seq2seq, test_skip_rnn, test_speech, test_text


def build(arch, ending, **options):
    build_model = {"": test_skip_rnn.build, "_seq2seq": test_seq2seq.build, "_text": test_text.build}
    two = {"encoder_bidirectional": True} if ending else {"bidirectional": True}
    return build_model.get(ending, test_speech.build)(arch + ending, **two, **options)


@pytest.mark.parametrize("ending", ["", "_seq2seq", "_s2t", "_ctc", "_text"])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize(
    "source,target,message",
    [
        ("full", "skip", "the checkpoint has no gate: the model's keeps its initial weights"),
        ("random_skip", "skip", "the checkpoint has no gate: the model's keeps its initial weights"),
        ("skip", "full", "the model has no gate: the checkpoint's is left out"),
        ("full", "random_skip", None),
        ("skip", "skip", None),
    ],
)
def test_gate_of_a_checkpoint(source, target, cell, ending, message, caplog):
    """The other weights are the checkpoint's."""
    stored, model = (build(f"{rule}_{cell}", ending) for rule in (source, target))
    for parameter in stored.parameters():
        parameter.data += 1.0
    weights, initial = stored.state_dict(), {name: value.clone() for name, value in model.state_dict().items()}
    with caplog.at_level(logging.INFO, "skiprnn_plugin"):
        model.load_state_dict(dict(weights))
    for name, value in model.state_dict().items():
        assert torch.equal(value, weights.get(name, initial[name])), name
    new = {name for name in initial if name not in weights}
    assert len(new) == (4 if target == "skip" != source else 0) and all(".update_" in name for name in new)
    assert [record.message for record in caplog.records] == [message] * (message is not None)


@pytest.mark.parametrize("ending", ["", "_seq2seq", "_s2t", "_ctc", "_text"])
def test_a_checkpoint_with_half_a_gate_is_refused(ending):
    stored, model = build("skip_lstm", ending).state_dict(), build("skip_lstm", ending)
    missing = next(name for name in stored if name.endswith("update_bias"))
    with pytest.raises(RuntimeError, match=f'Missing key.*"{missing}"'):
        model.load_state_dict({name: value for name, value in stored.items() if name != missing})
