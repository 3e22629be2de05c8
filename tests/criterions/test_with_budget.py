"""``with_budget`` around other criterions."""

import argparse
import math
import re
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from omegaconf import MISSING, OmegaConf
from torch import nn
from torch.utils.checkpoint import checkpoint

import skiprnn_plugin  # noqa: F401
from skiprnn_plugin.criterions.base import parse_options
from skiprnn_plugin.criterions.cost import Cost
from skiprnn_plugin.criterions.listening import listen
from skiprnn_plugin.criterions.with_budget import (
    PREFIX,
    WithBudgetConfig,
    WithBudgetCriterion,
    per_sequence,
)
from skiprnn_plugin.modules import SkipGRU, SkipLSTM
from skiprnn_plugin.runs.checkpoint import load_checkpoint
from skiprnn_plugin.tasks.stopping import LOGGED, StopsInOrder

from ..command_line import train, validate
from ..versions import not_in_fairseq_0_12_2
from .test_budget import log_values

from fairseq.criterions import FairseqCriterion, LegacyFairseqCriterion, register_criterion  # isort: skip
from fairseq.logging import metrics  # isort: skip
from fairseq.tasks import FairseqTask  # isort: skip
from skiprnn_plugin._fairseq.meters import base_loss_apart  # isort: skip


class Tagger(nn.Module):
    """A label for every step."""

    def __init__(self, checkpointing=None, **options):
        super().__init__()
        torch.manual_seed(0)
        self.rnn = SkipGRU(3, 5, **{"update_bias": -1.0, **options})
        self.head = nn.Linear(10 if self.rnn.bidirectional else 5, 2)
        self.checkpointing = checkpointing

    def forward(self, x, **options):
        if self.checkpointing is None:
            output = self.rnn(x, **options)[0]
        else:
            output = checkpoint(self.rnn, x, use_reentrant=self.checkpointing == "reentrant")[0]
        return self.head(output)


@register_criterion("squares_for_tests")
class Squares(FairseqCriterion):
    """The sum of squares over a given number of samples. Its outputs can't be summed, and it logs something that is not
    a number."""

    def __init__(self, task):
        super().__init__(task)

    def forward(self, model, sample, reduce=True):
        loss = model(**sample["net_input"]).square()
        log = {"loss": loss.detach().sum(), "nsentences": sample["nsentences"], "note": "text"}
        return loss.sum() if reduce else loss, sample["size"], log

    @staticmethod
    def reduce_metrics(logging_outputs):
        from fairseq.logging import metrics

        metrics.log_scalar("loss", sum(float(log["loss"]) for log in logging_outputs))


@register_criterion("legacy_for_tests")
class Legacy(LegacyFairseqCriterion):
    @staticmethod
    def add_args(parser):
        parser.add_argument("--power", type=int, default=2)
        parser.add_argument("--strength", type=float, default=0.5)


def build(base="squares_for_tests", **options):
    cfg = OmegaConf.structured(WithBudgetConfig(base_criterion=base, **options))
    return WithBudgetCriterion.build_criterion(cfg, SimpleNamespace())


def sample(size=4, x=None, **options):
    x = torch.randn(4, 6, 3, generator=torch.Generator().manual_seed(1)) if x is None else x
    return {"net_input": {"x": x, **options}, "nsentences": 4, "size": size}


@pytest.mark.parametrize("size", [4, 24, torch.tensor(24.0)], ids=["sentences", "tokens", "tensor"])
@pytest.mark.parametrize("budget", [{}, {"budget": "l1", "target_updates": 2.0}], ids=["per_sample", "l1"])
def test_lambda_does_not_depend_on_the_sample_size(size, budget):
    """Loss / sample size, which is what fairseq minimises, is the base loss's mean + lambda times the mean updates."""
    model, criterion = Tagger(), build(cost_per_sample=0.25, **budget)
    loss, sample_size, log = criterion(model, sample(size))
    assert sample_size is size
    count = model.rnn(sample()["net_input"]["x"])[2].sum(1)
    assert 1 < count.mean() < 6
    paid = count if not budget else (count - 2).abs()
    base = model(sample()["net_input"]["x"]).square().sum()
    expected = base / float(size) + 0.25 * paid.mean()
    torch.testing.assert_close(loss / float(size), expected)
    got, wanted = (torch.autograd.grad(total, list(model.parameters())) for total in (loss / float(size), expected))
    torch.testing.assert_close(got, wanted)
    logged = log_values(criterion, [[log]])
    assert logged["loss"] == pytest.approx(float(expected.detach()))
    assert logged["task_loss"] == pytest.approx(float(base.detach() / size))
    assert logged["budget_loss"] == pytest.approx(0.25 * float(paid.mean()))
    assert logged["updates"] == pytest.approx(float(count.mean()))
    assert logged["updates_std"] == pytest.approx(float(count.std(unbiased=False)))
    assert logged["update_fraction"] == pytest.approx(float(count.mean()) / 6)
    assert logged["flops"] == pytest.approx(3 * 5 * 8 * float(count.mean()))
    assert 0 < logged["increment"] < 1


@pytest.mark.parametrize("size", [4, 24], ids=["sentences", "tokens"])
def test_a_target_is_relative_to_the_loss_per_sample(size):
    """The rule that finds lambda gets the base loss's mean, whatever the base criterion counts."""
    criterion = build(target_fraction=0.5)
    log = criterion(Tagger(), sample(size))[2]
    with mock.patch.object(Cost, "step") as step:
        log_values(criterion, [[log]])
    ((_, task_loss),) = [call.args for call in step.call_args_list]
    assert task_loss == pytest.approx(float(log["loss"]) / size)


def test_the_encoders_flops_count_for_each_update():
    model, criterion = Tagger(), build()
    criterion.task.encoder_flops = 1000.0
    logged = log_values(criterion, [[criterion(model, sample())[2]]])
    assert logged["updates"] < 6 and logged["flops"] == pytest.approx((3 * 5 * 8 + 1000) * logged["updates"])


def test_without_reduction_the_sum_is_the_same():
    model, criterion = Tagger(), build(cost_per_sample=0.25)
    losses = criterion(model, sample(), reduce=False)[0]
    assert losses.shape == (4, 6, 2)
    torch.testing.assert_close(losses.sum(), criterion(model, sample())[0])


def hooks(model):
    return sum(len(module._forward_hooks) for module in model.modules())


def test_hooks_live_during_the_call_alone():
    model = Tagger()
    with listen(model) as calls:
        assert hooks(model) == 1
        model(torch.randn(2, 3, 3))
    assert hooks(model) == 0
    model(torch.randn(2, 3, 3))
    assert len(calls) == 1
    with pytest.raises(ValueError, match="3 features"):
        build()(model, sample(x=torch.randn(4, 6, 7)))
    assert hooks(model) == 0


def test_activation_checkpointing_is_counted_once():
    results = []
    for how in (None, "not reentrant"):
        model = Tagger(how)
        loss, _, log = build(cost_per_sample=0.25)(model, sample())
        loss.backward()
        results.append((loss, log["with_budget.updates"], [p.grad for p in model.parameters()]))
    torch.testing.assert_close(*results)


def test_activation_checkpointing_without_a_gradient_is_refused():
    with pytest.raises(ValueError, match="SkipGRU have no gradient.*use_reentrant=False"):
        build(cost_per_sample=0.25)(Tagger("reentrant"), sample(x=torch.randn(4, 6, 3, requires_grad=True)))
    with torch.no_grad():
        loss = build(cost_per_sample=0.25)(Tagger("reentrant"), sample())[0]
    assert loss.isfinite()
    frozen = Tagger().requires_grad_(False)
    assert not build(cost_per_sample=0.25)(frozen, sample())[0].requires_grad


LENGTHS = [6, 0, 2, 5]
MASK = torch.arange(6) >= torch.tensor(LENGTHS).unsqueeze(1)


@pytest.mark.parametrize(
    "padding",
    [{"lengths": LENGTHS}, {"lengths": torch.tensor(LENGTHS)}, {"padding_mask": MASK}, {"padding_mask": MASK.flip(1)}],
    ids=["list", "tensor", "right-padded mask", "left-padded mask"],
)
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "bidirectional"])
def test_padding_is_no_step(padding, bidirectional):
    model = Tagger(bidirectional=bidirectional, update_bias=9.0)  # uses all
    log = build()(model, sample(**padding))[2]
    expected = sum(LENGTHS) * (2 if bidirectional else 1)
    assert log["with_budget.steps"] == log["with_budget.updates"] == expected


def test_steps_of_lengths_in_a_small_type():
    rnn = SkipGRU(3, 5, bidirectional=True, update_bias=9.0)
    with listen(rnn) as calls:
        rnn(torch.randn(1, 140, 3), lengths=torch.tensor([130], dtype=torch.uint8))
    assert calls[0].steps.tolist() == calls[0].count.tolist() == [260]


def test_packed_sequences():
    rnn = SkipLSTM(3, 5, update_bias=9.0)
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(3, 6, 3), [3, 6, 4], batch_first=True, enforce_sorted=False)
    with listen(rnn) as calls:
        rnn(packed)
    assert calls[0].steps.tolist() == calls[0].count.tolist() == [3, 6, 4]


def test_several_modules_and_segments_add_up():
    """Two modules, one of which reads every sequence in two segments."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = SkipGRU(3, 5, update_bias=9.0), SkipLSTM(3, 4, gate=False)

        def forward(self, x):
            return self.a(x)[0].sum() + self.b(x.reshape(8, 3, 3))[0].sum()

    log = build()(Model(), sample())[2]
    assert log["with_budget.updates"] == log["with_budget.steps"] == 48
    assert log["with_budget.updates_squared"] == 4 * 12**2
    assert log["with_budget.flops"] == 24 * 3 * 5 * 8 + 24 * 4 * 4 * 7
    assert log["with_budget.increments"] == 4  # the second has no gate
    assert per_sequence(torch.tensor([1.0, 2.0, 3.0]), 2).tolist() == [3, 3]  # no telling whose they are
    assert per_sequence(torch.ones(0), 0).tolist() == []


def test_segments_are_paid_by_their_sequence():
    """The rows of a sequence follow one another, and each sequence counts once in the mean."""
    lengths = [3, 1, 2, 2, 1, 1, 3, 3]  # of two segments of each sequence

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = SkipGRU(3, 5, update_bias=9.0)  # uses all

        def forward(self, x):
            return self.rnn(x.reshape(8, 3, 3), lengths=lengths)[0]

    loss, size, log = build(cost_per_sample=0.25)(Model(), sample())
    assert float(loss / size) == pytest.approx(float(log["loss"]) / size + 0.25 * (4 + 4 + 2 + 6) / 4)
    assert log["with_budget.updates_squared"] == 4**2 + 4**2 + 2**2 + 6**2
    assert per_sequence(torch.tensor([1.0, 2.0, 3.0, 4.0]), 2).tolist() == [3, 7]


def test_the_gates_of_all_modules_are_logged():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = SkipGRU(3, 5, update_bias=9.0), SkipGRU(3, 5, update_bias=-9.0)

        def forward(self, x):
            return self.a(x)[0] + self.b(x)[0]

    criterion = build()
    logged = log_values(criterion, [[criterion(Model(), sample())[2]]])
    assert logged["increment"] == pytest.approx(0.5, abs=0.01) and logged["increment_std"] > 0.45


def test_a_model_without_skip_rnn_modules():
    with pytest.raises(ValueError, match="with_budget: expected a model that runs Skip RNN modules"):
        build()(nn.Linear(3, 2), {**sample(), "net_input": {"input": torch.randn(4, 3)}})


def test_options_of_an_old_criterion():
    base = build("legacy_for_tests", base_options={"strength": 2.0}).base
    assert isinstance(base, Legacy) and base.args.power == 2 and base.args.strength == 2.0


def test_reduces_what_the_base_criterion_reduces():
    criterion = build()
    assert not criterion.logging_outputs_can_be_summed()
    log = criterion(Tagger(), sample())[2]
    assert log["note"] == "text"
    with metrics.aggregate(new_root=True) as meters:
        type(criterion).reduce_metrics([log, log])
    assert meters["_base_loss"].avg == pytest.approx(2 * float(log["loss"]))


@pytest.mark.parametrize("logs_loss", [True, False])
def test_losses_of_a_run_that_another_criterion_began(logs_loss):
    """Its meter ``loss`` is that of the base criterion, if this one logs it."""
    with metrics.aggregate(new_root=True) as meters:
        metrics.log_scalar("loss", 4.0)
        with base_loss_apart():
            metrics.log_scalar("loss" if logs_loss else "other", 2.0)
        metrics.log_scalar("loss", 1.0)
    averages = {name: meters[name].avg for name in ("loss", "_base_loss") if name in meters}
    assert averages == ({"loss": 1.0, "_base_loss": 3.0} if logs_loss else {"loss": 2.5})


def test_perplexity_is_that_of_the_base_criterion():
    """Over several batches, in aggregators within each other, and after those of a run were restored."""
    criterion = build("cross_entropy", base_options={"sentence_avg": False})
    outer, inner = [], []
    with metrics.aggregate("outer", new_root=True) as kept:
        for loss, updates in ((2.0, 3.0), (4.0, 1.0)):
            sums = {"loss": loss + 0.25 * updates, "task_loss": loss, "sample_size": 1, "nsentences": 1}
            sums.update(updates=updates, updates_squared=updates**2, steps=4, flops=1, increments=0)
            output = {"loss": loss, "ntokens": 1, "nsentences": 1, "sample_size": 1}
            output.update({PREFIX + name: value for name, value in sums.items()})
            with metrics.aggregate() as meters:
                type(criterion).reduce_metrics([output])
                criterion.log_budget([output])
            inner.append(meters.get_smoothed_values())
            outer.append(kept.get_smoothed_values())
            stored = kept.state_dict()
            kept.load_state_dict(stored)
    for found, loss, updates in ((inner[0], 2, 3), (inner[1], 4, 1), (outer[0], 2, 3), (outer[1], 3, 2)):
        assert found["loss"] == pytest.approx(loss + 0.25 * updates) and found["task_loss"] == loss
        assert found["ppl"] == pytest.approx(math.exp(loss), rel=1e-2)


def test_the_base_criterion_sees_what_it_logged_alone(monkeypatch):
    """Neither the budget's names nor the task's: some criterions, such as fairseq's wav2vec, log all that they find."""
    seen = []
    monkeypatch.setattr(Squares, "reduce_metrics", staticmethod(seen.extend))
    criterion = build()
    output = {**criterion(Tagger(), sample())[2], LOGGED: 0}
    with metrics.aggregate(new_root=True):
        type("Task", (StopsInOrder, FairseqTask), {})(None).reduce_metrics([output], criterion)
    assert [set(log) for log in seen] == [{"loss", "nsentences", "note"}]


FREQUENCY = {"task": "frequency_discrimination"}


def with_budget(base, *options):
    return ("--criterion", "with_budget", "--base-criterion", base, "--cost-per-sample", 1e-3, *options)


def test_equals_our_own_criterion(tmp_path):
    """fairseq's cross-entropy over sentences + budget is cross_entropy_with_budget, parameters and all."""
    ours = train(tmp_path / "ours", "--cost-per-sample", 1e-3, **FREQUENCY)
    wrapped = train(tmp_path / "wrapped", *with_budget("cross_entropy", "--sentence-avg"), **FREQUENCY)
    for name in ("loss", "task_loss", "budget_loss", "updates", "updates_std", "update_fraction", "flops", "increment"):
        for a, b in zip(ours["train_inner"] + ours["valid"], wrapped["train_inner"] + wrapped["valid"]):
            name = name if name in a else f"valid_{name}"
            assert a[name] == pytest.approx(b[name], rel=1e-5)
    a, b = (torch.load(tmp_path / run / "checkpoint_last.pt")["model"] for run in ("ours", "wrapped"))
    torch.testing.assert_close(a, b)


def test_options_of_the_base_criterion_are_flags(tmp_path):
    flags = ("--label-smoothing", 0.2, "--report-accuracy")
    stats = train(tmp_path, *with_budget("label_smoothed_cross_entropy", *flags), "--max-update", 2, **FREQUENCY)
    valid = stats["valid"][-1]
    loaded = load_checkpoint(tmp_path / "checkpoint_last.pt", "valid", {})
    batch = loaded.dataset.collater([loaded.dataset[index] for index in range(36)])
    with torch.no_grad():
        scores, target = loaded.model(**batch["net_input"]).prediction, batch["target"]
    assert valid["valid_accuracy"] == pytest.approx(100 * float((scores.argmax(1) == target).float().mean()), abs=1e-3)
    # a mean over steps; fairseq gives 0.2 to the other class, of two, and torch would give it half of that
    losses = [float(nn.functional.cross_entropy(scores, target, label_smoothing=part)) / 12 for part in (0.0, 0.4)]
    assert valid["valid_nll_loss"] == round(losses[0] / math.log(2), 3)
    assert valid["valid_task_loss"] == pytest.approx(losses[1], rel=1e-5)
    stored = torch.load(tmp_path / "checkpoint_last.pt")["cfg"]["criterion"]
    assert parse_options(stored["base_options"]) == {"label_smoothing": 0.2, "report_accuracy": True}
    again = validate(tmp_path / "checkpoint_last.pt", **FREQUENCY)["valid"][-1]
    assert again["valid_loss"] == valid["valid_loss"] and again["valid_budget_loss"] == valid["valid_budget_loss"]
    text = train(
        tmp_path / "text",
        *with_budget("label_smoothed_cross_entropy", "--base-options", "{label_smoothing: 0.2, report_accuracy: true}"),
        "--max-update", 2, **FREQUENCY,
    )  # fmt: skip
    assert text["valid"][-1]["valid_loss"] == valid["valid_loss"]


@pytest.mark.parametrize("order", [1, -1], ids=["flag first", "flag last"])
def test_flags_and_options_of_the_base_criterion_together(monkeypatch, order):
    given = [["--label-smoothing", "0.3"], ["--base-options", "{report_accuracy: true, label_smoothing: 0.1}"]][::order]
    monkeypatch.setattr("sys.argv", ["train", "--base-criterion", "label_smoothed_cross_entropy"])
    parser = argparse.ArgumentParser()
    WithBudgetCriterion.add_args(parser)
    parsed = parser.parse_args(["--base-options", "{report_accuracy: false}", *sum(given, [])])  # the last one counts
    assert parse_options(parsed.base_options) == {"label_smoothing": 0.3, "report_accuracy": True}


def test_the_loss_is_the_sum_of_its_two_parts_over_batches_of_different_size():
    """Batches of a base criterion over tokens have the weight of their tokens."""
    model, criterion = Tagger(), build(cost_per_sample=0.25)
    x = torch.zeros(4, 12, 3)
    batches = [sample(24), sample(5, x)]
    counts = [float(model.rnn(batch["net_input"]["x"])[2].sum(1).mean()) for batch in batches]
    assert counts[0] != counts[1]
    logged = log_values(criterion, [[criterion(model, batch)[2] for batch in batches]])
    assert logged["loss"] == pytest.approx(logged["task_loss"] + logged["budget_loss"])
    assert logged["budget_loss"] == pytest.approx(0.25 * (24 * counts[0] + 5 * counts[1]) / 29)


@pytest.mark.parametrize(
    "text", ["{a: 1, b: x}", '{"a": 1, "b": "x"}', {"a": 1, "b": "x"}], ids=["yaml", "json", "dict"]
)
def test_base_options_in_any_form(text):
    assert parse_options(text) == {"a": 1, "b": "x"}
    assert parse_options(None) == parse_options("") == {}


@pytest.mark.parametrize(
    "options,message",
    [
        ({"base": MISSING}, "--base-criterion: expected one of.*cross_entropy.*got None"),
        ({"base": "no_such"}, "--base-criterion: expected one of.*cross_entropy.*got 'no_such'"),
        ({"base": "mse_with_budget"}, "--base-criterion.*'mse_with_budget'"),
        ({"base": "with_budget"}, "--base-criterion: .*'with_budget'"),
        ({"base": "no_such"}, "--base-criterion: expected one of (?!.*_budget).*'no_such'"),
        pytest.param(
            {
                "base": "label_smoothed_cross_entropy_with_rdrop",
                "base_options": "{rdrop_alpha: 1, sentence_avg: false}",
            },
            "--rdrop-alpha: expected 0.*got 1",
            marks=not_in_fairseq_0_12_2("it has no such criterion"),
        ),
        ({"base_options": "label_smoothing"}, "--base-options: expected YAML.*'label_smoothing'"),
        ({"base_options": "{a: "}, "--base-options: expected YAML.*'{a: '"),
        ({"base_options": "[1]"}, r"--base-options: expected YAML.*\[1\]"),
        ({"base": "label_smoothed_cross_entropy", "base_options": "{smooth: 1}"}, "--base-options.*smooth"),
        ({"base": "label_smoothed_cross_entropy", "base_options": "{label_smoothing: x}"}, "--base-options.*'x'"),
        ({"cost_per_sample": -1.0}, "--cost-per-sample"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        build(**options)


@pytest.mark.parametrize(
    "base",
    [
        "ctc",
        pytest.param("sentence_prediction", marks=not_in_fairseq_0_12_2("its criterion asks nothing of the task")),
    ],
)
def test_a_base_criterion_that_the_task_can_not_have(base):
    with pytest.raises(
        ValueError, match=f"--base-criterion: expected one that works with SimpleNamespace, got {base},"
    ):
        build(base)


@pytest.mark.parametrize(
    "error,reason",
    [
        (KeyError("src_tokens"), "KeyError: 'src_tokens'"),
        (TypeError("no such argument"), "TypeError: no such argument"),
        (IndexError("x"), "IndexError: x"),
        # as fairseq says what is wrong and what to do, so that nothing may be cut off
        (Exception("Not with this backend. Please use\nthat one."), "Not with this backend. Please use that one."),
    ],
    ids=repr,
)
def test_a_base_criterion_that_the_model_can_not_have(error, reason, monkeypatch):
    criterion = build()
    monkeypatch.setattr(criterion.base, "forward", mock.Mock(side_effect=error))
    message = (
        "--base-criterion: expected one that works with SimpleNamespace and Tagger, got Squares, which fails there "
    )
    with pytest.raises(ValueError, match=re.escape(f"{message}({reason})") + "$"):
        criterion(Tagger(), sample())


def test_targets_of_classes_that_the_model_does_not_predict(monkeypatch):
    """The base criterion is not to blame."""
    criterion = build()

    def compare(model, sample, reduce=True):
        return nn.functional.nll_loss(torch.zeros(1, 2), torch.tensor([2]))

    monkeypatch.setattr(criterion.base, "forward", compare)
    message = r"^target: expected classes that Tagger predicts, got another \(IndexError: Target 2 is out of bounds\);"
    with pytest.raises(ValueError, match=message):
        criterion(Tagger(), sample())


def test_other_errors_of_a_base_criterion_pass(monkeypatch):
    """Such as fairseq's trainer looks for."""
    criterion, error = build(), RuntimeError("CUDA out of memory")
    monkeypatch.setattr(criterion.base, "forward", mock.Mock(side_effect=error))
    with pytest.raises(RuntimeError, match="CUDA out of memory"):
        criterion(Tagger(), sample())


def test_help_names_the_base_criterions_flags(monkeypatch):
    monkeypatch.setattr("sys.argv", ["fairseq-train", "--base-criterion", "label_smoothed_cross_entropy"])
    parser = argparse.ArgumentParser()
    WithBudgetCriterion.add_args(parser)
    assert "--label-smoothing" in parser.format_help() and "--cost-warmup-updates" in parser.format_help()


def test_a_base_criterion_without_a_loss_in_the_log(monkeypatch):
    """The mean over batches is still that of all of them; and what the base derives may ask for smoothed values."""
    monkeypatch.setattr(
        Squares,
        "reduce_metrics",
        staticmethod(
            lambda outputs: metrics.log_derived("double", lambda meters: 2 * meters.get_smoothed_value("loss"))
        ),
    )
    criterion = build()
    with metrics.aggregate(new_root=True) as meters:
        for loss in (10.0, 20.0, 30.0):
            sums = {"loss": loss, "task_loss": loss, "sample_size": 1, "nsentences": 1}
            sums.update(updates=1, updates_squared=1, steps=4, flops=1, increments=0)
            output = {PREFIX + name: value for name, value in sums.items()}
            type(criterion).reduce_metrics([output])
            criterion.log_budget([output])
    assert meters["loss"].avg == 20 and meters.get_smoothed_value("double") == 40
