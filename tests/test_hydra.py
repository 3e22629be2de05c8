"""``fairseq-hydra-train`` with the plugin's configuration groups."""

import dataclasses
import json
import os
import re
import shutil
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from skiprnn_plugin.criterions.budget import BudgetConfig
from skiprnn_plugin.criterions.with_budget import WithBudgetConfig
from skiprnn_plugin.models.ctc import SkipRNNCTCConfig
from skiprnn_plugin.models.s2t import SkipRNNS2TConfig
from skiprnn_plugin.models.seq2seq import SkipRNNSeq2SeqConfig
from skiprnn_plugin.models.skip_rnn import SkipRNNConfig
from skiprnn_plugin.models.text import SkipRNNTextConfig
from skiprnn_plugin.tasks.adding import AddingConfig
from skiprnn_plugin.tasks.feature_classification import FeatureClassificationConfig
from skiprnn_plugin.tasks.feature_localization import FeatureLocalizationConfig
from skiprnn_plugin.tasks.feature_regression import FeatureRegressionConfig
from skiprnn_plugin.tasks.frequency_discrimination import FrequencyDiscriminationConfig
from skiprnn_plugin.tasks.imdb_sentiment import ImdbSentimentConfig
from skiprnn_plugin.tasks.sequential_mnist import SequentialMNISTConfig

from .command_line import PLUGIN, ROOT
from .forked import SCRIPTS, run_forked

CONFIG = PLUGIN / "config"
TASKS = {
    "adding": AddingConfig,
    "frequency_discrimination": FrequencyDiscriminationConfig,
    "feature_classification": FeatureClassificationConfig,
    "feature_localization": FeatureLocalizationConfig,
    "feature_regression": FeatureRegressionConfig,
    "imdb_sentiment": ImdbSentimentConfig,
    "sequential_mnist": SequentialMNISTConfig,
}
CRITERIONS = {
    "mse_with_budget": BudgetConfig,
    "binary_cross_entropy_with_budget": BudgetConfig,
    "cross_entropy_with_budget": BudgetConfig,
    "with_budget": WithBudgetConfig,
}
MODELS = {
    "skip_rnn": SkipRNNConfig,
    "skip_rnn_ctc": SkipRNNCTCConfig,
    "skip_rnn_s2t": SkipRNNS2TConfig,
    "skip_rnn_seq2seq": SkipRNNSeq2SeqConfig,
    "skip_rnn_text": SkipRNNTextConfig,
}
DATACLASSES = {"task": TASKS, "model": MODELS, "criterion": CRITERIONS}
FILES = sorted(path.relative_to(CONFIG) for group in DATACLASSES for path in (CONFIG / group).glob("*.yaml"))
FILES.remove(Path("task/speech_to_text.yaml"))  # of a task of fairseq's, which tests/test_speech.py runs
PREFIXES = {"skip": "learned", "random_skip": "random", "full": "full"}


def test_every_registered_name_has_a_file():
    from fairseq.criterions import CRITERION_REGISTRY
    from fairseq.models import ARCH_CONFIG_REGISTRY
    from fairseq.tasks import TASK_REGISTRY

    ours = {f"task/{name}.yaml" for name, task in TASK_REGISTRY.items() if task.__module__.startswith("skiprnn_plugin")}
    functions = {arch: function.__module__ for arch, function in ARCH_CONFIG_REGISTRY.items()}
    ours |= {f"model/{arch}.yaml" for arch, module in functions.items() if module.startswith("skiprnn_plugin")}
    ours |= {f"criterion/{n}.yaml" for n, c in CRITERION_REGISTRY.items() if c.__module__.startswith("skiprnn_plugin")}
    assert ours == {str(path) for path in FILES}


@pytest.mark.parametrize("file", FILES, ids=str)
def test_file_is_complete(file):
    """All options, at the defaults of the command line."""
    group, name = file.parent.name, file.stem
    values = OmegaConf.to_container(OmegaConf.load(CONFIG / file))
    prefix, cell, ending = re.fullmatch(r"(\w+?)_(lstm|gru)(\w*)", name).groups() if group == "model" else ("", "", "")
    registered = f"skip_rnn{ending}" if group == "model" else name
    expected = {option.name: option.default for option in dataclasses.fields(DATACLASSES[group][registered])}
    expected["_name"] = registered
    if group == "model":
        expected["cell"], expected["update_rule"] = cell, PREFIXES[prefix]
    assert values == expected
    assert (CONFIG / file).read_text().startswith(f"# @package {group}\n")


def hydra_train(folder, *overrides, flags=(), user_dir=True, **environment):
    """In ``folder``, with a relative user_dir or the default; returns each run's folder and last validation."""
    named = [f"common.user_dir={os.path.relpath(PLUGIN, folder)}"] if user_dir else []
    process = run_forked(
        SCRIPTS / "fairseq-hydra-train", "--config-dir", CONFIG, "--config-name", "skip_rnn", *flags,
        *named, "common.cpu=true", "dataset.num_workers=0",
        "task.train_size=32", "task.valid_size=16", "task.sequence_length=10", "dataset.batch_size=16",
        "optimization.max_update=3", *overrides, cwd=folder, **environment,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[-2000:]
    runs = sorted(path.parent for path in folder.glob("**/.hydra"))
    lines = [
        [line for line in (path / "hydra_train.log").read_text().splitlines() if "[valid]" in line] for path in runs
    ]
    return runs, [json.loads(log[-1].partition(" - ")[2]) for log in lines]


def test_one_run(tmp_path):
    (folder,), (valid,) = hydra_train(tmp_path, "task=adding", "model=skip_lstm", "criterion.cost_per_sample=1e-2")
    assert (folder / "checkpoints/checkpoint_last.pt").exists()
    config = yaml.safe_load((folder / ".hydra/config.yaml").read_text())
    assert config["model"]["cell"] == "lstm" and config["criterion"]["cost_per_sample"] == 1e-2
    assert float(valid["valid_budget_loss"]) == pytest.approx(1e-2 * float(valid["valid_updates"]), rel=1e-4)


@pytest.mark.parametrize("copied", [False, True], ids=["in any folder", "beside another copy"])
def test_the_installed_plugin_runs(tmp_path, copied):
    """It needs no ``common.user_dir``."""
    if copied:
        shutil.copytree(PLUGIN, tmp_path / "skiprnn_plugin", ignore=shutil.ignore_patterns("__pycache__"))
    (folder,), (valid,) = hydra_train(tmp_path, user_dir=False, PYTHONPATH=ROOT)
    assert float(valid["valid_update_fraction"]) > 0
    expected = f"--user-dir skiprnn_plugin: ignored, as the plugin has been imported already, from {PLUGIN.resolve()}\n"
    assert expected in (folder / "hydra_train.log").read_text()


def test_multirun(tmp_path):
    folders, valid = hydra_train(tmp_path, "criterion.cost_per_sample=0,1e-2", flags=["--multirun"])
    assert [float(stats["valid_budget_loss"]) > 0 for stats in valid] == [False, True]
    for folder in folders:  # the second has the higher loss, but a best of its own
        assert (folder / "checkpoints/checkpoint_best.pt").exists()
