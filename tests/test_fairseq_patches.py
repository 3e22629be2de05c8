"""Workarounds for fairseq bugs, tested function by function where a run of fairseq-train can't show them."""

import argparse
import collections
import os
import queue
import shutil
import signal
import sys
import threading
import types
from unittest import mock

import numpy as np
import omegaconf
import pytest
import torch

from skiprnn_plugin._fairseq import patches, processes, signals, trainer

from .command_line import ROOT, train, train_options
from .forked import run_forked
from .ranks import free_port

from fairseq.logging import metrics  # isort: skip

OPTIONS = ["--batch-size", 4, "--train-size", 64, "--save-interval-updates", 4, "--hidden-size", 4, "--lr", 1e-2]


def test_applied_once():
    import fairseq.trainer
    import fairseq.utils
    from fairseq import models, options
    from fairseq.criterions.ctc import CtcCriterion
    from fairseq.data.iterators import BufferedIterator
    from fairseq.distributed import utils
    from fairseq.file_io import PathManager
    from fairseq.tasks.fairseq_task import StatefulContainer

    places = [
        (fairseq.utils, "clip_grad_norm_"),
        (fairseq.utils, "import_user_module"),
        (BufferedIterator, "_create_consumer"),
        (utils, "call_main"),
        (utils, "distributed_main"),
        (utils, "all_gather_list"),
        (options, "parse_args_and_arch"),
        (PathManager, "copy"),
    ]
    places += [
        (fairseq.trainer.Trainer, name)
        for name in ("train_step", "_set_seed", "_build_optimizer", "state_dict", "load_checkpoint")
    ]
    places += [(StatefulContainer, "__getattr__"), (models, "build_model"), (CtcCriterion, "forward")]
    before = [getattr(*place) for place in places]
    workarounds = [name for function in before for name in function.of_skiprnn_plugin]
    assert len(workarounds) == len(set(workarounds)) > len(places)  # several share a place
    patches.apply()
    assert [getattr(*place) for place in places] == before


def test_a_process_without_a_batch_to_validate_logs_nothing():
    """Empty outputs are left out, because some criterions expect all names in every output."""
    from fairseq.tasks import FairseqTask

    reduced = []
    criterion = type("Criterion", (), {"reduce_metrics": staticmethod(reduced.append)})()
    task = FairseqTask(None)
    outputs = [task.valid_step({}, None, criterion)[2], {"ntokens": 3, "nsentences": 1}]
    with metrics.aggregate(new_root=True):
        task.reduce_metrics(outputs, criterion)
    assert reduced == [[{"ntokens": 3, "nsentences": 1}]]


def with_gradients(*gradients):
    parameters = [torch.zeros(2, requires_grad=True) for _ in gradients]
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient if gradient is None else torch.tensor(gradient)
    return parameters


@pytest.mark.parametrize("max_norm", [2.0, 1e30])
@pytest.mark.parametrize("scale", [1.0, 1e22, 1e30])
def test_large_gradients_are_clipped(scale, max_norm):
    """fairseq itself would set gradients with infinite squares to 0, because their norm is infinite too."""
    from fairseq import utils

    parameters = with_gradients([3 * scale, 0.0], [0.0, 4 * scale], None)
    norm = utils.clip_grad_norm_(iter(parameters), max_norm)
    assert norm.dtype == torch.float32 and norm.item() == pytest.approx(5 * scale)
    factor = min(scale, max_norm / 5)
    torch.testing.assert_close(parameters[0].grad, factor * torch.tensor([3.0, 0.0]))
    torch.testing.assert_close(parameters[1].grad, factor * torch.tensor([0.0, 4.0]))


@pytest.mark.parametrize("max_norm", [0, 0.1, 1.0, 100.0])
def test_other_gradients_are_clipped_as_by_fairseq_alone(max_norm):
    from fairseq import utils

    values = torch.randn(3, 2).tolist()
    for gradients in (values, [*values, None], values[:1], [None], []):
        ours, theirs = with_gradients(*gradients), with_gradients(*gradients)
        assert torch.equal(utils.clip_grad_norm_(ours, max_norm), utils.clip_grad_norm_.__wrapped__(theirs, max_norm))
        for one, other in zip(ours, theirs):
            assert (one.grad is None and other.grad is None) or torch.equal(one.grad, other.grad)


@pytest.mark.parametrize("value, max_norm", [(torch.inf, 1.0), (torch.nan, 1.0), (torch.nan, 0), (1e22, 0)])
def test_what_still_ends_training(value, max_norm):
    """Without clipping, Adam would store the infinite square of 1e22, and never change the parameter again."""
    from fairseq import utils

    assert not utils.clip_grad_norm_(with_gradients([1.0, value]), max_norm).isfinite()


@pytest.mark.parametrize("name", ["sentence_prediction", "speech_to_text", "translation"])
def test_a_model_that_cannot_be_trained_is_refused_in_every_task(name, monkeypatch):
    """Also where a task of fairseq's builds it in another way than most. A trained model is not refused."""
    from fairseq import models
    from fairseq.tasks import TASK_REGISTRY

    from skiprnn_plugin.modules import SkipLSTM

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = SkipLSTM(2, 3, zoneout=0.1, engine="native")

        def register_classification_head(self, name, num_classes):
            pass

    options = argparse.Namespace(_name="refused", max_positions=None, classification_head_name="head", num_classes=2)
    options.eval_bleu = False
    monkeypatch.setitem(
        models.ARCH_MODEL_REGISTRY, "refused", argparse.Namespace(build_model=lambda cfg, task: Model())
    )
    task = TASK_REGISTRY[name].__new__(TASK_REGISTRY[name])
    vars(task).update(cfg=options, data_cfg=mock.Mock(), speaker_to_id=None)
    with pytest.raises(ValueError, match="^--engine: 'native' has no zoneout; expected auto or one of"):
        task.build_model(options)
    assert isinstance(task.build_model(options, from_checkpoint=True), Model)


# When a run is killed: while it writes a checkpoint, after that, and in the middle of each of the two copies
def killed_at(moment, folder):
    """Run fairseq-train, and kill it like ``kill -9`` while it saves its second checkpoint."""
    save, copy, saves, copies = torch.save, shutil.copyfile, [], []

    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    def save_or_die(state, file):
        saves.append(1)
        save(state, file)
        if len(saves) == 2 and moment == "writing":
            file.truncate(file.tell() // 2)
            die()

    def copy_or_die(source, target):
        if len(saves) == 2:
            copies.append(target)
            if moment == "written" or moment == len(copies):
                with open(source, "rb") as whole, open(target, "wb") as half:
                    half.write(whole.read(1000) if moment == len(copies) else b"")
                    half.flush()
                    die()
        return copy(source, target)

    with mock.patch.object(torch, "save", save_or_die), mock.patch.object(shutil, "copyfile", copy_or_die):
        train(folder, *OPTIONS, "--max-update", 12)


@pytest.mark.parametrize("moment", ["writing", "written", 1, 2])
def test_a_run_that_is_killed_while_it_saves_resumes(tmp_path, moment):
    process = torch.multiprocessing.get_context("fork").Process(target=killed_at, args=(moment, tmp_path))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    for name in ("last", "best"):
        history = torch.load(tmp_path / f"checkpoint_{name}.pt")["optimizer_history"]
        assert history[-1]["num_updates"] in (4, 8)
    assert list(tmp_path.glob("*.tmp"))
    logs = train(tmp_path, *OPTIONS, "--max-update", 12)
    assert logs["train_inner"][0]["num_updates"] in (5, 9)
    assert torch.load(tmp_path / "checkpoint_last.pt")["optimizer_history"][-1]["num_updates"] == 12
    assert not list(tmp_path.glob("*.tmp"))


def test_copy(tmp_path):
    from fairseq.file_io import PathManager

    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("new")
    target.write_text("old")
    assert PathManager.copy(str(source), str(target), overwrite=True)
    assert target.read_text() == "new" and source.read_text() == "new"
    with mock.patch.object(PathManager, "supports_rename", lambda path: False), mock.patch("os.rename") as rename:
        assert PathManager.copy(str(source), str(target), overwrite=True)
    rename.assert_not_called()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "target"]


def test_checkpoint_contents_load(tmp_path):
    """Checkpoints may hold argparse options, numpy metrics and what processes exchange, but no other classes."""
    from fairseq.dataclass.utils import omegaconf_no_object_check
    from fairseq.distributed.utils import _TensorPlaceholder

    with omegaconf_no_object_check():
        cfg = omegaconf.OmegaConf.create({"a": [1, 2.5, True, "b", None], "args": argparse.Namespace(lr=[0.1])})
    numbers = {code: np.dtype(code).type(3) for code in ("f", "d", "e", "i", "l", "B", "?")}
    state = {
        "args": argparse.Namespace(arch="lstm", betas=(0.9, 0.98)),
        "cfg": cfg,
        "metrics": [np.float64(0.5), numbers, np.array([1.0, 2.0]), np.arange(3)],
        "state": collections.defaultdict(dict),
        "tensor": _TensorPlaceholder(index=0),
    }
    torch.save(state, tmp_path / "state.pt")
    loaded = torch.load(tmp_path / "state.pt")
    assert loaded["args"] == state["args"] and loaded["state"] == state["state"]
    assert list(loaded["cfg"]) == ["a", "args"]
    assert loaded["cfg"].a == cfg.a and loaded["cfg"].args == cfg.args
    assert loaded["metrics"][:2] == state["metrics"][:2] and loaded["tensor"] == state["tensor"]
    assert loaded["metrics"][2].tolist() == [1, 2] and loaded["metrics"][3].tolist() == [0, 1, 2]

    torch.save({"call": Caller()}, tmp_path / "code.pt")
    with pytest.raises(Exception, match="posix.getcwd"):
        torch.load(tmp_path / "code.pt")


class Caller:
    """An object whose pickle calls a function when it is loaded."""

    def __reduce__(self):
        return os.getcwd, ()


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize(
    "command, options, expected",
    [
        (
            "train",
            ["--task", "adding", *"--arch skip_gru --criterion mse_with_budget".split()],
            "min-value zoneout budget",
        ),
        ("train", ["--arch", "skip_lstm_s2t", *"--task speech_to_text".split()], "config-yaml stack-frames"),  # no data
        ("train", "--task translation --arch lstm --optimizer adam".split(), "source-lang encoder-layers adam-betas"),
        ("validate", ["--task", "imdb_sentiment"], "pad-side path"),
    ],
)
def test_help_lists_the_options_of_what_is_named(monkeypatch, capsys, command, options, expected, flag):
    from fairseq import options as parsers

    parser = {"train": parsers.get_training_parser, "validate": parsers.get_validation_parser}[command]()
    monkeypatch.setattr(sys, "argv", ["fairseq-train", *options, flag])
    with pytest.raises(SystemExit) as exit:
        parsers.parse_args_and_arch(parser)
    assert exit.value.code == 0
    shown = capsys.readouterr().out
    for name in expected.split():
        assert f"\n  --{name} " in shown


@pytest.mark.parametrize("flag", ["--bf16", "--memory-efficient-bf16"])
@pytest.mark.parametrize("tpu,xla,expected", [(False, None, False), (True, None, True), (False, "there", True)])
def test_bf16_means_a_tpu_only_where_there_is_one(tmp_path, flag, tpu, xla, expected):
    from fairseq import options
    from fairseq.distributed import utils

    arguments = [*train_options(), flag, *(["--tpu"] if tpu else [])]
    with mock.patch.object(sys, "argv", ["fairseq-train", *arguments]), mock.patch.object(utils, "xm", xla):
        assert options.parse_args_and_arch(options.get_training_parser()).tpu == expected
        args, extra = options.parse_args_and_arch(options.get_training_parser(), arguments, parse_known=True)
    assert args.tpu == expected and args.bf16 and extra == []


def config(**training):
    """The options that ``call_main`` reads, with fairseq's defaults for a machine with two GPUs."""
    defaults = {
        "distributed_world_size": 2, "distributed_rank": 0, "distributed_init_method": None, "distributed_port": -1,
        "distributed_no_spawn": False, "distributed_backend": "nccl", "pipeline_model_parallel": False, "device_id": 0,
        "tpu": False,
    }  # fmt: skip
    common = {"cpu": False, "tpu": False}
    return omegaconf.OmegaConf.create({"common": common, "distributed_training": {**defaults, **training}})


def call_main(cfg, available=True):
    """Runs ``call_main`` as on a machine with two GPUs; returns the processes that it started, and whether it ran
    ``main`` in this one."""
    from fairseq.distributed import utils

    ran, spawned = [], mock.Mock()
    with (
        mock.patch.object(torch.cuda, "is_available", lambda: available),
        mock.patch.object(torch.cuda, "device_count", lambda: 2),
        mock.patch.object(torch.multiprocessing, "spawn", spawned),
    ):
        utils.call_main(cfg, ran.append)
    return spawned.call_args, len(ran)


def test_on_gpus_processes_start_as_ever():
    from fairseq.distributed import utils

    cfg = config()
    with mock.patch.object(signals, "passed_on") as passed_on:
        spawned, ran = call_main(cfg)
    assert passed_on.call_count == 1
    assert spawned.kwargs["fn"] is utils.distributed_main and spawned.kwargs["nprocs"] == 2 and not ran
    assert cfg.distributed_training.distributed_backend == "nccl"


@pytest.mark.parametrize("given", [False, True])
def test_cpu_beside_gpus_is_one_process_unless_more_are_asked_for(given):
    cfg = config()
    cfg.common.cpu = True
    with mock.patch.object(sys, "argv", ["fairseq-train", *(["--distributed-world-size=2"] if given else [])]):
        spawned, ran = call_main(cfg)
    assert (spawned is None, ran) == (not given, int(not given))
    assert cfg.distributed_training.distributed_backend == ("gloo" if given else "nccl")
    assert not given or spawned.kwargs["nprocs"] == 2


def test_given_ports_and_backends_are_kept():
    cfg = config(distributed_port=12345, distributed_backend="mpi", distributed_world_size=3)
    spawned, _ = call_main(cfg, available=False)
    training = cfg.distributed_training
    assert (training.distributed_init_method, training.distributed_backend) == ("tcp://localhost:12345", "mpi")
    assert spawned.kwargs["nprocs"] == 3


def start_task(port, launcher, size=2):
    """The options that ``call_main`` sets in the second of two tasks of job 7 that Slurm or submitit started."""
    from fairseq.distributed import utils

    cfg = config(distributed_port=port, distributed_world_size=size)
    with (
        mock.patch.dict(os.environ, JOBS[launcher]),
        mock.patch.object(utils.subprocess, "check_output", lambda command: b"node1\n"),
        mock.patch.object(utils, "distributed_main") as started,
    ):
        utils.call_main(cfg, print)
    assert started.call_count == 1
    return cfg.distributed_training


SLURM = {"SLURM_NTASKS": "2", "SLURM_PROCID": "1", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node[1-2]"}
ONE_NODE = {"SLURM_NNODES": "1", "SLURM_NODEID": "0", "SLURM_NTASKS_PER_NODE": "2", "SLURM_LOCALID": "1"}
TWO_NODES = {"SLURM_NNODES": "2", "SLURM_NODEID": "1", "SLURM_NTASKS_PER_NODE": "1", "SLURM_LOCALID": "0"}
SUBMITIT = {"SUBMITIT_LOCAL_NTASKS": "2", "SUBMITIT_LOCAL_GLOBALID": "1", "SUBMITIT_LOCAL_JOB_ID": "7"}
JOBS = {"one node": {**SLURM, **ONE_NODE}, "two nodes": {**SLURM, **TWO_NODES}, "submitit": SUBMITIT}


@pytest.mark.parametrize("launcher", JOBS)
def test_tasks_of_a_job(launcher):
    host = "localhost" if launcher == "submitit" else "node1"
    for given in (12345, -1):
        training = start_task(given, launcher)
        assert (training.distributed_rank, training.distributed_world_size) == (1, 2)
        assert training.distributed_no_spawn and training.distributed_backend == "gloo"
        start, _, port = training.distributed_init_method.rpartition(":")
        assert start == f"tcp://{host}" and (port == "12345" if given > 0 else 10000 <= int(port) <= 60000)
    assert training.distributed_init_method == start_task(-1, launcher).distributed_init_method
    job = {name: "8" for name in JOBS[launcher] if name.endswith("JOB_ID")}
    with mock.patch.dict(JOBS[launcher], job):
        assert training.distributed_init_method != start_task(-1, launcher).distributed_init_method


@pytest.mark.parametrize("launcher", JOBS)
def test_a_job_of_another_size(launcher):
    name = "submitit" if launcher == "submitit" else "Slurm"
    with pytest.raises(ValueError, match=f"^--distributed-world-size: expected 2, as {name} starts 2 tasks, .* got 3$"):
        start_task(-1, launcher, size=3)


@pytest.mark.parametrize("nodes", [1, 2])
def test_several_nodes_with_gpus_need_no_port(nodes):
    """All processes of a job get the same one. On one node fairseq chooses it."""
    from fairseq.distributed import utils

    ports = []
    for rank in ("0", "1"):
        cfg = config(distributed_world_size=4)
        with (
            mock.patch.dict(os.environ, {"SLURM_NNODES": str(nodes), "SLURM_JOB_ID": "7", "SLURM_PROCID": rank}),
            mock.patch.object(torch.cuda, "is_available", lambda: True),
            mock.patch.object(utils, "infer_init_method", lambda training: ports.append(training.distributed_port)),
            mock.patch.object(utils, "distributed_main"),
        ):
            utils.call_main(cfg, lambda cfg: None)
    assert len(ports) >= 2 and len(set(ports)) == 1 and (ports[0] > 0) == (nodes == 2)


READS_AHEAD = """
import atexit, threading, time
report = lambda: print([thread.is_alive() for thread in threading.enumerate() if thread.daemon])
atexit.register(report)  # called after what is registered later
from fairseq.data.iterators import BufferedIterator
import skiprnn_plugin
class Batches(list):
    def __iter__(self):
        try:
            for batch in super().__iter__():
                time.sleep({seconds})
                yield batch
        finally:
            print("ended\\n", end="")  # in a single write
iterators = [BufferedIterator(size, Batches(range(100))) for size in (1, 50)]
assert [next(iterator) for iterator in iterators for _ in range(3)] == [0, 1, 2] * 2
"""


def test_threads_that_read_batches_end_before_their_process():
    """One thread waits for room in its queue, the other has room; the process ends normally or by an exception."""
    for ending, seconds in (("", 0.001), ("raise ValueError", 0.01)):
        process = run_forked("-c", READS_AHEAD.format(seconds=seconds) + ending, PYTHONPATH=ROOT)
        assert process.stdout.splitlines() == ["ended", "ended", "[]"], process.stderr
        assert process.returncode == (1 if ending else 0)


def test_a_thread_that_hangs_does_not_hold_its_process_up(monkeypatch):
    monkeypatch.setattr(processes, "LAST_BATCH_SECONDS", 0.1)
    release = threading.Event()
    thread = threading.Thread(target=release.wait, daemon=True)
    thread._queue = queue.Queue()
    thread.start()
    processes._end_reading([thread])
    assert thread.is_alive()
    release.set()
    thread.join()


TRAINS_CONNECTED = """
import atexit
import torch
atexit.register(lambda: print("connected" if torch.distributed.is_initialized() else "closed"))  # runs last
import skiprnn_plugin
from fairseq.dataclass.configs import FairseqConfig
from fairseq.distributed import utils
cfg = FairseqConfig()
cfg.common.cpu = True
cfg.distributed_training.distributed_world_size = 1
cfg.distributed_training.distributed_rank = 0
cfg.distributed_training.distributed_backend = "gloo"
cfg.distributed_training.distributed_init_method = "tcp://localhost:{port}"
def main(cfg):
    assert torch.distributed.is_initialized()
    {ending}
utils.distributed_main(0, main, cfg, {{}})
assert torch.distributed.is_initialized()  # so that another training could follow
"""


@pytest.mark.parametrize("ending, expected", [("pass", (0, "closed")), ("raise ValueError", (1, "connected"))])
def test_connections_end_before_their_process(ending, expected):
    """But not those of a process that failed, which may be waiting for one that has ended."""
    process = run_forked("-c", TRAINS_CONNECTED.format(port=free_port(), ending=ending), PYTHONPATH=ROOT)
    assert (process.returncode, process.stdout.strip()) == expected, process.stderr


def test_training_on_the_cpu_seeds_no_other_device(monkeypatch):
    from fairseq.trainer import Trainer

    run = types.SimpleNamespace(
        cfg=omegaconf.OmegaConf.create({"common": {"seed": 5}}), get_num_updates=lambda: 3, device=torch.device("cpu")
    )
    Trainer._set_seed.__wrapped__(run)  # fairseq's own
    expected = torch.rand(4)
    seeds = []
    monkeypatch.setattr(torch, "manual_seed", seeds.append)
    Trainer._set_seed(run)
    assert torch.equal(torch.rand(4), expected) and seeds == []
    run.device = torch.device("cuda")
    Trainer._set_seed(run)
    assert seeds == [8]


@pytest.mark.parametrize("options", [(), ("--ema-fp32",)], ids=["", "fp32"])
def test_averages_begin_with_the_model_of_a_checkpoint_without_them(tmp_path, options):
    train(tmp_path, *OPTIONS, "--max-update", 2)
    first = torch.load(tmp_path / "checkpoint_last.pt", weights_only=False)["model"]
    train(tmp_path, *OPTIONS, "--max-update", 3, "--store-ema", "--ema-decay", 0.75, *options)
    checkpoint = torch.load(tmp_path / "checkpoint_last.pt", weights_only=False)
    averages, model = checkpoint["extra_state"]["ema"], checkpoint["model"]
    assert not torch.equal(model["head.weight"], first["head.weight"])
    for name in model:
        torch.testing.assert_close(averages[name], 0.75 * first[name] + 0.25 * model[name])
    train(tmp_path, *OPTIONS, "--max-update", 4, "--store-ema", *options)  # and go on


def test_a_model_that_refuses_weights_by_an_option_has_the_last_word(monkeypatch):
    class Trainer:
        def load_checkpoint(self, reason):
            try:
                raise ValueError(reason)
            except ValueError:
                raise Exception("Cannot load model parameters")  # noqa: B904 (as fairseq does)

    monkeypatch.setattr("fairseq.trainer.Trainer", Trainer)
    trainer.say_why_weights_do_not_fit()
    with pytest.raises(ValueError, match="^--arch: expected an LSTM$"):
        Trainer().load_checkpoint("--arch: expected an LSTM")
    with pytest.raises(Exception, match="^Cannot load model parameters$"):
        Trainer().load_checkpoint("size mismatch")


@pytest.mark.parametrize("first, second", [("full_gru", "skip_gru"), ("skip_gru", "full_gru")])
def test_a_run_is_not_resumed_by_a_model_with_another_gate(tmp_path, first, second):
    train(tmp_path, *OPTIONS, "--max-update", 1, "--arch", first)
    message = f"^--arch: expected the architecture of {tmp_path / 'checkpoint_last.pt'}, from which training is resumed"
    with pytest.raises(ValueError, match=message):
        train(tmp_path, *OPTIONS, "--max-update", 2, "--arch", second)
