"""The adding task and frequency discrimination, on sequences drawn on the fly."""

from typing import Sequence

from .table import SETTINGS, Column, Table, full, learned, make_rows, plain, random

ADDING = Table(
    name="adding",
    title="Adding task",
    task="adding",
    condition={},
    settings={**SETTINGS, "criterion": "mse_with_budget", "sequence_length": 50, "min_value": -0.5, "max_value": 0.5},
    spread="over four runs",
    columns=(
        Column("solved", "solved", "yes_no"),
        Column("updates", "update_fraction", ".1%"),
        Column("FLOPs", "flops", "scientific"),
        Column("MSE", "mse", "scientific"),
    ),
    rows=make_rows(
        ("solved", "updates", "FLOPs"),
        (full("lstm"), ("Yes", "100.0% ± 0.0%", "2.46e6")),
        (random("lstm", "0.2"), ("No", "80.0% ± 0.1%", "1.97e6")),
        (random("lstm", "0.5"), ("No", "50.1% ± 0.1%", "1.23e6")),
        (learned("lstm", "0"), ("Yes", "81.1% ± 3.6%", "2.00e6")),
        (learned("lstm", "1e-5"), ("Yes", "53.9% ± 2.1%", "1.33e6")),
        (full("gru"), ("Yes", "100.0% ± 0.0%", "1.85e6")),
        (random("gru", "0.02"), ("No", "98.0% ± 0.0%", "1.81e6")),
        (random("gru", "0.5"), ("No", "49.9% ± 0.6%", "9.25e5")),
        (learned("gru", "0"), ("Yes", "97.9% ± 3.2%", "1.81e6")),
        (learned("gru", "1e-5"), ("Yes", "50.7% ± 2.6%", "9.40e5")),
    ),
)


def _frequency(sampling_period: float, updates: Sequence[str]) -> Table:
    """The table of one sampling period, in ms, from the updates that the paper printed."""
    models = [
        model
        for cell in ("lstm", "gru")
        for model in (full(cell), learned(cell, "0"), learned(cell, "1e-5"), learned(cell, "1e-4"))
    ]
    return Table(
        name=f"frequency-{plain(sampling_period)}ms",
        title=f"Frequency discrimination, sampled every {plain(sampling_period)} ms",
        task="frequency_discrimination",
        condition={"sampling_period": sampling_period},
        settings={**SETTINGS, "sequence_duration": 100, "min_period": 1, "max_period": 100},
        spread="over four runs",
        columns=(
            Column("solved", "solved", "yes_no"),
            Column("updates", "updates", ".1f"),
            Column("accuracy", "accuracy", ".3f"),
        ),
        # In the paper every model solves the task
        rows=make_rows(("solved", "updates"), *((model, ("Yes", printed)) for model, printed in zip(models, updates))),
    )


FREQUENCY = (
    _frequency(
        1,
        (
            "100.0 ± 0.00", "55.5 ± 16.9", "47.4 ± 14.1", "12.7 ± 0.5",
            "100.0 ± 0.00", "73.7 ± 17.9", "51.9 ± 10.2", "23.5 ± 6.2",
        ),
    ),
    _frequency(
        0.5,
        (
            "200.0 ± 0.00", "147.9 ± 27.0", "50.7 ± 16.8", "19.9 ± 1.5",
            "200.0 ± 0.00", "167.0 ± 18.3", "54.2 ± 4.4", "22.5 ± 2.1",
        ),
    ),
)  # fmt: skip
