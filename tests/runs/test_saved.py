"""Runs in the JSON of a report."""

import json
import math
from pathlib import Path

from skiprnn_plugin.runs.groups import Group
from skiprnn_plugin.runs.run import Run
from skiprnn_plugin.runs.saved import as_saved, read_saved
from skiprnn_plugin.runs.tables import TABLES


def test_json_has_no_nan_and_no_infinity(tmp_path):
    numbers = {"mse": math.nan, "flops": math.inf, "updates": 3.0}
    runs = [Run(Path("log"), {"task": "adding"}, numbers, None) for _ in range(2)]
    values = as_saved(Group("GRU", None, runs), TABLES["adding"], "valid")
    assert (values["mean"]["mse"], values["std"]["mse"], values["mean"]["flops"]) == (None, None, None)
    (tmp_path / "saved.json").write_text(json.dumps([values], allow_nan=False))
    first, _ = read_saved(tmp_path / "saved.json", None)
    assert first.metrics["updates"] == 3 and math.isnan(first.metrics["mse"]) and math.isnan(first.metrics["flops"])
