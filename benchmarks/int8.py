"""``python -m benchmarks.int8``: int8 recurrent weights beside float32, in time and in what trained models predict.

Without arguments, the time of an update: a stream of one sequence, all of whose samples are read, with float32 weights
and with int8 ones, in turns, on one thread of the CPU; the median processor time of a step. Weights and samples are
random.

With CHECKPOINT..., each model on a held-out split of its data, with float32 and int8 weights, and, where onnx and
onnxruntime are installed, as an ONNX model that reads a step, before and after onnxruntime's own dynamic quantisation,
which also rounds the state to 8 bits: its accuracy, the samples that it uses, and at how many of the steps it decides
otherwise than with float32 weights.
"""

import argparse
import copy
import dataclasses
import importlib.util
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import torch
from tqdm import tqdm

from skiprnn_plugin.arguments import UserError
from skiprnn_plugin.cli.command import as_table, run_command
from skiprnn_plugin.cli.loading import CHECKPOINT_HELP, add_loading_arguments, prepare_loading
from skiprnn_plugin.export.onnx_file import make_onnx
from skiprnn_plugin.export.parts import collect_parts
from skiprnn_plugin.hub import SkipRNNHub
from skiprnn_plugin.modules import SkipGRU, SkipLSTM
from skiprnn_plugin.runs.checkpoint import Loaded, load_checkpoint
from skiprnn_plugin.runs.find import find_file

from .command import begin_report, check_options, describe_origin, write_report
from .timing import time_interleaved

STEPS = 200
CELLS = {"gru": SkipGRU, "lstm": SkipLSTM}
FLOAT32, INT8, ONNX, ONNX_INT8 = "float32", "int8", "onnxruntime", "onnxruntime, quantised by it"
Results = List[Tuple[np.ndarray, np.ndarray]]  # of each sequence: the prediction, and which steps were used


class Reader:
    """Lets a stream read samples; timing calls ``run``."""

    def __init__(self, stream, x: torch.Tensor):
        self.stream, self.x = stream, x

    def run(self) -> None:
        self.stream.feed(self.x)

    def refresh(self) -> None:
        """Nothing; timing calls it before ``run``."""


def measure_update(args: argparse.Namespace, cell: str, hidden: int) -> Dict[str, Any]:
    torch.manual_seed(args.seed)
    rnn = CELLS[cell](args.inputs, hidden, update_bias=100.0).eval().requires_grad_(False)
    x = torch.randn(args.streams, STEPS, args.inputs)
    if not torch.allclose(rnn.quantized()(x)[0], rnn(x)[0], atol=0.05):
        raise RuntimeError(f"{INT8}: expected almost the output of {FLOAT32}")
    readers = {FLOAT32: Reader(rnn.stream(args.streams), x), INT8: Reader(rnn.quantized().stream(args.streams), x)}
    times = time_interleaved(readers, args.seconds, "processor")
    seconds = {name: median(times[name]) / STEPS for name in readers}
    return {"cell": cell, "hidden": hidden, **seconds, "times_as_fast": seconds[FLOAT32] / seconds[INT8]}


def read_split(loaded: Loaded) -> Iterator[Tuple[torch.Tensor, int]]:
    """The sequences [T, D] of a split, as the model reads them, and their classes."""
    if loaded.task.predicts != "classes" or loaded.task.per_step:
        raise UserError(f"{loaded.path}: expected a model that predicts one class for a sequence")
    for index in range(len(loaded.dataset)):
        item = loaded.dataset[index]
        yield torch.as_tensor(item["x"]), int(item["target"])


@torch.no_grad()
def run_module(model, sequences: Sequence[torch.Tensor]) -> Results:
    found = []
    for x in sequences:
        output, _, updates = model.rnn(x[None], last_only=True)
        found.append((model.head(output)[0].numpy(), updates[0].numpy() > 0))
    return found


def run_onnx(path: str, sequences: Sequence[torch.Tensor]) -> Results:
    """The results of an ONNX model that reads a step."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names, found = [output.name for output in session.get_outputs()], []
    shapes = {given.name: given.shape for given in session.get_inputs() if given.name in ("h", "c")}
    for x in sequences:
        state = {name: np.zeros((shape[0], 1, shape[2]), np.float32) for name, shape in shapes.items()}
        used, time, got = np.zeros(len(x), bool), 0, {}
        while time < len(x):
            used[time] = True
            inputs = {"x": x[time : time + 1].numpy(), "start": np.array([time == 0]), **state}
            got = dict(zip(names, session.run(None, inputs)))
            state = {name: got[f"{name}_out"] for name in ("h", "c") if f"{name}_out" in got}
            time += int(got["wait"][0])
        found.append((got["prediction"][0], used))
    return found


def judge_model(args: argparse.Namespace, path: Path, overrides: Dict[str, Any]) -> List[Dict[str, Any]]:
    loaded = load_checkpoint(find_file(path), args.split, overrides)
    sequences, classes = zip(*read_split(loaded))
    model = loaded.model.cpu()
    rounded = copy.copy(model)
    rounded._modules = {**model._modules, "rnn": model.rnn.quantized()}
    found: Dict[str, Results] = {FLOAT32: run_module(model, sequences), INT8: run_module(rounded, sequences)}
    if all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime")):
        from onnxruntime.quantization import quantize_dynamic

        parts = dataclasses.replace(collect_parts(SkipRNNHub(model, loaded.cfg, loaded.task)), mean=None, std=None)
        with tempfile.TemporaryDirectory() as folder:
            plain, quantized = f"{folder}/plain.onnx", f"{folder}/quantized.onnx"
            Path(plain).write_bytes(make_onnx(parts, "step").SerializeToString())
            quantize_dynamic(plain, quantized)
            found.update({ONNX: run_onnx(plain, sequences), ONNX_INT8: run_onnx(quantized, sequences)})
    steps = sum(map(len, sequences))
    return [
        {
            "checkpoint": str(path),
            "weights": name,
            "sequences": len(sequences),
            "accuracy": float(np.mean([values.argmax() == label for (values, _), label in zip(results, classes)])),
            "used": sum(int(used.sum()) for _, used in results) / steps,
            "decided_otherwise": sum(
                int((used != expected).sum()) for (_, used), (_, expected) in zip(results, found[FLOAT32])
            )
            / steps,
        }
        for name, results in found.items()
    ]


def describe_place(report: Dict[str, Any]) -> str:
    machine, versions = report["machine"], report["versions"]
    return (
        f"{machine['processor']} ({machine['instructions']}), torch {versions['torch']}, onnxruntime "
        f"{versions['onnxruntime']}; {describe_origin(report)}."
    )


def times_as_markdown(report: Dict[str, Any]) -> str:
    rows = [
        [
            entry["cell"],
            f"{entry['hidden']:,}",
            *(f"{entry[name] * 1e6:,.2f}" for name in (FLOAT32, INT8)),
            f"{entry['times_as_fast']:.2f}",
        ]
        for entry in report["measurements"]
    ]
    text = f"Median processor time of a step, one thread, {report['streams']} at a time, {report['inputs']} features"
    table = as_table(["cell", "units", "float32, us", "int8, us", "times as fast"], rows)
    return f"{text}; {describe_place(report)}\n\n{table}\n"


def accuracy_as_markdown(report: Dict[str, Any]) -> str:
    entries = report["measurements"]
    rows = [
        [
            entry["checkpoint"],
            entry["weights"],
            f"{entry['accuracy']:.4f}",
            f"{entry['used']:.1%}",
            f"{entry['decided_otherwise']:.1%}",
        ]
        for entry in entries
    ]
    text = f"Split {report['split'] or 'valid'}, {entries[0]['sequences']} sequences"
    table = as_table(["checkpoint", "weights", "accuracy", "samples used", "decided otherwise"], rows)
    return f"{text}; {describe_place(report)}\n\n{table}\n"


def run(args: argparse.Namespace) -> str:
    least = {"inputs": 1, "hidden_sizes": 1, "streams": 1}
    check_options(args, least)
    overrides = prepare_loading(args)
    if overrides and not args.checkpoints:
        raise UserError(f"--set, --update-threshold, --min-skip, --max-skip: expected a CHECKPOINT, got {overrides}")
    torch.set_num_threads(1)
    report = begin_report(**{name: getattr(args, name) for name in (*least, "cells", "seconds", "seed", "split")})
    parts: List[Tuple[Callable, Tuple]] = []
    if args.checkpoints:
        parts = [(judge_model, (args, path, overrides)) for path in args.checkpoints]
    else:
        parts = [(measure_update, (args, cell, hidden)) for cell in args.cells for hidden in args.hidden_sizes]
    for measure, arguments in tqdm(parts, unit="part", file=sys.stderr):
        with torch.inference_mode():
            found = measure(*arguments)
        report["measurements"] += found if isinstance(found, list) else [found]
    text = accuracy_as_markdown(report) if args.checkpoints else times_as_markdown(report)
    write_report(report, args.output, text)
    return text


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.int8", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("checkpoints", metavar="CHECKPOINT", type=Path, nargs="*", help=CHECKPOINT_HELP)
    add("--split", help="the held-out split for the models (default: the one that tables report)")
    add("--cells", nargs="+", choices=tuple(CELLS), default=list(CELLS), help="cells to time (default: gru lstm)")
    add("--hidden-sizes", type=int, nargs="+", default=[64, 110, 256, 512], help="units (default: 64 110 256 512)")
    add("--inputs", type=int, default=6, help="features of a sample (default: %(default)s)")
    add("--streams", type=int, default=1, help="sequences at a time (default: %(default)s)")
    add("--seconds", type=float, default=10, help="seconds for each size (default: %(default)s)")
    add("--seed", type=int, default=0, help="seed of weights and samples (default: %(default)s)")
    add("--output", type=Path, metavar="FILE.json", help="all numbers; the table goes to FILE.md")
    add_loading_arguments(parser)
    return run_command("benchmarks.int8", run, parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
