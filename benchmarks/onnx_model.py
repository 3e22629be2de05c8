"""Converts a GRU or LSTM stack to an ONNX model, and opens a session of onnxruntime that runs it."""

from typing import Sequence

import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

from skiprnn_plugin.modules import SkipGRU, SkipLSTM
from skiprnn_plugin.modules.skip_rnn import SkipRNNBase

OPSET, IR = 17, 10
ORDER = {SkipGRU: (1, 0, 2), SkipLSTM: (0, 3, 1, 2)}  # ONNX has z, r, h and i, o, f, c


def open_session(skip: SkipRNNBase, every_step: bool, threads: int) -> "onnxruntime.InferenceSession":
    """A session with input ``x``, [T, B, D], and the output after every step, [T, B, H], or the last, [B, H]."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    model = build_model(skip, every_step).SerializeToString()
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def build_model(skip: SkipRNNBase, every_step: bool) -> "onnx.ModelProto":
    """A model of ONNX's GRU or LSTM operators with the weights of ``skip``. It updates at every step and starts from a
    state of zeros."""
    operator = "LSTM" if isinstance(skip, SkipLSTM) else "GRU"
    attributes = {"hidden_size": skip.hidden_size}
    if operator == "GRU":
        attributes["linear_before_reset"] = int(skip.reset_after)
    nodes, values, source = [], [], "x"
    for layer in range(skip.num_layers):
        names = [f"{name}{layer}" for name in ("W", "R", "B")]
        values += [_constant(name, value) for name, value in zip(names, _weights(skip, layer))]
        last_only = layer == skip.num_layers - 1 and not every_step
        outputs, axis = (["", "Y_h"], 0) if last_only else ([f"Y{layer}"], 1)  # [1, B, H], [T, 1, B, H]
        nodes.append(helper.make_node(operator, [source, *names], outputs, **attributes))
        source = f"h{layer}"
        values.append(_constant(f"directions{layer}", torch.tensor([axis])))
        nodes.append(helper.make_node("Squeeze", [outputs[-1], f"directions{layer}"], [source]))
    sizes = ["T", "B", skip.hidden_size][0 if every_step else 1 :]
    graph = helper.make_graph(
        nodes,
        operator,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["T", "B", skip.input_size])],
        [helper.make_tensor_value_info(source, TensorProto.FLOAT, sizes)],
        values,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)


def _weights(skip: SkipRNNBase, layer: int) -> Sequence[Tensor]:
    """The matrices W and R and the bias B of ONNX, with a leading dimension of 1 for the direction."""
    order = next(order for module, order in ORDER.items() if isinstance(skip, module))

    def reordered(name):
        blocks = getattr(skip, f"{name}_l{layer}").detach().chunk(len(order))
        return torch.cat([blocks[position] for position in order])

    biases = torch.cat([reordered("bias_ih"), reordered("bias_hh")])
    return [array.unsqueeze(0) for array in (reordered("weight_ih"), reordered("weight_hh"), biases)]


def _constant(name: str, value: Tensor) -> "onnx.TensorProto":
    return numpy_helper.from_array(value.numpy(), name)
