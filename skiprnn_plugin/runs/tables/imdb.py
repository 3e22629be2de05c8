"""Sentiment of IMDB's reviews, cropped or padded to 200 or 400 words."""

from typing import Sequence, Tuple

from .table import SETTINGS, Column, Model, Table, full, learned, make_rows


def _imdb(sequence_length: int, *lines: Tuple[Model, Sequence[str]]) -> Table:
    """The table of one length, from the accuracy and the updates that the paper printed for each model."""
    return Table(
        name=f"imdb-{sequence_length}",
        title=f"IMDB, {sequence_length} words",
        task="imdb_sentiment",
        condition={"sequence_length": sequence_length},
        settings={**SETTINGS, "hidden_size": 128, "dropout": 0.2, "embedding_dim": 300, "padding": "data"},
        spread="over four runs",
        columns=(
            Column("accuracy", "accuracy", ".3f"),
            Column("updates", "updates", ".2f"),
            Column("FLOPs", "flops", "scientific"),
        ),
        rows=make_rows(("accuracy", "updates"), *lines),
        split="test",
    )


IMDB = (
    _imdb(
        200,
        (full("lstm"), ("0.843 ± 0.003", "200.00 ± 0.00")),
        (learned("lstm", "0"), ("0.844 ± 0.004", "196.75 ± 5.63")),
        (learned("lstm", "1e-5"), ("0.846 ± 0.004", "197.15 ± 3.16")),
        (learned("lstm", "1e-4"), ("0.837 ± 0.006", "164.65 ± 8.67")),
        (learned("lstm", "1e-3"), ("0.811 ± 0.007", "73.85 ± 1.90")),
        (full("gru"), ("0.845 ± 0.006", "200.00 ± 0.00")),
        (learned("gru", "0"), ("0.848 ± 0.002", "200.00 ± 0.00")),
        (learned("gru", "1e-5"), ("0.842 ± 0.005", "199.25 ± 1.30")),
        (learned("gru", "1e-4"), ("0.834 ± 0.006", "180.97 ± 8.90")),
        (learned("gru", "1e-3"), ("0.800 ± 0.007", "106.15 ± 37.92")),
    ),
    _imdb(
        400,
        (full("lstm"), ("0.868 ± 0.004", "400.00 ± 0.00")),
        (learned("lstm", "0"), ("0.866 ± 0.004", "369.70 ± 19.35")),
        (learned("lstm", "1e-5"), ("0.865 ± 0.001", "380.62 ± 18.20")),
        (learned("lstm", "1e-4"), ("0.862 ± 0.003", "186.30 ± 25.72")),
        (learned("lstm", "1e-3"), ("0.836 ± 0.007", "84.22 ± 1.98")),
        (full("gru"), ("0.862 ± 0.003", "400.00 ± 0.00")),
        (learned("gru", "0"), ("0.866 ± 0.002", "399.02 ± 1.69")),
        (learned("gru", "1e-5"), ("0.862 ± 0.008", "398.00 ± 2.06")),
        (learned("gru", "1e-4"), ("0.853 ± 0.011", "314.30 ± 2.82")),
        (learned("gru", "1e-3"), ("0.814 ± 0.005", "99.12 ± 2.69")),
    ),
)
