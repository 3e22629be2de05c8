"""The small tuples of tensors that the engines take and return."""

from typing import List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor
from torch.utils import _pytree

from .clock import NEVER


class SkipState(NamedTuple):
    """What a Skip RNN carries from one step, or one chunk of a sequence, to the next.

    Attributes:
        h: hidden state of every layer, [num_layers, B, H].
        c: cell state of every LSTM layer, [num_layers, B, H]; None for cells without one.
        p: update probability that the last update set, [B], float32 or wider. None means 1: the next step is updated.
        acc: what the skipped steps since then have added up to, [B], in the dtype of ``p``. None means 0.
    """

    h: Tensor
    c: Optional[Tensor] = None
    p: Optional[Tensor] = None
    acc: Optional[Tensor] = None

    def filled(self) -> "SkipState":
        """The same state, with tensors for ``p`` and ``acc`` if they are None."""
        h, c, p, acc = self
        options = {"dtype": torch.promote_types(h.dtype, torch.float32), "device": h.device}
        p = torch.ones(h.shape[1], **options) if p is None else p
        return SkipState(h, c, p, torch.zeros(h.shape[1], **options) if acc is None else acc)

    def keep_in_graph(self, parameters: Sequence[Optional[Tensor]]) -> "SkipState":
        """The same state, from which a gradient of 0 reaches ``parameters``, which a call may not use otherwise.

        DistributedDataParallel waits for the gradient of every parameter in every training update. In a trace there are
        no gradients, and torch.jit traces again without them, to check that it gets the same graph.
        """
        if torch.jit.is_tracing():
            return self
        sums = [value.sum() for value in parameters if value is not None and value.requires_grad]
        if not sums:
            return self
        never = torch.zeros((), dtype=torch.bool, device=self.h.device)
        return self._replace(h=torch.where(never, sum(sums).to(self.h.dtype), self.h))

    def detach(self) -> "SkipState":
        """The same values cut off from the graph, for truncated backpropagation through time."""
        return SkipState(*(value if value is None else value.detach() for value in self))


torch.serialization.add_safe_globals([SkipState])  # so that torch.load accepts a saved state
# So that torch.export.save accepts a module that takes or returns a state. The name is part of the files. The public
# register_pytree_node is for types that torch can't flatten otherwise, as it can every NamedTuple.
if hasattr(_pytree, "_register_namedtuple"):  # a private function, which only saving needs
    _pytree._register_namedtuple(SkipState, serialized_type_name="skiprnn_plugin.ops.types.SkipState")


class LayerWeights(NamedTuple):
    """Parameters of one layer; G is the cell's number of gates, ``input`` is D in the lowest layer and H above.

    Attributes:
        weight_ih: [G * H, input].
        weight_hh: [G * H, H].
        bias_ih: [G * H].
        bias_hh: [G * H].
        norm_weight: gain of the gates' layer norm, [N * H], where N is the number of gates that the cell normalises;
            None for no layer norm.
        norm_bias: bias of the layer norm, [N * H]; None for no layer norm.
    """

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor
    bias_hh: Tensor
    norm_weight: Optional[Tensor] = None
    norm_bias: Optional[Tensor] = None


class Gate(NamedTuple):
    """The unit that sets the update probability, p = sigmoid(weight . q + bias).

    Attributes:
        weight: [1, len(layers) * H].
        bias: [1].
        layers: the layers whose candidate states q consists of, lowest first. (The paper's W_p has columns for all
            layers; those of the other layers would be 0.)
    """

    weight: Tensor
    bias: Tensor
    layers: Tuple[int, ...] = (-1,)


class Operands(NamedTuple):
    """The tensors that a scan reads, except the layers' weights; None for those that are not given. Those from ``x`` to
    ``dropout_mask`` may need a gradient.

    Attributes:
        x: [B, T, D].
        h: [num_layers, B, H].
        c: like ``h``; None for cells without one.
        p: [B]; None means 1. Only engines that accept None are given it.
        acc: [B]; None means 0, as for ``p``.
        gate_weight: [1, len(gate_layers) * H]; None without a gate.
        gate_bias: [1]; None without a gate.
        dropout_mask: [num_layers - 1, B, H].
        begin: first real step of each sequence, int64 [B]; None means 0.
        end: the step after each sequence's last real one, int64 [B]; None means T.
        schedule: prescribed updates, bool [B, T].
        noise: u = v > noise, [B, T]; None means that ``threshold`` decides.
    """

    x: Tensor
    h: Tensor
    c: Optional[Tensor]
    p: Optional[Tensor]
    acc: Optional[Tensor]
    gate_weight: Optional[Tensor]
    gate_bias: Optional[Tensor]
    dropout_mask: Optional[Tensor]
    begin: Optional[Tensor] = None
    end: Optional[Tensor] = None
    schedule: Optional[Tensor] = None
    noise: Optional[Tensor] = None

    def differentiable(self) -> "Operands":
        """With None in place of the tensors that never have a gradient."""
        return self._replace(begin=None, end=None, schedule=None, noise=None)


class Options(NamedTuple):
    """What a scan takes besides tensors.

    Attributes:
        cell: a key of ``CELLS``.
        threshold: u = v > threshold, where there is no noise.
        gate_layers: the layers that the gate reads, counted from 0.
        last_only: whether the output is only the one after the last real step.
        min_skip: steps that are skipped after an update at least.
        max_skip: steps that are skipped at most; ``NEVER`` for no limit.
    """

    cell: str
    threshold: float
    gate_layers: Sequence[int]
    last_only: bool
    min_skip: int = 0
    max_skip: int = NEVER

    def has_no_limits(self) -> bool:
        """Whether the number of skipped steps is not limited."""
        return self.min_skip == 0 and self.max_skip == NEVER


class Results(NamedTuple):
    """What a scan computes; also the gradients of that, for an engine's backward.

    Attributes:
        output: [B, T, H], or [B, H] with ``last_only``.
        h: [num_layers, B, H].
        c: like ``h``; None for cells without one.
        p: [B].
        acc: [B].
        updates: [B, T], in the dtype of ``p``.
    """

    output: Optional[Tensor]
    h: Optional[Tensor]
    c: Optional[Tensor]
    p: Optional[Tensor]
    acc: Optional[Tensor]
    updates: Optional[Tensor]


def prescribe_updates(operands: Operands, options: Options, updates: Tensor) -> Tuple[Operands, Options]:
    """What a backward is given of a scan that made ``updates`` [B, T]. Where the number of skipped steps was limited,
    the updates have no gradient, like those of a schedule: so a schedule takes the place of the limits."""
    if options.has_no_limits():
        return operands, options
    return operands._replace(schedule=updates.bool()), options._replace(min_skip=0, max_skip=NEVER)


PER_LAYER = 4  # tensors of a layer without layer norm


def flatten_weights(weights: Sequence[LayerWeights]) -> List[Tensor]:
    """The tensors of all layers, lowest first, without those of layer norm, in the order of ``LayerWeights``."""
    return [tensor for w in weights for tensor in w[:PER_LAYER]]


def group_weights(tensors: Sequence[Tensor]) -> List[LayerWeights]:
    """The layers of which :func:`flatten_weights` made ``tensors``."""
    return [LayerWeights(*tensors[i : i + PER_LAYER]) for i in range(0, len(tensors), PER_LAYER)]


def split_operands(values: Sequence) -> Tuple[Operands, List]:
    """The operands, and the weights that follow them, where the values may be tensors or placeholders for them."""
    count = len(Operands._fields)
    return Operands(*values[:count]), list(values[count:])
