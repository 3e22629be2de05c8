"""What ONNX graphs are made of: nodes by name, and those of the cells and the gate, by the equations of
ops/reference.py."""

from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np

from ..ops.cells import CELLS


class Graph:
    """Collects the nodes of a graph. Names are unique in the whole model, as inner graphs use those of outer ones."""

    def __init__(self, outer: Optional["Graph"] = None):
        self.nodes: List = []
        self.initializers = [] if outer is None else outer.initializers
        self.names = {} if outer is None else outer.names

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes):
        """Add a node; returns the name of its output, or the names of its ``outputs``."""
        from onnx import helper

        names = [self.name(kind) for _ in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def call(self, output: str, kind: str, *inputs: str, **attributes) -> None:
        """Add a node whose output has this name."""
        from onnx import helper

        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))

    def constant(self, value, dtype=np.float32, name: Optional[str] = None) -> str:
        from onnx import numpy_helper

        name = name or self.name("constant")
        self.initializers.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def name(self, kind: str) -> str:
        self.names[kind] = self.names.get(kind, 0) + 1
        return f"{kind.lower()}_{self.names[kind]}"


def value(name: str, dtype, shape: Sequence):
    """A graph's input or output."""
    from onnx import helper

    return helper.make_tensor_value_info(name, as_type(dtype), shape)


def as_type(dtype) -> int:
    """The number by which ONNX knows a numpy type."""
    from onnx import helper

    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def any_of(graph: Graph, values: str) -> str:
    """Whether any of the bools [B] is true; False for an empty batch."""
    numbers = graph.op("Cast", values, to=as_type(np.int64))
    return graph.op("Cast", graph.op("ReduceSum", numbers, keepdims=0), to=as_type(np.bool_))


class Cells:
    """The layers' cells and the gate, and the computations with them.

    Args:
        graph: the graph that holds their constants.
        cell: a name of ``CELL_NODES``.
        layers: weight_ih, weight_hh, bias_ih and bias_hh of each layer.
        gate: weight [len(gate_layers) * H, 1] and bias [1]; None without a gate.
        gate_layers: the layers that the gate reads.
        threshold: a step is updated if v exceeds it.

    Attributes:
        states: the names of the states, h and perhaps c.
        one, threshold: constants.
    """

    def __init__(
        self,
        graph: Graph,
        cell: str,
        layers: Sequence[Sequence[str]],
        gate: Optional[Tuple[str, str]],
        gate_layers: Sequence[int],
        threshold: float,
    ):
        self.cell, self.layers, self.gate, self.gate_layers = cell, layers, gate, gate_layers
        self.has_c = CELLS[cell].has_c
        self.states = ["h", "c"] if self.has_c else ["h"]
        self.one, self.threshold = graph.constant(1), graph.constant(threshold)

    def candidates(self, graph: Graph, x: str, h: str, c: Optional[str]) -> Tuple[str, Optional[str], List[str]]:
        """The candidate states h~ and c~ [L, B, H] after reading x [B, D], and those h~ or c~ that the gate reads."""
        new_h, new_c = [], []
        for number, layer in enumerate(self.layers):
            index = graph.constant(number, np.int64)
            h_layer = graph.op("Gather", h, index, axis=0)
            c_layer = graph.op("Gather", c, index, axis=0) if c else None
            h_layer, c_layer = CELL_NODES[self.cell](graph, self.one, x, h_layer, c_layer, *layer)
            new_h.append(h_layer)
            new_c.append(c_layer)
            x = h_layer
        read = new_c if self.has_c else new_h
        stacked = [_stack(graph, values) if values[0] else None for values in (new_h, new_c)]
        return stacked[0], stacked[1], [read[layer] for layer in self.gate_layers]

    def update_probability(self, graph: Graph, read: List[str]) -> str:
        """sigmoid(w . q + b), [B]."""
        q = read[0] if len(read) == 1 else graph.op("Concat", *read, axis=1)
        p = graph.op("Sigmoid", graph.op("Add", graph.op("MatMul", q, self.gate[0]), self.gate[1]))
        return graph.op("Squeeze", p, graph.constant([1], np.int64))

    def accumulate(self, graph: Graph, p: str, acc: str) -> str:
        """v [B], the sum of update probabilities that decides."""
        room = graph.op("Sub", self.one, acc)
        return graph.op("Add", acc, graph.op("Where", graph.op("LessOrEqual", p, room), p, room))

    def step(self, body: Graph, x: str, update: str, old: Dict[str, str], kinds: Sequence[Tuple]) -> List[str]:
        """The states and p after a step of a loop: new in the rows that are updated, as before in others. Nothing is
        computed where no row is updated.

        Args:
            body: the body of the loop, whose iteration is named ``time_step``.
            x: the input [B, T, D].
            update: the rows that are updated, bool [B].
            old: names of the states and of p before the step.
            kinds: type and shape of the states and of p.
        """
        from onnx import helper

        then, other = Graph(body), Graph(body)
        x_now = then.op("Gather", x, "time_step", axis=1)
        new_h, new_c, read = self.candidates(then, x_now, old["h"], old.get("c"))
        rows = then.op("Unsqueeze", update, body.constant([0, 2], np.int64))
        chosen = [then.op("Where", rows, new, old[name]) for name, new in zip(self.states, (new_h, new_c))]
        if self.gate is None:
            chosen.append(then.op("Identity", old["p"]))
        else:
            chosen.append(then.op("Where", update, self.update_probability(then, read), old["p"]))
        kept = [other.op("Identity", old[name]) for name in (*self.states, "p")]
        then_graph, else_graph = (
            helper.make_graph(graph.nodes, name, [], [value(result, *kind) for result, kind in zip(results, kinds)])
            for graph, name, results in ((then, "update", chosen), (other, "skip", kept))
        )
        any_update = any_of(body, update)
        return body.op("If", any_update, outputs=len(kinds), then_branch=then_graph, else_branch=else_graph)

    def top(self, graph: Graph, h: str) -> str:
        """The top layer of h [L, B, H]."""
        return graph.op("Gather", h, graph.constant(len(self.layers) - 1, np.int64), axis=0)


def _stack(graph: Graph, values: List[str]) -> str:
    """[B, H] of every layer -> [L, B, H]."""
    first = graph.constant([0], np.int64)
    rows = [graph.op("Unsqueeze", value, first) for value in values]
    return rows[0] if len(rows) == 1 else graph.op("Concat", *rows, axis=0)


def _linear(graph: Graph, x: str, weight: str, bias: str) -> str:
    return graph.op("Gemm", x, weight, bias, transB=1)


def _lstm(graph, one, x, h, c, weight_ih, weight_hh, bias_ih, bias_hh):
    sums = graph.op("Add", _linear(graph, x, weight_ih, bias_ih), _linear(graph, h, weight_hh, bias_hh))
    i, f, g, o = graph.op("Split", sums, outputs=4, axis=1)
    i, f, g, o = (graph.op(kind, gate) for kind, gate in zip(("Sigmoid", "Sigmoid", "Tanh", "Sigmoid"), (i, f, g, o)))
    c = graph.op("Add", graph.op("Mul", f, c), graph.op("Mul", i, g))
    return graph.op("Mul", o, graph.op("Tanh", c)), c


def _gru(graph, one, x, h, c, weight_ih, weight_hh, bias_ih, bias_hh):
    x_r, x_z, x_n = graph.op("Split", _linear(graph, x, weight_ih, bias_ih), outputs=3, axis=1)
    h_r, h_z, h_n = graph.op("Split", _linear(graph, h, weight_hh, bias_hh), outputs=3, axis=1)
    r, z = (graph.op("Sigmoid", graph.op("Add", *pair)) for pair in ((x_r, h_r), (x_z, h_z)))
    n = graph.op("Tanh", graph.op("Add", x_n, graph.op("Mul", r, h_n)))
    return _mix(graph, one, n, h, z), None


def _gru_reset_before(graph, one, x, h, c, weight_ih, weight_hh, bias_ih, bias_hh):
    x_r, x_z, x_n = graph.op("Split", _linear(graph, x, weight_ih, bias_ih), outputs=3, axis=1)
    weights = graph.op("Split", weight_hh, outputs=3, axis=0)
    biases = graph.op("Split", bias_hh, outputs=3, axis=0)
    r, z = (
        graph.op("Sigmoid", graph.op("Add", part, _linear(graph, h, weights[gate], biases[gate])))
        for gate, part in enumerate((x_r, x_z))
    )
    h_n = _linear(graph, graph.op("Mul", r, h), weights[2], biases[2])
    return _mix(graph, one, graph.op("Tanh", graph.op("Add", x_n, h_n)), h, z), None


def _rnn(graph, one, x, h, c, weight_ih, weight_hh, bias_ih, bias_hh):
    sums = graph.op("Add", _linear(graph, x, weight_ih, bias_ih), _linear(graph, h, weight_hh, bias_hh))
    return graph.op("Tanh", sums), None


def _mix(graph: Graph, one: str, new: str, old: str, z: str) -> str:
    """(1 - z) new + z old."""
    return graph.op("Add", graph.op("Mul", graph.op("Sub", one, z), new), graph.op("Mul", z, old))


CELL_NODES = {"lstm": _lstm, "gru": _gru, "gru_reset_before": _gru_reset_before, "rnn": _rnn}
