"""Sequential MNIST through fairseq's own commands and the hub, on a few images in the published files."""

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from skiprnn_plugin.cli.check_data import main as check_data
from skiprnn_plugin.hub import from_pretrained
from skiprnn_plugin.tasks.sequential_mnist import SequentialMNISTConfig, SequentialMNISTTask

from .. import command_line
from ..idx_files import NAMES, write_digits

SIZES = {"train": 64, "valid": 36, "test": 40}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The folder, and for each split its images, float [N, 784] from 0 to 1, and labels."""
    folder = tmp_path_factory.mktemp("mnist")
    train_images, train_labels, test_images, test_labels = write_digits(folder, compress=True)
    parts = {
        "train": (train_images[:64], train_labels[:64]),
        "valid": (train_images[64:], train_labels[64:]),
        "test": (test_images, test_labels),
    }
    return folder, {split: (images.reshape(-1, 784) / 255, labels) for split, (images, labels) in parts.items()}


def train(data, save_dir, *options):
    return command_line.train(save_dir, "--data-dir", data[0], *options, task="sequential_mnist")


def validate(data, save_dir, *options):
    path = save_dir / "checkpoint_last.pt"
    return command_line.validate(path, "--data-dir", data[0], *options, task="sequential_mnist")


def make_task(folder="", **options):
    config = SequentialMNISTConfig(data_dir=str(folder), **{"valid_size": 36, **options})
    return SequentialMNISTTask(OmegaConf.create({**vars(config), "seed": 1}))


@pytest.mark.parametrize("split", SIZES)
@pytest.mark.parametrize(
    "options",
    [{}, {"rows": True}, {"permuted": True, "permutation_seed": 5}, {"rows": True, "permuted": True}],
    ids=str,
)
def test_splits_hold_the_images_in_the_order_of_the_files(data, split, options):
    task = make_task(data[0], **options)
    task.load_dataset(split)
    images, labels = data[1][split]
    dataset = task.dataset(split)
    if options.get("permuted"):
        order = np.random.default_rng(options.get("permutation_seed", 0)).permutation(784)
        assert (task.permutation == order).all() and (order != range(784)).any()
        images = images[:, order]
    else:
        assert task.permutation is None
    assert task.input_size == (28 if options.get("rows") else 1) and len(dataset) == SIZES[split]
    batch = dataset.collater([dataset[index] for index in range(len(dataset))])
    x = batch["net_input"]["x"]
    assert x.dtype == torch.float32 and x.shape == (SIZES[split], 784 // task.input_size, task.input_size)
    np.testing.assert_allclose(x.reshape(-1, 784), images, rtol=1e-6)
    assert batch["target"].tolist() == labels.tolist()


def test_trains_validates_resumes_and_evaluates(data, tmp_path):
    stats = train(data, tmp_path, "--rows", "--valid-subset", "valid,test", "--num-workers", 1)
    assert [s["num_updates"] for s in stats["train_inner"]] == [1, 2, 3, 4]
    for split in ("valid", "test"):
        last = stats[split][-1]
        correct = SIZES[split] * last[f"{split}_accuracy"]  # no image is left out
        assert correct == pytest.approx(round(correct), abs=1e-3)
        assert last[f"{split}_update_fraction"] == pytest.approx(last[f"{split}_updates"] / 28, rel=1e-5)
        assert f"{split}_solved" not in last and f"{split}_flops" in last
        separate = validate(data, tmp_path, "--rows", "--valid-size", 36, "--valid-subset", split)[split][-1]
        for name in ("loss", "accuracy", "updates"):
            assert separate[f"{split}_{name}"] == pytest.approx(last[f"{split}_{name}"], rel=1e-5)
    weights = torch.load(tmp_path / "checkpoint_last.pt", weights_only=False)["model"]
    assert weights["head.weight"].shape == (10, 8) and weights["rnn.weight_ih_l0"].shape[1] == 28
    straight = train(data, tmp_path / "straight", "--rows", "--max-update", 7)["train_inner"]  # with no worker
    resumed = train(data, tmp_path, "--rows", "--max-update", 7)["train_inner"]
    assert [s["loss"] for s in straight] == [s["loss"] for s in (*stats["train_inner"], *resumed)]


@pytest.mark.parametrize(
    "options,updates",
    [
        (("--arch", "full_gru"), 784),
        (("--arch", "random_skip_lstm", "--skip-prob", 1), 0),
        (("--arch", "skip_lstm", "--update-bias", -30), 1),  # the first
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_pixel_by_pixel(data, tmp_path, options, updates):
    valid = train(data, tmp_path, "--permuted", "--max-update", 1, *options)["valid"][-1]
    assert valid["valid_updates"] == updates and valid["valid_updates_std"] == 0
    assert valid["valid_update_fraction"] == pytest.approx(updates / 784, rel=1e-4)


def test_the_hub_needs_no_data(data, tmp_path):
    """A user's image gets the prediction that the same image got in validation."""
    train(data, tmp_path, "--rows", "--permuted", "--max-update", 1)
    hub = from_pretrained(tmp_path, data_dir="/nowhere")
    images, _ = data[1]["test"]
    raw = np.rint(images * 255).astype(np.uint8)
    given = [raw[0], raw[0].reshape(28, 28).astype(np.int64), images[0], torch.from_numpy(images[0].reshape(28, 28))]
    predicted = hub.predict([hub.task.encode(image) for image in given])
    assert predicted.shape == (4, 10) and hub.task.class_names == tuple("0123456789")
    np.testing.assert_allclose(predicted, np.broadcast_to(predicted[0], (4, 10)), rtol=1e-5)
    task = make_task(data[0], rows=True, permuted=True)
    task.load_dataset("test")
    np.testing.assert_allclose(hub.task.encode(raw[3]), task.dataset("test")[3]["x"])


@pytest.mark.parametrize(
    "image,message",
    [
        (np.zeros((28, 27), np.uint8), r"^image: expected shape \(28, 28\) or \(784,\), got \(28, 27\)$"),
        (np.zeros((1, 784)), r"^image: expected shape .*got \(1, 784\)$"),
        (np.zeros(784, bool), "^image: expected integers or floats, got bool$"),
        (np.full(784, 256), "^image: expected integers of 0 to 255, got 256 to 256$"),
        (np.full(784, -1), "^image: expected integers of 0 to 255, got -1 to -1$"),
        (np.arange(784) / 2.0, "^image: expected floats of 0 to 1, got 0.0 to 391.5$"),
        (np.full(784, np.nan), "^image: expected floats of 0 to 1, got nan to nan$"),
    ],
    ids=str,
)
def test_what_is_no_image(image, message):
    with pytest.raises(ValueError, match=message):
        make_task().encode(image)


@pytest.mark.parametrize(
    "options,message",
    [
        (("--data-dir", ""), "^--data-dir: expected a folder with the MNIST database's files, got ''$"),
        (("--data-dir", "/nowhere"), "^--data-dir: expected .*, got '/nowhere'$"),
        (("--valid-size", "100"), "^--valid-size: expected fewer than the 100 images of the training files, got 100$"),
        (("--valid-size", "0"), "^--valid-size: expected an integer of at least 1, got 0$"),
        (("--permutation-seed", "-1"), "^--permutation-seed: expected an integer of at least 0, got -1$"),
        (("--valid-subset", "dev"), "^split: expected train, valid or test, got 'dev'$"),
    ],
    ids=str,
)
def test_bad_options(data, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        train(data, tmp_path, *options)


def test_the_data_are_checked_before_long_runs(data, tmp_path, capsys):
    options = ["--task", "sequential_mnist", "--valid-size", "36", "--valid-subset", "valid,test", "--data-dir"]
    assert check_data([*options, str(data[0])]) == 0
    assert capsys.readouterr().out == "train: 64 sequences\nvalid: 36 sequences\ntest: 40 sequences\n"
    write_digits(tmp_path)
    (tmp_path / NAMES[3]).unlink()
    assert check_data([*options, str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert captured.err.startswith(f"python -m skiprnn_plugin.cli.check_data: error: {tmp_path}: expected the MNIST ")
