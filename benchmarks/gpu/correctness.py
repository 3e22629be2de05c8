"""The phase ``correctness``: values and gradients of the engine, on the device, beside those of float64 on the CPU.

Each case runs twice, and both times must be equal bit for bit. What is expected comes from the ``reference`` engine,
step by step, with a state that is rounded to the case's dtype after every step, as the engine does.
"""

from contextlib import ExitStack
from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from skiprnn_plugin.ops import CELLS, Gate, LayerWeights, SkipState, skip_scan

from .log import Log
from .plans import force_plan, little_memory
from .precision import PRECISIONS, Precision, use
from .settings import Settings


class Case(NamedTuple):
    """A call to check.

    Attributes:
        rows: sequences that a program works through; None for what the policy chooses.
        decides: ``gate``, ``noise`` or ``schedule``.
        padded: whether sequences have lengths and offsets.
        resumed: whether h, c, p and acc are those of a state in the middle of a sequence.
        transposed: whether x is [T, B, D] in memory.
        bias: of the gate; at -2 every sixth step or so is updated.
        little_memory: whether the engine works as if memory were short.
    """

    cell: str
    precision: str = "float32"
    rows: Optional[int] = None
    batch: int = 19
    steps: int = 24
    input_size: int = 1
    hidden_size: int = 110
    layers: int = 1
    decides: str = "gate"
    padded: bool = False
    resumed: bool = False
    last_only: bool = True
    transposed: bool = False
    dropout: bool = False
    bias: float = -1.0
    little_memory: bool = False


CASES = [
    Case("gru"),
    Case("lstm"),
    Case("gru", "bfloat16", batch=150, steps=16),
    Case("lstm", "bfloat16", batch=150, steps=16),
    Case("gru", "tf32", padded=True, last_only=False),
    Case("lstm", "tf32", resumed=True, last_only=False),
    Case("gru", "float16", padded=True, resumed=True),
    Case("lstm", "float16", padded=True, last_only=False),
    Case("gru_reset_before", padded=True, resumed=True, last_only=False),
    Case("gru_reset_before", "bfloat16"),
    Case("rnn", padded=True),
    Case("gru", padded=True, resumed=True, last_only=False, bias=-2.0),
    Case("lstm", padded=True, resumed=True, last_only=False, bias=-2.0),
    Case("gru", decides="noise", resumed=True),
    Case("lstm", decides="schedule", padded=True, last_only=False),
    Case("gru", "bfloat16", rows=1, batch=7, steps=12),
    Case("lstm", "bfloat16", rows=8, batch=19),
    Case("gru", "bfloat16", rows=16, batch=37, decides="noise"),
    Case("lstm", "bfloat16", rows=16, batch=37, padded=True),
    Case("gru", "tf32", rows=1, batch=7, steps=12),
    Case("gru", "tf32", rows=16, batch=37, decides="schedule"),
    Case("lstm", input_size=40, hidden_size=128, transposed=True, padded=True),
    Case("gru", "bfloat16", input_size=40, hidden_size=64, last_only=False),
    Case("gru", hidden_size=256, batch=33, steps=16, padded=True),
    Case("lstm", "bfloat16", input_size=40, hidden_size=512, batch=17, steps=12),
    Case("lstm", input_size=2, hidden_size=64, layers=2, last_only=False, padded=True, dropout=True),
    Case("gru", "bfloat16", input_size=40, hidden_size=128, layers=2),
    Case("gru_reset_before", "tf32", hidden_size=32, decides="noise", padded=True, resumed=True),
    # So long that the launches are replayed as a CUDA graph
    Case("lstm", hidden_size=144, batch=33, steps=200, decides="schedule", padded=True),
    Case("gru", hidden_size=144, batch=17, steps=80, padded=True, resumed=True, last_only=False, bias=-2.0),
    Case("lstm", hidden_size=144, layers=2, batch=5, steps=80, last_only=False),
    Case("gru", hidden_size=64, input_size=5, batch=37, padded=True, last_only=False, little_memory=True),
    Case("lstm", hidden_size=144, batch=37, padded=True, last_only=False, little_memory=True),
    # So many units and sequences that the tiles are large
    Case("gru", "bfloat16", hidden_size=512, batch=2048, steps=2, decides="schedule"),
    Case("lstm", "tf32", hidden_size=256, batch=4096, steps=2, decides="schedule"),
]
SMALL = [3, 8, 13]  # of these, with --small


def list_items(settings: Settings, log: Log) -> Dict[str, Case]:
    """Cases whose kernels could not be compiled come last, as one that never ends would end others too."""
    cases = CASES
    if settings.small:
        sizes = {"batch": 2, "steps": 6}
        cases = [CASES[i]._replace(**sizes, rows=None, hidden_size=5, bias=-0.4) for i in SMALL]
        cases = [case._replace(input_size=min(3, case.input_size)) for case in cases]
    named, compiled = {describe_case(case): case for case in cases}, log.read("compile")
    failed = {record["item"] for record in compiled if record.get("error")}
    return dict(sorted(named.items(), key=lambda entry: f"case {entry[0]}" in failed))


def limit(case: Case, engine: str) -> ExitStack:
    """A block in which the engine runs as the case says."""
    stack = ExitStack()
    stack.enter_context(force_plan(engine, rows=case.rows))
    if case.little_memory:
        stack.enter_context(little_memory(engine))
    return stack


def describe_case(case: Case) -> str:
    """The fields that are not as usual."""
    usual = Case(case.cell)
    words = [f"{name} {value}" for name, value in case._asdict().items() if value != getattr(usual, name)]
    return " ".join([case.cell, *words])


class Inputs(NamedTuple):
    """Tensors of a case, on one device and in one dtype."""

    x: Tensor
    weights: List[LayerWeights]
    state: SkipState
    gate: Gate
    lengths: Optional[Tensor]
    offsets: Optional[Tensor]
    schedule: Optional[Tensor]
    noise: Optional[Tensor]
    dropout_mask: Optional[Tensor]

    def leaves(self) -> Dict[str, Tensor]:
        """The tensors that have a gradient, by name."""
        found = {"x": self.x, "gate.weight": self.gate.weight, "gate.bias": self.gate.bias}
        for layer, weights in enumerate(self.weights):
            found.update({f"{name}_l{layer}": w for name, w in zip(LayerWeights._fields, weights) if w is not None})
        found.update({name: value for name, value in self.state._asdict().items() if value is not None})
        return found


def make_inputs(case: Case, dtype: torch.dtype) -> Inputs:
    """Random inputs, rounded to ``dtype``, in float64 on the CPU."""
    generator = torch.Generator().manual_seed(sum(map(ord, describe_case(case))))

    def draw(*shape, scale=1.0, rounded=dtype):
        values = torch.randn(shape, generator=generator, dtype=torch.float64) * scale
        return values.to(rounded).double()

    def uniform(*shape):
        return torch.rand(shape, generator=generator, dtype=torch.float32).double()

    cell, batch, steps, hidden = CELLS[case.cell], case.batch, case.steps, case.hidden_size
    weights = []
    for layer in range(case.layers):
        inputs, rows = case.input_size if layer == 0 else hidden, cell.num_gates * hidden
        matrices = draw(rows, inputs, scale=inputs**-0.5), draw(rows, hidden, scale=hidden**-0.5)
        weights.append(LayerWeights(*matrices, draw(rows, scale=0.3), draw(rows, scale=0.3)))
    bias = torch.tensor([case.bias], dtype=torch.float64)
    h = draw(case.layers, batch, hidden, scale=0.5)
    state = SkipState(h, draw(case.layers, batch, hidden) if cell.has_c else None)
    if case.resumed:
        state = state._replace(p=uniform(batch) * 0.9 + 0.05, acc=uniform(batch) * 0.45)
    lengths = offsets = schedule = noise = mask = None
    if case.padded:
        offsets = torch.randint(0, steps // 2, (batch,), generator=generator)
        lengths = (torch.rand(batch, generator=generator) * (steps - offsets + 1)).long()
    if case.decides == "schedule":
        schedule = torch.rand(batch, steps, generator=generator) < 0.4
    if case.decides == "noise":
        noise = uniform(batch, steps)
    if case.dropout:
        mask = (uniform(case.layers - 1, batch, hidden) > 0.3).double() / 0.75
    x = draw(batch, steps, case.input_size)
    gate = Gate(draw(1, hidden, scale=2 * hidden**-0.5), bias, (case.layers - 1,))
    return Inputs(x, weights, state, gate, lengths, offsets, schedule, noise, mask)


def move(inputs: Inputs, dtype: torch.dtype, device: str, transposed: bool) -> Inputs:
    """The inputs in ``dtype`` on the device, as leaves; what the gate reads stays in float32 or wider."""
    wide = torch.float64 if dtype == torch.float64 else torch.float32

    def to(tensor, dtype=dtype):
        return None if tensor is None else tensor.to(device, dtype, copy=True).requires_grad_()

    x = inputs.x.transpose(0, 1).contiguous() if transposed else inputs.x
    x = to(x)
    weights = [LayerWeights(*map(to, layer)) for layer in inputs.weights]
    state = SkipState(to(inputs.state.h), to(inputs.state.c), to(inputs.state.p, wide), to(inputs.state.acc, wide))
    gate = Gate(to(inputs.gate.weight, wide), to(inputs.gate.bias, wide), inputs.gate.layers)
    others = [None if tensor is None else tensor.to(device) for tensor in inputs[4:7]]
    others += [None if tensor is None else tensor.to(device, kind) for tensor, kind in zip(inputs[7:], (wide, dtype))]
    return Inputs(x, weights, state, gate, *others)


def run(case: Case, inputs: Inputs, engine: str) -> Dict[str, Tensor]:
    """The engine's results, by name."""
    x = inputs.x.transpose(0, 1) if case.transposed else inputs.x
    others = {name: getattr(inputs, name) for name in Inputs._fields[4:]}
    output, state, updates = skip_scan(
        x, inputs.weights, inputs.state, inputs.gate, cell=case.cell, last_only=case.last_only, engine=engine, **others
    )
    return name_results(output, state, updates)


def name_results(output: Tensor, state: SkipState, updates: Tensor) -> Dict[str, Tensor]:
    found = {"output": output, "updates": updates, **state._asdict()}
    return {name: value for name, value in found.items() if value is not None}


def run_by_steps(case: Case, inputs: Inputs, dtype: torch.dtype) -> Tuple[Dict[str, Tensor], Tensor]:
    """The results of the ``reference`` engine in float64, with h and c rounded to ``dtype`` after every step; and how
    far v was from the threshold, [B, T] (infinite where nothing was to decide)."""
    state, outputs, updates, distances = inputs.state.filled(), [], [], []
    begin = torch.zeros(case.batch, dtype=torch.int64) if inputs.offsets is None else inputs.offsets
    end = begin + (case.steps if inputs.lengths is None else inputs.lengths)
    for t in range(case.steps):
        real = (begin <= t) & (t < end)
        before = state
        v = before.acc + torch.minimum(before.p, 1 - before.acc)
        threshold = 0.5 if inputs.noise is None else inputs.noise[:, t]
        distances.append(torch.where(real, (v - threshold).abs(), torch.inf).detach())
        output, state, u = skip_scan(
            inputs.x[:, t : t + 1],
            inputs.weights,
            before,
            inputs.gate,
            cell=case.cell,
            lengths=real.long(),
            schedule=None if inputs.schedule is None else inputs.schedule[:, t : t + 1],
            noise=None if inputs.noise is None else inputs.noise[:, t : t + 1],
            dropout_mask=inputs.dropout_mask,
            engine="reference",
        )
        h, c = round_like(state.h, dtype), None if state.c is None else round_like(state.c, dtype)
        if dtype not in (torch.float32, torch.float64):  # the gate reads what is rounded
            q = (h if c is None else c)[inputs.gate.layers[0]]
            p = torch.sigmoid(q @ inputs.gate.weight[0] + inputs.gate.bias)
            state = state._replace(p=state.p + torch.where(u[:, 0] > 0, p - state.p, 0.0).detach())
        state = state._replace(h=h, c=c)
        outputs.append(torch.where(real[:, None], h[-1], 0.0))
        updates.append(u[:, 0])
    output = state.h[-1] if case.last_only else torch.stack(outputs, 1)
    distance = torch.stack(distances, 1)
    if inputs.schedule is not None:
        distance = torch.full_like(distance, torch.inf)
    return name_results(output, state, torch.stack(updates, 1)), distance


def round_like(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Rounded to ``dtype``; the gradient is that of the identity."""
    return tensor + (tensor.to(dtype).to(tensor.dtype) - tensor).detach()


def differentiate(inputs: Inputs, results: Dict[str, Tensor], weighting: Dict[str, Tensor]) -> Dict[str, Tensor]:
    """The gradients of a sum of all results, each times the numbers in ``weighting``."""
    loss = sum((results[name].double() * w.to(results[name].device)).sum() for name, w in weighting.items())
    leaves = inputs.leaves()
    gradients = dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)))
    # The gate's gradient as one vector, because its bias is a single sum, which may be small by chance
    gate = torch.cat([gradients.pop(name).flatten() for name in ("gate.weight", "gate.bias")])
    return {f"gradient of {name}": gradient for name, gradient in {"gate": gate, **gradients}.items()}


def draw_weighting(results: Dict[str, Tensor], rows: Tensor) -> Dict[str, Tensor]:
    """Random numbers for every element of the results, 0 for rows that do not count."""
    generator = torch.Generator().manual_seed(1)
    found = {}
    for name, value in results.items():
        values = torch.randn(value.shape, generator=generator, dtype=torch.float64)
        rows_first = name in ("output", "updates", "p", "acc")
        shape = [-1, *[1] * (value.dim() - 1)] if rows_first else [1, -1, 1]
        found[name] = values * rows.view(shape)
    return found


def select(name: str, value: Tensor, rows: Tensor) -> Tensor:
    """The part of a result for some sequences; the whole of a gradient, to which the others contribute nothing."""
    if name in ("output", "p", "acc", "updates"):
        return value[rows]
    return value[:, rows] if name in ("h", "c") else value


def error_of(got: Tensor, expected: Tensor) -> float:
    """|got - expected| / |expected|, NaN if ``got`` has one."""
    return ((got.double() - expected).norm() / expected.norm().clamp(min=1e-6)).item()


def run_item(name: str, case: Case, settings: Settings, log: Log) -> None:
    precision = PRECISIONS[case.precision]
    use(case.precision)
    drawn = make_inputs(case, precision.dtype)
    inputs = move(drawn, torch.float64, "cpu", False)
    expected, distance = run_by_steps(case, inputs, precision.dtype)
    rows = (distance > precision.margin).all(1)
    weighting = draw_weighting(expected, rows)
    expected = {**expected, **differentiate(inputs, expected, weighting)}
    runs = []
    with limit(case, settings.engine):
        for _ in range(2):
            inputs = move(drawn, precision.dtype, settings.device, case.transposed)
            results = run(case, inputs, settings.engine)
            runs.append({**results, **differentiate(inputs, results, weighting)})
        with torch.no_grad():
            runs.append(run(case, move(drawn, precision.dtype, settings.device, case.transposed), settings.engine))
    if case.transposed:
        for found in runs[:2]:
            found["gradient of x"] = found["gradient of x"].transpose(0, 1)
    fault, worst = compare(runs, expected, rows, precision)
    updates = expected["updates"].detach()
    log.write(
        "correctness",
        f"{'WRONG' if fault else 'ok   '} {name}: {fault or ''}"
        f"{int(rows.sum())} of {case.batch} rows, {updates.sum() / updates.numel():.0%} updates, "
        f"output {worst['output']:.1e}, worst gradient {max(worst.values()):.1e}",
        item=name,
        case=case._asdict(),
        error=fault,
        rows=int(rows.sum()),
        errors=worst,
    )


def compare(
    runs: List[Dict[str, Tensor]], expected: Dict[str, Tensor], rows: Tensor, precision: Precision
) -> Tuple[Optional[str], Dict[str, float]]:
    """What is wrong (None if nothing), and the error of every result and gradient."""
    first, second, inference = ({name: value.detach().cpu() for name, value in found.items()} for found in runs)
    faults, errors = [], {}
    for name, value in first.items():
        if not torch.equal(value, second[name]):
            faults.append(f"{name}: two runs differ")
    for name, value in inference.items():
        if not torch.allclose(
            select(name, value, rows), select(name, first[name], rows), rtol=0, atol=precision.output
        ):
            faults.append(f"{name}: inference and training differ")
    if not rows.any():
        faults.append("no row is left to compare")
    got, wanted = (select("updates", found["updates"], rows) for found in (first, expected))
    wrong = (got != wanted).sum().item()
    if wrong:
        faults.append(f"updates: {wrong} of {got.numel()} differ")
    for name, value in first.items():
        errors[name] = error_of(select(name, value, rows), select(name, expected[name].detach(), rows))
        if not errors[name] <= (precision.gradient if name.startswith("gradient") else precision.output):
            faults.append(f"{name}: off by {errors[name]:.1e}")
    return "; ".join(faults) + "; " if faults else None, errors
