"""``skiprnn-prepare video``: what it writes of UCF-101 and of a folder of one's own, and what it passes over."""

import json
import os
import shutil
import sys

import numpy as np
import pytest

from skiprnn_plugin import __version__
from skiprnn_plugin.cli.prepare import main
from skiprnn_plugin.data.features import FeatureStore
from skiprnn_plugin.data.manifest import read_manifest
from skiprnn_plugin.prepare.frame_encoder import FrameEncoder, read_encoding

from ..command_line import ROOT, train
from ..forked import run_forked
from ..tiny_ucf101 import CLASSES, VIDEOS, command, write_ucf101
from ..tiny_videos import image, write_video

pytest.importorskip("av")

SPLITS = {"train": "train", "test": "valid"}
MANIFEST = "sequence\tsplit\tlabel\na/one.mp4\ttrain\tup\ntwo.mkv\ttrain\tdown\nb/three.mp4\tvalid\tup\n"


@pytest.fixture
def source(tmp_path):
    return write_ucf101(tmp_path / "source")


@pytest.fixture
def own(tmp_path):
    """A folder of one's own."""
    for number, name in enumerate(("a/one.mp4", "two.mkv", "b/three.mp4")):
        write_video(tmp_path / "own" / name, number + 2, first=10 * number)
    (tmp_path / "own/manifest.tsv").write_text(MANIFEST)
    return tmp_path / "own"


def read(folder):
    """Items, and of each sequence which frames it is made of."""
    items = read_manifest(folder, ())
    store = FeatureStore(folder, items)
    views = [store.view(position) for position in range(len(items))]
    numbers = [(view[:, 0] // 5).astype(int).tolist() for view in views]
    for view, frames in zip(views, numbers):
        np.testing.assert_array_equal(view, [image(number)[-1, -1] for number in frames])
    return items, numbers


@pytest.mark.thorough
def test_ucf101(tmp_path, source, resnet50_weights):
    """The command as it is typed, with the real network."""
    code = """
import sys
import tests.torchvision_beside_cpu_torch
from skiprnn_plugin.cli.prepare import main
sys.exit(main(sys.argv[1:]))
"""
    arguments = [*command(source, tmp_path / "dest")[:-1], resnet50_weights, "--batch-size", 4]
    process = run_forked("-c", code, *arguments, PYTHONPATH=ROOT)
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout == (
        f"{tmp_path}/dest: train 3 sequences (12 steps), valid 2 sequences (8 steps); 2,048 features\n"
    )
    items = read_manifest(tmp_path / "dest", ("label",))
    store = FeatureStore(tmp_path / "dest", items)
    encoder = FrameEncoder(resnet50_weights)
    listed = [(SPLITS[name], *video) for name, videos in VIDEOS.items() for video in videos]
    for position, (item, (split, name, count, first)) in enumerate(zip(items, listed)):
        assert (item.split, item.name, item.label, item.steps) == (split, name, name.split("/")[0], count)
        expected = encoder.encode(map(image, range(first, first + count)))
        np.testing.assert_allclose(store.view(position), expected, rtol=1e-3, atol=1e-3)
    assert (tmp_path / "dest/classes.txt").read_text().split() == CLASSES
    assert json.loads((tmp_path / "dest/prepare.json").read_text()) == {
        "source": "UCF-101",
        "version": __version__,
        "dtype": "float32",
        "frame_rate": 25.0,
        **encoder.description,
        "split_number": 1,
        "missing": 0,
        "features": 2048,
        "splits": {"train": {"sequences": 3, "steps": 12}, "valid": {"sequences": 2, "steps": 8}},
        "passed_over": {},
    }
    assert read_encoding(tmp_path / "dest") == (25.0, "float32", encoder.description)


def test_a_folder_of_ones_own(prints, tmp_path, own, corner_encoder):
    output = prints(
        main, "video", own, tmp_path / "dest", "--weights", "w.pth", "--frame-rate", 50, "--dtype", "float16"
    )
    assert output == f"{tmp_path}/dest: train 2 sequences (10 steps), valid 1 sequences (8 steps); 3 features\n"
    items, numbers = read(tmp_path / "dest")
    assert [(item.name, item.split, item.label) for item in items] == [
        ("a/one", "train", "up"),
        ("two", "train", "down"),
        ("b/three", "valid", "up"),
    ]
    assert numbers == [[0, 0, 1, 1], [10, 10, 11, 11, 12, 12], [20, 20, 21, 21, 22, 22, 23, 23]]
    assert np.load(tmp_path / "dest/features.npy").dtype == np.float16
    assert (tmp_path / "dest/classes.txt").read_text() == "down\nup\n"
    assert read_encoding(tmp_path / "dest").frame_rate == 50


def test_what_is_missing_or_broken_is_passed_over(prints, tmp_path, source, corner_encoder):
    videos = source / "UCF-101"
    (videos / "Archery/v_Archery_g08_c01.avi").write_text("No video at all.\n" * 100)
    shutil.rmtree(videos / "BabyCrawling")
    output = prints(main, *command(source, tmp_path / "dest"))
    assert output.startswith(
        f"{tmp_path}/dest: train 1 sequences (4 steps), valid 2 sequences (8 steps); 3 features; 1 left out, all "
        "listed in prepare.json (passed_over), such as Archery/v_Archery_g08_c01: "
        f"{videos}/Archery/v_Archery_g08_c01.avi: can't be read as a video"
    )
    assert output.endswith("; 1 that are listed do not exist, such as BabyCrawling/v_BabyCrawling_g08_c01.avi\n")
    items, numbers = read(tmp_path / "dest")
    assert numbers == [[9, 10, 11, 12], [20, 21], [30, 31, 32, 33, 34, 35]]
    record = json.loads((tmp_path / "dest/prepare.json").read_text())
    assert list(record["passed_over"]) == ["Archery/v_Archery_g08_c01"] and record["missing"] == 1
    assert (tmp_path / "dest/classes.txt").read_text().split() == CLASSES


def test_a_broken_video_below_a_path_that_is_not_utf_8(prints, tmp_path, corner_encoder):
    source = write_ucf101(tmp_path / os.fsdecode(b"caf\xe9"))
    (source / "UCF-101/Archery/v_Archery_g08_c01.avi").write_text("No video at all.\n" * 100)
    prints(main, *command(source, tmp_path / "dest"))
    (reason,) = json.loads((tmp_path / "dest/prepare.json").read_text())["passed_over"].values()
    assert reason.startswith(f"{tmp_path}/caf\\udce9/UCF-101/Archery/v_Archery_g08_c01.avi: can't be read as a video")


@pytest.mark.parametrize("task", ["feature_classification", "feature_localization"])
def test_models_are_trained_on_it(prints, tmp_path, own, corner_encoder, task):
    """With a class that no video has."""
    (own / "classes.txt").write_text("up\ndown\nnowhere\n")
    if task == "feature_localization":
        header, *lines = MANIFEST.splitlines()
        lines = [line.replace("up", "up 0 0.05;down 0 1\t0.1").replace("\tdown", "\tdown 0 0.1\t0.1") for line in lines]
        lines = [header.replace("label", "annotations\tduration"), *lines]
        (own / "manifest.tsv").write_text("\n".join(lines))
    prints(main, "video", own, tmp_path / "dest", "--weights", "w.pth")
    options = ["--frame-rate", 25] if task == "feature_localization" else []
    stats = train(tmp_path / "run", "--data-dir", tmp_path / "dest", *options, task=task)
    metric = {"feature_classification": "accuracy", "feature_localization": "mAP"}[task]
    assert f"valid_{metric}" in stats["valid"][-1]


@pytest.mark.parametrize(
    "file, old, new, message",
    [
        ("classInd.txt", "2 Baby", "3 Baby", ":2: expected 2 and a class, each once, got '3 BabyCrawling'"),
        ("classInd.txt", "BabyCrawling", "Archery", ":2: expected 2 and a class, each once, got '2 Archery'"),
        ("classInd.txt", "BabyCrawling", "Baby Crawling", ":2: expected 2 and a class, each once, got '2 Baby Crawl"),
        ("trainlist01.txt", "c01.avi 2", "c01.avi 3", ":2: expected 2, the number of BabyCrawling, got '3'"),
        ("trainlist01.txt", "c01.avi 2", "c01.avi 2 2", ":2: expected 2, the number of BabyCrawling, got '2 2'"),
        ("trainlist01.txt", "BabyCrawling/", "Surfing/", ":2: expected CLASS/VIDEO, of the 3 in classInd.txt, got 'Su"),
        ("trainlist01.txt", "BabyCrawling/", "", ":2: expected CLASS/VIDEO, of the 3 in classInd.txt, got 'v_"),
        (
            "trainlist01.txt",
            "Punch/",
            "Punch/../",
            ":3: expected a sequence's name, perhaps within folders (a/b), got ",
        ),
        ("testlist01.txt", "Punch/v_P_g01", "Punch/v_P_g09", ":2: video 'Punch/v_P_g09.avi' is in "),
        ("testlist01.txt", "Archery", "\0", ":1: expected CLASS/VIDEO, of the 3 in classInd.txt, got '\\x00"),
    ],
)
def test_wrong_lists(fails, tmp_path, source, file, old, new, message):
    path = source / "lists" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    assert f"{path}{message}" in fails(main, *command(source, tmp_path / "dest"))
    assert os.listdir(tmp_path) == ["source"]


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("label", "class", ":1: expected a column 'label' or 'annotations', got neither"),
        ("sequence", "path", ":1: expected a column 'sequence', got columns path, split, label"),
        ("a/one.mp4", "../one.mp4", ":2: expected a sequence's name, perhaps within folders (a/b), got '../one.mp4'"),
        ("two.mkv", "two.npy", ":3: expected a video, got 'two.npy' (files .csv, .npy, .png, .tsv, .txt are read"),
        ("two.mkv", "a/ .mkv", ":3: expected a sequence's name, perhaps within folders (a/b), got 'a/'"),
        ("two.mkv", "a/one.mp4", ":3: sequence 'a/one.mp4' is in line 2 too"),
        ("valid\tup", "valid\tleft", ":4: expected a label of the 2 classes (down, up), got 'left'"),
    ],
)
def test_wrong_manifests(fails, tmp_path, own, old, new, message):
    (own / "manifest.tsv").write_text(MANIFEST.replace(old, new, 1))
    assert f"{own}/manifest.tsv{message}" in fails(main, "video", own, tmp_path / "dest", "--weights", "w.pth")
    assert os.listdir(tmp_path) == ["own"]


def test_names_of_videos(prints, tmp_path, corner_encoder):
    """Without the suffix, and with it where names would be the same; without spaces, as manifests are read."""
    paths = {"f.mp4": "f.mp4", "f.mkv": "f.mkv", "f.mp4.mov": "f.mp4.mov", "g.avi": "g", "h .mkv": "h"}
    lines = ["sequence\tsplit\tlabel"]
    for number, path in enumerate(paths):
        write_video(tmp_path / "own" / path, 1, first=number)
        lines.append(f"{path}\t{'valid' if number == 4 else 'train'}\t{'up' if number % 2 else 'down'}")
    (tmp_path / "own/manifest.tsv").write_text("\n".join(lines))
    prints(main, "video", tmp_path / "own", tmp_path / "dest", "--weights", "w.pth")
    items, numbers = read(tmp_path / "dest")
    assert [item.name for item in items] == list(paths.values())
    assert numbers == [[0], [1], [2], [3], [4]]


def test_a_split_without_videos(fails, tmp_path, source, own):
    (own / "b/three.mp4").write_text("")
    message = fails(main, "video", own, tmp_path / "dest", "--weights", "w.pth")
    assert "expected videos of split 'valid', none that exists can be read (" in message and "three.mp4: " in message
    (own / "b/three.mp4").unlink()
    message = fails(main, "video", own, tmp_path / "dest", "--weights", "w.pth")
    assert f"{own}: expected videos of split 'valid', 1 are listed and none exists (b/three.mp4, ...)" in message
    (own / "manifest.tsv").unlink()
    message = fails(main, "video", own, tmp_path / "dest", "--weights", "w.pth")
    assert f"{own}: expected manifest.tsv in it, or UCF-101's lists beside it (--splits), got neither" in message
    (source / "lists/trainlist01.txt").write_text("")
    assert "expected videos of split 'train', 0 are listed" in fails(main, *command(source, tmp_path / "dest"))
    (source / "lists/testlist01.txt").unlink()
    assert "lists/testlist01.txt: can't be read (No such file" in fails(main, *command(source, tmp_path / "dest"))
    assert sorted(os.listdir(tmp_path)) == ["own", "source"]


@pytest.mark.parametrize(
    "options, message",
    [
        (("--frame-rate", 0), "--frame-rate: expected a number above 0, got 0"),
        (("--frame-rate", "nan"), "--frame-rate: expected a number above 0, got nan"),
        (("--split-number", 0), "--split-number: expected 1, 2 or 3, got 0"),
        (("--split-number", 2), "lists/trainlist02.txt: can't be read (No such file or directory)"),
        (("--weights", "no.pth"), "no.pth: can't be read (No such file or directory)"),
        (("--batch-size", -1), "--batch-size: expected an integer of at least 1, got -1"),
        (("--device", "no"), "--device: expected one that torch has here, got 'no'"),
    ],
    ids=str,
)
def test_wrong_options(fails, tmp_path, source, resnet50_weights, options, message):
    assert message in fails(main, *command(source, tmp_path / "dest"), "--weights", resnet50_weights, *options)
    assert os.listdir(tmp_path) == ["source"]


def test_other_wrong_options(fails, tmp_path, own, monkeypatch):
    message = fails(main, "video", own, tmp_path / "dest", "--weights", "w.pth", "--split-number", 1)
    assert "--split-number: is only for --splits" in message
    assert f"{tmp_path}/no: no such folder" in fails(
        main, "video", tmp_path / "no", tmp_path / "dest", "--weights", "w"
    )
    monkeypatch.setitem(sys.modules, "av", None)
    assert "videos need PyAV: pip install " in fails(main, "video", own, tmp_path / "dest", "--weights", "w.pth")
    assert os.listdir(tmp_path) == ["own"]
