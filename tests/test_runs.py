"""What users use around a run: best checkpoints, patience, EMA, intervals, tensorboard, resuming, long sequences."""

import pytest
import torch
from omegaconf import OmegaConf

from skiprnn_plugin.tasks.sequence import SequenceTaskConfig

from .command_line import train, validate
from .compare import logged
from .tasks.test_sequence import LettersTask


def state(folder, name="checkpoint_last.pt"):
    return torch.load(folder / name, weights_only=False)


def updates(checkpoint):
    return checkpoint["optimizer_history"][-1]["num_updates"]


@pytest.mark.parametrize(
    "metric, best, task",
    [("mse", min, "adding"), ("accuracy", max, "frequency_discrimination"), ("update_fraction", min, "adding")],
)
def test_best_checkpoint_metric(tmp_path, metric, best, task):
    options = ("--max-update", 16, "--lr", 0.1, "--update-bias", -1, "--best-checkpoint-metric", metric)
    options += ("--maximize-best-checkpoint-metric",) if best is max else ()
    valid = train(tmp_path, *options, task=task)["valid"]
    values = {entry["valid_num_updates"]: entry[f"valid_{metric}"] for entry in valid}
    assert len(values) == 4 and len(set(values.values())) > 1
    checkpoint = state(tmp_path, "checkpoint_best.pt")
    reached = best(values.values())
    assert checkpoint["extra_state"]["best"] == pytest.approx(reached, rel=1e-5)
    assert valid[-1][f"valid_best_{metric}"] == pytest.approx(reached, rel=1e-5)
    assert updates(checkpoint) == max(update for update in values if values[update] == reached)  # of ties the last


@pytest.mark.parametrize("resumed", [False, True], ids=["first", "resumed"])
def test_a_best_metric_that_is_not_logged(tmp_path, resumed):
    if resumed:
        train(tmp_path, "--max-update", 2)
    with pytest.raises(ValueError, match="--best-checkpoint-metric: expected one of .*, loss, mse, .*, got 'acuracy'$"):
        train(tmp_path, "--best-checkpoint-metric", "acuracy")


@pytest.mark.parametrize("stops", [(100,), (8, 100), (6, 100)], ids=str)
def test_patience_goes_on_when_resumed(tmp_path, stops):
    """A frozen model never improves: 3 validations after the first, which are at the ends of epochs of 4 updates."""
    options = ("--lr", 0, "--patience", 3, "--validate-interval-updates", 4)
    for stop in stops:
        stats = train(tmp_path, *options, "--max-update", stop)
    # a stop in the middle of an epoch validates once more
    assert stats["train_inner"][-1]["num_updates"] == (12 if 6 in stops else 16)


def test_another_best_metric_starts_anew(tmp_path, caplog):
    options = ("--lr", 0, "--patience", 2)
    train(tmp_path, *options, "--max-update", 8)
    stats = train(tmp_path, *options, "--max-update", 100, "--best-checkpoint-metric", "mse")
    assert stats["train_inner"][-1]["num_updates"] == 20
    assert "--best-checkpoint-metric was loss and is mse now: the best score is forgotten" in caplog.text
    assert state(tmp_path)["extra_state"]["best"] == pytest.approx(stats["valid"][-1]["valid_mse"], rel=1e-5)


def test_ema_resumes(tmp_path):
    options = ("--store-ema", "--ema-decay", 0.5, "--ema-start-update", 1, "--ema-fp32", "--lr", 0.01)
    train(tmp_path / "whole", *options, "--max-update", 6)
    for stop in (3, 6):
        train(tmp_path / "halves", *options, "--max-update", stop)
    whole, halves = (state(tmp_path / name) for name in ("whole", "halves"))
    for part in ("ema", "ema_fp32_params"):
        ours, expected = (checkpoint["extra_state"][part] for checkpoint in (halves, whole))
        assert ours.keys() == expected.keys() and all(torch.equal(ours[name], expected[name]) for name in ours)
    difference = whole["extra_state"]["ema"]["head.weight"] - whole["model"]["head.weight"]
    assert 0 < difference.abs().max() < 0.1


def test_save_and_keep_interval_updates(tmp_path):
    stats = train(tmp_path, "--max-update", 11, "--save-interval-updates", 3, "--keep-interval-updates", 2)
    names = {path.name for path in tmp_path.glob("*.pt")}
    assert names == {"checkpoint_2_6.pt", "checkpoint_3_9.pt", "checkpoint_best.pt", "checkpoint_last.pt"}
    assert [entry["valid_num_updates"] for entry in stats["valid"]] == [3, 4, 6, 8, 9, 11]
    restored = train(tmp_path / "other", "--restore-file", tmp_path / "checkpoint_2_6.pt", "--max-update", 8)
    assert logged(restored)[0] == logged(stats)[0][6:8]


@pytest.mark.parametrize(
    "stop, options",
    [
        (4, ()),
        (3, ("--validate-interval-updates", 3)),
        pytest.param(7, ("--num-workers", 2), marks=pytest.mark.thorough),
        (3, ("--update-freq", 2)),
        (2, ("--update-freq", "1,2")),
    ],
    ids=str,
)
def test_resuming_equals_going_on(tmp_path, stop, options):
    options = ("--lr", 0.01, "--dropout", 0.2, "--binarize", "bernoulli", *options)
    whole = train(tmp_path / "whole", *options, "--max-update", 10)
    halves = [train(tmp_path / "halves", *options, "--max-update", end) for end in (stop, 10)]
    assert logged(*halves)[0] == logged(whole)[0]
    validations = {entry["valid_num_updates"]: entry["valid_loss"] for entry in logged(*halves)[1]}
    expected = {entry["valid_num_updates"]: entry["valid_loss"] for entry in whole["valid"]}
    assert {**validations, **expected} == validations and set(validations) - set(expected) <= {stop}
    last = [state(tmp_path / name) for name in ("whole", "halves")]
    assert all(torch.equal(*(checkpoint["model"][name] for checkpoint in last)) for name in last[0]["model"])
    assert last[0]["extra_state"]["train_iterator"] == last[1]["extra_state"]["train_iterator"]


def test_tensorboard_gets_the_metrics(tmp_path, monkeypatch):
    """The package is not among the requirements: a stand-in takes what it would get."""
    scalars = {}

    class SummaryWriter:
        def __init__(self, folder):
            self.folder = folder.rpartition("/")[2]

        def add_text(self, *arguments):
            pass

        def add_scalar(self, name, value, step):
            scalars.setdefault((self.folder, name), []).append((step, float(value)))

        def flush(self):
            pass

        close = flush

    monkeypatch.setattr("fairseq.logging.progress_bar.SummaryWriter", SummaryWriter)
    monkeypatch.setattr("fairseq.logging.progress_bar._tensorboard_writers", {})
    stats = train(tmp_path, "--tensorboard-logdir", tmp_path / "board", "--max-update", 8)
    for name in ("loss", "mse", "updates", "update_fraction"):
        steps, values = zip(*scalars["valid", name])
        assert steps == (4, 8)
        assert values == pytest.approx([entry[f"valid_{name}"] for entry in stats["valid"]], rel=1e-5)
        assert [step for step, _ in scalars["train_inner", name]] == list(range(1, 9))


def test_without_tensorboard_a_line_says_so_and_training_goes_on(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("fairseq.logging.progress_bar.SummaryWriter", None)
    stats = train(tmp_path, "--tensorboard-logdir", tmp_path / "board", "--max-update", 1)
    assert len(stats["valid"]) == 1 and "tensorboard not found" in caplog.text


@pytest.fixture
def letters():
    """A task whose 37 sequences have lengths 1 to 5, with the dataset and its lengths."""
    task = LettersTask(OmegaConf.create({**vars(SequenceTaskConfig()), "seed": 1}))
    task.load_dataset("valid")
    return task, task.dataset("valid")


def test_sequences_longer_than_max_tokens_are_skipped_with_a_count(letters, caplog):
    task, dataset = letters
    iterator = task.get_batch_iterator(dataset, max_tokens=4, ignore_invalid_inputs=True)
    ids = [index for batch in iterator.next_epoch_itr(shuffle=False) for index in batch["id"].tolist()]
    assert sorted(ids) == [index for index in range(37) if dataset.size(index) <= 4] and len(ids) == 30
    assert "7 samples have invalid sizes and will be skipped, max_positions=4" in caplog.text


def test_sequences_longer_than_max_tokens_are_an_error_in_validation(letters, tmp_path):
    task, dataset = letters
    message = (
        "--max-tokens: 7 of 37 sequences are longer than 4: raise it, or skip them with --skip-invalid-size-inputs"
    )
    with pytest.raises(ValueError, match=message):
        task.get_batch_iterator(dataset, max_tokens=4)
    with pytest.raises(ValueError, match="--max-tokens: 37 of 37 sequences are longer than 0: raise it$"):
        task.get_batch_iterator(dataset, max_tokens=0, ignore_invalid_inputs=True)
    train(tmp_path, "--max-update", 1)
    with pytest.raises(ValueError, match="--max-tokens: 36 of 36 sequences are longer than 11"):
        validate(tmp_path / "checkpoint_last.pt", "--max-tokens", 11)
    assert len(validate(tmp_path / "checkpoint_last.pt", "--max-tokens", 12)["valid"]) == 1
