"""Two processes on CPU: started in all the ways that fairseq has, they train as one does."""

import json
import os
import re
from unittest import mock

import pytest
import torch

from skiprnn_plugin.criterions.mse_with_budget import MSEWithBudgetCriterion
from skiprnn_plugin.models import recurrence

from .command_line import PLUGIN, ROOT, run, train, train_options, validate
from .compare import assert_close, assert_equal
from .forked import SCRIPTS, run_forked
from .ranks import free_port, run_ranks

TORCHRUN = SCRIPTS / "torchrun"
SMALL = ["--hidden-size", 4, "--batch-size", 4, "--lr", 1e-2, "--cost-per-sample", 1e-2]
METRICS = ["loss", "mse", "task_loss", "budget_loss", "updates", "updates_std", "update_fraction", "flops"]
# Gates that draw: sequences differ in their updates
DRAWN = [*SMALL, "--binarize", "bernoulli", "--update-bias", 0]


def logged(output, tag="valid"):
    """The numbers of every log line with a tag, of a command's output."""
    lines = re.findall(rf"\b{tag}\b[^{{\n]*({{\".*}})", output)
    return [{name: float(value) for name, value in json.loads(line).items()} for line in lines]


def fairseq_train(*command, options=(), task="adding", **environment):
    """A command line that ends in fairseq-train's options; returns what it logged of validations, and all output."""
    start = run if command[0] == TORCHRUN else run_forked
    process = start(*command, *train_options(task), *SMALL, "--max-update", 3, *options, **environment)
    output = process.stdout + process.stderr
    assert process.returncode == 0, output[-3000:]
    return logged(output), output


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The last validation of one process that sees what two see."""
    return train(tmp_path_factory.mktemp("alone"), *SMALL, "--max-update", 3, "--update-freq", 2)["valid"][-1]


def assert_same_metrics(got, expected, prefix="valid_"):
    assert len(got) == len(expected) > 0
    for numbers, wanted in zip(got, expected):
        for name in METRICS:
            assert numbers[prefix + name] == pytest.approx(wanted[prefix + name], rel=1e-4, abs=1e-5), name


@pytest.mark.thorough
def test_world_size_starts_processes(tmp_path, alone, capfd):
    """In fairseq's default way, pytorch_ddp."""
    train(tmp_path, *SMALL, "--max-update", 3, "--distributed-world-size", 2)
    output = capfd.readouterr().out
    assert "training on 2 devices" in output
    assert_same_metrics(logged(output)[-1:], [alone])
    assert (tmp_path / "checkpoint_last.pt").exists()


@pytest.mark.thorough
def test_torchrun(tmp_path, alone):
    """What it tells processes, run_ranks tells those of the tests below."""
    command = [TORCHRUN, "--nproc-per-node", 2, SCRIPTS / "fairseq-train"]
    valid, output = fairseq_train(*command, options=["--save-dir", tmp_path])
    assert "training on 2 devices" in output
    assert_same_metrics(valid[-1:], [alone])


USER_CRITERION = """
import skiprnn_plugin
from dataclasses import dataclass
from fairseq.criterions import register_criterion
from fairseq.logging import metrics
from skiprnn_plugin.criterions.mse_with_budget import MSEWithBudgetCriterion, BudgetConfig

@dataclass
class ListedConfig(BudgetConfig):
    pass

@register_criterion("listed", dataclass=ListedConfig)
class Listed(MSEWithBudgetCriterion):
    def forward(self, model, sample, reduce=True):
        loss, sample_size, logging_output = super().forward(model, sample, reduce)
        return loss, sample_size, {**logging_output, "ids": [sample["id"].tolist(), "x" * 20000]}

    @classmethod
    def reduce_metrics(cls, logging_outputs):
        ids = [number for output in logging_outputs for number in output.pop("ids")[0]]
        metrics.log_scalar("distinct", float(len(set(ids))), len(ids))
        super().reduce_metrics(logging_outputs)

    @staticmethod
    def logging_outputs_can_be_summed():
        return False
"""


@pytest.mark.thorough
def test_user_dir_workers_and_logs_that_cannot_be_summed(tmp_path, alone):
    """Of a plugin that nothing but ``--user-dir`` finds, over an address that is given."""
    plugin = tmp_path / "their_plugin"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{USER_CRITERION}")
    options = ["--user-dir", plugin, "--criterion", "listed", "--num-workers", 2, "--save-dir", tmp_path / "run"]
    options += ["--distributed-world-size", 2, "--distributed-init-method", f"tcp://localhost:{free_port()}"]
    valid, output = fairseq_train(
        SCRIPTS / "fairseq-train", options=[*options, "--ddp-backend", "legacy_ddp"], cwd=tmp_path, PYTHONPATH=""
    )
    assert_same_metrics(valid[-1:], [alone])
    assert valid[-1]["valid_distinct"] == pytest.approx((4 * 8 * 8 + 4 * 4) / 36)  # ids of a step, each counted


def cannot_be_summed(folder):
    with mock.patch.object(MSEWithBudgetCriterion, "logging_outputs_can_be_summed", staticmethod(lambda: False)):
        return train(folder, *SMALL, "--max-update", 3, "--num-workers", 2, "--ddp-backend", "legacy_ddp")


def test_logs_that_cannot_be_summed(tmp_path, alone):
    for logs in run_ranks(cannot_be_summed, tmp_path):
        assert_same_metrics(logs["valid"][-1:], [alone])


@pytest.mark.thorough
def test_hydra(tmp_path):
    """As ``--distributed-world-size`` does."""
    process = run_forked(
        SCRIPTS / "fairseq-hydra-train", "--config-dir", PLUGIN / "config", "--config-name", "skip_rnn",
        "common.cpu=true", f"common.user_dir={PLUGIN}", "task.train_size=16", "task.valid_size=8",
        "task.sequence_length=12",
        "model.hidden_size=4", "dataset.num_workers=0", "dataset.batch_size=4", "optimization.max_update=2",
        "distributed_training.distributed_world_size=2", cwd=tmp_path, PYTHONPATH=ROOT,
    )  # fmt: skip
    output = process.stdout + process.stderr
    assert process.returncode == 0, output[-3000:]
    assert "training on 2 devices" in output
    assert logged(output)[-1]["valid_wpb"] == 2 * 4 * 12


def test_torchrun_before_the_plugin_is_there_is_an_error(tmp_path, monkeypatch):
    """As with fairseq-hydra-train, where common.user_dir alone says where the plugin is."""
    from fairseq.distributed import utils

    environment = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    with mock.patch.dict(os.environ, environment), mock.patch.object(utils, "call_main", lambda cfg, main: main(cfg)):
        with pytest.raises(RuntimeError, match=r"^common.user_dir: torchrun started 2 processes, .* PYTHONPATH$"):
            train(tmp_path, *SMALL)


@pytest.mark.parametrize(
    "options,message",
    [
        (["--distributed-no-spawn"], "--distributed-no-spawn: processes started one by one need --distributed-init-me"),
        (["--distributed-rank", 1], "--distributed-rank: on CPU one command starts all 2 processes, from rank 0 on;"),
    ],
    ids=str,
)
def test_too_little_said(tmp_path, options, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        train(tmp_path, *SMALL, "--distributed-world-size", 2, *options)


def train_each(folder, runs):
    """Several trainings one after another; what they logged and their checkpoints' models."""
    results = {}
    for name, options in runs.items():
        logs = train(folder / name, *options)
        results[name] = logs, torch.load(folder / name / "checkpoint_last.pt")["model"]
    return results


# Seven batches: the second process's last one is a dummy, and with --update-freq 2 the group that it is in is not
EQUAL = [*DRAWN, "--train-size", 28, "--valid-size", 19, "--max-update", 4]


def two(folder):
    backends = {name: [*EQUAL, "--ddp-backend", name] for name in ("pytorch_ddp", "legacy_ddp")}
    return train_each(folder, {**backends, "accumulated": [*EQUAL, "--update-freq", 2]})


def test_two_processes_equal_one(tmp_path):
    """One that accumulates as many batches."""
    one = train_each(tmp_path / "one", {n: [*EQUAL, "--update-freq", n] for n in ("2", "4")})
    two_ranks = run_ranks(two, tmp_path / "two")
    for name, twin in (("pytorch_ddp", "2"), ("legacy_ddp", "2"), ("accumulated", "4")):
        (logs, model), (expected, expected_model) = two_ranks[0][name], one[twin]
        assert len({line["updates_std"] for line in expected["train_inner"]}) > 1
        assert_same_metrics(logs["train_inner"], expected["train_inner"], "")
        assert_same_metrics(logs["train"], expected["train"], "train_")
        assert_same_metrics(logs["valid"], expected["valid"])
        for key in expected_model:
            assert_close(model[key], expected_model[key], f"{name} {key}")


FEW = {"1-1": ["--train-size", 1, "--valid-size", 1], "3-3": ["--train-size", 3, "--valid-size", 3]}
FEW = {name: [*DRAWN, *sizes, "--max-update", 2] for name, sizes in FEW.items()}
FEW["3-1"] = [*FEW["3-3"], "--batch-size", 1]


def few(folder, *options):
    """Trainings on a few sequences and validations of them."""
    trained = train_each(folder, {name: [*words, *options] for name, words in FEW.items()})
    return {name: (*result, validate(folder / name / "checkpoint_last.pt")) for name, result in trained.items()}


@pytest.mark.thorough
def test_fewer_sequences_than_processes(tmp_path):
    """Dummy batches count nowhere; in fairseq-validate there are none."""
    one = few(tmp_path / "one", "--update-freq", 2)
    for name, (logs, model, valid) in run_ranks(few, tmp_path / "two")[0].items():
        expected, expected_model, expected_valid = one[name]
        assert_same_metrics(logs["train_inner"], expected["train_inner"], "")
        assert_same_metrics(logs["valid"], expected["valid"])
        assert_same_metrics(valid["valid"], expected_valid["valid"])
        for key in expected_model:
            assert_close(model[key], expected_model[key], f"{name} {key}")


def gates_that_differ(folder):
    """Rank 0 updates at every step, rank 1 at two of twelve; fairseq's own check of gradient norms, which
    runs on GPUs alone, and each rank's own gradients."""
    from fairseq.distributed import LegacyDistributedDataParallel
    from fairseq.trainer import Trainer

    rank = int(os.environ["RANK"])
    check, reduce = Trainer._check_grad_norms, LegacyDistributedDataParallel.all_reduce_grads
    norms, complete = [], []

    def check_on_cpu(trainer, norm):
        trainer._grad_norm_buf = torch.zeros(2, dtype=torch.float64)
        check(trainer, norm)
        norms.append(trainer._grad_norm_buf.tolist())

    def reduce_complete(model):
        complete.append(all(parameter.grad is not None for parameter in model.parameters()))
        reduce(model)

    with (
        mock.patch.object(recurrence, "uniform", lambda seeds, draws: torch.full((len(seeds), draws), [0, 0.99][rank])),
        mock.patch.object(Trainer, "_check_grad_norms", check_on_cpu),
        mock.patch.object(LegacyDistributedDataParallel, "all_reduce_grads", reduce_complete),
    ):
        options = [*DRAWN, "--update-bias", -2, "--ddp-backend"]
        runs = {backend: [*options, backend] for backend in ("pytorch_ddp", "legacy_ddp")}
        return train_each(folder, runs), norms, complete


def test_gates_that_differ_between_processes(tmp_path):
    for logs, norms, complete in run_ranks(gates_that_differ, tmp_path):
        assert len(norms) == 8 and all(norm[0] == norm[1] > 0 for norm in norms)
        assert complete == [True] * 4
        for backend in ("pytorch_ddp", "legacy_ddp"):
            first = logs[backend][0]["train_inner"][0]
            assert first["updates"] == pytest.approx((12 + 2) / 2) and first["updates_std"] == pytest.approx(5)


def resume(folder):
    options = [*DRAWN, "--train-size", 32, "--log-interval", 10]
    train(folder / "through", *options, "--max-update", 4)
    for updates in (2, 4):  # 2: in the middle of an epoch
        train(folder / "resumed", *options, "--max-update", updates)


def test_resumed_processes_train_on_as_if_never_interrupted(tmp_path):
    run_ranks(resume, tmp_path)
    through, resumed = (torch.load(tmp_path / name / "checkpoint_last.pt") for name in ("through", "resumed"))
    assert resumed["optimizer_history"][-1]["num_updates"] == 4 and len(resumed["optimizer_history"]) == 2
    for key in through["model"]:
        assert_equal(resumed["model"][key], through["model"][key], key)
    for index, state in through["last_optimizer_state"]["state"].items():
        for key, value in state.items():
            assert_equal(resumed["last_optimizer_state"]["state"][index][key], value, key)


def one_by_one(folder, port):
    rank = os.environ.pop("RANK")
    options = ["--distributed-world-size", 2, "--distributed-no-spawn", "--distributed-rank", rank]
    return train(folder, *EQUAL, *options, "--distributed-init-method", f"tcp://localhost:{port}")


def test_processes_started_one_by_one(tmp_path):
    expected = train(tmp_path / "one", *EQUAL, "--update-freq", 2)
    for logs in run_ranks(one_by_one, tmp_path / "two", free_port()):
        assert_same_metrics(logs["valid"], expected["valid"])
