"""The task for several labels at each step through fairseq's own commands, and its models in other programs."""

import json
import shutil

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from skiprnn_plugin.average_precision import mean_average_precision
from skiprnn_plugin.data.localization import evaluation_times, labels_at
from skiprnn_plugin.hub import from_pretrained
from skiprnn_plugin.models.skip_rnn import SkipRNNConfig, SkipRNNModel
from skiprnn_plugin.tasks.feature_localization import FeatureLocalizationConfig, FeatureLocalizationTask

from .. import command_line
from ..forked import run_forked
from ..ranks import run_ranks
from ..tiny_localization import CLASSES, FRAME_RATE, WIDTH, videos, write_localization

OPTIONS = ["--lr", 0.03, "--batch-size", 4, "--update-bias", -1]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_localization(tmp_path_factory.mktemp("videos") / "data")


def train(data, save_dir, *options):
    return command_line.train(save_dir, "--data-dir", data, *OPTIONS, *options, task="feature_localization")


def validate(save_dir, *options):
    checkpoint = save_dir / "checkpoint_last.pt"
    return command_line.validate(checkpoint, *options, task="feature_localization")


def make_task(data, **options):
    config = {**vars(FeatureLocalizationConfig()), "seed": 1, "data_dir": str(data), **options}
    return FeatureLocalizationTask(OmegaConf.create(config))


def precision_by_hand(hub, split, count):
    """The mAP of the hub's predictions: for each time t at step floor(6 t), or at the last step."""
    scores, targets = [], []
    for _, _, annotations, duration, array in (video for video in videos() if video[1] == split):
        times = evaluation_times(duration, count)
        steps = np.minimum(np.floor(FRAME_RATE * times).astype(int), len(array) - 1)
        scores.append(hub.predict([array])[0][steps])
        targets.append(labels_at(times, annotations, {name: number for number, name in enumerate(CLASSES)}))
    return mean_average_precision(np.concatenate(scores), np.concatenate(targets))


def test_trains_validates_and_predicts(data, tmp_path):
    best = ("--best-checkpoint-metric", "mAP", "--maximize-best-checkpoint-metric")
    stats = train(data, tmp_path / "run", "--max-update", 30, *best, "--num-workers", 2)
    assert [line["valid_mAP_classes"] for line in stats["valid"]] == [2] * 5
    values = [line["valid_mAP"] for line in stats["valid"]]
    assert max(values) > 0.7 and stats["valid"][-1]["valid_best_mAP"] == pytest.approx(max(values), abs=1e-9)
    assert "train_mAP" not in stats["train"][-1]
    hub = from_pretrained(tmp_path / "run", "checkpoint_last.pt")
    assert values[-1] == pytest.approx(precision_by_hand(hub, "valid", 10), abs=1e-6)
    moved = shutil.copytree(data, tmp_path / "moved")
    (test,) = validate(tmp_path / "run", "--valid-subset", "test", "--data-dir", moved, "--eval-points", 25)["test"]
    assert test["test_mAP"] == pytest.approx(precision_by_hand(hub, "test", 25), abs=1e-6)
    assert test["test_bsz"] == 5 and test["test_updates_std"] > 0


def test_resumes_with_the_same_precision_and_checkpoints_that_do_not_grow(data, tmp_path):
    def metrics_of(run):
        return torch.load(run / "checkpoint_last.pt", weights_only=False)["extra_state"]["metrics"]

    expected = train(data, tmp_path / "through", "--max-update", 12)["valid"]
    first = train(data, tmp_path / "resumed", "--max-update", 6)["valid"]
    second = train(data, tmp_path / "resumed", "--max-update", 12)["valid"]
    assert [line["valid_mAP"] for line in first + second] == [line["valid_mAP"] for line in expected]
    assert len(expected) == 2
    for run in (tmp_path / "through", tmp_path / "resumed"):
        logged = metrics_of(run)["valid"]
        assert "updates" in str(logged) and "mAP" not in str(logged)
    assert validate(tmp_path / "resumed")["valid"][0]["valid_mAP"] == second[-1]["valid_mAP"]


# Three batches of 9 sequences: while the first process validates the last one, the second validates a dummy
def two(folder, data):
    logged = train(data, folder, "--max-update", 3, "--log-interval", 1)
    return logged["valid"], validate(folder)["valid"]


@pytest.mark.thorough
def test_two_processes_have_the_precision_of_one(data, tmp_path):
    expected = train(data, tmp_path / "one", "--max-update", 3, "--update-freq", 2)["valid"][-1]
    for trained, validated in run_ranks(two, tmp_path / "two", data):
        for logged in (trained[-1], validated[-1]):
            assert logged["valid_mAP"] == pytest.approx(expected["valid_mAP"], abs=1e-6)
            assert logged["valid_mAP_classes"] == 2
            for name in ("valid_loss", "valid_updates", "valid_updates_std"):
                assert logged[name] == pytest.approx(expected[name], rel=1e-4, abs=1e-5)


def test_masked_padding_changes_nothing(data):
    task = make_task(data)
    task.load_dataset("valid")
    dataset = task.dataset("valid")
    model = SkipRNNModel.build_model(SkipRNNConfig(hidden_size=8, update_bias=-1), task).eval()
    samples = [dataset[index] for index in range(5)]
    batch = model(**dataset.collater(samples)["net_input"])
    assert len(set(batch.steps.tolist())) > 1
    for sample, prediction in zip(samples, batch.prediction):
        alone = model(**dataset.collater([sample])["net_input"])
        torch.testing.assert_close(alone.prediction[0], prediction[: len(sample["x"])])


@pytest.mark.parametrize(
    "width, hidden, encoder, updates, expected",
    [(2048, 512, 3.8e9, 250, 9.52e11), (4096, 256, 1.53e10, 172.9, 2.65e12)],
    ids=["ucf101", "charades"],
)
def test_flops_with_the_encoder_are_the_papers(width, hidden, encoder, updates, expected):
    config = SkipRNNConfig(cell="lstm", hidden_size=hidden, num_layers=2, update_rule="full")
    output = SkipRNNModel(config, width, 2, encoder_flops=encoder)(torch.zeros(1, 1, width))
    assert output.flops_per_update * updates == pytest.approx(expected, rel=2e-3)


def test_the_encoders_flops_are_logged(data, tmp_path):
    options = ("--arch", "full_gru", "--max-update", 1, "--encoder-flops", 1e6)
    (valid,) = train(data, tmp_path, *options)["valid"]
    per_update = 1e6 + 3 * 8 * (WIDTH + 8)
    assert valid["valid_flops"] == pytest.approx(per_update * valid["valid_updates"], rel=1e-3)


def test_other_programs(data, tmp_path):
    """A bidirectional model predicts the probability of each class at every step."""
    train(data, tmp_path / "run", "--max-update", 1, "--bidirectional")
    arrays = [array for *_, array in videos()[:2]]
    hub = from_pretrained(tmp_path / "run")
    together = hub.predict(arrays)
    assert [values.shape for values in together] == [(len(array), 3) for array in arrays]
    for array, values in zip(arrays, together):
        np.testing.assert_allclose(hub.predict([array])[0], values, atol=1e-6)
        assert (0 < values).all() and (values < 1).all()
    np.save(tmp_path / "video.npy", arrays[0])
    command = ["-m", "skiprnn_plugin.cli.predict", tmp_path / "run", tmp_path / "video.npy"]
    (item,) = json.loads(run_forked(*command, "--json", PYTHONPATH=command_line.ROOT).stdout)
    assert list(item["probabilities"]) == CLASSES
    np.testing.assert_allclose(list(item["probabilities"].values()), together[0].T, atol=1e-6)
    best = CLASSES[together[0].max(0).argmax()]
    assert item["label"] == best and item["steps"] == 2 * len(arrays[0])
    _, *rows = run_forked(*command, PYTHONPATH=command_line.ROOT).stdout.splitlines()
    assert [best, f"{together[0].max():.4f}"] in [row.split("\t")[:2] for row in rows]
    assert len(rows) == len(item["spans"])


@pytest.mark.parametrize(
    "options, message",
    [
        ({"frame_rate": 0.0}, "^--frame-rate: expected steps in a second, more than 0, got 0.0$"),
        ({"frame_rate": float("nan")}, "^--frame-rate: .* got nan$"),
        ({"eval_points": 0}, "^--eval-points: expected an integer of at least 1, got 0$"),
        ({"encoder_flops": -1.0}, "^--encoder-flops: expected a number of at least 0, got -1.0$"),
    ],
    ids=str,
)
def test_bad_options(data, options, message):
    with pytest.raises(ValueError, match=message):
        make_task(data, **options)


@pytest.mark.parametrize("maximize, expected", [(["--maximize-best-checkpoint-metric"], -np.inf), ([], np.inf)])
def test_a_split_without_positives(data, tmp_path, caplog, maximize, expected):
    """Without positives a run warns, continues, and saves its last checkpoint as the best."""
    folder = shutil.copytree(data, tmp_path / "data")
    lines = (folder / "manifest.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines]
    rows = [[*row[:3], "" if row[2] == "valid" else row[3], row[4]] for row in rows]
    (folder / "manifest.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    options = ("--max-update", 12, "--best-checkpoint-metric", "mAP", *maximize)
    stats = train(folder, tmp_path / "run", *options)["valid"]
    assert [(line["valid_mAP"], line["valid_mAP_classes"]) for line in stats] == 2 * [(expected, 0)]
    message = f"{folder}/manifest.tsv: no annotation of split 'valid' covers any of the --eval-points"
    assert [record.message[: len(message)] for record in caplog.records].count(message) == 1
    best, last = (torch.load(tmp_path / f"run/checkpoint_{name}.pt", weights_only=False) for name in ("best", "last"))
    assert best["optimizer_history"][-1]["num_updates"] == last["optimizer_history"][-1]["num_updates"] == 12


def test_another_frame_rate(data):
    with pytest.raises(ValueError, match="^--frame-rate: expected about 6.28, by the steps and .* in .*, got 25$"):
        make_task(data, frame_rate=25.0).load_dataset("valid")


def test_another_frame_rate_than_the_videos_were_read_at(data, tmp_path):
    shutil.copytree(data, tmp_path / "data")
    record = {"frame_rate": 6.25, "dtype": "float32", "encoder": "x", "weights": "x.pth", "weights_crc32": 1}
    (tmp_path / "data/prepare.json").write_text(json.dumps(record))
    message = f"^--frame-rate: expected 6.25, at which skiprnn-prepare video made {tmp_path}/data, got 6$"
    with pytest.raises(ValueError, match=message):
        make_task(tmp_path / "data")
    make_task(tmp_path / "data", frame_rate=6.25)


def test_another_criterion(data, tmp_path):
    message = "^--criterion: the task predicts labels, expected binary_cross_entropy_with_budget, got mse_with_budget$"
    with pytest.raises(ValueError, match=message):
        train(data, tmp_path, "--criterion", "mse_with_budget")
