"""``SkipLSTM``, ``SkipGRU`` and ``SkipRNN``: Skip RNN in the manner of ``torch.nn``."""

import math
from typing import Optional, Sequence, Tuple, Union

import torch
from torch import Tensor, nn

from ..ops import CELLS, ENGINES, Gate, LayerWeights, SkipState, skip_scan
from ..ops.scan import check_threshold
from .init import INITS, init_gate, init_states


class SkipRNNBase(nn.Module):
    """What the Skip RNN modules share; a subclass sets ``cell``, a key of ``skiprnn_plugin.ops.CELLS``.

    Args:
        input_size: features of the input, D.
        hidden_size: units of each layer, H.
        num_layers: layers of the stack; one gate serves them all.
        batch_first: whether input and output are [B, T, .] rather than [T, B, .]. States are [num_layers, B, H] and
            ``schedule``, ``noise``, ``padding_mask`` and ``updates`` [B, T] either way.
        dropout: probability of dropping a unit between layers in training, one mask per sequence and layer for all
            its steps (variational dropout).
        gate: False for a plain RNN without a learned gate, which updates at every step or as ``schedule`` says.
        binarize: ``round``, u_t = v_t > threshold, or ``bernoulli``, u_t ~ Bernoulli(v_t).
        threshold: see ``binarize``. Set it on a trained model to make it skip more (higher) or less.
        update_bias: initial bias of the gate; 1 starts training with nearly every sample used.
        gate_layers: layers whose state the gate reads; None for the top one.
        layer_norm: layer norm of each gate before its nonlinearity (``reference`` engine only).
        init: ``authors`` or ``torch``, where the weights start.
        engine: see :func:`skiprnn_plugin.ops.skip_scan`.

    Parameters have the names and shapes of torch's modules (``weight_ih_l0``, ...), so that a state dict moves there
    and back; beside them stand ``update_weight`` [1, len(gate_layers) * H], ``update_bias`` [1], ``initial_h``
    and ``initial_c`` [num_layers, 1, H], and with layer norm ``norm_weight_l0``, ``norm_bias_l0``, ...
    """

    cell: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        batch_first: bool = True,
        dropout: float = 0.0,
        *,
        gate: bool = True,
        binarize: str = "round",
        threshold: float = 0.5,
        update_bias: float = 1.0,
        gate_layers: Optional[Sequence[int]] = None,
        layer_norm: bool = False,
        init: str = "authors",
        engine: str = "auto",
        device=None,
        dtype=None,
    ):
        super().__init__()
        for argument, value in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            if value < 1:
                raise ValueError(f"{argument}: expected at least 1, got {value}")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout: expected a probability in [0, 1), got {dropout}")
        check_threshold(threshold)
        if not math.isfinite(update_bias):
            raise ValueError(f"update_bias: expected a finite number, got {update_bias}")
        for argument, value, known in (
            ("binarize", binarize, ("round", "bernoulli")),
            ("init", init, INITS),
            ("engine", engine, ("auto", *ENGINES)),
        ):
            if value not in known:
                raise ValueError(f"{argument}: expected one of {', '.join(known)}, got {value!r}")
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.batch_first = batch_first
        self.dropout = dropout
        self.binarize = binarize
        self.threshold = threshold
        self.gate_layers = (num_layers - 1,) if gate_layers is None else tuple(gate_layers)
        if not self.gate_layers or set(self.gate_layers) - set(range(num_layers)):
            raise ValueError(f"gate_layers: expected layers from 0 to {num_layers - 1}, got {self.gate_layers}")
        self.layer_norm = layer_norm
        self.init = init
        self.engine = engine
        self._initial_update_bias = update_bias
        self._create_parameters(gate, {"device": device, "dtype": dtype})
        self.reset_parameters()

    def _create_parameters(self, gate: bool, factory: dict) -> None:
        cell, hidden = CELLS[self.cell], self.hidden_size
        for layer in range(self.num_layers):
            width = self.input_size if layer == 0 else hidden
            shapes = {
                "weight_ih": (cell.num_gates * hidden, width),
                "weight_hh": (cell.num_gates * hidden, hidden),
                "bias_ih": (cell.num_gates * hidden,),
                "bias_hh": (cell.num_gates * hidden,),
            }
            if self.layer_norm:
                shapes["norm_weight"] = shapes["norm_bias"] = (cell.num_normalized * hidden,)
            for field, shape in shapes.items():
                self.register_parameter(f"{field}_l{layer}", nn.Parameter(torch.empty(shape, **factory)))
        if gate:
            self.update_weight = nn.Parameter(torch.empty(1, len(self.gate_layers) * hidden, **factory))
            self.update_bias = nn.Parameter(torch.empty(1, **factory))
        else:
            self.register_parameter("update_weight", None)
            self.register_parameter("update_bias", None)
        self.initial_h = nn.Parameter(torch.empty(self.num_layers, 1, hidden, **factory))
        if cell.has_c:
            self.initial_c = nn.Parameter(torch.empty(self.num_layers, 1, hidden, **factory))
        else:
            self.register_parameter("initial_c", None)

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        for w in self._weights():
            INITS[self.init](CELLS[self.cell], w)
        if self.update_weight is not None:
            init_gate(self.update_weight, self.update_bias, self._initial_update_bias)
        init_states(s for s in (self.initial_h, self.initial_c) if s is not None)

    def _weights(self) -> Tuple[LayerWeights, ...]:
        names = LayerWeights._fields if self.layer_norm else LayerWeights._fields[:4]
        return tuple(
            LayerWeights(*(getattr(self, f"{name}_l{layer}") for name in names)) for layer in range(self.num_layers)
        )

    @property
    def flops_per_update(self) -> int:
        """Multiply-accumulates of one update, by the paper's count: G H (input + H) per layer, no biases or gate."""
        widths = [self.input_size] + [self.hidden_size] * (self.num_layers - 1)
        return sum(CELLS[self.cell].num_gates * self.hidden_size * (width + self.hidden_size) for width in widths)

    def initial_state(self, batch_size: int) -> SkipState:
        """The learned state that sequences start from: its first step always updates."""
        shape = (self.num_layers, batch_size, self.hidden_size)
        c = None if self.initial_c is None else self.initial_c.expand(shape)
        return SkipState(self.initial_h.expand(shape), c)

    def forward(
        self,
        x: Tensor,
        state: Optional[SkipState] = None,
        lengths: Union[Tensor, Sequence[int], None] = None,
        schedule: Optional[Tensor] = None,
        noise: Optional[Tensor] = None,
        padding_mask: Optional[Tensor] = None,
        last_only: bool = False,
    ) -> Tuple[Tensor, SkipState, Tensor]:
        """Read a batch of sequences.

        Args:
            x: [B, T, D], or [T, B, D] without ``batch_first``.
            state: state to carry on from; None for the learned initial state.
            lengths: real steps of each right-padded sequence, [B]; any integer type, device or order.
            schedule: updates instead of the gate's, [B, T] of 0 and 1.
            noise: uniform numbers for Bernoulli updates, [B, T]; drawn from torch's generator when ``binarize`` is
                ``bernoulli`` and none are given.
            padding_mask: True at padding, bool [B, T], left or right of each sequence; instead of ``lengths``.
            last_only: return the output after each sequence's last real step alone.

        Returns:
            output: [B, T, H] (or [T, B, H]), 0 at padding; [B, H] with ``last_only``.
            state: state after each sequence's last real step, to carry on from.
            updates: [B, T], 1 where the step was used and 0 where it was skipped or is padding.
        """
        if not isinstance(x, Tensor) or x.dim() != 3:
            layout = "[B, T, D]" if self.batch_first else "[T, B, D]"
            shape = f"shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(f"x: expected a tensor {layout}, got {shape}")
        if not self.batch_first:
            x = x.transpose(0, 1)
        batch, steps = x.shape[:2]
        offsets = None
        if padding_mask is not None:
            if lengths is not None:
                raise ValueError("padding_mask: give it or lengths, not both")
            offsets, lengths = _span(padding_mask, batch, steps)
        gate = None
        if self.update_weight is not None:
            gate = Gate(self.update_weight, self.update_bias, self.gate_layers)
            if noise is None and schedule is None and self.binarize == "bernoulli":
                noise = torch.rand(batch, steps, device=x.device)
        output, state, updates = skip_scan(
            x,
            self._weights(),
            self.initial_state(batch) if state is None else state,
            gate,
            cell=self.cell,
            lengths=lengths,
            offsets=offsets,
            schedule=schedule,
            noise=noise,
            threshold=self.threshold,
            dropout_mask=self._dropout_mask(batch),
            last_only=last_only,
            engine=self.engine,
        )
        if not (self.batch_first or last_only):
            output = output.transpose(0, 1)
        return output, state, updates

    def _dropout_mask(self, batch: int) -> Optional[Tensor]:
        if not self.training or self.dropout == 0 or self.num_layers == 1:
            return None
        ones = self.initial_h.new_ones(self.num_layers - 1, batch, self.hidden_size)
        return nn.functional.dropout(ones, self.dropout)

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        shown = {
            "num_layers": 1,
            "batch_first": True,
            "dropout": 0.0,
            "binarize": "round",
            "threshold": 0.5,
            "gate_layers": (self.num_layers - 1,),
            "layer_norm": False,
            "init": "authors",
            "engine": "auto",
        }
        parts += [f"{name}={getattr(self, name)}" for name, default in shown.items() if getattr(self, name) != default]
        if self.update_weight is None:
            parts.append("gate=False")
        return ", ".join(parts)


class SkipLSTM(SkipRNNBase):
    """Skip LSTM. Arguments, parameters and ``forward`` are those of :class:`SkipRNNBase`."""

    cell = "lstm"


class SkipRNN(SkipRNNBase):
    """Skip RNN with a plain tanh cell. Arguments, parameters and ``forward`` are those of :class:`SkipRNNBase`."""

    cell = "rnn"


class SkipGRU(SkipRNNBase):
    """Skip GRU. Arguments, parameters and ``forward`` are those of :class:`SkipRNNBase`, and

    Args:
        reset_after: True for the GRU of torch, cuDNN and Keras, False for the original one and the authors' (the
            paper's tables).
    """

    def __init__(self, *args, reset_after: bool = True, **kwargs):
        self.reset_after = reset_after
        super().__init__(*args, **kwargs)

    @property
    def cell(self) -> str:
        return "gru" if self.reset_after else "gru_reset_before"

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.reset_after else ", reset_after=False")


def _span(padding_mask: Tensor, batch: int, steps: int) -> Tuple[Tensor, Tensor]:
    """First real step and number of real steps of each row."""
    if not isinstance(padding_mask, Tensor) or padding_mask.dtype != torch.bool:
        got = padding_mask.dtype if isinstance(padding_mask, Tensor) else type(padding_mask).__name__
        raise ValueError(f"padding_mask: expected a bool tensor, got {got}")
    if tuple(padding_mask.shape) != (batch, steps):
        raise ValueError(f"padding_mask: expected shape {(batch, steps)}, got {tuple(padding_mask.shape)}")
    if steps == 0:
        zeros = torch.zeros(batch, dtype=torch.int64, device=padding_mask.device)
        return zeros, zeros
    real = ~padding_mask
    starts = torch.cat([real[:, :1], real[:, 1:] & padding_mask[:, :-1]], 1)
    if bool((starts.sum(1) > 1).any()):
        raise ValueError("padding_mask: expected padding at the ends of a sequence alone, got some in the middle")
    return starts.to(torch.uint8).argmax(1), real.sum(1)
