"""Training over several nodes, started by torchrun and by submitit, as docs/multi-node.md says; here on one machine."""

import json
import os
import subprocess
import time
from importlib.util import find_spec

import pytest
import torch
import yaml

from .command_line import PLUGIN, ROOT, run, train, train_options
from .forked import SCRIPTS
from .ranks import free_port
from .test_processes import SMALL, TORCHRUN, assert_same_metrics, logged

CONFIG = PLUGIN / "config"
needs_submitit = pytest.mark.skipif(find_spec("submitit") is None, reason="needs hydra-submitit-launcher")


@pytest.mark.thorough
def test_torchrun_on_two_nodes(tmp_path):
    """An agent for each node: they train as one process does that sees what both see."""
    options = [*train_options(), *SMALL, "--max-update", 2]
    expected = train(tmp_path / "alone", *SMALL, "--max-update", 2, "--update-freq", 2)["valid"][-1]
    meet = ["--master-addr", "localhost", "--master-port", free_port()]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    files, agents = [tmp_path / f"node{node}.log" for node in range(2)], []
    try:
        for node, file in enumerate(files):
            torchrun = [TORCHRUN, "--nnodes", 2, "--node-rank", node, "--nproc-per-node", 1, *meet, "--no-python"]
            command = [*torchrun, SCRIPTS / "fairseq-train", *options, "--save-dir", tmp_path / "run"]
            with file.open("w") as output:
                agents.append(
                    subprocess.Popen(list(map(str, command)), env=environment, stdout=output, stderr=subprocess.STDOUT)
                )
        _wait(agents, seconds=280)
    finally:
        for agent in agents:
            agent.terminate()  # which ends its worker too
    outputs = [file.read_text() for file in files]
    assert [agent.wait(60) for agent in agents] == [0, 0], "\n".join(output[-4000:] for output in outputs)
    assert "training on 2 devices" in outputs[0] and "2 processes on CPU (gloo)" in outputs[1]
    assert_same_metrics(logged(outputs[0])[-1:], [expected])
    assert not logged(outputs[1])


def _wait(processes, seconds):
    """Until all have ended, one has failed (then the others would wait for it), or the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        codes = [process.poll() for process in processes]
        if None not in codes or any(codes):
            return
        time.sleep(0.1)


def test_configuration():
    """It sets nothing that one of submitit's executors lacks, and asks for the number of processes."""
    text = (CONFIG / "run_config/nodes.yaml").read_text()
    parts = yaml.safe_load(text)
    assert text.startswith("# @package _global_\n") and parts["distributed_training"]["distributed_world_size"] == "???"
    common = {"nodes", "tasks_per_node", "gpus_per_node", "cpus_per_task", "mem_gb", "timeout_min", "name"}
    assert parts["hydra"]["launcher"].keys() <= common


@needs_submitit
@pytest.mark.thorough
def test_submitit(tmp_path):
    """A sweep over two lambdas, each in a job of two tasks."""
    process = run(
        SCRIPTS / "fairseq-hydra-train", "--multirun", "--config-dir", CONFIG, "--config-name", "skip_rnn",
        "hydra/launcher=submitit_local", "+run_config=nodes", "hydra.launcher.tasks_per_node=2",
        "hydra.launcher.cpus_per_task=1", "distributed_training.distributed_world_size=2", "hydra.sweep.dir=sweep",
        "task.train_size=32", "task.valid_size=16", "task.sequence_length=10", "dataset.batch_size=8",
        "dataset.num_workers=0", "common.cpu=true", "model.hidden_size=4", "optimization.max_update=2",
        "criterion.cost_per_sample=0,1e-2", cwd=tmp_path, PYTHONPATH=ROOT,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[-3000:]
    for number, cost in enumerate((0, 1e-2)):
        folder = tmp_path / "sweep" / str(number)
        log = (folder / "hydra_train.log").read_text()
        assert "training on 2 devices" in log
        valid = json.loads(log[log.index('{"epoch": 1, "valid_loss"') :].splitlines()[0])
        assert (float(valid["valid_budget_loss"]) > 0) == (cost > 0)
        state = torch.load(folder / "checkpoints/checkpoint_last.pt")
        assert state["optimizer_history"][-1]["num_updates"] == 2
        assert state["cfg"]["criterion"]["cost_per_sample"] == cost


@needs_submitit
@pytest.mark.thorough
def test_slurm_options_fit():
    """hydra composes the page's command for Slurm (which is not run)."""
    command = [
        SCRIPTS / "fairseq-hydra-train", "--config-dir", CONFIG, "--config-name", "skip_rnn",
        "hydra/launcher=submitit_slurm", "+run_config=nodes", "hydra.launcher.nodes=2",
        "hydra.launcher.gpus_per_node=8", "hydra.launcher.partition=gpu",
        "distributed_training.distributed_world_size=16", "--cfg", "hydra", "--package", "hydra.launcher",
    ]  # fmt: skip
    process = run(*command, PYTHONPATH=ROOT)
    assert process.returncode == 0, process.stderr[-3000:]
    launcher = yaml.safe_load(process.stdout)
    assert launcher["_target_"].endswith("SlurmLauncher") and launcher["partition"] == "gpu"
    assert (launcher["nodes"], launcher["gpus_per_node"], launcher["tasks_per_node"]) == (2, 8, 1)
