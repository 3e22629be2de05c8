"""Streams: sequences that a Skip RNN reads sample by sample, and that say which sample they want next."""

import reprlib
from ctypes import addressof, byref, c_int64, c_void_p
from numbers import Integral, Real
from typing import Any, Iterator, NamedTuple, NoReturn, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from ..ops import CELLS, ENGINES, Gate, LayerWeights, SkipState, uniform
from ..ops.checks import check_state
from ..ops.clock import NEVER, accumulate, skip_until
from ..ops.native import library
from ..ops.native.engine import CELLS as NATIVE_CELLS
from ..ops.native.packing import ALIGNMENT, PackedWeights
from ..ops.reference import update_probability
from ..ops.types import flatten_weights

__all__ = ["NEVER", "Stream"]

LAST = NEVER // 2  # the last time that a row can have
REAL = ("f", "i", "u", "b")  # kinds of numpy's types
Rows = Union[None, int, Sequence[int], Tensor]


class Snapshot(NamedTuple):
    """What the streams of a module compute. The tensors are copies, so that they stay as they are.

    Attributes:
        cell: a key of ``CELLS``.
        weights: the layers' weights.
        gate: None if every sample is wanted.
        initial: the state that a new sequence starts from, of one row.
        threshold: u = v > threshold, unless the gate draws.
        draws: whether u = v > a uniform number from the row's seed and the time.
        min_skip: steps that are skipped after an update at least.
        max_skip: steps that are skipped at most.
        native: whether the native engine runs them, otherwise torch.
        int8: whether the native engine rounds the recurrent weights.
    """

    cell: str
    weights: Tuple[LayerWeights, ...]
    gate: Optional[Gate]
    initial: SkipState
    threshold: float
    draws: bool
    min_skip: int
    max_skip: int
    native: bool
    int8: bool = False


class Stream:
    """Sequences that are read sample by sample, each at a time of its own; made by ``stream`` of a Skip RNN module.

    A stream has ``batch_size`` rows, one for each sequence. Right after an update it is known which sample a row wants
    next; the samples until then need not be measured, sent or decoded. The values are those of the module in evaluation
    mode (without dropout) on the whole sequence, with the native engine to the bit. A stream has a copy of the weights:
    training the module further does not change it.

    Streams can be pickled and copied at any time, and continue where they were. Threads must not use one stream at the
    same time. A call that raises an error has changed nothing.

    Attributes:
        batch_size: number of rows, B.
        time: index of the next sample of each row, int64 [B]; 0 at first.
        wanted: index of the sample that each row wants next, int64 [B]; ``NEVER`` (2**63 - 1) if it wants no further
            one. ``time`` and ``wanted`` are on the CPU and change with the stream: read them, copy them if need be, and
            do not write to them.
    """

    time: Tensor
    wanted: Tensor

    def __init__(self, snapshot: Snapshot, batch_size: int):
        self._snapshot, self.batch_size = snapshot, batch_size
        self._like = snapshot.weights[0].weight_ih
        self._input_size, self._hidden = self._like.shape[1], snapshot.weights[0].weight_hh.shape[1]
        # the rows' seeds, [B], on which the random numbers depend
        self._seeds = torch.zeros(batch_size, dtype=torch.int64, device="cpu") if snapshot.draws else None

    @property
    def dtype(self) -> torch.dtype:
        """The weights' type, in which samples are read."""
        return self._like.dtype

    def update(self, x: Any, rows: Rows = None) -> None:
        """Read a sample of some rows, each the one that its row wants. Their time advances by 1.

        Args:
            x: the samples, a tensor or an array [N, D].
            rows: which N rows; None for all.

        Raises:
            ValueError: ``x`` has another shape, or a row does not exist or wants a later sample.
        """
        raise NotImplementedError

    def skip(self, n: Union[int, Sequence[int], Tensor], rows: Rows = None) -> None:
        """Let time go on without samples.

        Args:
            n: how many steps, a number or [N].
            rows: which N rows; None for all.

        Raises:
            ValueError: a row does not exist, or it would skip the sample that it wants.
        """
        raise NotImplementedError

    def feed(self, x: Any, rows: Rows = None) -> int:
        """Read those of the next samples that are wanted, and skip the others.

        Args:
            x: the next T samples of the rows, a tensor or an array [N, T, D]; or the next one, [N, D].
            rows: which N rows; None for all.

        Returns:
            the number of samples that were read.

        Raises:
            ValueError: ``x`` has another shape, or a row does not exist.
        """
        raise NotImplementedError

    def reset(
        self, rows: Rows = None, state: Optional[SkipState] = None, seeds: Union[Sequence[int], Tensor, None] = None
    ) -> None:
        """Begin a new sequence, at time 0, in some rows.

        Args:
            rows: which N rows; None for all.
            state: the state that they start from, h and c [num_layers, N, H]; None for the learned initial state.
            seeds: integers that decide the random numbers of Bernoulli updates, [N]; None keeps the rows' former ones.

        Raises:
            ValueError: an argument of the wrong type, shape or value; the message names it.
        """
        rows, count = self._as_rows(rows)
        if state is None:
            state = self._initial(count)
        else:
            cell, layers = CELLS[self._snapshot.cell], len(self._snapshot.weights)
            state = check_state(state, layers, count, self._hidden, self._like, cell).detach().filled()
            h, c = (part if part is None else part.to(self.dtype) for part in state[:2])  # autocast's may be in half
            state = state._replace(h=h, c=c)
        if seeds is not None:
            if not self._snapshot.draws:
                raise ValueError("seeds: has no meaning, as the gate does not draw; expected binarize='bernoulli'")
            seeds = _as_integers("seeds", seeds, count)
        self._put(rows, count, state, None, None, seeds)

    @property
    def output(self) -> Tensor:
        """The top layer's hidden state of every row, [B, H]; a copy."""
        raise NotImplementedError

    @property
    def state(self) -> SkipState:
        """The state of every row at its time, a copy, which the module or another stream can continue from. ``acc``
        contains the samples that were skipped up to then."""
        raise NotImplementedError

    def _put(self, rows, count, state, time, wanted, seeds) -> None:
        """Give rows a state, complete and checked; ``time`` None means 0, ``wanted`` None that the gate decides."""
        raise NotImplementedError

    def _initial(self, count: int) -> SkipState:
        """The learned initial state of ``count`` rows, in new tensors."""
        h, c, *_ = self._snapshot.initial
        return SkipState(h.repeat(1, count, 1), None if c is None else c.repeat(1, count, 1)).filled()

    def _as_rows(self, rows: Rows) -> Tuple[Optional[Tensor], int]:
        """The rows as int64 [N], or None for all; and N. A row that does not exist is found later."""
        if rows is None:
            return None, self.batch_size
        rows = _as_integers("rows", rows, None)
        return rows, len(rows)

    def _check_samples(self, x: Any, count: int, dims: Tuple[int, ...] = (2,)) -> Tensor:
        """``x`` as a tensor of the weights' dtype on their device."""
        try:
            if not isinstance(x, Tensor) and getattr(getattr(x, "dtype", None), "kind", "") in REAL:
                # torch takes no array with another byte order or negative strides, and warns of read-only ones
                x = x.astype("f8" if self.dtype == torch.float64 else "f4", "C")
            tensor = torch.as_tensor(x, dtype=None if hasattr(x, "dtype") else self.dtype)
            wrong = tensor.is_complex()
        except (TypeError, ValueError, RuntimeError):
            wrong, tensor = True, None
        if wrong or tensor.dim() not in dims or tensor.shape[0] != count or tensor.shape[-1] != self._input_size:
            shapes = [(count, self._input_size), (count, "T", self._input_size)][: len(dims)]
            expected = " or ".join(f"[{', '.join(map(str, shape))}]" for shape in shapes)
            got = f"shape {tuple(tensor.shape)}, {tensor.dtype}" if tensor is not None else _describe_wrong(x)
            raise ValueError(f"x: expected real numbers {expected}, got {got}")
        return tensor.detach().to(self._like.device, self.dtype).resolve_neg()

    def check_rows(self, rows: Rows) -> Optional[Tensor]:
        """The rows as int64 [N], or None for all. Raises ValueError for a row that does not exist."""
        rows, _ = self._as_rows(rows)
        for row in [] if rows is None else rows.tolist():
            if not 0 <= row < self.batch_size:
                raise ValueError(f"rows: expected rows from 0 to {self.batch_size - 1}, got {row}")
        return rows

    def _explain(self, fault: int, rows: Optional[Tensor], count: int, steps: Union[int, Tensor, None]) -> NoReturn:
        """Raise the error for a fault of the library; ``steps`` is what was to be skipped."""
        rows = self.check_rows(rows)
        chosen = range(count) if rows is None else rows.tolist()
        if fault == library.NO_ROW:
            raise ValueError(f"rows: expected every row once, got {reprlib.repr(list(chosen))}")
        steps = steps.tolist() if isinstance(steps, Tensor) else [steps] * count
        for row, step in zip(chosen, steps):
            time, wanted = int(self.time[row]), int(self.wanted[row])
            wish = "no further sample" if wanted == NEVER else f"sample {wanted}"
            if fault == library.TOO_EARLY and time != wanted:
                raise ValueError(f"x: row {row} is at sample {time}, and wants {wish}")
            if fault == library.TOO_LATE and not 0 <= step <= min(wanted, LAST) - time:
                raise ValueError(f"n: row {row} is at sample {time}, and wants {wish}; it can't skip {step} samples")
        raise RuntimeError(f"stream: {library.FAULTS.get(fault, f'fault {fault}')}")

    def __reduce__(self):
        moment = self.state, self.time.clone(), self.wanted.clone(), self._seeds
        return _restore, (self._snapshot, self.batch_size, *moment)


def _describe_wrong(x: Any) -> str:
    """The first element that is not a real number, or else the type of what holds them."""
    for element in _elements(x):
        if not isinstance(element, Real):
            return repr(element)
    return type(x).__name__


def _elements(x: Any) -> Iterator[Any]:
    if hasattr(x, "tolist"):  # an array
        x = x.tolist()
    if isinstance(x, (list, tuple)):
        for part in x:
            yield from _elements(part)
    else:
        yield x


class NativeStream(Stream):
    """A stream that the native engine's library runs. A call costs little more than the update itself."""

    def __init__(self, snapshot: Snapshot, batch_size: int):
        super().__init__(snapshot, batch_size)
        lib, weights, layers = library.load(), flatten_weights(snapshot.weights), len(snapshot.weights)
        stored = library.INT8 if snapshot.int8 else library.FLOAT32
        shape = (NATIVE_CELLS[snapshot.cell], layers, self._input_size, self._hidden, stored)
        self._packed = PackedWeights(shape, [tensor.data_ptr() for tensor in weights], library.FORWARD)
        self._packed.start_reading()
        gate_layers = () if snapshot.gate is None else [layer % layers for layer in snapshot.gate.layers]
        indices = (c_int64 * len(gate_layers))(*gate_layers)
        options = library.StreamOptions(
            library.Shape(*shape),
            batch_size,
            self._packed.address,
            *((None, None) if snapshot.gate is None else (tensor.data_ptr() for tensor in snapshot.gate[:2])),
            len(gate_layers),
            addressof(indices),
            snapshot.threshold,
            snapshot.min_skip,
            snapshot.max_skip,
            _address(self._seeds),
        )
        size = lib.skiprnn_stream_size(options)
        if size == 0:
            raise RuntimeError(f"engine 'native': {library.FAULTS[1]}")
        self._memory = torch.empty(size + ALIGNMENT, dtype=torch.uint8, device="cpu")
        address = -(-self._memory.data_ptr() // ALIGNMENT) * ALIGNMENT
        self._handle = c_void_p(lib.skiprnn_stream_init(options, address))
        self.time = self._view(lib.skiprnn_stream_time(self._handle))
        self.wanted = self._view(lib.skiprnn_stream_wanted(self._handle))
        self._lib = lib
        # Function objects without argument types and arguments that are used again make a call twice as fast
        self._update, self._skip, self._feed = (lib[f"skiprnn_stream_{name}"] for name in ("update", "skip", "feed"))
        self._count, self._x, self._number = c_int64(batch_size), c_void_p(), c_int64()
        self._used, self._one, self._width = c_int64(), c_int64(1), c_int64(self._input_size)
        self._to_used = byref(self._used)
        self._shape = torch.Size((batch_size, self._input_size))
        buffer = torch.empty(self._shape, dtype=torch.float32, device="cpu")
        self._array_address = buffer.data_ptr()
        try:
            self._array = buffer.numpy()
            self._array_type = type(self._array)
        except RuntimeError:  # numpy is not installed
            self._array_type = None

    def _view(self, address: int) -> Tensor:
        start = address - self._memory.data_ptr()
        return self._memory[start : start + 8 * self.batch_size].view(torch.int64)

    def update(self, x, rows=None):
        address = self._locate(x) if rows is None else 0
        if address:
            self._x.value = address
            fault = self._update(self._handle, None, self._count, self._x)
            if fault:
                self._explain(fault, None, self.batch_size, None)
            return
        rows, count = self._as_rows(rows)
        x = self._check_samples(x, count).contiguous()
        fault = self._lib.skiprnn_stream_update(self._handle, _address(rows), count, x.data_ptr())
        if fault:
            self._explain(fault, rows, count, None)

    def _locate(self, x: Any) -> int:
        """The address of the samples of all rows in the form that the library reads; 0 if they need to be checked or
        converted first. Mostly all is well, so that this is quicker than to check everything."""
        if type(x) is Tensor:
            plain = x.dtype is torch.float32 and x.is_cpu and x.is_contiguous() and not x.is_neg()
            return x.data_ptr() if plain and x.shape == self._shape else 0
        if type(x) is not self._array_type or x.shape != self._shape or x.dtype.kind not in REAL:
            return 0
        self._array[...] = x
        return self._array_address

    def skip(self, n, rows=None):
        if rows is None and type(n) is int and 0 <= n <= NEVER:
            self._number.value, count = n, self.batch_size
            fault = self._skip(self._handle, None, self._count, None, self._number)
        else:
            rows, count = self._as_rows(rows)
            n = _as_steps(n, count)
            fault = self._lib.skiprnn_stream_skip(self._handle, _address(rows), count, n.data_ptr(), 0)
        if fault:
            self._explain(fault, rows, count, n)

    def feed(self, x, rows=None):
        address = self._locate(x) if rows is None else 0
        if address:
            self._x.value, count, steps = address, self.batch_size, 1
            fault = self._feed(
                self._handle, None, self._count, self._x, self._width, self._one, self._one, self._to_used
            )
        else:
            rows, count = self._as_rows(rows)
            x = self._check_samples(x, count, (2, 3))
            x = x if x.dim() == 3 else x.unsqueeze(1)
            if x.stride(2) != 1 and self._input_size != 1:
                x = x.contiguous()
            steps, strides = x.shape[1], x.stride()[:2]
            fault = self._lib.skiprnn_stream_feed(
                self._handle, _address(rows), count, x.data_ptr(), *strides, steps, self._to_used
            )
        if fault:
            self._explain(fault, rows, count, steps)
        return self._used.value

    @property
    def output(self):
        output = self._like.new_empty(self.batch_size, self._hidden)
        self._lib.skiprnn_stream_output(self._handle, None, self.batch_size, output.data_ptr())
        return output

    @property
    def state(self):
        state = self._initial(self.batch_size)  # of the right shapes
        self._lib.skiprnn_stream_get(self._handle, None, self.batch_size, *map(_address, state))
        return state

    def _put(self, rows, count, state, time, wanted, seeds):
        state = [part if part is None else part.contiguous().resolve_neg() for part in state]
        parts = [_address(part) for part in (*state, time, wanted, seeds)]
        fault = self._lib.skiprnn_stream_put(self._handle, _address(rows), count, *parts)
        if fault:
            self._explain(fault, rows, count, None)
        if seeds is not None:
            self._seeds[slice(None) if rows is None else rows] = seeds


class TorchStream(Stream):
    """A stream in plain torch, for all cells, dtypes and devices."""

    def __init__(self, snapshot: Snapshot, batch_size: int):
        super().__init__(snapshot, batch_size)
        h, c, p, acc = self._initial(batch_size)
        self._h, self._c = h, c
        self._p, self._acc = p.cpu(), acc.cpu()  # when the next update comes is found on the CPU
        self.time, self.wanted, self._since = torch.zeros(3, batch_size, dtype=torch.int64, device="cpu").unbind(0)

    def update(self, x, rows=None):
        rows, count = self._as_rows(rows)
        x = self._check_samples(x, count)
        rows = self._check_existence(rows, count)
        if bool((self.wanted[rows] != self.time[rows]).any()):
            self._explain(library.TOO_EARLY, rows, count, None)
        self._read(x, rows)
        self.time[rows] += 1

    def skip(self, n, rows=None):
        rows, count = self._as_rows(rows)
        n = _as_steps(n, count)
        rows = self._check_existence(rows, count)
        if bool(((n < 0) | (n > self.wanted[rows].clamp(max=LAST) - self.time[rows])).any()):
            self._explain(library.TOO_LATE, rows, count, n)
        self.time[rows] += n

    def feed(self, x, rows=None):
        rows, count = self._as_rows(rows)
        x = self._check_samples(x, count, (2, 3))
        rows = self._check_existence(rows, count)
        x = x if x.dim() == 3 else x.unsqueeze(1)
        used = 0
        while True:
            step = self.wanted[rows] - self.time[rows]
            some = (step < x.shape[1]).nonzero().squeeze(1)
            if len(some) == 0:
                break
            self._read(x[some.to(x.device), step[some].to(x.device)], rows[some])
            used += len(some)
        self.time[rows] += x.shape[1]
        return used

    @property
    def output(self):
        return self._h[-1].clone()

    @property
    def state(self):
        acc = self._acc.clone()
        if self._snapshot.gate is not None:
            acc = accumulate(self._p, acc, self.time - self._since)
        device = self._h.device
        c = None if self._c is None else self._c.clone()
        return SkipState(self._h.clone(), c, self._p.clone().to(device), acc.to(device))

    def _check_existence(self, rows: Optional[Tensor], count: int) -> Tensor:
        if rows is None:
            return torch.arange(self.batch_size, device="cpu")
        if bool(((rows < 0) | (rows >= self.batch_size)).any()) or len(rows.unique()) != count:
            self._explain(library.NO_ROW, rows, count, None)
        return rows

    def _put(self, rows, count, state, time, wanted, seeds):
        rows = self._check_existence(rows, count)
        there = rows.to(self._h.device)
        self._h[:, there] = state.h
        if self._c is not None:
            self._c[:, there] = state.c
        self._p[rows], self._acc[rows] = state.p.to(self._p), state.acc.to(self._p)
        self.time[rows] = self._since[rows] = torch.zeros_like(rows) if time is None else time
        if seeds is not None:
            self._seeds[rows] = seeds
        self.wanted[rows] = self._find_wanted(rows, False) if wanted is None else wanted

    @torch.no_grad()
    def _read(self, x: Tensor, rows: Tensor) -> None:
        """Update rows with the samples ``x`` [N, D] that they want."""
        snapshot, there = self._snapshot, rows.to(x.device)
        cell, new_h, new_c = CELLS[snapshot.cell], [], []
        with torch.autocast(x.device.type, enabled=False):
            for layer, w in enumerate(snapshot.weights):
                old_c = None if self._c is None else self._c[layer, there]
                h, c = cell.step(x if layer == 0 else new_h[-1], self._h[layer, there], old_c, w)
                new_h.append(h)
                new_c.append(c)
            if snapshot.gate is not None:
                p = update_probability(new_c if cell.has_c else new_h, snapshot.gate, self._p.dtype)
        self._h[:, there] = torch.stack(new_h)
        if cell.has_c:
            self._c[:, there] = torch.stack(new_c)
        self._since[rows] = self.wanted[rows] + 1
        if snapshot.gate is not None:
            self._p[rows], self._acc[rows] = p.cpu(), 0
        self.wanted[rows] = self._find_wanted(rows, True)

    def _find_wanted(self, rows: Tensor, updated: bool) -> Tensor:
        snapshot, since = self._snapshot, self._since[rows]
        p, acc, least = self._p[rows], self._acc[rows], snapshot.min_skip if updated else 0
        if snapshot.gate is None:
            wait = torch.zeros_like(rows)
        elif snapshot.draws:
            wait = self._draw_wait(p, acc, self._seeds[rows], since, least)
        else:
            wait = skip_until(p, acc, torch.full_like(rows, NEVER), snapshot.threshold)[0]
        wait = wait.clamp(min=least).clamp(max=snapshot.max_skip)
        return torch.where(wait > LAST - since, NEVER, since + wait.clamp(max=LAST))

    def _draw_wait(self, p: Tensor, acc: Tensor, seeds: Tensor, since: Tensor, least: int) -> Tensor:
        """As :func:`skip_until`, with a uniform number as the threshold of each step, from the step ``least`` on.

        v only grows. So of several steps those need a look whose number is below the last v. Rows that have found their
        step take no further part, and the numbers drawn at once are about a million at most, whatever the rows.
        """
        wait, rows = torch.full_like(seeds, NEVER), torch.arange(len(seeds), device="cpu")
        start, several = 0, 16
        while len(rows) > 0 and start < self._snapshot.max_skip:
            noise, steps = uniform(seeds, several, since + start).to(p.dtype), torch.arange(several, device="cpu")
            last = accumulate(p, acc, torch.full_like(seeds, several))
            waiting = last > 0  # a v of 0, or NaN, never updates
            candidates = (noise < last.unsqueeze(1)) & (start + steps >= least)
            while bool(candidates.any()):
                step = candidates.int().argmax(1)
                v = accumulate(p, acc, step + 1)
                hit = candidates.any(1) & (v > noise.gather(1, step.unsqueeze(1)).squeeze(1))
                wait[rows[hit]], waiting = start + step[hit], waiting & ~hit
                candidates = candidates.scatter(1, step.unsqueeze(1), False) & ~hit.unsqueeze(1)
            rows, p, acc, seeds, since = (values[waiting] for values in (rows, p, last, seeds, since))
            start, several = start + several, min(2 * several, max(16, (1 << 20) // max(1, len(rows))))
        return wait


@torch.inference_mode(False)
def open_stream(snapshot: Snapshot, batch_size: int, state: Optional[SkipState], seeds) -> Stream:
    """A stream whose rows start from ``state``, or from the initial one; ``seeds`` is for a gate that draws."""
    stream = _make_stream(snapshot, batch_size)
    if seeds is None and snapshot.draws:
        seeds = torch.randint(2**62, (batch_size,), device="cpu")
    stream.reset(None, state, seeds)
    return stream


def choose_native(engine: str, cell: str, weights: Sequence[LayerWeights]) -> bool:
    """Whether the native engine is to run a stream.

    Raises:
        ValueError: it was asked for by name and can't.
    """
    if engine not in ("auto", "native", "int8"):
        return False
    reason = ENGINES["native"].refuse(weights[0].weight_ih, cell)
    if reason is None and weights[0].norm_weight is not None:
        reason = "has no layer_norm"
    if reason is not None and engine != "auto":
        raise ValueError(f"engine: {engine!r} {reason}; expected auto")
    return reason is None


def copy_tensors(group):
    """A named tuple of tensors with copies of them."""
    return type(group)(*(part.detach().clone().contiguous() if isinstance(part, Tensor) else part for part in group))


def _make_stream(snapshot: Snapshot, batch_size: int) -> Stream:
    return (NativeStream if snapshot.native else TorchStream)(snapshot, batch_size)


@torch.inference_mode(False)
def _restore(snapshot, batch_size, state, time, wanted, seeds) -> Stream:
    if snapshot.native and library.missing() is not None:
        if snapshot.int8:
            raise ValueError(f"engine: 'int8' {library.missing()}")
        snapshot = snapshot._replace(native=False)
    stream = _make_stream(snapshot, batch_size)
    stream._put(None, batch_size, state, time, wanted, seeds)
    return stream


def _address(tensor: Optional[Tensor]) -> Optional[int]:
    return None if tensor is None else tensor.data_ptr()


def _as_steps(n: Any, count: int) -> Tensor:
    """int64 [N]."""
    if isinstance(n, Integral) or (isinstance(n, Tensor) and n.dim() == 0):
        return _as_integers("n", n, None).repeat(count)
    return _as_integers("n", n, count)


def _as_integers(argument: str, values: Any, count: Optional[int]) -> Tensor:
    """int64 [N] on the CPU, contiguous; N is ``count`` if it is given."""
    try:
        tensor = torch.as_tensor(values, device="cpu")
        tensor = tensor.reshape(1) if tensor.dim() == 0 else tensor
        if tensor.numel() == 0:  # an empty list becomes an empty float tensor
            tensor = tensor.to(torch.int64)
        wrong = tensor.dtype == torch.bool or tensor.is_floating_point() or tensor.is_complex() or tensor.dim() != 1
    except (TypeError, ValueError, RuntimeError, OverflowError):
        wrong = True
    if wrong:
        raise ValueError(f"{argument}: expected integers, got {reprlib.repr(values)}")
    if count is not None and len(tensor) != count:
        raise ValueError(f"{argument}: expected {count} integers, got {len(tensor)}")
    return tensor.to(torch.int64).contiguous()
