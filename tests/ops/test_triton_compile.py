"""The kernels that work through whole sequences fit the GPUs that the policy chooses them for. They are compiled for
these GPUs, which need not be here.

``TRITON_INTERPRET`` counts when a kernel is defined, so processes of their own compile; see :mod:`.compile_triton`.
"""

import itertools
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from skiprnn_plugin.ops import ENGINES
from skiprnn_plugin.ops.triton.policy import ROWS, Device, fits, shared_memory

from ..command_line import ROOT

missing = ENGINES["triton"].missing()
pytestmark = pytest.mark.skipif(missing is not None, reason=f"triton {missing}")

PROCESSES = 2
KERNELS = ("forward_kernel", "chain_kernel")
CELLS = ("lstm", "gru", "gru_reset_before", "rnn")
# What a program can have, in bytes, from NVIDIA's CUDA C++ Programming Guide, "Technical Specifications per Compute
# Capability"
SHARED = {80: 163 * 1024, 90: 227 * 1024, 100: 227 * 1024}
SPILLED = {False: 256, True: 288}  # bytes of a thread, without and with noise; they stay in the first cache
# Kernels that the quick tests compile: architecture, precision, cell, H, sequences of a program, and whether x has one
# feature and there is noise
QUICK = [
    ("chain_kernel", 90, "half", "lstm", 128, 8, False),
]
MORE = [
    ("forward_kernel", 80, "half", "gru", 110, 1, True),
    ("forward_kernel", 90, "ieee", "gru_reset_before", 110, 1, False),
    ("chain_kernel", 90, "ieee", "lstm", 128, 1, False),
    ("forward_kernel", 90, "tf32", "gru", 128, 16, False),
    ("forward_kernel", 100, "half", "lstm", 128, 8, False),
]
LAUNCHED = {
    "lstm": ("prepare_kernel", "candidates_kernel", "decide_kernel", "layer_kernel", "chain_gate_kernel"),
    "gru_reset_before": ("reset_kernel", "layer_kernel", "chain_reset_kernel", "chain_layer_kernel"),
}


def list_variants():
    """Every variant that the policy can choose with 128 units, and a few with fewer and with more."""
    found = [*QUICK, *MORE]
    for arch, shared in SHARED.items():
        device = Device(arch // 10, 132, shared)
        for precision, counts in ROWS.items():
            for cell, rows in itertools.product(CELLS, counts):
                if fits(precision, cell, 128, rows, device):
                    found.extend((kernel, arch, precision, cell, 128, rows, False) for kernel in KERNELS)
                    if arch == 90 and cell in ("lstm", "gru"):
                        found.append(("forward_kernel", arch, precision, cell, 128, rows, True))
    fewer = [("half", 64, 8), ("tf32", 64, 8), ("ieee", 64, 1), ("half", 20, 8), ("tf32", 5, 16)]
    for kernel, cell, (precision, hidden, rows) in itertools.product(KERNELS, ("lstm", "gru_reset_before"), fewer):
        found.append((kernel, 90, precision, cell, hidden, rows, False))
    found.extend((kernel, 90, "half", "lstm", 128, 8, False) for kernel in ("prepare_kernel", "candidates_kernel"))
    # by launches: two layers, 0 sequences of a program
    for precision in ("half", "ieee"):
        for cell, kernels in LAUNCHED.items():
            found.extend((kernel, 90, precision, cell, 384, 0, False) for kernel in kernels)
        found.extend(("layer_kernel", arch, precision, "lstm", 256, 0, False) for arch in (80, 100))
    return dict.fromkeys(found)


def params():
    return [pytest.param(*v, id="-".join(map(str, v)), marks=mark(v)) for v in list_variants()]


def mark(variant):
    """Of the architectures beside sm_90, ``--all`` compiles one kernel each."""
    if variant in QUICK:
        return ()
    return pytest.mark.thorough if variant in MORE or variant[1] == 90 else pytest.mark.interpreted


def describe(kernel, arch, precision, cell, hidden, rows, noisy):
    """A variant as :mod:`.compile_triton` reads it."""
    units = max(16, 1 << (hidden - 1).bit_length())
    return {
        "kernel": kernel,
        "arch": arch,
        "cell": cell,
        "hidden": hidden,
        "dtype": "bfloat16" if precision == "half" else "float32",
        "layers": 1 if rows > 0 else 2,
        "plan": {"on_chip": rows > 0, "rows": rows, "warps": units // 16, "precision": precision},
        "records": True,
        "inputs": 1 if noisy else 3,
        "noisy": noisy,
    }


@pytest.fixture(scope="module")
def measured(request, tmp_path_factory):
    """What was measured of each variant that the tests at hand ask for."""
    items = [item for item in request.session.items if item.path == request.path]
    asked = [tuple(item.callspec.params[name] for name in NAMES) for item in items if hasattr(item, "callspec")]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment.update(TRITON_CACHE_DIR=str(tmp_path_factory.mktemp("triton")), OMP_NUM_THREADS="1")

    def compile_some(first):
        variants = json.dumps([describe(*variant) for variant in asked[first::PROCESSES]])
        command = [sys.executable, "-m", "tests.ops.compile_triton"]
        process = subprocess.run(command, input=variants, capture_output=True, text=True, cwd=ROOT, env=environment)
        assert process.returncode == 0, process.stderr
        return [json.loads(line) for line in process.stdout.splitlines()]

    with ThreadPoolExecutor(PROCESSES) as pool:
        parts = list(pool.map(compile_some, range(PROCESSES)))
    return {variant: parts[i % PROCESSES][i // PROCESSES] for i, variant in enumerate(asked)}


NAMES = ("kernel", "arch", "precision", "cell", "hidden", "rows", "noisy")


@pytest.mark.parametrize(NAMES, params())
def test_it_fits(measured, kernel, arch, precision, cell, hidden, rows, noisy):
    got = measured[kernel, arch, precision, cell, hidden, rows, noisy]
    assert "error" not in got, f"{got['variant']}: {got['error']}"
    assert got["spilled"] <= SPILLED[noisy], f"spills more than {SPILLED[noisy]} bytes: {got}"
    assert got["shared"] <= SHARED[arch], f"sm_{arch} has {SHARED[arch]} bytes of shared memory: {got}"
    if kernel in KERNELS:
        assert got["loop"] > 50, f"no loop found: {got}"
        units = 16 * got["variant"]["plan"]["warps"]
        promised = shared_memory(precision, cell, units, rows)
        assert got["shared"] <= promised, f"the policy says {promised} bytes of shared memory: {got}"
        assert got["LDSM"] < loads(kernel, precision, cell, units, rows), f"loads weights in the loop: {got}"


def loads(kernel, precision, cell, units, rows):
    """How many instructions of 512 bytes load the vectors that are multiplied, and a warp's part of one gate's weights,
    from shared memory."""
    forward = {"lstm": 1, "gru": 1, "gru_reset_before": 2, "rnn": 1}
    backward = {"lstm": 4, "gru": 3, "gru_reset_before": 3, "rnn": 1}
    vectors = (forward if kernel == "forward_kernel" else backward)[cell]
    size = 2 if precision == "half" else 4
    return vectors * -(-units * max(8, rows) * size // 512) + units * 16 * size // 512
