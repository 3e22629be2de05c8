"""The fairseq model: architectures, baselines and their draws."""

import pytest
import torch

import skiprnn_plugin  # noqa: F401
from skiprnn_plugin.models.skip_rnn import SkipRNNConfig, SkipRNNModel

from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY  # isort: skip
from argparse import Namespace

from ..command_line import train, validate

ARCHITECTURES = {
    "skip_lstm": ("lstm", "learned"),
    "skip_gru": ("gru", "learned"),
    "random_skip_lstm": ("lstm", "random"),
    "random_skip_gru": ("gru", "random"),
    "full_lstm": ("lstm", "full"),
    "full_gru": ("gru", "full"),
}


def build(arch="skip_gru", **options):
    args = Namespace(**options)
    ARCH_CONFIG_REGISTRY[arch](args)
    return SkipRNNModel(SkipRNNConfig(**vars(args)), input_size=3, output_size=2)


def test_words_go_through_the_embedding_and_train_it():
    embedding = torch.nn.Embedding(7, 3)
    args = vars(SkipRNNConfig(hidden_size=6))
    torch.manual_seed(0)
    model = SkipRNNModel(SkipRNNConfig(**args), input_size=3, output_size=2, embedding=embedding)
    torch.manual_seed(0)
    same = SkipRNNModel(SkipRNNConfig(**args), input_size=3, output_size=2)
    words = torch.tensor([[1, 2, 6, 6], [0, 1, 1, 2]])
    output = model(words, torch.tensor([4, 2]))
    assert torch.equal(output.prediction, same(embedding(words), torch.tensor([4, 2])).prediction)
    output.prediction.square().sum().backward()
    assert (embedding.weight.grad.abs().sum(1) > 0).tolist() == [True, True, True, False, False, False, True]


def test_of_predictions_at_every_step_the_last_is_that_of_the_last_state():
    model = build(hidden_size=6).eval()
    x, lengths = torch.randn(2, 5, 3), torch.tensor([5, 3])
    expected = model(x, lengths)
    model.per_step = True
    output = model(x, lengths)
    assert output.prediction.shape == (2, 5, 2) and torch.equal(output.updates, expected.updates)
    torch.testing.assert_close(output.prediction[[0, 1], lengths - 1], expected.prediction)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_architecture(arch):
    assert ARCH_MODEL_REGISTRY[arch] is SkipRNNModel
    torch.manual_seed(0)
    model = build(arch, hidden_size=6, num_layers=2)
    cell, rule = ARCHITECTURES[arch]
    assert type(model.rnn).__name__.lower() == f"skip{cell}"
    assert (model.rnn.update_weight is not None) == (rule == "learned")
    output = model(torch.randn(5, 9, 3))
    assert output.prediction.shape == (5, 2) and output.updates.shape == (5, 1, 9)
    assert output.steps.tolist() == [9] * 5
    assert output.flops_per_update == {"lstm": 4, "gru": 3}[cell] * 6 * (3 + 6 + 6 + 6)
    if rule == "full":
        assert (output.updates == 1).all()
    elif rule == "learned":
        assert (output.updates[:, :, 0] == 1).all()
    (output.prediction.sum() + output.updates.sum()).backward()
    assert {name for name, p in model.named_parameters() if p.grad is None} == set()


@pytest.mark.parametrize("arch", ["skip_gru", "random_skip_lstm", "full_gru"])
def test_bidirectional(arch):
    torch.manual_seed(0)
    model = build(arch, hidden_size=6, bidirectional=True, update_bias=-1.0, skip_prob=0.4)
    x, lengths, seeds = torch.randn(5, 9, 3), torch.tensor([9, 4, 0, 1, 9]), torch.arange(5)
    output = model(x, lengths, seeds)
    assert output.prediction.shape == (5, 2) and output.updates.shape == (5, 2, 9)
    assert output.steps.tolist() == [18, 8, 0, 2, 18]
    assert output.flops_per_update == {"lstm": 4, "gru": 3}[ARCHITECTURES[arch][0]] * 6 * (3 + 6)
    alone = model(x[1:2, :4], seeds=seeds[1:2])
    torch.testing.assert_close(alone.prediction, output.prediction[1:2])
    assert torch.equal(alone.updates[0], output.updates[1, :, :4])
    (output.prediction.sum() + output.updates.sum()).backward()
    assert {name for name, p in model.named_parameters() if p.grad is None} == set()


def test_steps_of_lengths_in_a_small_type():
    lengths = torch.tensor([130], dtype=torch.uint8)
    assert build("full_gru", hidden_size=4, bidirectional=True)(torch.randn(1, 140, 3), lengths).steps.tolist() == [260]


def test_gate_layers():
    model = build("skip_lstm", hidden_size=6, num_layers=3, gate_layers=[0, 2])
    assert model.rnn.gate_layers == (0, 2) and model.rnn.update_weight.shape == (1, 12)


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("binarize", ["round", "bernoulli"])
def test_every_way_to_decide_goes_with_every_architecture(arch, binarize):
    output = build(arch, binarize=binarize, hidden_size=4)(torch.randn(2, 5, 3), seeds=torch.arange(2))
    assert output.prediction.isfinite().all() and output.updates.shape == (2, 1, 5)


def test_options_reach_the_module():
    rnn = build(
        layer_norm=True,
        init="torch",
        num_layers=2,
        dropout=0.3,
        update_bias=-2.0,
        engine="reference",
        zoneout=0.1,
        recurrent_dropout=0.2,
    ).rnn
    assert rnn.layer_norm and rnn.init == "torch" and rnn.num_layers == 2 and rnn.dropout == 0.3
    assert rnn.zoneout == 0.1 and rnn.recurrent_dropout == 0.2
    assert rnn.update_bias.item() == -2.0 and rnn.engine == "reference" and rnn.norm_weight_l1 is not None


def test_flags_win_over_the_architecture():
    assert build("skip_gru", cell="lstm").rnn.cell == "lstm"
    assert build("skip_gru", cell="rnn").rnn.cell == "rnn"
    assert build("skip_gru").rnn.cell == "gru"
    assert build("skip_gru", gru_reset="before").rnn.cell == "gru_reset_before"


def test_random_baseline_skips_with_its_probability_the_first_step_not_excepted():
    model = build("random_skip_gru", skip_prob=0.3, hidden_size=2)
    updates = model(torch.zeros(400, 50, 3), seeds=torch.arange(400)).updates
    assert abs(float(updates.mean()) - 0.7) < 0.02
    assert abs(float(updates[:, :, 0].mean()) - 0.7) < 0.08


def test_random_decisions_do_not_depend_on_torchs_default_dtype():
    draws, decisions = [], build(binarize="bernoulli").decisions
    for dtype in (torch.float32, torch.bfloat16):
        torch.manual_seed(0)
        torch.set_default_dtype(dtype)
        try:
            draws.append(decisions.draw(torch.zeros(4, 30, 3, dtype=torch.float32))["noise"])
        finally:
            torch.set_default_dtype(torch.float32)
    assert torch.equal(*draws)


@pytest.mark.parametrize("options", [{"arch": "random_skip_lstm"}, {"binarize": "bernoulli"}], ids=str)
def test_draws_depend_on_the_seed_of_the_sequence_alone(options):
    torch.manual_seed(0)
    model = build(**options, hidden_size=4, **({} if "arch" in options else {"update_bias": -1.0}))
    x, seeds = torch.randn(6, 30, 3), torch.tensor([5, 17, 5, 4, 3, 2])
    updates = model(x, seeds=seeds).updates
    assert 0 < updates.mean() < 1
    assert torch.equal(model(x, seeds=seeds).updates, updates)
    assert torch.equal(model(x[3:], seeds=seeds[3:]).updates, updates[3:])
    assert not torch.equal(model(x, seeds=seeds + 1).updates, updates)
    # without seeds, torch's generator
    torch.manual_seed(1)
    drawn = model(x).updates
    torch.manual_seed(1)
    assert torch.equal(model(x).updates, drawn)


def trained(folder, *options):
    """Parameters after fairseq-train, and its last validation."""
    stats = train(folder, "--max-epoch", 1, *options)
    checkpoint = torch.load(folder / "checkpoint_last.pt", weights_only=False)
    return checkpoint["model"], stats["valid"][-1]["valid_loss"]


@pytest.mark.parametrize("words", [False, True])
def test_input_dropout_in_training_alone(words):
    """Half of the features are 0 and the others doubled, drawn for each step; likewise those of embeddings."""
    torch.manual_seed(0)
    embedding = torch.nn.Embedding(7, 3) if words else None
    model = SkipRNNModel(SkipRNNConfig(input_dropout=0.5, hidden_size=6), 3, 2, embedding)
    given = torch.arange(7).expand(40, 7) if words else torch.randn(40, 7, 3)
    x = embedding(given) if words else given
    seen = []
    model.rnn.register_forward_pre_hook(lambda module, arguments: seen.append(arguments[0]))
    model(given)
    kept = seen[0] != 0
    torch.testing.assert_close(seen[0], torch.where(kept, 2 * x, 0))
    assert 0.4 < kept.float().mean() < 0.6
    model.eval()(given)
    assert seen[1].equal(x)


def test_zoneout_and_recurrent_dropout_on_the_command_line(tmp_path):
    options = ["--zoneout", 0.1, "--recurrent-dropout", 0.2, "--arch", "skip_lstm"]
    first, again = (trained(tmp_path / name, *options) for name in ("first", "again"))
    torch.testing.assert_close(again, first, rtol=0, atol=0)
    for alone in (options[2:], options[:2] + options[4:]):
        other, _ = trained(tmp_path / alone[0].strip("-"), *alone)
        assert not torch.equal(other["rnn.weight_hh_l0"], first[0]["rnn.weight_hh_l0"])
    best = validate(tmp_path / "first" / "checkpoint_last.pt", "--valid-subset", "valid")
    assert best["valid"][-1]["valid_loss"] == first[1]


def test_lengths_reach_the_updates():
    output = build("full_lstm", hidden_size=4)(torch.randn(3, 6, 3), lengths=torch.tensor([2, 6, 0]))
    assert output.updates.sum((1, 2)).tolist() == [2, 6, 0] and output.steps.tolist() == [2, 6, 0]


def test_dropout_before_the_head_in_training_alone():
    torch.manual_seed(0)
    model = build("full_gru", dropout=0.5)
    x = torch.randn(2, 5, 3)
    assert not torch.equal(model(x).prediction, model(x).prediction)
    model.eval()
    assert torch.equal(model(x).prediction, model(x).prediction)


@pytest.mark.parametrize(
    "options,message",
    [
        ({"skip_prob": 1.5}, "--skip-prob.*1.5"),
        ({"skip_prob": -0.1}, "--skip-prob.*-0.1"),
        ({"cell": "elman"}, "--cell.*'elman'"),
        ({"num_layers": 2, "gate_layers": [2]}, "--gate-layers.*0 to 1.*2"),
        ({"update_rule": "never"}, "--update-rule.*'never'"),
        ({"gru_reset": "middle"}, "--gru-reset.*'middle'"),
        ({"binarize": "floor"}, "--binarize.*'floor'"),
        ({"engine": "warp"}, "--engine.*'warp'"),
        ({"init": "zeros"}, "--init.*'zeros'"),
        ({"hidden_size": 0}, "--hidden-size.*0"),
        ({"num_layers": 0}, "--num-layers.*0"),
        ({"dropout": 1.0}, "--dropout.*1.0"),
        ({"zoneout": 1.0}, "--zoneout.*1.0"),
        ({"recurrent_dropout": -0.5}, "--recurrent-dropout.*-0.5"),
        ({"input_dropout": 1.0}, r"^--input-dropout: expected a probability in \[0, 1\), got 1.0$"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        build(**options)
