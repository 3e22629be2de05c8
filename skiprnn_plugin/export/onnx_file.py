"""ONNX models: ``step``, which reads one wanted sample, and ``sequence``, which reads whole sequences.

Both need only standard operators (opset 17).
"""

from typing import Iterator, List, Optional

import numpy as np

from ..ops.clock import NEVER
from ..ops.types import SkipState
from .onnx_graph import Cells, Graph, any_of, as_type, value
from .parts import Parts, check_threshold
from .waits import longest_waits

OPSET, IR_VERSION = 17, 8


def make_onnx(parts: Parts, what: str):
    """The model as an ``onnx.ModelProto``; ``what`` is ``"step"`` or ``"sequence"``.

    Inputs and outputs (D, H, L and O are the sizes of input, state, layers and output; c only for an LSTM):

    ``step``, to be called only with the samples that are wanted, the first sample of a stream included:
        x [B, D], start bool [B], h and c [L, B, H] -> prediction [B, O], h, c, p [B], wait int64 [B]: how many samples
        later the next wanted one comes (1: the next sample; 2**63 - 1: none). Where ``start`` is True a stream begins
        with the learned initial state, whatever h and c are.
    ``sequence``:
        x [B, T, D] with T at least 1, lengths int64 [B], h, c, p and acc [B] -> prediction [B, O] ([B, T, O] if the
        model predicts at every step), updates bool [B, T], h, c, p, acc.

    Of ``sequence``, inputs other than x may be left out: the lengths are then T, and the state the learned initial one.
    They are initializers that can be overridden, which onnxruntime's bindings for Java and Node.js do not support; so
    ``step`` has none of these.

    Raises:
        ImportError: the package onnx is not installed.
        ValueError: a threshold of 1 or more, with which only the first sample is ever read.
    """
    from onnx import checker, helper

    check_threshold(parts)
    graph = {"step": _make_step, "sequence": _make_sequence}[what](parts)
    used = set(_used_names(graph))
    unused = [tensor for tensor in graph.initializer if tensor.name not in used]
    for tensor in unused:
        graph.initializer.remove(tensor)
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="skiprnn-plugin",
    )
    helper.set_model_props(model, {"classes": "\n".join(parts.class_names), "predicts": parts.predicts})
    checker.check_model(model, full_check=True)
    return model


def _used_names(graph) -> Iterator[str]:
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _used_names(attribute.g)


class _Model:
    """The model's weights in a graph, and the computations that both models share."""

    def __init__(self, parts: Parts):
        self.parts, self.graph = parts, Graph()
        constant = self.graph.constant
        layers = [[constant(array) for array in parts.layer(number)] for number in range(parts.num_layers)]
        self.head = constant(parts.tensors["head_weight"]), constant(parts.tensors["head_bias"])
        gate = None
        if parts.gate_layers:
            gate = constant(parts.tensors["update_weight"][:, None]), constant(parts.tensors["update_bias"])
        self.cells = Cells(self.graph, parts.cell, layers, gate, parts.gate_layers, parts.threshold)

    def initial_state(self, state: str, name: str = "") -> str:
        """The learned initial ``h`` or ``c``, a constant [L, 1, H]."""
        return self.graph.constant(self.parts.tensors[f"initial_{state}"][:, None], name=name)

    def state_inputs(self, batch: Optional[str]) -> List:
        """The inputs h and c."""
        shape = [self.parts.num_layers, batch, self.parts.hidden_size]
        return [value(name, np.float32, shape) for name in self.cells.states]

    def started_states(self) -> List[str]:
        """h and c, or the learned initial state for the rows that start."""
        graph = self.graph
        starts = graph.op("Reshape", "start", graph.constant([1, -1, 1], np.int64))
        return [graph.op("Where", starts, self.initial_state(name), name) for name in self.cells.states]

    def expanded_states(self, x: str) -> List[str]:
        """h and c for the whole batch of ``x``."""
        graph, parts = self.graph, self.parts
        batch = graph.op("Shape", x, start=0, end=1)
        sizes = [graph.constant([size], np.int64) for size in (parts.num_layers, parts.hidden_size)]
        shape = graph.op("Concat", sizes[0], batch, sizes[1], axis=0)
        return [graph.op("Expand", name, shape) for name in self.cells.states]

    def normalized(self, x: str) -> str:
        """x as the model was trained to read it: normalised in double precision, as the plugin does."""
        parts, graph = self.parts, self.graph
        if parts.mean is None:
            return x
        mean, std = graph.constant(parts.mean, np.float64), graph.constant(parts.std, np.float64)
        wide = graph.op("Cast", x, to=as_type(np.float64))
        return graph.op("Cast", graph.op("Div", graph.op("Sub", wide, mean), std), to=as_type(np.float32))

    def predict(self, graph: Graph, output: str, h: str) -> None:
        """The prediction, named ``output``, from the top layer's output [..., H]."""
        product = graph.op("MatMul", h, graph.op("Transpose", self.head[0]))
        last = {"classes": "Softmax", "labels": "Sigmoid", "numbers": "Identity"}[self.parts.predicts]
        attributes = {"axis": -1} if last == "Softmax" else {}
        graph.call(output, last, graph.op("Add", product, self.head[1]), **attributes)


def _make_step(parts: Parts):
    from onnx import helper

    model = _Model(parts)
    graph, cells = model.graph, model.cells
    inputs = [value("x", np.float32, ["batch", parts.input_size]), value("start", np.bool_, ["batch"])]
    inputs += model.state_inputs("batch")
    states = SkipState(*model.started_states())
    h, c, read = cells.candidates(graph, model.normalized("x"), states.h, states.c)
    graph.call("h_out", "Identity", h)
    if parts.has_c:
        graph.call("c_out", "Identity", c)
    model.predict(graph, "prediction", cells.top(graph, h))
    if parts.gate_layers:
        graph.call("p", "Identity", cells.update_probability(graph, read))
        _add_wait(graph, parts.threshold)
    else:
        batch = graph.op("Shape", "x", start=0, end=1)
        graph.call("p", "Expand", cells.one, batch)
        graph.call("wait", "Expand", graph.constant(1, np.int64), batch)
    shape = [parts.num_layers, "batch", parts.hidden_size]
    outputs = [
        value("prediction", np.float32, ["batch", parts.output_size]),
        *(value(f"{name}_out", np.float32, shape) for name in cells.states),
        value("p", np.float32, ["batch"]),
        value("wait", np.int64, ["batch"]),
    ]
    return helper.make_graph(graph.nodes, "skip_rnn_step", inputs, outputs, graph.initializers)


def _add_wait(graph: Graph, threshold: float) -> None:
    """Add ``wait`` [B] from ``p`` [B]: by a table, or by additions where p is smaller than all of the table."""
    from onnx import helper

    table = longest_waits(threshold)
    column = graph.op("Unsqueeze", "p", graph.constant([1], np.int64))
    longer = graph.op("Cast", graph.op("LessOrEqual", column, graph.constant(table)), to=as_type(np.int64))
    skipped = graph.op("ReduceSum", longer, graph.constant([1], np.int64), keepdims=0)
    found = graph.op("Add", skipped, graph.constant(1, np.int64))
    is_long = graph.op("LessOrEqual", "p", graph.constant(table[-1]))
    any_long = any_of(graph, is_long)

    then = Graph(graph)
    acc = then.op("Sub", "p", "p")
    count = then.op("Cast", acc, to=as_type(np.int64))
    loop = _make_additions(graph, threshold)
    results = then.op("Loop", "", graph.constant(True, np.bool_), acc, count, is_long, outputs=3, body=loop)
    chosen = then.op("Where", is_long, results[1], found)
    then_graph = helper.make_graph(then.nodes, "long_waits", [], [value(chosen, np.int64, ["batch"])])
    other = Graph(graph)
    same = other.op("Identity", found)
    else_graph = helper.make_graph(other.nodes, "short_waits", [], [value(same, np.int64, ["batch"])])
    graph.call("wait", "If", any_long, then_branch=then_graph, else_branch=else_graph)


def _make_additions(graph: Graph, threshold: float):
    """The body of a loop that adds p until the sum exceeds the threshold, or does not change any more.

    Between two powers of 2 the sum grows by the same number at every addition but the first (which may round a tie in
    another way). So an iteration adds once, and then as many times as surely stay below the next power of 2 and the
    threshold; there are some iterations for each power of 2 instead of one for each skipped step.
    """
    from onnx import helper

    body, wide = Graph(graph), as_type(np.float64)
    limit = graph.constant(threshold, np.float32)
    powers = graph.constant([2.0**exponent for exponent in range(-149, 2)])
    added = body.op("Add", "acc_before", "p")
    over = body.op("Not", body.op("LessOrEqual", added, limit))
    stuck = body.op("And", body.op("Equal", added, "acc_before"), body.op("Not", over))

    column = body.op("Unsqueeze", added, graph.constant([1], np.int64))
    later = body.op("Where", body.op("Greater", powers, column), powers, graph.constant(np.inf))
    end = body.op("ReduceMin", later, axes=[1], keepdims=0)
    is_first = body.op("Less", "acc_before", body.op("Mul", end, graph.constant(0.5)))
    end = body.op("Min", end, limit)
    increment = body.op("Sub", body.op("Add", added, "p"), added)
    grows = body.op("Greater", increment, graph.constant(0))
    increment = body.op("Cast", body.op("Where", grows, increment, graph.constant(1)), to=wide)
    room = body.op("Sub", body.op("Cast", end, to=wide), body.op("Cast", added, to=wide))
    times = body.op("Sub", body.op("Floor", body.op("Div", room, increment)), graph.constant(2, np.float64))
    times = body.op("Max", times, graph.constant(0, np.float64))  # 2 fewer, as a division rounds
    times = body.op("Where", is_first, graph.constant(0, np.float64), times)
    jumped = body.op("Add", body.op("Cast", added, to=wide), body.op("Mul", times, increment))
    acc = body.op("Cast", jumped, to=as_type(np.float32))

    once = body.op("Add", "count_before", graph.constant(1, np.int64))
    ends = body.op("Or", over, stuck)
    count = body.op("Where", ends, once, body.op("Add", once, body.op("Cast", times, to=as_type(np.int64))))
    count = body.op("Where", stuck, graph.constant(NEVER, np.int64), count)
    count = body.op("Where", "waits_before", count, "count_before")
    waits = body.op("And", "waits_before", body.op("Not", ends))
    still = any_of(body, waits)
    batch = ["batch"]
    carried = (("acc_before", np.float32, acc), ("count_before", np.int64, count), ("waits_before", np.bool_, waits))
    inputs = [value("iteration", np.int64, []), value("condition", np.bool_, [])]
    inputs += [value(name, dtype, batch) for name, dtype, _ in carried]
    outputs = [value(still, np.bool_, []), *(value(name, dtype, batch) for _, dtype, name in carried)]
    return helper.make_graph(body.nodes, "additions", inputs, outputs)


def _make_sequence(parts: Parts):
    from onnx import helper

    model = _Model(parts)
    graph, cells = model.graph, model.cells
    inputs = [value("x", np.float32, ["batch", "time", parts.input_size]), value("lengths", np.int64, [None])]
    graph.constant([NEVER], np.int64, name="lengths")
    inputs += [*model.state_inputs(None), value("p", np.float32, [None]), value("acc", np.float32, [None])]
    for name in cells.states:
        model.initial_state(name, name)
    graph.constant([1], name="p")
    graph.constant([0], name="acc")
    batch = graph.op("Shape", "x", start=0, end=1)
    lengths, p, acc = (graph.op("Expand", name, batch) for name in ("lengths", "p", "acc"))
    states = model.expanded_states("x")
    x = model.normalized("x")
    true = graph.constant(True, np.bool_)
    steps = graph.op("Squeeze", graph.op("Shape", "x", start=1, end=2))

    body = Graph(graph)
    names = [f"{name}_before" for name in (*cells.states, "p", "acc")]
    old = dict(zip((*cells.states, "p", "acc"), names))
    real = body.op("Less", "time_step", lengths)
    v = cells.accumulate(body, old["p"], old["acc"])
    if parts.gate_layers:
        above = body.op("Not", body.op("LessOrEqual", v, cells.threshold))  # a NaN p updates, as in the plugin
        update = body.op("And", above, real)
    else:
        update = body.op("Identity", real)
    shape = [parts.num_layers, "batch", parts.hidden_size]
    kinds = [(np.float32, shape)] * len(cells.states) + [(np.float32, ["batch"])]
    new = cells.step(body, x, update, old, kinds)
    grown = body.op("Where", real, v, old["acc"]) if parts.gate_layers else body.op("Identity", old["acc"])
    acc_now = body.op("Where", update, graph.constant(0), grown)
    next_condition = body.op("Identity", "condition")
    scanned = [(body.op("Identity", update), np.bool_, ["batch"])]
    if parts.per_step:
        scanned.append((body.op("Identity", cells.top(body, new[0])), np.float32, ["batch", parts.hidden_size]))
    carried = [*zip(names, kinds), (old["acc"], (np.float32, ["batch"]))]
    body_graph = helper.make_graph(
        body.nodes,
        "step",
        [
            value("time_step", np.int64, []),
            value("condition", np.bool_, []),
            *(value(name, *kind) for name, kind in carried[: len(kinds)]),
            value(old["acc"], np.float32, ["batch"]),
        ],
        [
            value(next_condition, np.bool_, []),
            *(value(name, *kind) for name, kind in zip(new, kinds)),
            value(acc_now, np.float32, ["batch"]),
            *(value(*item) for item in scanned),
        ],
    )
    outputs = len(kinds) + 1 + len(scanned)
    results = graph.op("Loop", steps, true, *states, p, acc, outputs=outputs, body=body_graph)
    ends = [f"{name}_out" for name in (*cells.states, "p", "acc")]
    for name, result in zip(ends, results):
        graph.call(name, "Identity", result)
    graph.call("updates", "Transpose", results[len(ends)], perm=[1, 0])
    top = cells.top(graph, "h_out")
    if parts.per_step:
        top = graph.op("Transpose", results[-1], perm=[1, 0, 2])
    model.predict(graph, "prediction", top)
    middle = ["batch", "time"] if parts.per_step else ["batch"]
    values = [
        value("prediction", np.float32, [*middle, parts.output_size]),
        value("updates", np.bool_, ["batch", "time"]),
        *(value(name, *kind) for name, kind in zip(ends, [*kinds, (np.float32, ["batch"])])),
    ]
    return helper.make_graph(graph.nodes, "skip_rnn_sequence", inputs, values, graph.initializers)
