"""The phase ``graphs``: what a node of a CUDA graph costs, and the engine's inference in a graph."""

from functools import partial
from statistics import median
from typing import Callable, Dict

import torch

from ..timing import TIMERS
from .log import Log
from .precision import use
from .settings import Settings
from .times import Item, Ours, make_problem

NODES = 1000
RUNS = 20


def list_items(settings: Settings, log: Log) -> Dict[str, Callable]:
    return {
        f"{NODES} nodes": time_nodes,
        "inference in a graph": partial(time_inference, hidden_size=110, steps=784),
        "inference by launches in a graph": partial(time_inference, hidden_size=256, steps=128),
    }


def run_item(name: str, item: Callable, settings: Settings, log: Log) -> None:
    if settings.device != "cuda":
        log.write("graphs", f"{name}: needs a CUDA device", item=name)
        return
    item(name, settings, log)


def capture(function: Callable) -> torch.cuda.CUDAGraph:
    """A graph of a call, after a few calls on another stream, as torch's documentation asks for."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph


def measure(function: Callable) -> float:
    """The median of a call's microseconds."""
    return 1e6 * median(TIMERS["cuda"](function) for _ in range(RUNS))


def time_nodes(name: str, settings: Settings, log: Log) -> None:
    x = torch.zeros(1, device="cuda")

    def launch():
        for _ in range(NODES):
            x.add_(1)

    graph = capture(launch)
    replay, eager = measure(graph.replay) / NODES, measure(launch) / NODES
    log.write(
        "graphs", f"{name}: {replay:.2f} us a node, {eager:.2f} us launched one by one",
        item=name, us_of_node=replay, us_of_launch=eager,
    )  # fmt: skip


def time_inference(name: str, settings: Settings, log: Log, hidden_size: int, steps: int) -> None:
    use("bfloat16")
    item = Item(hidden_size, 1, 1, "bfloat16", "gru", "inference", steps)
    contestant = Ours(make_problem(item, "cuda"), "inference", settings.engine, 1.0)
    model, x = contestant.engine.problem.model.eval(), contestant.engine.problem.x
    model.engine = settings.engine
    held = {}

    @torch.no_grad()
    def infer():
        held["output"], _, held["updates"] = model(x, last_only=True)

    infer()
    expected = held["output"].clone()
    eager = measure(infer)
    try:
        graph = capture(infer)
    except ValueError as error:
        if not str(error).startswith("engine:"):
            raise
        log.write("graphs", f"{name}: refused: {error}", item=name, us_eager=eager)  # clearly, which is allowed
        return
    held["output"].zero_()
    replay = measure(graph.replay)
    error = None if torch.equal(held["output"], expected) else "the graph's output differs"
    text = f"{name}: {item.describe()}: {replay:.0f} us, {eager:.0f} us without"
    log.write("graphs", f"{text}{'; ' + error if error else ''}", item=name, us=replay, us_eager=eager, error=error)
