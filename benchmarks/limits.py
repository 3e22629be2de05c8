"""Measures the limits of the machine on the CPU, in float32, and compares contestants with them."""

import time
from itertools import cycle
from typing import Any, Callable, Dict, Iterable, List, Sequence, Tuple

import torch

from skiprnn_plugin.ops import CELLS

from .shapes import SHAPES

SIZES = (512, 1024, 2048)  # sizes of the square matrices that are multiplied
STREAMED = 20_000_000  # the approximate number of bytes that one call reads
LARGE_BATCH = 256  # the smallest batch whose recurrent product is compared with the peak
SHARE = 0.1  # fraction of the seconds for a problem that the measurement of each limit takes

Limits = Dict[str, List[Dict[str, Any]]]


def measure(threads: Iterable[int], shapes: Sequence[str], cells: Sequence[str], seconds: float) -> Limits:
    """Measure all limits; each measurement is repeated for ``SHARE * seconds``, and the best value counts.

    Returns:
        ``products``: for each number of threads and each library that multiplies matrices (``by``), ``gflops``, 10^9
        operations per second (a fused multiply-add counts as two). ``streams``: for each shape with batch 1,
        ``gb_per_second``, 10^9 bytes per second, at which one thread reads an array as large as the recurrent weights
        (``bytes``) again and again.
    """
    seconds *= SHARE
    products = []
    for number in threads:
        torch.set_num_threads(number)
        products += [{"threads": number, "by": by, "gflops": _gflops(make, seconds)} for by, make in PRODUCTS.items()]
    torch.set_num_threads(1)
    single = [shape for shape in map(SHAPES.get, shapes) if shape.batch == 1]
    sizes = sorted({4 * _recurrent_weights(cell, s.hidden_size, s.layers) for cell in cells for s in single})
    return {
        "products": products,
        "streams": [{"bytes": size, "gb_per_second": _gb_per_second(size, seconds)} for size in sizes],
    }


def fill(entries: Iterable[Dict[str, Any]], limits: Limits) -> None:
    """Add ``share_of_peak`` and ``times_streaming`` to each entry; None where they do not apply or were not measured.

    Both apply to inference with every step updated, and consider only the recurrent product. ``share_of_peak``, for
    large batches: the operations of the recurrent product, divided by the time of the WHOLE step, relative to the best
    matrix product. ``times_streaming``, for batch 1: the time of the whole step, divided by the time to read the
    recurrent weights once. A step does more than the recurrent product, so both understate an engine's efficiency.
    """
    peaks = _best(limits["products"], ("threads",), "gflops")
    streams = _best(limits["streams"], ("bytes",), "gb_per_second")
    for entry in entries:
        entry["share_of_peak"] = entry["times_streaming"] = None
        if entry["mode"] != "inference" or entry["dtype"] != "float32" or entry["fraction"] != 1 or entry["fault"]:
            continue
        weights = _recurrent_weights(entry["cell"], entry["hidden_size"], entry["layers"])
        step = entry["us_per_step_median"] * 1e-6
        peak, stream = peaks.get((entry["threads"],)), streams.get((4 * weights,))
        if entry["batch"] >= LARGE_BATCH and peak:
            entry["share_of_peak"] = 2 * entry["batch"] * weights / step / (peak * 1e9)
        if entry["batch"] == 1 and stream:
            entry["times_streaming"] = step / (4 * weights / (stream * 1e9))


def describe(limits: Limits) -> str:
    """The limits in one line; empty if nothing was measured."""
    products = _best(limits["products"], ("by", "threads"), "gflops")
    streams = _best(limits["streams"], ("bytes",), "gb_per_second")
    by = (f"{by} {gflops:.0f} (threads: {threads})" for (by, threads), gflops in products.items())
    rates = (f"{size / 1000:.0f} kB at {rate:.0f}" for (size,), rate in streams.items())
    texts = {
        "GFLOP/s of large products": ", ".join(by),
        "GB/s of one thread that reads again and again": ", ".join(rates),
    }
    return " ".join(f"{title}: {text}." for title, text in texts.items() if text)


def _best(measured: List[Dict[str, Any]], keys: Tuple[str, ...], value: str) -> Dict[tuple, float]:
    """The largest ``value`` for each combination of the values of ``keys``."""
    best: Dict[tuple, float] = {}
    for measurement in measured:
        key = tuple(measurement[name] for name in keys)
        best[key] = max(measurement[value], best.get(key, 0.0))
    return best


def _recurrent_weights(cell: str, hidden: int, layers: int) -> int:
    """The number of recurrent weights in all layers."""
    return layers * CELLS[cell].num_gates * hidden * hidden


def _torch_mm(size: int) -> Callable:
    a, b, out = (torch.randn(size, size) for _ in range(3))
    return lambda: torch.mm(a, b, out=out)


def _onednn(size: int) -> Callable:
    """The same product by oneDNN. ``torch.mm`` uses MKL, which may reach half of the speed on processors that are not
    Intel's."""
    a, b = (torch.randn(size, size).to_mkldnn() for _ in range(2))
    return lambda: torch.nn.functional.linear(a, b)


PRODUCTS = {"torch.mm": _torch_mm, **({"oneDNN": _onednn} if torch.backends.mkldnn.is_available() else {})}


@torch.inference_mode()
def _gflops(make: Callable[[int], Callable], seconds: float) -> float:
    functions = {2 * size**3: make(size) for size in SIZES}
    return _fastest(functions, seconds) / 1e9


@torch.inference_mode()
def _gb_per_second(size: int, seconds: float) -> float:
    """Measure by a sum over a view that repeats the array along a dimension of stride 0. So one call reads the array
    often enough that the cost of the call is negligible. The additions are as fast as reading from the L2 cache."""
    array = torch.ones(size // 4)
    repeats = max(2, STREAMED // size)
    view, out = array.expand(repeats, -1), torch.empty(repeats)
    return _fastest({repeats * size: lambda: torch.sum(view, 1, out=out)}, seconds) / 1e9


def _fastest(functions: Dict[int, Callable], seconds: float) -> float:
    """The most work per second. The keys of ``functions`` say how much work a call does; the functions are called in
    turn until ``seconds`` have passed."""
    best, stop = 0.0, time.perf_counter() + seconds
    for work, function in cycle(functions.items()):
        start = time.perf_counter()
        function()
        end = time.perf_counter()
        best = max(best, work / (end - start))
        if end > stop:
            return best
