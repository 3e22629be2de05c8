"""The examples, run as a user runs them."""

import json
import re
import shutil
import sys
from unittest import mock

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from skiprnn_plugin.cli.plot import main as plot
from skiprnn_plugin.cli.predict import main as predict
from skiprnn_plugin.hub import from_pretrained
from skiprnn_plugin.runs.checkpoint import import_user_dir

from . import command_line
from .command_line import ROOT
from .forked import run_forked

EXAMPLES = ROOT / "user_dir_examples"
TRAIN = """
    --optimizer adam --lr 1e-3 --clip-norm 1.0 --batch-size 16 --cpu --num-workers 0 --no-epoch-checkpoints
    --log-format json
""".split()


def train(user_dir, save_dir, *options, before=""):
    """``fairseq-train`` in a forked process, after another statement: its last validation, and the model's
    weights."""
    code = f"{before}; from fairseq_cli.train import cli_main; cli_main()".lstrip("; ")
    arguments = ["--user-dir", user_dir, "--save-dir", save_dir, *TRAIN, *options]
    process = run_forked("-c", code, *arguments, PYTHONPATH=f"{ROOT}:{user_dir.parent}" if before else ROOT)
    assert process.returncode == 0, process.stderr[-2000:]
    output = process.stdout + process.stderr
    (*_, last) = re.findall(r"\{.*\"valid_loss\".*\}", output)
    valid = {name: float(value) for name, value in json.loads(last).items()}
    return valid, torch.load(save_dir / "checkpoint_last.pt", weights_only=False)["model"]


@pytest.fixture
def example(monkeypatch):
    """``example(name)`` imports an example's package into this process like ``--user-dir``."""
    monkeypatch.setattr(sys, "path", list(sys.path))

    def load(name):
        import_user_dir(str(EXAMPLES / name))
        return sys.modules[name]

    return load


PROGRAMS = [
    *("own_dataset/make_sample_data.py", "own_model/make_sample_data.py", "plain_torch/train.py"),
    *("speech/make_digits.py", "translation/make_data.py", "../docs/draw_gate.py"),
]
SCRIPTS = [*(f"{name}/run.sh" for name in ("own_model", "speech", "translation")), "../benchmarks/gpu_wheels.sh"]


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_help(tmp_path, name, flag):
    """It makes nothing, such as a folder of that name."""
    process = run_forked(EXAMPLES / name, flag, cwd=tmp_path, PYTHONPATH=ROOT)
    assert process.returncode == 0 and process.stdout.startswith("usage: "), process.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_help_of_scripts(tmp_path, name, flag):
    process = command_line.run("bash", EXAMPLES / name, flag, cwd=tmp_path)
    assert process.returncode == 0 and f"\n  bash {(EXAMPLES / name).resolve().relative_to(ROOT)} " in process.stdout
    assert not process.stderr and not list(tmp_path.iterdir())


def test_a_script_without_its_folder():
    process = command_line.run("bash", EXAMPLES / "own_model/run.sh")
    assert process.returncode == 2 and process.stderr == (
        "error: FOLDER: expected one folder for the texts and the run, got 0 arguments\n"
    )


def test_plain_torch(tmp_path):
    """With fewer sequences in a batch."""
    program = (EXAMPLES / "plain_torch/train.py").read_text()
    assert "batch(256)" in program
    (tmp_path / "train.py").write_text(program.replace("batch(256)", "batch(16)"))
    process = run_forked(tmp_path / "train.py", 100, PYTHONPATH=ROOT)
    assert re.fullmatch(r"update 100: MSE 0\.\d+, used \d+% of the samples\n", process.stdout), process.stderr


@pytest.fixture(scope="module")
def rotations(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "rotations"
    process = run_forked(EXAMPLES / "own_dataset/make_sample_data.py", folder, 128)
    assert process.returncode == 0, process.stderr
    return folder


def test_own_dataset(rotations, tmp_path, capsys):
    valid, weights = train(
        EXAMPLES / "own_dataset",
        tmp_path,
        *("--task", "labelled_folder", "--data-dir", rotations, "--arch", "skip_lstm", "--hidden-size", 32),
        *("--criterion", "cross_entropy_with_budget", "--cost-per-sample", 1e-3, "--max-epoch", 5),
    )
    assert valid["valid_accuracy"] > 0.75
    assert weights["head.weight"].shape == (2, 32)  # one row for each class
    assert 0 < valid["valid_updates"] <= 60 and 0 < valid["valid_update_fraction"] <= 1
    # The commands work with this task too, also with sequences that differ in length
    arguments = ["tradeoff", tmp_path, "--user-dir", EXAMPLES / "own_dataset", "--output", tmp_path / "t.png"]
    assert plot([str(argument) for argument in arguments]) == 0
    accuracy = f"{valid['valid_accuracy']:.4g}"
    assert f"{valid['valid_update_fraction']:.4g} | {accuracy} | 1 |" in capsys.readouterr().out
    hub = from_pretrained(tmp_path, user_dir=EXAMPLES / "own_dataset")
    points = [np.load(rotations / "valid" / f"{index}.npy") for index in range(32)]
    labels = np.arange(32) % 2  # make_sample_data.py alternates them
    assert (hub.predict(points).argmax(1) == labels).mean() == valid["valid_accuracy"]
    assert predict([str(tmp_path), str(rotations / "valid/0.npy"), "--user-dir", str(EXAMPLES / "own_dataset")]) == 0
    expected = ("clockwise", "counterclockwise")[hub.predict(points[:1]).argmax()]
    assert capsys.readouterr().out.splitlines()[1].startswith(f"{expected}\t")


def test_own_dataset_with_a_criterion_of_fairseqs(rotations, tmp_path):
    valid, _ = train(
        EXAMPLES / "own_dataset",
        tmp_path,
        *("--task", "labelled_folder", "--data-dir", rotations, "--arch", "skip_gru", "--hidden-size", 4),
        *("--criterion", "with_budget", "--base-criterion", "cross_entropy", "--cost-per-sample", 1e-3),
        *("--sentence-avg", "--max-update", 2),
    )
    # Sequences have at least 20 points
    assert valid["valid_loss"] == pytest.approx(valid["valid_task_loss"] + valid["valid_budget_loss"], rel=1e-4)
    assert valid["valid_wpb"] > valid["valid_bsz"] * 20 > 0


def test_own_dataset_names_the_folder_that_it_needs(example, tmp_path):
    module = example("own_dataset").labelled_folder
    cfg = OmegaConf.create({**vars(module.LabelledFolderConfig(data_dir=str(tmp_path))), "seed": 1})
    with pytest.raises(ValueError, match=f"--data-dir: expected a folder with train/labels.csv, got '{tmp_path}'"):
        module.LabelledFolderTask(cfg)


FREQUENCY = """
    --task frequency_discrimination --sequence-duration 20 --train-size 64 --valid-size 36
    --criterion cross_entropy_with_budget --max-update 4
""".split()


def test_own_architecture(tmp_path, capsys):
    """The program that trains with ``--user-dir`` has imported the example before."""
    options = ["--arch", "conv_skip_lstm", "--channels", 5, *FREQUENCY]
    valid, weights = train(EXAMPLES / "own_architecture", tmp_path, *options, before="import own_architecture")
    assert weights["conv.weight"].shape == (5, 1, 8) and weights["rnn.weight_ih_l0"].shape == (256, 5)
    assert valid["valid_updates"] == pytest.approx(5 * valid["valid_update_fraction"], rel=1e-3)  # 20 steps / stride
    arguments = ["samples", tmp_path, "--user-dir", EXAMPLES / "own_architecture", "--output", tmp_path / "s.png"]
    assert plot([str(argument) for argument in arguments]) == 2
    assert "expected a model that decides at each of 20 steps, it decides at 5" in capsys.readouterr().err
    hub = from_pretrained(tmp_path, user_dir=EXAMPLES / "own_architecture")
    assert [len(used) for used in hub.used_samples([np.zeros((20, 1)), np.zeros((7, 1))])] == [5, 2]


def test_own_defaults(example, tmp_path):
    example("own_architecture")
    options = ["--arch", "skip_lstm_deep", "--num-layers", 2, *FREQUENCY]
    command_line.train(tmp_path, *options, task="frequency_discrimination")
    cfg = torch.load(tmp_path / "checkpoint_last.pt", weights_only=False)["cfg"]["model"]
    assert (cfg["cell"], cfg["update_rule"], cfg["dropout"]) == ("lstm", "learned", 0.2)
    assert cfg["num_layers"] == 2  # the command line wins


def test_own_architecture_reads_no_padding(example):
    """With lengths in any order, some shorter than the kernel, the results equal those of each sequence alone."""
    module = example("own_architecture").conv_skip_lstm
    model = module.ConvSkipLSTM(module.ConvSkipLSTMConfig(stride=2, hidden_size=8), input_size=3, output_size=2)
    x, lengths = torch.randn(4, 11, 3), [3, 6, 4, 1]
    padded = x.clone()
    for row, length in enumerate(lengths):
        padded[row, length:] = 1e6
    output = model(padded, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        alone = model(x[row : row + 1, :length])
        torch.testing.assert_close(output.prediction[row : row + 1], alone.prediction)
        assert output.updates[row].sum() == alone.updates.sum() and output.steps[row] == alone.steps[0]
    assert output.steps.tolist() == [2, 3, 2, 1]


OWN_PLUGIN = """
    --task temporal_order --sequence-length 12 --train-size 64 --valid-size 36 --arch skip_gru --hidden-size 8
    --criterion label_smoothed_cross_entropy_with_budget --label-smoothing 0.05 --cost-per-sample 1e-3 --max-update 4
""".split()


@pytest.mark.parametrize(
    "option", ["--num-workers 1", pytest.param("--distributed-world-size 2", marks=pytest.mark.thorough)]
)
def test_own_plugin_beside_a_folder_of_fairseqs_name(tmp_path, option):
    """An example is copied to a folder that also holds a folder named fairseq, which processes must not import."""
    shutil.copytree(EXAMPLES / "own_plugin", tmp_path / "own_plugin", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "fairseq").mkdir()
    (tmp_path / "fairseq/__init__.py").write_text("raise ImportError('not fairseq')")
    valid, weights = train(tmp_path / "own_plugin", tmp_path / "run", *OWN_PLUGIN, *option.split())
    assert weights["head.weight"].shape == (4, 8) and weights["rnn.weight_ih_l0"].shape == (24, 6)
    assert 0 <= valid["valid_accuracy"] <= valid["valid_top2_accuracy"] <= 1


def test_own_plugins_sequences(example):
    data = example("own_plugin").temporal_order.TemporalOrder(12, size=200, key=(1,), fixed=True)
    symbols = data.x.argmax(2)
    assert (data.x.sum(2) == 1).all()
    assert ((symbols[:, :6] < 2).sum(1) == 1).all() and ((symbols[:, 6:] < 2).sum(1) == 1).all()
    order = np.array([row[row < 2] for row in symbols])
    assert (data.target == 2 * order[:, 0] + order[:, 1]).all() and set(data.target) == {0, 1, 2, 3}


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_own_plugins_loss(example, smoothing):
    """The loss equals torch's; without smoothing it equals the plugin's cross_entropy_with_budget."""
    module = example("own_plugin").label_smoothed_cross_entropy_with_budget
    cfg = OmegaConf.create(vars(module.LabelSmoothedConfig(label_smoothing=smoothing)))
    criterion = module.LabelSmoothedCrossEntropyWithBudgetCriterion.build_criterion(cfg, task=None)
    logits, target = torch.randn(5, 4), torch.tensor([0, 3, 1, 1, 2])
    model = mock.Mock(get_normalized_probs=lambda output, log_probs, sample=None: output.log_softmax(1))
    loss, sums = criterion.task_loss(model, logits, {"target": target})
    expected = torch.nn.functional.cross_entropy(logits, target, reduction="none", label_smoothing=smoothing)
    torch.testing.assert_close(loss, expected)
    assert sums["among_two"] == sum(int(t in row.topk(2).indices) for t, row in zip(target, logits))


def test_own_plugins_option(example):
    module = example("own_plugin").label_smoothed_cross_entropy_with_budget
    with pytest.raises(ValueError, match=r"--label-smoothing: expected a probability in \[0, 1\), got 1.0"):
        module.LabelSmoothedCrossEntropyWithBudgetCriterion.build_criterion(
            OmegaConf.create(vars(module.LabelSmoothedConfig(label_smoothing=1.0))), task=None
        )
