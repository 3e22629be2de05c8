"""Sequential MNIST: digits, pixel by pixel."""

from .table import SETTINGS, Column, Table, cited, full, learned, make_rows, random

TITLES = ("accuracy", "updates", "FLOPs")

MNIST = Table(
    name="mnist",
    title="Sequential MNIST",
    task="sequential_mnist",
    condition={"rows": False, "permuted": False},
    settings=SETTINGS,
    spread="over four runs",
    columns=(
        Column("accuracy", "accuracy", ".3f"),
        Column("updates", "updates", ".2f"),
        Column("FLOPs", "flops", "scientific"),
    ),
    rows=make_rows(
        TITLES,
        (full("lstm"), ("0.910 ± 0.045", "784.00 ± 0.00", "3.83e7")),
        (random("lstm", "0.5"), ("0.893 ± 0.003", "392.03 ± 0.05", "1.91e7")),
        (learned("lstm", "1e-4"), ("0.973 ± 0.002", "379.38 ± 33.09", "1.86e7")),
        (full("gru"), ("0.968 ± 0.013", "784.00 ± 0.00", "2.87e7")),
        (random("gru", "0.5"), ("0.912 ± 0.004", "391.86 ± 0.14", "1.44e7")),
        (learned("gru", "1e-4"), ("0.976 ± 0.003", "392.62 ± 26.48", "1.44e7")),
    ),
    cited=make_rows(
        TITLES,
        (cited("TANH-RNN"), ("0.350", "784.00", "-")),
        (cited("iRNN"), ("0.970", "784.00", "-")),
        (cited("uRNN"), ("0.951", "784.00", "-")),
        (cited("sTANH-RNN"), ("0.981", "784.00", "-")),
        (cited("LSTM"), ("0.989", "784.00", "-")),
        (cited("BN-LSTM"), ("0.990", "784.00", "-")),
    ),
    split="test",
)
