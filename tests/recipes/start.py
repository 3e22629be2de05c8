"""Starting recipes, and what all runs of the paper have in common."""

import pytest
import torch

from ..command_line import ROOT, run

needs_environment = pytest.mark.skipif(
    not (ROOT / ".venv/installed").exists(), reason="recipes use .venv, which tests/run.sh makes"
)


def recipe(name, *arguments, **environment):
    return run("bash", ROOT / "recipes" / name, *arguments, **environment)


def assert_settings(checkpoint, lr, cost_per_sample, batch_size=256, chrono_init=0, cost_warmup_updates=0):
    """Those of all experiments of the paper, and those given."""
    cfg = torch.load(checkpoint, weights_only=False)["cfg"]
    assert cfg["optimization"]["lr"] == lr and cfg["criterion"]["cost_per_sample"] == cost_per_sample
    adam = cfg["optimizer"]
    assert adam["_name"] == "adam" and list(adam["adam_betas"]) == [0.9, 0.999] and adam["adam_eps"] == 1e-8
    assert (
        adam["weight_decay"] == 0
        and cfg["optimization"]["clip_norm"] == 1
        and cfg["dataset"]["batch_size"] == batch_size
    )
    assert cfg["criterion"]["cost_warmup_updates"] == cost_warmup_updates
    model = cfg["model"]
    assert (model["hidden_size"], model["num_layers"], model["dropout"]) == (110, 1, 0)
    assert model["gru_reset"] == "before" and model["init"] == "authors" and model["update_bias"] == 1
    assert model["chrono_init"] == chrono_init and model["gate_init"] == "authors"
    assert model["binarize"] == "round" and not model["layer_norm"] and not model["bidirectional"]
