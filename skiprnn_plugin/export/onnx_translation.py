"""Lets ``torch.onnx.export`` translate models of your own that contain a Skip RNN: the registered operator becomes a
function of standard ONNX operators, with a loop over the steps."""

import itertools
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, Sequence

import numpy as np
import torch

from ..ops.cells import CELLS
from ..ops.custom_op import _parse  # importing it registers the operator
from .onnx_file import _CELLS, _any, _Graph, _Model, _type, _value

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

    operands, weights, options, *_ = _parse(arguments)
    if options.cell not in _CELLS:
        raise ValueError(f"cell: expected one of {', '.join(_CELLS)} for ONNX, got {options.cell!r}")
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


class _Layers(_Model):
    """The cells and the gate, with weights that are inputs of the graph instead of constants."""

    def __init__(self, graph: _Graph, options, layers: List[List[str]], gate):
        self.parts = SimpleNamespace(
            cell=options.cell, has_c=CELLS[options.cell].has_c, gate_layers=tuple(options.gate_layers)
        )
        self.graph, self.layers, self.gate = graph, layers, gate
        self.states = ["h", "c"] if self.parts.has_c else ["h"]
        self.one, self.threshold = graph.constant(1), graph.constant(options.threshold)


def _make_graph(given, num_weights: int, options) -> _Graph:
    """The nodes of the function; ``given`` are the names of its inputs but for the weights."""
    from onnx import helper

    graph = _Graph()
    layers = [[f"weight_{first + number}" for number in range(4)] for first in range(0, num_weights, 4)]
    gate = (graph.op("Transpose", "gate_weight"), "gate_bias") if "gate_weight" in given else None
    model = _Layers(graph, options, layers, gate)
    first_axis, last_layer = graph.constant([1], np.int64), graph.constant(len(layers) - 1, np.int64)
    steps = graph.op("Squeeze", graph.op("Shape", "x", start=1, end=2))
    zero, true = graph.constant(0), graph.constant(True, np.bool_)

    body = _Graph(graph)
    old = {name: f"{name}_before" for name in (*model.states, "p", "acc")}
    if "begin" in given:
        is_real = body.op("And", body.op("GreaterOrEqual", "time_step", "begin"), body.op("Less", "time_step", "end"))
    elif "end" in given:
        is_real = body.op("Less", "time_step", "end")
    else:
        batch = body.op("Shape", "x", start=0, end=1)
        is_real = body.op("Expand", true, batch)
    room = body.op("Sub", model.one, old["acc"])
    v = body.op("Add", old["acc"], body.op("Where", body.op("LessOrEqual", old["p"], room), old["p"], room))
    if "schedule" in given:
        chosen = body.op("Gather", "schedule", "time_step", axis=1)
    else:
        limit = body.op("Gather", "noise", "time_step", axis=1) if "noise" in given else model.threshold
        chosen = body.op("Not", body.op("LessOrEqual", v, limit))  # a NaN p updates, as in the plugin
    update = body.op("And", chosen, is_real)

    then = _Graph(graph)
    new_h, new_c, read = model.candidates(then, then.op("Gather", "x", "time_step", axis=1), old["h"], old.get("c"))
    rows = then.op("Unsqueeze", update, graph.constant([0, 2], np.int64))
    results = [then.op("Where", rows, new, old[name]) for name, new in zip(model.states, (new_h, new_c))]
    if gate is None:
        results.append(then.op("Identity", old["p"]))
    else:
        results.append(then.op("Where", update, model.update_probability(then, read), old["p"]))
    kinds = [(np.float32, [None] * 3)] * len(model.states) + [(np.float32, [None])]
    then_graph = helper.make_graph(then.nodes, "update", [], [_value(*item) for item in _name(results, kinds)])
    other = _Graph(graph)
    kept = [other.op("Identity", old[name]) for name in (*model.states, "p")]
    else_graph = helper.make_graph(other.nodes, "skip", [], [_value(*item) for item in _name(kept, kinds)])
    new = body.op("If", _any(body, update), outputs=len(kinds), then_branch=then_graph, else_branch=else_graph)
    new = [new] if isinstance(new, str) else new
    acc = body.op("Identity", old["acc"])
    if gate is not None:
        acc = body.op("Where", update, zero, body.op("Where", is_real, v, old["acc"]))
    scanned = [(body.op("Cast", update, to=_type(np.float32)), np.float32, [None])]
    if not options.last_only:
        top = body.op("Gather", new[0], last_layer, axis=0)
        real_rows = body.op("Unsqueeze", is_real, first_axis)
        scanned.append((body.op("Where", real_rows, top, zero), np.float32, [None, None]))
    carried = [*kinds, (np.float32, [None])]
    body_graph = helper.make_graph(
        body.nodes,
        "step",
        [
            _value("time_step", np.int64, []),
            _value("condition", np.bool_, []),
            *(_value(*item) for item in _name(list(old.values()), carried)),
        ],
        [
            _value(body.op("Identity", "condition"), np.bool_, []),
            *(_value(*item) for item in _name([*new, acc], carried)),
            *(_value(*item) for item in scanned),
        ],
    )
    starts = [*model.states, "p", "acc"]
    ends = graph.op("Loop", steps, true, *starts, outputs=len(starts) + len(scanned), body=body_graph)
    for name, end in zip(starts, ends):
        graph.call(f"{name}_out", "Identity", end)
    empty = graph.constant(np.zeros(0))
    graph.call("saved", "Identity", empty)
    if not model.parts.has_c:  # the operator has an empty tensor there
        graph.call("c_out", "Identity", empty)
    graph.call("updates", "Transpose", ends[len(starts)], perm=[1, 0])
    if options.last_only:
        graph.call("output", "Gather", "h_out", last_layer, axis=0)
    else:
        graph.call("output", "Transpose", ends[-1], perm=[1, 0, 2])
    return graph


def _name(names: Sequence[str], kinds: Sequence) -> List:
    return [(name, *kind) for name, kind in zip(names, kinds)]
