"""``SkipLSTM``, ``SkipGRU`` and ``SkipRNN``: Skip RNNs as modules that are used like those of ``torch.nn``."""

import copy
import inspect
from typing import TYPE_CHECKING, Dict, List, Literal, Optional, Sequence, Tuple, Union, overload

import torch
from torch import Tensor, nn
from torch.fx import Proxy
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from ..arguments import (
    check_choice,
    check_finite,
    check_flag,
    check_gate_layers,
    check_probability,
    check_size,
)
from ..ops import CELLS, ENGINES, Gate, LayerWeights, SkipState, skip_scan
from ..ops.checks import as_state, check_skips, check_threshold
from ..ops.engines import FEATURES, INFERENCE_ENGINES, LIMITS, check_engine
from ..ops.tracing import record_module
from ..ops.types import PER_LAYER
from .init import GATE_INITS, INITS, check_chrono, init_gate, init_memories, init_states
from .masks import draw_factors, draw_ones
from .padding import find_span, pack_like
from .stream import NEVER, Snapshot, Stream, choose_native, copy_tensors, open_stream

State = Union[SkipState, Tuple[Optional[Tensor], ...], Tensor]  # as SkipState; (h, c) as for nn.LSTM; h as for nn.GRU


class SkipRNNBase(nn.Module):
    """The base of the Skip RNN modules; a subclass sets ``cell``, a key of ``skiprnn_plugin.ops.CELLS``.

    Args:
        input_size: features of the input, D.
        hidden_size: units of each layer, H.
        num_layers: layers of the stack; all layers share one gate.
        batch_first: whether input and output are [B, T, .] rather than [T, B, .]. States are [num_layers, B, H] and
            ``schedule``, ``noise``, ``padding_mask`` and ``updates`` [B, T] either way.
        dropout: probability of dropping a unit between layers in training, one mask per sequence and layer for all
            its steps (variational dropout).
        bidirectional: whether a second, independent stack with a separate gate reads the reversed sequence (padding
            stays where it is); the outputs are concatenated. The names of the second stack's parameters end in
            ``_reverse``.
        zoneout: probability that a unit of the candidate state, drawn for ``h`` and ``c`` independently, keeps its
            old value for a step in training (Krueger et al. 2017, h~ <- d h + (1 - d) h~, d drawn for each step): the
            layer above and the gate read the result. Evaluation has no zoneout, whereas the paper takes the
            expectation of d there.
        recurrent_dropout: probability of dropping a unit of what a step writes into the state, in training, drawn for
            each step (Semeniuta et al. 2016): c~ = f c + i d(g), h~ = (1 - z) d(n) + z h. The old state is not dropped.
            A plain RNN, however, writes its whole state at every update: h~ = d(tanh(.)).
        gate: False for a plain RNN without a learned gate, which updates at every step or as ``schedule`` says.
        binarize: ``round``, u_t = v_t > threshold, or ``bernoulli``, u_t ~ Bernoulli(v_t).
        threshold: the threshold of ``round``. On a trained model, set it higher to skip more or lower to skip less.
        min_skip: in evaluation mode, how many steps are skipped after an update at least, whatever the gate says.
        max_skip: in evaluation mode, how many steps are skipped at most; None for no limit. Steps before the first one
            of a call do not count, for either. These two need ``round``.
        update_bias: initial bias of the gate; with 1, nearly every step is updated at the start of training.
        gate_init: initial weight of the gate: ``authors``, Glorot-uniform, or ``zeros``, with which the update
            probability is the same at every update until training changes it.
        gate_layers: layers whose state the gate reads; None for the top layer.
        layer_norm: layer norm of each gate before its nonlinearity.
        init: ``authors`` or ``torch``, whose initial weights to use.
        chrono_init: T of the chrono initialisation (Tallec and Ollivier 2018): units start with memories of up to T
            updates, which helps with sequences of hundreds of steps. The biases of the LSTM's forget gate and of the
            GRU's update gate start at log U(1, T - 1), those of the LSTM's input gate at minus that. 0 for none.
        engine: see :func:`skiprnn_plugin.ops.skip_scan`. Layer norm, and in training zoneout and recurrent dropout,
            need ``reference`` or ``auto``; ``triton`` has no ``min_skip`` and ``max_skip``. ``int8`` is for trained
            models, see :meth:`quantized`.

    Raises:
        ValueError: an argument of the wrong type or value; the message names it.

    Parameters have the names and shapes of torch's modules (``weight_ih_l0``, ...), so that a state dict can be
    loaded by either (with ``strict=False``, or by ``from_torch`` and ``to_torch``). Further parameters are
    ``update_weight`` [1, len(gate_layers) * H], ``update_bias`` [1], ``initial_h`` and ``initial_c``
    [num_layers, 1, H], and with layer norm ``norm_weight_l0``, ``norm_bias_l0``, ...
    """

    cell: str
    min_skip: int = 0  # here too, for modules that an earlier version has pickled
    max_skip: Optional[int] = None
    chrono_init: int = 0

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        batch_first: bool = True,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        zoneout: float = 0.0,
        recurrent_dropout: float = 0.0,
        gate: bool = True,
        binarize: str = "round",
        threshold: float = 0.5,
        min_skip: int = 0,
        max_skip: Optional[int] = None,
        update_bias: float = 1.0,
        gate_init: str = "authors",
        gate_layers: Optional[Sequence[int]] = None,
        layer_norm: bool = False,
        init: str = "authors",
        chrono_init: int = 0,
        engine: str = "auto",
        device=None,
        dtype=None,
    ):
        super().__init__()
        check_threshold(threshold)
        if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
            raise ValueError(f"dtype: expected a floating-point torch.dtype, got {dtype!r}")
        self.input_size = check_size("input_size", input_size)
        self.hidden_size = check_size("hidden_size", hidden_size)
        self.num_layers = check_size("num_layers", num_layers)
        self.batch_first = check_flag("batch_first", batch_first)
        self.dropout = check_probability("dropout", dropout)
        self.bidirectional = check_flag("bidirectional", bidirectional)
        self.zoneout = check_probability("zoneout", zoneout)
        self.recurrent_dropout = check_probability("recurrent_dropout", recurrent_dropout)
        self.binarize = check_choice("binarize", binarize, ("round", "bernoulli"))
        self.threshold = threshold
        self.min_skip, self.max_skip = check_skips(min_skip, max_skip)
        self.gate_layers = check_gate_layers(gate_layers, num_layers)
        self.layer_norm = check_flag("layer_norm", layer_norm)
        self.init = check_choice("init", init, INITS)
        self.chrono_init = check_chrono(CELLS[self.cell], chrono_init)
        self.engine = check_choice("engine", engine, ("auto", *ENGINES, *INFERENCE_ENGINES))
        check_engine(engine, ["layer_norm"] if layer_norm else [])  # the other features are off in evaluation
        self._initial_update_bias = check_finite("update_bias", update_bias)
        self._gate_init = check_choice("gate_init", gate_init, GATE_INITS)
        self._create_parameters(check_flag("gate", gate), {"device": device, "dtype": dtype})
        self.reset_parameters()

    def _create_parameters(self, gate: bool, factory: dict) -> None:
        cell, hidden = CELLS[self.cell], self.hidden_size
        shapes: Dict[str, Optional[Tuple[int, ...]]] = {}
        for layer in range(self.num_layers):
            width = self.input_size if layer == 0 else hidden
            shapes[f"weight_ih_l{layer}"] = (cell.num_gates * hidden, width)
            shapes[f"weight_hh_l{layer}"] = (cell.num_gates * hidden, hidden)
            shapes[f"bias_ih_l{layer}"] = shapes[f"bias_hh_l{layer}"] = (cell.num_gates * hidden,)
            if self.layer_norm:
                shapes[f"norm_weight_l{layer}"] = shapes[f"norm_bias_l{layer}"] = (cell.num_normalized * hidden,)
        shapes["update_weight"] = (1, len(self.gate_layers) * hidden) if gate else None
        shapes["update_bias"] = (1,) if gate else None
        shapes["initial_h"] = (self.num_layers, 1, hidden)
        shapes["initial_c"] = (self.num_layers, 1, hidden) if cell.has_c else None
        fields = LayerWeights._fields if self.layer_norm else LayerWeights._fields[:PER_LAYER]
        self._weight_names = {
            suffix: [[f"{field}_l{layer}{suffix}" for field in fields] for layer in range(self.num_layers)]
            for suffix in self._directions
        }
        for suffix in self._directions:
            for name, shape in shapes.items():
                parameter = None if shape is None else nn.Parameter(torch.empty(shape, **factory))
                self.register_parameter(name + suffix, parameter)

    @property
    def _directions(self) -> Tuple[str, ...]:
        """The suffix of the parameters' names for each direction, as in torch's modules."""
        return ("", "_reverse") if self.bidirectional else ("",)

    def reset_parameters(self) -> None:
        """Initialise all parameters again. What a parametrization computes is given to its ``right_inverse``."""
        for suffix in self._directions:
            for names, w in zip(self._weight_names[suffix], self._weights(suffix)):
                INITS[self.init](CELLS[self.cell], w)
                if self.chrono_init:
                    init_memories(CELLS[self.cell], w, self.chrono_init)
                self._set_computed(names, w)
            gate = self._gate(suffix)
            if gate is not None:
                init_gate(gate.weight, gate.bias, self._initial_update_bias, self._gate_init)
                self._set_computed(["update_weight" + suffix, "update_bias" + suffix], gate)
            names = [name + suffix for name in ("initial_h", "initial_c") if self._get(name + suffix) is not None]
            states = [self._get(name) for name in names]
            init_states(states)
            self._set_computed(names, states)

    @torch.no_grad()
    def _set_computed(self, names: Sequence[str], values: Sequence[Tensor]) -> None:
        """Set those of these parameters to a value that are not the module's own, but computed."""
        for name, value in zip(names, values):
            if name not in self._parameters:
                setattr(self, name, value.detach())

    def _weights(self, suffix: str) -> Tuple[LayerWeights, ...]:
        parameters, layers = self._parameters, self._weight_names[suffix]
        try:  # without a call for each parameter
            return tuple([LayerWeights(*[parameters[name] for name in names]) for names in layers])
        except KeyError:
            return tuple([LayerWeights(*map(self._get, names)) for names in layers])

    def _gate(self, suffix: str) -> Optional[Gate]:
        weight, bias = self._get("update_weight" + suffix), self._get("update_bias" + suffix)
        return None if weight is None else Gate(weight, bias, self.gate_layers)

    def _get(self, name: str) -> Optional[Tensor]:
        """The parameter of that name, or the value that a parametrization computes for it. For a parameter this is
        three times as fast as getattr."""
        try:
            return self._parameters[name]
        except KeyError:
            return getattr(self, name)

    @property
    def flops_per_update(self) -> int:
        """Multiply-accumulates of one update, counted as in the paper: G H (input + H) per layer, no biases or gate."""
        widths = [self.input_size] + [self.hidden_size] * (self.num_layers - 1)
        return sum(CELLS[self.cell].num_gates * self.hidden_size * (width + self.hidden_size) for width in widths)

    def check_engine(self) -> None:
        """Raise a ValueError if the engine can't train, or lacks an option that this module needs in training."""
        if self.engine in INFERENCE_ENGINES:
            raise ValueError(f"engine: {self.engine!r} has no gradients, it is for trained models; expected auto")
        check_engine(self.engine, [name for name in FEATURES if name not in LIMITS and getattr(self, name)])

    def flatten_parameters(self) -> None:
        """Does nothing; for code that calls it on the modules of torch."""

    def initial_state(self, batch_size: int) -> SkipState:
        """The learned state that sequences start from. The first step after it is always updated."""
        return self._join_states([_tile(self._initial_state(suffix), batch_size) for suffix in self._directions])

    def stream(
        self,
        batch_size: int = 1,
        state: Optional[State] = None,
        min_skip: Optional[int] = None,
        max_skip: Optional[int] = None,
        seeds: Union[Sequence[int], Tensor, None] = None,
    ) -> Stream:
        """Sequences that are read sample by sample, and that say which sample they want next: for sensors that sleep
        between samples, and for frames that need not be decoded. It computes what the module computes in evaluation
        mode, with a copy of the present weights. A sequence is the first dimension of all that it takes and returns
        (but for states), whatever ``batch_first`` is.

        Args:
            batch_size: number of sequences, each of which has a time of its own.
            state: state to continue from; None for the learned initial state.
            min_skip: how many steps are skipped after an update at least, whatever the gate says; None for the
                module's.
            max_skip: how many steps are skipped after an update at most; None for the module's. Steps that were skipped
                before the stream began do not count.
            seeds: integers that decide the random numbers if ``binarize`` is ``bernoulli``, [batch_size]: the updates
                are those of ``forward`` with ``noise=skiprnn_plugin.ops.uniform(seeds, T)``. None draws them from
                torch's generator.

        Raises:
            ValueError: the module is bidirectional, so that it reads the future; or an argument of the wrong type,
                shape or value; the message names it.
        """
        if self.bidirectional:
            raise ValueError("bidirectional: expected False for a stream, which can't read backward, got True")
        check_size("batch_size", batch_size)
        min_skip = self.min_skip if min_skip is None else min_skip
        min_skip, max_skip = check_skips(min_skip, self.max_skip if max_skip is None else max_skip)
        for hook in self._forward_pre_hooks.values():
            if isinstance(hook, (BasePruningMethod, SpectralNorm, WeightNorm)):
                hook(self, ())  # as before a forward: the parameters may have changed since the last one
        weights = self._weights("")
        native, gate = choose_native(self.engine, self.cell, weights), self._gate("")
        snapshot = Snapshot(
            cell=self.cell,
            weights=tuple(map(copy_tensors, weights)),
            gate=None if gate is None else copy_tensors(gate),
            initial=copy_tensors(self._initial_state("")),
            threshold=self.threshold,
            draws=gate is not None and self.binarize == "bernoulli",
            min_skip=min(min_skip, NEVER),
            max_skip=NEVER if max_skip is None else min(max_skip, NEVER),
            native=native,
            int8=self.engine == "int8",
        )
        return open_stream(snapshot, batch_size, state, seeds)

    def quantized(self) -> "SkipRNNBase":
        """A copy for inference on the CPU whose recurrent weights are rounded to int8 as they are used: faster, and
        almost the same results. It takes what this module takes, has streams, and has no gradients. Its ``engine`` is
        ``int8``; the weights that it stores, and its state dict, are still float32.

        Raises:
            ValueError: the native engine can't run this module; the message says why.
        """
        if self.layer_norm:
            raise ValueError("layer_norm: expected False for int8 weights, got True")
        reason = INFERENCE_ENGINES["int8"].refuse(self._get("weight_ih_l0"), self.cell)
        if reason is not None:
            raise ValueError(f"engine: 'int8' {reason}")
        twin = copy.deepcopy(self).eval().requires_grad_(False)
        twin.engine = "int8"
        return twin

    def _initial_state(self, suffix: str) -> SkipState:
        """The initial state of one direction, for one sequence."""
        return SkipState(self._get("initial_h" + suffix), self._get("initial_c" + suffix))

    def _join_states(self, states: List[SkipState]) -> SkipState:
        if not self.bidirectional:
            return states[0]
        return SkipState(*(None if values[0] is None else torch.stack(values) for values in zip(*states)))

    @overload
    def forward(
        self,
        x: Tensor,
        state: Optional[State] = None,
        lengths: Union[Tensor, Sequence[int], None] = None,
        schedule: Optional[Tensor] = None,
        noise: Optional[Tensor] = None,
        padding_mask: Optional[Tensor] = None,
        last_only: bool = False,
    ) -> Tuple[Tensor, SkipState, Tensor]: ...

    @overload
    def forward(
        self,
        x: PackedSequence,
        state: Optional[State] = None,
        lengths: None = None,
        schedule: Optional[Tensor] = None,
        noise: Optional[Tensor] = None,
        padding_mask: None = None,
        last_only: Literal[False] = False,
    ) -> Tuple[PackedSequence, SkipState, Tensor]: ...

    @overload
    def forward(
        self,
        x: PackedSequence,
        state: Optional[State] = None,
        lengths: None = None,
        schedule: Optional[Tensor] = None,
        noise: Optional[Tensor] = None,
        padding_mask: None = None,
        *,
        last_only: Literal[True],
    ) -> Tuple[Tensor, SkipState, Tensor]: ...

    def forward(
        self,
        x: Union[Tensor, PackedSequence],
        state: Optional[State] = None,
        lengths: Union[Tensor, Sequence[int], None] = None,
        schedule: Optional[Tensor] = None,
        noise: Optional[Tensor] = None,
        padding_mask: Optional[Tensor] = None,
        last_only: bool = False,
    ) -> Tuple[Union[Tensor, PackedSequence], SkipState, Tensor]:
        """Read a batch of sequences. A ``bidirectional`` module adds a leading dimension of 2, for the directions, to
        states, schedules, noise and updates; in both directions step t is step t of ``x``.

        Args:
            x: [B, T, D], or [T, B, D] without ``batch_first``; or packed sequences, as for ``nn.GRU``.
            state: state to continue from; also (h, c) as for ``nn.LSTM``, or h alone as for ``nn.GRU``. None for the
                learned initial state.
            lengths: real steps of each right-padded sequence, [B]; any integer type, device or order.
            schedule: 1 at the steps to update and 0 at those to skip, instead of the gate's decision, [B, T].
            noise: uniform numbers for Bernoulli updates, [B, T]; None to draw them from torch's generator when
                ``binarize`` is ``bernoulli``.
            padding_mask: True at padding, bool [B, T], left or right of each sequence; an alternative to ``lengths``.
            last_only: return only the output after each sequence's last real step.

        Returns:
            output: [B, T, H] (or [T, B, H]), 0 at padding, or packed if ``x`` is; [B, H] with ``last_only``. With
                two directions, their outputs are concatenated: 2 H instead of H.
            state: state after each sequence's last real step, to continue from.
            updates: [B, T], or [2, B, T] with two directions: 1 where the step was updated and 0 where it was skipped
                or is padding.

        Raises:
            ValueError: an argument of the wrong type, shape or value; the message names it.
        """
        if isinstance(x, Proxy):
            return record_module(self, x, state, lengths, schedule, noise, padding_mask, last_only)
        packed = x if isinstance(x, PackedSequence) else None
        if packed is not None:
            if lengths is not None or padding_mask is not None:
                raise ValueError("x: packed sequences contain their lengths; give no lengths or padding_mask")
            x, lengths = pad_packed_sequence(packed, batch_first=True)
        else:
            x = self._batch_first(x)
        offsets = None
        if padding_mask is not None:
            if lengths is not None:
                raise ValueError("padding_mask: give it or lengths, not both")
            offsets, lengths = find_span(padding_mask, *x.shape[:2])
        if self.bidirectional:
            by_direction = [
                self._read(suffix, x, *arguments, lengths, offsets, last_only)
                for suffix, *arguments in zip(self._directions, *self._split(state, schedule, noise))
            ]
            outputs, states, updates = zip(*by_direction)
            output, state, updates = torch.cat(outputs, -1), self._join_states(states), torch.stack(updates)
        else:
            output, state, updates = self._read("", x, state, schedule, noise, lengths, offsets, last_only)
        if packed is not None and not last_only:
            output = pack_like(output, lengths, packed)
        elif not (self.batch_first or last_only):
            output = output.transpose(0, 1)
        return output, state, updates

    if TYPE_CHECKING:  # torch's modules say of a call only that it takes and returns anything
        __call__ = forward

    def _batch_first(self, x: Tensor) -> Tensor:
        if not isinstance(x, Tensor) or x.dim() != 3:
            layout = "[B, T, D]" if self.batch_first else "[T, B, D]"
            shape = f"shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(f"x: expected a tensor {layout}, got {shape}")
        return x if self.batch_first else x.transpose(0, 1)

    def _split(self, state: Optional[State], *tensors: Optional[Tensor]):
        """The state and the tensors, each as a pair for the two directions."""
        parts = (None,) * 4 if state is None else as_state(state, CELLS[self.cell])
        names = ("state.h", "state.c", "state.p", "state.acc", "schedule", "noise")
        for name, tensor in zip(names[:2], parts):
            if isinstance(tensor, Tensor) and tensor.dim() != 4:  # torch joins directions and layers
                raise ValueError(f"{name}: expected shape (2, num_layers, B, H), got {tuple(tensor.shape)}")
        for name, tensor in zip(names, (*parts, *tensors)):
            if tensor is not None and not (isinstance(tensor, Tensor) and tensor.dim() > 0 and tensor.shape[0] == 2):
                got = f"shape {tuple(tensor.shape)}" if isinstance(tensor, Tensor) else type(tensor).__name__
                raise ValueError(f"{name}: expected a tensor with a leading 2, for the directions, got {got}")
        parts = [(None, None) if tensor is None else tensor.unbind(0) for tensor in (*parts, *tensors)]
        states = [None, None] if state is None else [SkipState(*values) for values in zip(*parts[:4])]
        return states, *parts[4:]

    def _read(self, suffix, x, state, schedule, noise, lengths, offsets, last_only):
        """``forward`` in one direction, with the arguments for that direction."""
        batch, steps = x.shape[:2]
        gate = self._gate(suffix)
        if gate is not None and noise is None and schedule is None and self.binarize == "bernoulli":
            # in torch's default dtype, if that is a half one, small numbers would be too frequent
            noise = torch.rand(batch, steps, device=x.device, dtype=torch.float32)
        backward = suffix != ""
        if backward:
            x, schedule, noise = (None if value is None else value.flip(1) for value in (x, schedule, noise))
            if lengths is not None:  # skip_scan has checked them in the first direction
                lengths = torch.as_tensor(lengths, dtype=torch.int64, device=x.device)
                offsets = steps - lengths - (0 if offsets is None else offsets)
        initial = self._initial_state(suffix)
        if state is None:
            # a comparison would fix the batch size for torch.export
            state = initial if not torch.compiler.is_compiling() and batch == 1 else _tile(initial, batch)
        elif torch.is_grad_enabled():
            state = as_state(state, CELLS[self.cell])
            if isinstance(state.h, Tensor):  # skip_scan refuses others
                state = state.keep_in_graph([initial.h, initial.c])
        limited = schedule is None and not self.training
        dropout_mask, zoneout_mask, recurrent_dropout_mask = self._masks(batch, steps)
        output, state, updates = skip_scan(
            x,
            self._weights(suffix),
            state,
            gate,
            cell=self.cell,
            lengths=lengths,
            offsets=offsets,
            schedule=schedule,
            noise=noise,
            threshold=self.threshold,
            dropout_mask=dropout_mask,
            zoneout_mask=zoneout_mask,
            recurrent_dropout_mask=recurrent_dropout_mask,
            min_skip=self.min_skip if limited else 0,
            max_skip=self.max_skip if limited else None,
            last_only=last_only,
            engine=self.engine,
        )
        if backward:
            output, updates = output if last_only else output.flip(1), updates.flip(1)
        return output, state, updates

    def _masks(self, batch: int, steps: int) -> List[Optional[Tensor]]:
        """New random masks for ``skip_scan`` in one direction: those of dropout, zoneout and recurrent dropout, None
        for those that are off. All are None in evaluation."""
        masks: List[Optional[Tensor]] = [None, None, None]
        if not self.training or self.dropout == self.zoneout == self.recurrent_dropout == 0:
            return masks
        like, hidden, per_step = self._get("initial_h"), self.hidden_size, (self.num_layers, batch, steps)
        if self.dropout > 0 and self.num_layers > 1:
            masks[0] = draw_factors((self.num_layers - 1, batch, hidden), self.dropout, like)
        if self.zoneout > 0:
            kept = (2 if CELLS[self.cell].has_c else 1) * hidden
            masks[1] = draw_ones((*per_step, kept), self.zoneout, like)
        if self.recurrent_dropout > 0:
            masks[2] = draw_factors((*per_step, hidden), self.recurrent_dropout, like)
        return masks

    def extra_repr(self) -> str:
        options = inspect.signature(SkipRNNBase.__init__).parameters.values()
        defaults = {option.name: option.default for option in options if option.default is not option.empty}
        defaults["gate_layers"] = (self.num_layers - 1,)
        parts = [f"{self.input_size}, {self.hidden_size}"]
        for name, default in defaults.items():
            value = vars(self).get(name, default)  # gate and those of initialisation have no attribute
            if value != default:
                parts.append(f"{name}={value}")
        if self.update_weight is None:
            parts.append("gate=False")
        return ", ".join(parts)


def _tile(state: SkipState, batch_size: int) -> SkipState:
    return SkipState(*(part if part is None else part.expand(-1, batch_size, -1) for part in state))


class SkipLSTM(SkipRNNBase):
    """Skip LSTM. Arguments, parameters and ``forward`` are those of :class:`SkipRNNBase`."""

    cell = "lstm"


class SkipRNN(SkipRNNBase):
    """Skip RNN with a plain tanh cell. Arguments, parameters and ``forward`` are those of :class:`SkipRNNBase`."""

    cell = "rnn"


class SkipGRU(SkipRNNBase):
    """Skip GRU. Arguments, parameters and ``forward`` are those of :class:`SkipRNNBase`, and

    Args:
        reset_after: True for the GRU of torch, cuDNN and Keras, False for the original GRU, which the
            authors' program and so the paper's tables use.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        batch_first: bool = True,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        reset_after: bool = True,
        zoneout: float = 0.0,
        recurrent_dropout: float = 0.0,
        gate: bool = True,
        binarize: str = "round",
        threshold: float = 0.5,
        min_skip: int = 0,
        max_skip: Optional[int] = None,
        update_bias: float = 1.0,
        gate_init: str = "authors",
        gate_layers: Optional[Sequence[int]] = None,
        layer_norm: bool = False,
        init: str = "authors",
        chrono_init: int = 0,
        engine: str = "auto",
        device=None,
        dtype=None,
    ):
        self.reset_after = check_flag("reset_after", reset_after)
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            batch_first,
            dropout,
            bidirectional,
            zoneout=zoneout,
            recurrent_dropout=recurrent_dropout,
            gate=gate,
            binarize=binarize,
            threshold=threshold,
            min_skip=min_skip,
            max_skip=max_skip,
            update_bias=update_bias,
            gate_init=gate_init,
            gate_layers=gate_layers,
            layer_norm=layer_norm,
            init=init,
            chrono_init=chrono_init,
            engine=engine,
            device=device,
            dtype=dtype,
        )

    @property
    def cell(self) -> str:
        return "gru" if self.reset_after else "gru_reset_before"

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.reset_after else ", reset_after=False")
