"""Lets ``torch.onnx.export`` translate models of your own that contain a Skip RNN: the registered operator becomes a
function of standard ONNX operators, with a loop over the steps."""

import itertools
from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np
import torch

from ..ops.custom_op import parse  # importing it registers the operator
from ..ops.types import PER_LAYER
from .onnx_graph import CELL_NODES, Cells, Graph, as_type, value

DOMAIN = "skiprnn_plugin"
TORCH_OPSET = 18  # in which torch writes a model, before it converts it to the one that is asked for
MOST_SAVED = 256  # more tensors than an engine keeps for its backward


def onnx_translations() -> Dict[Callable, Callable]:
    """What ``torch.onnx.export`` takes as ``custom_translation_table``, so that it can translate Skip RNN modules.

    ::

        torch.onnx.export(model, (x,), "model.onnx", dynamo=True, dynamic_shapes={"x": {0: DYNAMIC, 1: DYNAMIC}},
                          custom_translation_table=onnx_translations())

    with ``DYNAMIC = torch.export.Dim.DYNAMIC``. The module must be in evaluation mode. It takes every engine but
    ``reference``, which only ``auto`` with layer norm needs.

    Raises:
        ImportError: a package that ``torch.onnx.export`` needs, onnx or onnxscript, is not installed.
    """
    import onnx  # noqa: F401
    import onnxscript  # noqa: F401

    numbers = itertools.count()
    return {torch.ops.skiprnn_plugin.scan.default: lambda *arguments: _translate(f"scan_{next(numbers)}", arguments)}


def _translate(name: str, arguments: Sequence[Any]) -> List[Any]:
    """Record the call of an ONNX function; the arguments are those of the operator, ONNX values in place of tensors."""
    from onnx import helper
    from onnxscript import evaluator, ir

    operands, weights, options, *_ = parse(arguments)
    if options.cell not in CELL_NODES:
        raise ValueError(f"cell: expected one of {', '.join(CELL_NODES)} for ONNX, got {options.cell!r}")
    if operands.x.dtype not in (None, ir.DataType.FLOAT):
        raise ValueError(f"x: expected float32 for ONNX, got {operands.x.dtype.name}; call model.float() first")
    if operands.dropout_mask is not None:
        raise ValueError("dropout: expected a module in evaluation mode for ONNX; call model.eval() first")
    given = {key: value for key, value in operands._asdict().items() if value is not None}
    given.update((f"weight_{number}", value) for number, value in enumerate(weights))
    graph = _make_graph(set(given), len(weights), options)
    recorder = evaluator.default()
    _count_parts(graph.nodes)
    constants = [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in graph.initializers]
    outputs = ["output", "h_out", "c_out", "p_out", "acc_out", "updates", "saved"]
    opsets = [helper.make_opsetid("", TORCH_OPSET)]
    function = helper.make_function(DOMAIN, name, list(given), outputs, [*constants, *graph.nodes], opsets)
    recorder.functions[(DOMAIN, name, "")] = ir.serde.deserialize_function(function)
    node = ir.Node(DOMAIN, name, list(given.values()), num_outputs=len(outputs))
    recorder.nodes.append(node)
    *results, saved = node.outputs
    return [*results, *[saved] * MOST_SAVED]  # an ONNX model has no backward, but the program may name its tensors


def _count_parts(nodes) -> None:
    """Say into how many parts Split splits, which it had to find out itself before opset 18."""
    from onnx import helper

    for node in nodes:
        if node.op_type == "Split":
            node.attribute.append(helper.make_attribute("num_outputs", len(node.output)))
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _count_parts(attribute.g.node)


def _make_graph(given, num_weights: int, options) -> Graph:
    """The nodes of the function; ``given`` are the names of its inputs but for the weights."""
    from onnx import helper

    graph = Graph()
    layers = [[f"weight_{first + number}" for number in range(PER_LAYER)] for first in range(0, num_weights, PER_LAYER)]
    gate = (graph.op("Transpose", "gate_weight"), "gate_bias") if "gate_weight" in given else None
    cells = Cells(graph, options.cell, layers, gate, options.gate_layers, options.threshold)
    first_axis = graph.constant([1], np.int64)
    steps = graph.op("Squeeze", graph.op("Shape", "x", start=1, end=2))
    zero, true = graph.constant(0), graph.constant(True, np.bool_)
    limits = None if options.has_no_limits() else _Limits(graph, options)

    body = Graph(graph)
    old = {name: f"{name}_before" for name in (*cells.states, "p", "acc")}
    bounds = {"begin": "GreaterOrEqual", "end": "Less"}
    within = [body.op(compare, "time_step", bound) for bound, compare in bounds.items() if bound in given]
    if len(within) == 2:
        is_real = body.op("And", *within)
    elif within:
        is_real = within[0]
    else:
        batch = body.op("Shape", "x", start=0, end=1)
        is_real = body.op("Expand", true, batch)
    v = cells.accumulate(body, old["p"], old["acc"])
    if "schedule" in given:
        chosen = body.op("Gather", "schedule", "time_step", axis=1)
    else:
        limit = body.op("Gather", "noise", "time_step", axis=1) if "noise" in given else cells.threshold
        chosen = body.op("Not", body.op("LessOrEqual", v, limit))  # a NaN p updates, as in the plugin
        if limits is not None:
            chosen = limits.decide(body, chosen)
    update = body.op("And", chosen, is_real)

    kinds = [(np.float32, [None] * 3)] * len(cells.states) + [(np.float32, [None])]
    new = cells.step(body, "x", update, old, kinds)
    acc = body.op("Identity", old["acc"])
    if gate is not None:
        acc = body.op("Where", update, zero, body.op("Where", is_real, v, old["acc"]))
    scanned = [(body.op("Cast", update, to=as_type(np.float32)), np.float32, [None])]
    if not options.last_only:
        top = cells.top(body, new[0])
        real_rows = body.op("Unsqueeze", is_real, first_axis)
        scanned.append((body.op("Where", real_rows, top, zero), np.float32, [None, None]))
    starts, new = [*cells.states, "p", "acc"], [*new, acc]
    before, carried = list(old.values()), [*kinds, (np.float32, [None])]
    if limits is not None:
        starts += limits.start(graph, "begin" if "begin" in given else None)
        new += limits.count(body, update)
        before += limits.names
        carried += [(np.int64, [None])] * len(limits.names)
    body_graph = helper.make_graph(
        body.nodes,
        "step",
        [
            value("time_step", np.int64, []),
            value("condition", np.bool_, []),
            *(value(*item) for item in _name(before, carried)),
        ],
        [
            value(body.op("Identity", "condition"), np.bool_, []),
            *(value(*item) for item in _name(new, carried)),
            *(value(*item) for item in scanned),
        ],
    )
    ends = graph.op("Loop", steps, true, *starts, outputs=len(starts) + len(scanned), body=body_graph)
    for name, end in zip((*cells.states, "p", "acc"), ends):
        graph.call(f"{name}_out", "Identity", end)
    empty = graph.constant(np.zeros(0))
    graph.call("saved", "Identity", empty)
    if not cells.has_c:  # the operator has an empty tensor there
        graph.call("c_out", "Identity", empty)
    graph.call("updates", "Transpose", ends[len(starts)], perm=[1, 0])
    if options.last_only:
        graph.call("output", "Identity", cells.top(graph, "h_out"))
    else:
        graph.call("output", "Transpose", ends[-1], perm=[1, 0, 2])
    return graph


class _Limits:
    """``min_skip`` and ``max_skip`` in a loop over the steps, by the equation of ops/reference.py. ``names`` are what
    the loop carries for them, int64 [B]: the step after the last update, and the fewest steps to skip now."""

    names = ("since_before", "least_before")

    def __init__(self, graph: Graph, options):
        self.min_skip, self.max_skip, self.zero, self.one = (
            graph.constant(number, np.int64) for number in (options.min_skip, options.max_skip, 0, 1)
        )

    def start(self, graph: Graph, begin: Optional[str]) -> List[str]:
        """What is carried into the first step; ``begin`` is the sequences' first steps, None for 0."""
        zeros = graph.op("Expand", self.zero, graph.op("Shape", "x", start=0, end=1))
        return [begin or zeros, zeros]

    def decide(self, body: Graph, over: str) -> str:
        """Whether a step is updated, where ``over`` says that its v is above the threshold."""
        skipped = body.op("Sub", "time_step", self.names[0])
        may = body.op("And", over, body.op("GreaterOrEqual", skipped, self.names[1]))
        return body.op("Or", may, body.op("GreaterOrEqual", skipped, self.max_skip))

    def count(self, body: Graph, update: str) -> List[str]:
        """What is carried into the next step."""
        after = body.op("Add", "time_step", self.one)
        new = (after, self.min_skip)
        return [body.op("Where", update, value, before) for value, before in zip(new, self.names)]


def _name(names: Sequence[str], kinds: Sequence) -> List:
    return [(name, *kind) for name, kind in zip(names, kinds)]
