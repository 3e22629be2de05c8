"""The task for texts through fairseq's own commands, and its models in other programs."""

import json
import re
import shutil

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from skiprnn_plugin.cli.check_data import main as check_data
from skiprnn_plugin.hub import from_pretrained
from skiprnn_plugin.models.skip_rnn import SkipRNNConfig, SkipRNNModel
from skiprnn_plugin.prepare.record import RECORD
from skiprnn_plugin.tasks.imdb_sentiment import ImdbSentimentConfig, ImdbSentimentTask

from .. import command_line
from ..edited_checkpoint import change_task_state
from ..forked import run_forked
from ..tiny_texts import texts, write_texts

PREPARED = json.dumps({"bpe": "none"})


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = write_texts(tmp_path_factory.mktemp("texts") / "data")
    (folder / RECORD).write_text(PREPARED)
    return folder


@pytest.fixture
def vectors(tmp_path):
    """A word2vec file with the vectors of two of the words."""
    path = tmp_path / "vectors.txt"
    path.write_text("3 7\ngood 3 3 3 3 3 3 3\nbad -3 -3 -3 -3 -3 -3 -3\nmovie 1 1 1 1 1 1 1\n")
    return path


def train(data, save_dir, *options):
    return command_line.train(save_dir, "--data-dir", data, *options, task="imdb_sentiment")


def validate(save_dir, *options):
    return command_line.validate(save_dir / "checkpoint_last.pt", *options, task="imdb_sentiment")


def make_task(data, **options):
    config = {**vars(ImdbSentimentConfig()), "seed": 1, "data_dir": str(data), **options}
    return ImdbSentimentTask(OmegaConf.create(config))


def test_trains_validates_and_predicts_in_a_fresh_process(data, vectors, tmp_path):
    """The words show the label. Afterwards the word vectors are deleted and the data moved."""
    options = ("--embedding-path", vectors, "--lr", 0.03, "--batch-size", 8, "--max-update", 32, "--num-workers", 1)
    stats = train(data, tmp_path / "run", *options)
    assert stats["valid"][-1]["valid_accuracy"] == 1
    weights = torch.load(tmp_path / "run/checkpoint_last.pt", weights_only=False)["model"]
    assert weights["head.weight"].shape == (2, 8)
    vectors.unlink()
    moved = shutil.copytree(data, tmp_path / "moved")
    (test,) = validate(tmp_path / "run", "--valid-subset", "test", "--data-dir", moved)["test"]
    assert test["test_accuracy"] == 1 and test["test_bsz"] == 21
    code = f"""
from skiprnn_plugin.hub import from_pretrained
hub, texts = from_pretrained({str(tmp_path / "run")!r}, data_dir="moved"), ["A good, <br />GOOD h!", "Bad c"]
for text in texts:
    print(*(hub.task.source_dictionary[word] for word in hub.task.encode(text)))
print([hub.task.class_names[row.argmax()] for row in hub.predict(texts)])
"""
    process = run_forked("-c", code, cwd=tmp_path, PYTHONPATH=command_line.ROOT)
    expected = [7 * "<pad> " + "a good good h <unk>", 10 * "<pad> " + "bad c", "['pos', 'neg']"]
    assert process.stdout.splitlines() == expected, process.stderr


def test_a_checkpoint_is_whole(data, tmp_path):
    """Dictionaries and the way to split texts come with it, whatever has become of the folder."""
    moved = shutil.copytree(data, tmp_path / "data")
    train(moved, tmp_path / "run", "--max-update", 1)
    (read,) = from_pretrained(tmp_path / "run").predict(["A GOOD film!"])
    changed = moved / "input0/dict.txt"
    changed.write_text("".join(reversed(changed.read_text().splitlines(keepends=True))))
    with pytest.raises(ValueError, match=r"--data-dir: expected the dict.txt .* trained with, '.*/data' has others"):
        from_pretrained(tmp_path / "run").task.load_dataset("valid")
    shutil.rmtree(moved)
    hub = from_pretrained(tmp_path / "run")
    assert hub.predict(["A GOOD film!"])[0].tolist() == read.tolist()
    assert hub.class_names == ["neg", "pos"] and hub.task.tokenize("It's") == ["it's"]
    with pytest.raises(ValueError, match=r"--data-dir: .* got '.*/data'; if it was moved: .*data_dir=DIR"):
        hub.task.load_dataset("valid")
    elsewhere = from_pretrained(tmp_path / "run", data_dir=str(data))
    elsewhere.task.load_dataset("valid")
    assert len(elsewhere.task.dataset("valid")) == len(texts("valid"))


def test_a_checkpoint_of_an_earlier_version_needs_its_data(data, tmp_path):
    moved = shutil.copytree(data, tmp_path / "data")
    train(moved, tmp_path / "run", "--max-update", 1)
    change_task_state(tmp_path / "run/checkpoint_best.pt", lambda state: state.pop("files"))
    assert from_pretrained(tmp_path / "run").class_names == ["neg", "pos"]
    changed = moved / "input0/dict.txt"
    changed.write_text("".join(reversed(changed.read_text().splitlines(keepends=True))))
    with pytest.raises(ValueError, match=r"--data-dir: expected the dict.txt .* trained with, '.*/data' has others"):
        from_pretrained(tmp_path / "run")
    shutil.rmtree(moved)
    with pytest.raises(ValueError, match=r"--data-dir: .* got '.*/data'; if it was moved: .*data_dir=DIR"):
        from_pretrained(tmp_path / "run")


def test_words_start_from_their_vectors_or_at_random(data, vectors):
    def weights(**options):
        torch.manual_seed(5)
        task = make_task(data, embedding_dim=7, **options)
        return task.source_dictionary, task.build_embedding().weight

    words, started = weights(embedding_path=str(vectors))
    assert started.requires_grad and started.shape == (len(words), 7)
    assert (started[words.index("good")] == 3).all() and (started[words.index("bad")] == -3).all()
    assert (started[words.pad()] == 0).all()
    others = [word for word in range(len(words)) if words[word] not in ("good", "bad", "<pad>")]
    assert 0.2 < started[others].abs().max() <= 0.25
    _, random = weights()
    assert (random[others] == started[others]).all() and random.abs().max() <= 0.25
    assert weights()[1].equal(random)


def test_pad_words_are_steps(data, tmp_path):
    (valid,) = train(data, tmp_path, "--arch", "full_gru", "--max-update", 1)["valid"]
    assert valid["valid_updates"] == 12 and valid["valid_updates_std"] == 0 and valid["valid_update_fraction"] == 1
    steps = [len(words) for words in texts("valid")]
    options = ("--padding", "masked", "--max-update", 1)
    (masked,) = train(data, tmp_path / "masked", "--arch", "full_gru", *options)["valid"]
    assert masked["valid_updates"] == pytest.approx(np.mean(steps), abs=1e-3) and masked["valid_update_fraction"] == 1


def test_masked_padding_changes_nothing(data):
    task = make_task(data, padding="masked")
    task.load_dataset("valid")
    dataset = task.dataset("valid")
    model = SkipRNNModel.build_model(SkipRNNConfig(hidden_size=8, update_bias=-1), task).eval()
    samples = [dataset[index] for index in range(8)]
    batch = model(**dataset.collater(samples)["net_input"])
    assert batch.steps.tolist() == [len(words) for words in texts("valid")[:8]]
    for sample, prediction, updates in zip(samples, batch.prediction, batch.updates[:, 0]):
        alone = model(**dataset.collater([sample])["net_input"])
        torch.testing.assert_close(alone.prediction[0], prediction)
        assert (
            alone.updates[0, 0].tolist() == updates[: len(sample["x"])].tolist()
            and updates.sum() == alone.updates.sum()
        )


def test_without_a_record_words_stand_between_spaces(data, tmp_path):
    folder = shutil.copytree(data, tmp_path / "data")
    (folder / RECORD).unlink()
    task = make_task(folder, sequence_length=3, crop="tail", pad_side="right")
    words = [task.source_dictionary[word] for word in task.encode("a good, Good h")]
    assert words == ["<unk>", "<unk>", "h"] and task.encode("").tolist() == [task.source_dictionary.pad()] * 3
    with pytest.raises(ValueError, match=r"expected a text \(str\), got list"):
        task.encode(["a"])


def test_labels_of_any_number(data, tmp_path):
    folder = shutil.copytree(data, tmp_path / "data")
    with open(folder / "label/dict.txt", "a") as file:
        file.write("neutral 3\nmadeupword0000 0\n")
    task = make_task(folder)
    assert task.class_names == ["neg", "pos", "neutral"] and task.output_size == 3
    (folder / "label/dict.txt").write_text("neg 3\n")
    with pytest.raises(ValueError, match=r"label/dict.txt: expected at least two labels, got \['neg'\]"):
        make_task(folder)


def test_as_many_labels_as_texts(data, tmp_path):
    folder = shutil.copytree(data, tmp_path / "data")
    for suffix in ("bin", "idx"):
        shutil.copy(folder / f"label/test.{suffix}", folder / f"label/valid.{suffix}")
    with pytest.raises(
        ValueError, match="--data-dir: expected a label for each text .*'valid', got 36 texts and 21 la"
    ):
        make_task(folder).load_dataset("valid")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"data_dir": ""}, "^--data-dir: expected a folder with input0/dict.txt and label/dict.txt, .*got ''$"),
        ({"data_dir": "nowhere"}, "^--data-dir: .*got 'nowhere'$"),
        ({"sequence_length": 0}, "^--sequence-length: expected an integer of at least 1, got 0$"),
        ({"embedding_dim": -1}, "^--embedding-dim: expected an integer of at least 1, got -1$"),
        ({"crop": "start"}, "^--crop: expected one of head, tail, got 'start'$"),
        ({"pad_side": "end"}, "^--pad-side: expected one of left, right, got 'end'$"),
        ({"padding": "none"}, "^--padding: expected one of data, masked, got 'none'$"),
    ],
    ids=str,
)
def test_bad_options(data, options, message):
    with pytest.raises(ValueError, match=message):
        make_task(data, **options)


def test_vectors_of_another_size(data, vectors, tmp_path, capsys):
    """The error comes in training, and in the check that recipes make before they train."""
    message = f"{vectors}: expected vectors of 8 numbers (--embedding-dim), got 7"
    options = ("--embedding-path", str(vectors), "--embedding-dim", "8")
    with pytest.raises(ValueError, match=re.escape(message)):
        train(data, tmp_path, *options)
    capsys.readouterr()
    arguments = ["--task", "imdb_sentiment", "--data-dir", str(data), "--valid-subset", "valid,test"]
    assert check_data([*arguments, *options]) == 2
    assert capsys.readouterr().err == f"python -m skiprnn_plugin.cli.check_data: error: {message}\n"
    assert check_data([*arguments, *options[:2], "--embedding-dim", "7"]) == 0
    assert capsys.readouterr().out == "train: 64 sequences\nvalid: 36 sequences\ntest: 21 sequences\n"
