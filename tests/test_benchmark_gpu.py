"""``bash benchmarks/gpu.sh`` on the CPU: what it writes, what a wrong engine does to it, and what a kill leaves."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from benchmarks.gpu.log import Log
from benchmarks.gpu.policy import extrapolate, suggest_plans
from benchmarks.gpu.settings import PHASES, parse
from benchmarks.gpu.times import Item, draw_schedule

from .command_line import ROOT, run

COMMAND = ["bash", ROOT / "benchmarks/gpu.sh", "--small", "--workers", "1"]
# An engine that ends the process where it runs an LSTM, and whose outputs are too large otherwise
WRONG = """
import os, signal, sys
if "benchmarks.gpu.worker" in sys.orig_argv:
    from skiprnn_plugin.ops import ENGINES
    from skiprnn_plugin.ops.engines import Engine

    def scan(*arguments, cell, **options):
        if cell == "lstm":
            os.kill(os.getpid(), signal.SIGKILL)
        output, state, updates = right(*arguments, cell=cell, **options)
        return output * 1.01, state, updates

    right = ENGINES["reference"].scan
    ENGINES["wrong"] = Engine(scan)
"""


def environment(folder, **more):
    return {"DEVICE": "cpu", "OUT": str(folder), "PYTHON": sys.executable, **more}


def read(folder):
    """The records, by phase."""
    found = {}
    for line in (folder / "gpu.jsonl").read_text().splitlines():
        record = json.loads(line)
        found.setdefault(record["phase"], []).append(record)
    return found


@pytest.mark.thorough
def test_command(tmp_path):
    process = run(*COMMAND, "--engine", "indexed", cwd=tmp_path, **environment(tmp_path))
    assert process.returncode == 0, process.stdout[-3000:] + process.stderr[-2000:]
    found = read(tmp_path)
    assert {"start", "machine", *PHASES, "end"} == set(found)
    assert found["end"][0]["faults"] == []
    for record in sum(found.values(), []):
        assert not record.get("error"), record
        assert record["text"] in process.stdout
    compiled = {record["item"] for record in found["compile"]}
    assert {f"case {record['item']}" for record in found["correctness"]} <= compiled
    assert {f"plan {record['item']}" for record in found["kernels"]} <= compiled
    for record in found["correctness"]:
        assert record["rows"] > 0
        assert {"output", "updates", "gradient of x", "gradient of gate"} <= set(record["errors"])
    assert {record["mode"] for record in found["times"]} == {"training", "inference"}
    for record in found["times"]:
        results = {result["contestant"]: result for result in record["results"]}
        fastest = min(results[peer]["seconds_median"] for peer in ("torch", "torch-packed"))
        assert results[record["fastest"]]["seconds_median"] == fastest
        for fraction, share in (("100%", 1), ("50%", 6 / 12), ("20%", 2 / 12)):
            assert results[f"schedule {fraction}"]["fraction_ran"] == pytest.approx(share)
            assert results[f"gate {fraction}"]["ratio"] == fastest / results[f"gate {fraction}"]["seconds_median"]
    (plans,) = [record["plans"] for record in found["policy"] if record.get("plans") and record["mode"] == "training"]
    assert [plan[:3] for plan in plans][:2] == [[1, 1, 4], [32, 1, 4]]
    for record in found["epoch"]:
        assert len(record["seconds_of_epochs"]) == 2 and record["images"] == "random images"


@pytest.mark.thorough
def test_triton_under_the_interpreter(tmp_path):
    pytest.importorskip("triton")
    command = [*COMMAND, "--phases", "correctness"]
    process = run(*command, cwd=tmp_path, **environment(tmp_path, TRITON_INTERPRET="1"))
    assert process.returncode == 0, process.stdout + process.stderr
    records = read(tmp_path)["correctness"]
    assert {record["case"]["precision"] for record in records} == {"float32", "bfloat16"}


@pytest.mark.thorough
def test_wrong_engine_fails_but_is_timed(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(WRONG)
    command = [*COMMAND, "--engine", "wrong", "--phases", "correctness", "times"]
    process = run(*command, cwd=tmp_path, **environment(tmp_path, PYTHONPATH=str(tmp_path)))
    assert process.returncode == 1, process.stdout + process.stderr
    found = read(tmp_path)
    dead, *others = found["correctness"]
    assert dead["item"].startswith("lstm") and dead["error"] == "its process died with -9"
    assert len(others) == 2 and all("output: off by 1.0e-02" in record["error"] for record in others)
    for record in found["times"]:
        assert record["error"].startswith("beside torch, output: off by")
        assert record["results"][0]["seconds_median"] > 0
    assert len(found["end"][0]["faults"]) == 5


@pytest.mark.thorough
def test_a_kill_leaves_what_was_measured(tmp_path):
    path = tmp_path / "gpu.jsonl"
    command = [*map(str, COMMAND), "--engine", "indexed", "--phases", "correctness", "times"]
    with subprocess.Popen(command, env={**os.environ, **environment(tmp_path)}, stdout=subprocess.DEVNULL) as process:
        stop = time.time() + 120
        while not (path.exists() and '"phase": "correctness"' in path.read_text()):
            assert process.poll() is None and time.time() < stop
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    found = read(tmp_path)
    assert found["correctness"] and "end" not in found
    assert found["correctness"][0]["errors"]["output"] < 1e-2


def test_suggested_plan():
    def record(rows, warps, programs, us):
        kernels = {"inference": {"forward_kernel": us}, "training": {"forward_kernel": us, "chain_kernel": us, "x": 9}}
        sizes = {"cell": "gru", "hidden_size": 110, "precision": "bfloat16", "rows": rows, "warps": warps}
        return {**sizes, "programs": programs, "us_of_kernels": kernels, "us_per_step": {}}

    measured = [record(1, 8, 1, 1.0), record(1, 8, 132, 1.0), record(8, 8, 1, 2.0), record(8, 8, 132, 3.0)]
    plans = suggest_plans(measured)
    assert plans["gru", 110, "bfloat16", "inference"][1] == (1, 8, 1.0)
    assert plans["gru", 110, "bfloat16", "inference"][256] == (1, 8, 2.0)  # two waves
    assert plans["gru", 110, "bfloat16", "training"][1024] == (8, 8, pytest.approx(2 * (2 + 127 / 131)))
    assert extrapolate({1: 2.0, 132: 3.0}, 133) == 6.0


def test_schedule_is_exact():
    schedule = draw_schedule(Item(5, 7, 1, "float32", "gru", "training", 50), 0.2, "cpu")
    assert (schedule.sum(1) == 10).all()


@pytest.mark.parametrize("options", ["--limit 0", "--wheels nowhere", "--output nowhere/x.jsonl", "--phases sleep"])
def test_bad_option_is_one_error(options, capsys):
    with pytest.raises(SystemExit) as stop:
        parse(options.split())
    assert stop.value.code == 2 and options.split()[0] in capsys.readouterr().err.splitlines()[-1]


def test_records_of_processes_do_not_mix(tmp_path):
    log = Log(tmp_path / "log.jsonl", time.time())
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            for number in range(50):
                log.write("times", numbers=[number] * 100)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    assert len(log.read("times")) == 200
    with log.path.open("a") as file:
        file.write('{"phase": "times", "numb')  # another process is at it
    assert len(log.read("times")) == 200
