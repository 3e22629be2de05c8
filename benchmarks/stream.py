"""``python -m benchmarks.stream``: how long it takes to read sequences sample by sample.

First, one sequence whose every sample is read: a call of ``stream.update`` beside a call of the module with one step,
of ``torch.nn.GRU`` and of onnxruntime's GRU, which carry their state from call to call; and a step of the C library
beside a step of ``skiprnn_forward`` on a long sequence. Then many sequences that read only what their gates want,
each at times of its own: ``stream.feed`` beside the same peers, which are given every sample. Weights and samples are
random; a bisection of the gate's bias gives the fraction of samples used. Everything runs on one thread of the CPU, in
float32, and times are those of the processor: a call takes microseconds, and other programs would be measured too.
Results are compared before anything is timed.
"""

import argparse
import importlib.util
import sys
from pathlib import Path
from statistics import median
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
from torch import Tensor, nn
from tqdm import tqdm

from skiprnn_plugin.cli.command import as_table, run_command
from skiprnn_plugin.modules import SkipGRU, to_torch

from .command import begin_report, check_options, describe_origin, write_report
from .timing import time_interleaved

LONG = 400  # steps of the sequences that C code reads in one call, and that many sequences read again and again
SATURATED = 100.0  # a bias with which the gate updates at every step
UPDATE, STEP_IN_C, STEP_OF_FORWARD = "stream.update", "step of the stream in C", "step of skiprnn_forward"
FEED, MODULE, TORCH, ONNX = "stream.feed", "module", "torch.nn.GRU", "onnxruntime GRU"


class Contestant:
    """Calls a function again and again; ``count`` is how many steps or calls one ``run`` has."""

    def __init__(self, call: Callable[[], Any], count: int, calls: int = 1):
        self.call, self.count, self.calls = call, count, calls

    def run(self) -> None:
        for _ in range(self.calls):
            self.call()

    def refresh(self) -> None:
        """Nothing; timing calls it before ``run``."""


class OnnxGRU:
    """onnxruntime's GRU operator for one step. Called with x [B, D], it returns h [B, H] and keeps it."""

    def __init__(self, rnn: SkipGRU, h: Tensor):
        import onnxruntime

        from .onnx_model import build_model

        model = build_model(rnn, every_step=False)
        (gru,) = (node for node in model.graph.node if node.op_type == "GRU")
        gru.input.extend(["", "h"])
        size = model.graph.input.add()
        size.CopyFrom(model.graph.input[0])
        size.name, size.type.tensor_type.shape.dim[0].dim_value = "h", 1
        size.type.tensor_type.shape.dim[2].dim_value = rnn.hidden_size
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self.h = h.numpy()

    def __call__(self, x):
        (self.h,) = self.session.run(None, {"x": x[None], "h": self.h[None]})
        return self.h


class ModuleAtOneStep:
    """A module with one step in each call, which carries its state from call to call, as it was done before streams."""

    def __init__(self, module: nn.Module, state):
        self.module, self.state = module, state

    def __call__(self, x: Tensor) -> Tensor:
        output, self.state, *_ = self.module(x.unsqueeze(1), self.state)
        return output[:, 0]


def build(inputs: int, hidden: int, seed: int) -> SkipGRU:
    """A Skip GRU in evaluation mode whose gate updates at every step, with different probabilities."""
    torch.manual_seed(seed)
    rnn = SkipGRU(inputs, hidden, update_bias=SATURATED).eval().requires_grad_(False)
    nn.init.normal_(rnn.update_weight, std=3 * hidden**-0.5)
    nn.init.zeros_(rnn.initial_h)
    return rnn


def set_fraction(rnn: SkipGRU, x: Tensor, fraction: float) -> float:
    """Set the gate's bias by bisection so that about this fraction of the samples is used, once the sequences have run
    for some time. Returns the fraction."""
    low, high = -SATURATED, SATURATED
    for _ in range(24):
        nn.init.constant_(rnn.update_bias, (low + high) / 2)
        used = rnn(x)[2][:, LONG // 2 :].mean().item()
        low, high = (rnn.update_bias.item(), high) if used < fraction else (low, rnn.update_bias.item())
    return used


def check(got: Tensor, expected: Tensor, name: str) -> None:
    """Raises RuntimeError if a result is wrong."""
    if not torch.allclose(torch.as_tensor(got), expected, atol=1e-5):
        raise RuntimeError(f"{name}: expected another output")


def peers(rnn: SkipGRU, h: Tensor) -> Dict[str, Callable]:
    """What reads a sample of every sequence in each call, and updates at all of them; by name."""
    found: Dict[str, Callable] = {TORCH: ModuleAtOneStep(to_torch(rnn).eval().requires_grad_(False), h.unsqueeze(0))}
    if all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime")):
        found[ONNX] = OnnxGRU(rnn, h)
    return found


def measure_calls(args: argparse.Namespace, inputs: int) -> List[Dict[str, Any]]:
    """Times of a call, or of a step, of one sequence whose every sample is read."""
    rnn = build(inputs, args.hidden_size, args.seed)
    x = torch.randn(1, LONG, inputs)
    sample, array = x[:, 0].contiguous(), x[:, 0].numpy()
    output, (h, *_), _ = rnn(x[:, :1])
    stream, others = rnn.stream(), peers(rnn, rnn.initial_h[:, 0])
    stream.update(sample)
    if not torch.equal(stream.output, output[:, 0]):
        raise RuntimeError(f"{UPDATE}: expected another output")
    module = ModuleAtOneStep(rnn, None)
    check(module(sample), output[:, 0], MODULE)
    for name, call in others.items():
        check(call(array if name == ONNX else sample), output[:, 0], name)
    calls = 50
    contestants = {
        UPDATE: Contestant(lambda: stream.update(sample), calls, calls),
        f"{UPDATE}, numpy": Contestant(lambda: stream.update(array), calls, calls),
        MODULE: Contestant(lambda: module(sample), calls, calls),
        **{
            name: Contestant(lambda call=call, given=array if name == ONNX else sample: call(given), calls, calls)
            for name, call in others.items()
        },
        STEP_IN_C: Contestant(lambda: stream.feed(x), LONG),
        STEP_OF_FORWARD: Contestant(lambda: rnn(x, last_only=True), LONG),
    }
    return time_all(args, contestants, {"inputs": inputs, "hidden": args.hidden_size, "streams": 1}, 1.0)


def measure_streams(args: argparse.Namespace, fraction: float) -> List[Dict[str, Any]]:
    """Times of a tick, in which every one of many sequences has a new sample."""
    rows, ticks = args.streams, 20
    rnn = build(args.sensors, args.units, args.seed)
    x = torch.randn(rows, LONG, args.sensors)
    used = set_fraction(rnn, x[: min(rows, 200)], fraction)
    by_tick = x.transpose(0, 1).contiguous()
    stream = rnn.stream(rows)
    for row in range(rows):  # the sequences join one after the other
        stream.feed(x[row : row + 1, : row % 100 + 1], [row])
    module = ModuleAtOneStep(rnn, stream.state)
    for tick in range(100):
        stream.feed(by_tick[tick])
        check(module(by_tick[tick]), stream.output, FEED)
    others = peers(rnn, rnn.initial_h[0].repeat(rows, 1))
    whole = to_torch(rnn)(x[:, :1], rnn.initial_h.repeat(1, rows, 1))[0][:, 0].detach()
    for name, call in others.items():
        check(call(by_tick[0].numpy() if name == ONNX else by_tick[0]), whole, name)

    def reading(call: Callable, convert: Callable) -> Contestant:
        samples, tick = [convert(sample) for sample in by_tick], 0

        def run():
            nonlocal tick
            call(samples[tick])
            tick = (tick + 1) % LONG

        return Contestant(run, ticks, ticks)

    contestants = {FEED: reading(stream.feed, lambda sample: sample), MODULE: reading(module, lambda sample: sample)}
    for name, call in others.items():
        contestants[name] = reading(call, Tensor.numpy if name == ONNX else lambda sample: sample)
    shape = {"inputs": args.sensors, "hidden": args.units, "streams": rows}
    return time_all(args, contestants, shape, used)


def time_all(
    args: argparse.Namespace, contestants: Dict[str, Contestant], shape: Dict[str, int], used: float
) -> List[Dict[str, Any]]:
    """An entry for each contestant."""
    for contestant in contestants.values():
        contestant.run()  # warm-up
    times = time_interleaved(contestants, args.seconds, "processor")
    seconds = {name: median(times[name]) / contestants[name].count for name in contestants}
    first = next(iter(contestants))
    return [
        {
            **shape,
            "used": used if name in (FEED, MODULE) else 1.0,
            "contestant": name,
            "runs": len(times[name]),
            "seconds": seconds[name],
            "times_first": seconds[name] / seconds[first],
        }
        for name in contestants
    ]


def as_markdown(report: Dict[str, Any]) -> str:
    machine, versions = report["machine"], report["versions"]
    rows = [
        [
            *(f"{entry[name]:,}" for name in ("streams", "inputs", "hidden")),
            f"{entry['used']:.1%}",
            entry["contestant"],
            f"{entry['seconds'] * 1e6:,.1f}",
            f"{entry['times_first']:.2f}",
        ]
        for entry in report["measurements"]
    ]
    return (
        f"Reading sample by sample; {machine['processor']} ({machine['instructions']}), one thread, "
        f"torch {versions['torch']}, onnxruntime {versions['onnxruntime']}; {describe_origin(report)}.\n"
        "Median processor time of a call, of a step, or of a tick of all streams; how many times "
        "that of the first row with the same sizes and use.\n\n"
        + as_table(["streams", "features", "units", "used", "contestant", "us", "times the first"], rows)
        + "\n"
    )


def run(args: argparse.Namespace) -> str:
    least = {"inputs": 1, "hidden_size": 1, "streams": 1, "sensors": 1, "units": 1}
    check_options(args, least)
    torch.set_num_threads(1)
    report = begin_report(**{name: getattr(args, name) for name in (*least, "fractions", "seconds", "seed")})
    parts = [*((measure_calls, inputs) for inputs in args.inputs), *((measure_streams, f) for f in args.fractions)]
    with torch.inference_mode():
        for measure, value in tqdm(parts, unit="part", file=sys.stderr):
            report["measurements"] += measure(args, value)
    text = as_markdown(report)
    write_report(report, args.output, text)
    return text


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stream", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--inputs", type=int, nargs="*", default=[3, 6, 40, 300], help="features of one sequence (default: 3 6 40 300)")
    add("--hidden-size", type=int, default=110, help="units for one sequence (default: %(default)s)")
    add("--fractions", type=float, nargs="*", default=[0.16, 0.08], help="samples used by many (default: 0.16 0.08)")
    add("--streams", type=int, default=1000, help="how many are many (default: %(default)s)")
    add("--sensors", type=int, default=6, help="features of many sequences (default: %(default)s)")
    add("--units", type=int, default=64, help="units for many sequences (default: %(default)s)")
    add("--seconds", type=float, default=20, help="seconds for each part (default: %(default)s)")
    add("--seed", type=int, default=0, help="seed of weights and samples (default: %(default)s)")
    add("--output", type=Path, metavar="FILE.json", help="all numbers; the table goes to FILE.md")
    return run_command("benchmarks.stream", run, parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
