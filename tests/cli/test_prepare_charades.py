"""``skiprnn-prepare features`` of Charades: what it writes, what it passes over, and interruptions."""

import json
import os
import shutil
import signal

import numpy as np
import pytest

from skiprnn_plugin.cli.prepare import main
from skiprnn_plugin.data.features import FeatureStore
from skiprnn_plugin.data.manifest import read_classes, read_manifest
from skiprnn_plugin.prepare import charades

from ..command_line import ROOT
from ..forked import run_forked
from ..made_up_charades import write_made_up_charades
from ..tiny_charades import VIDEOS, frames, write_charades

SPLITS = {"train": "train", "test": "valid"}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return write_charades(tmp_path_factory.mktemp("charades"))


@pytest.fixture
def source(original, tmp_path):
    return shutil.copytree(original, tmp_path / "source")


def arguments(source, dest):
    lists = ("--annotations", source / "train.csv", source / "test.csv", "--classes", source / "classes.txt")
    return ["features", str(source / "rgb"), str(dest), *map(str, lists)]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_it_writes(prints, tmp_path, source):
    for name in ("readme.txt", ".DS_Store", "._AAAA1-000001.txt"):
        (source / "rgb/AAAA1" / name).write_text("of no frame")
    output = prints(main, *arguments(source, tmp_path / "dest"))
    assert output == (f"{tmp_path}/dest: train 3 sequences (10 steps), valid 2 sequences (6 steps); 4,096 features\n")
    items = read_manifest(tmp_path / "dest", ("annotations", "duration"))
    store = FeatureStore(tmp_path / "dest", items)
    videos = [(SPLITS[split], *video) for split, listed in VIDEOS.items() for video in listed]
    for position, (item, (split, name, actions, length, count)) in enumerate(zip(items, videos)):
        assert (item.split, item.name, item.steps, item.duration) == (split, name, count, float(length))
        assert item.fields["annotations"] == actions
        np.testing.assert_allclose(store.view(position), frames(name, count), rtol=1e-5, atol=1e-6)
    assert (tmp_path / "dest/classes.txt").read_text() == "c000\nc001\nc002\n"
    with np.load(tmp_path / "dest/statistics.npz") as statistics:
        np.testing.assert_allclose(statistics["mean"], store.joint[:10].mean(0), rtol=1e-5)


def test_made_up_videos(prints, tmp_path):
    (tmp_path / "made").mkdir()
    write_made_up_charades(tmp_path / "made", 2)
    prints(main, *arguments(tmp_path / "made", tmp_path / "dest"))
    items = read_manifest(tmp_path / "dest", ("annotations", "duration"))
    assert [(item.split, item.steps) for item in items] == [
        (split, int(6 * item.duration)) for split, item in zip(("train", "valid"), items)
    ]
    assert len(read_classes(tmp_path / "dest")) == 157


def test_fields_of_several_lines(prints, tmp_path, source):
    """As spreadsheets write them: in the manifest a sequence has one line."""
    prints(main, *arguments(source, tmp_path / "one"))
    text = (source / "train.csv").read_text()
    actions = VIDEOS["train"][0][1]
    assert f",{actions}," in text
    quoted = actions.replace(";", ";\n\t")
    (source / "train.csv").write_text(text.replace(actions, f'"{quoted}"'))
    prints(main, *arguments(source, tmp_path / "two"))
    one, two = ([item[:-2] for item in read_manifest(tmp_path / name, ())] for name in ("one", "two"))
    assert one == two


def first_frame(source, video, number=1):
    return source / f"rgb/{video}/{video}-{number:06d}.txt"


@pytest.mark.parametrize(
    "spoil, reason",
    [
        (lambda source: shutil.rmtree(source / "rgb/B2B2B"), "rgb/B2B2B: can't be read (No such file or directory)"),
        (lambda source: [path.unlink() for path in (source / "rgb/B2B2B").iterdir()], "rgb/B2B2B: no frames"),
        (lambda source: first_frame(source, "B2B2B").unlink(), "rgb/B2B2B: expected frame 1, got 5 next"),
        (lambda source: first_frame(source, "B2B2B", 5).unlink(), "rgb/B2B2B: expected frame 5, got 9 next"),
        (lambda source: first_frame(source, "B2B2B").write_text(""), "000001.txt: expected 4,096 numbers, got 0"),
        (lambda source: first_frame(source, "B2B2B").write_text("1 " * 4097), "expected 4,096 numbers, got 4,097"),
        (lambda source: first_frame(source, "B2B2B").write_text("a " * 4096), "000001.txt: expected 4,096 numbers ("),
        (lambda source: first_frame(source, "B2B2B").write_text("nan " * 4096), "expected finite numbers in the range"),
    ],
)
def test_passes_over_broken_videos_and_says_so(prints, tmp_path, source, spoil, reason):
    spoil(source)
    output = prints(main, *arguments(source, tmp_path / "dest"))
    assert "; 1 left out, all listed in prepare.json (passed_over), such as B2B2B: " in output and reason in output
    items = read_manifest(tmp_path / "dest", ())
    assert [item.name for item in items] == ["AAAA1", "CCC33", "D4D4D", "EEEE5"]
    store = FeatureStore(tmp_path / "dest", items)
    np.testing.assert_allclose(store.view(1), frames("CCC33", 1), rtol=1e-5, atol=1e-6)
    passed_over = json.loads((tmp_path / "dest/prepare.json").read_text())["passed_over"]
    assert list(passed_over) == ["B2B2B"] and reason in passed_over["B2B2B"]


@pytest.mark.parametrize(
    "file, old, new, message",
    [
        ("train.csv", "actions,", "deeds,", "train.csv: expected columns id, actions, length, it has no actions"),
        ("train.csv", "c002 0.20", "c003 0.20", "train.csv: line 3: expected one of the 3 classes, got 'c003'"),
        ("train.csv", "c002 0.20 1.90", "c002 0.20", "train.csv: line 3: annotations: expected a class, start and end"),
        ("train.csv", ",1.00", ",", "train.csv: line 3: length: expected seconds, more than 0, got ''"),
        ("train.csv", ",1.00", ",0", "train.csv: line 3: length: expected seconds, more than 0, got '0'"),
        ("train.csv", "AAAA1", "../A", "train.csv: line 3: expected a sequence's name"),
        ("train.csv", "AAAA1", "B2B2B", "video 'B2B2B' is listed twice"),
        ("test.csv", "D4D4D", "AAAA1", "test.csv: video 'AAAA1' is listed twice"),
        ("test.csv", '"A', '"A"', "test.csv: "),
        ("classes.txt", "c001", "c000", "classes.txt: expected a class on each line, each once, got 3 lines and 2"),
    ],
)
def test_wrong_lists(fails, tmp_path, source, file, old, new, message):
    text = (source / file).read_text()
    assert old in text
    (source / file).write_text(text.replace(old, new, 1))
    assert message in fails(main, *arguments(source, tmp_path / "dest"))
    assert os.listdir(tmp_path) == ["source"]


def test_files_that_are_not_there(fails, tmp_path, source):
    shutil.rmtree(source / "rgb/D4D4D")
    shutil.rmtree(source / "rgb/EEEE5")
    assert "expected sequences of split 'valid', got none (D4D4D: " in fails(
        main, *arguments(source, tmp_path / "dest")
    )
    shutil.rmtree(source / "rgb")
    assert "rgb: no such file or folder" in fails(main, *arguments(source, tmp_path / "dest"))
    (source / "rgb").mkdir()
    (source / "test.csv").unlink()
    assert "test.csv: [Errno 2] No such file" in fails(main, *arguments(source, tmp_path / "dest"))
    assert os.listdir(tmp_path) == ["source"]


@pytest.mark.parametrize("videos", range(5))
def test_an_interrupted_run_goes_on(capsys, prints, tmp_path, source, monkeypatch, videos):
    """Ctrl-C while a video is read: nothing is read again, and the result is the same to the last bit."""
    first_frame(source, "B2B2B").unlink()
    prints(main, *arguments(source, tmp_path / "whole"))
    seen, read_frames = [], charades.read_frames

    def interrupted(folder, video):
        if len(seen) == videos and video not in seen:
            seen.append("interrupted")
            signal.raise_signal(signal.SIGINT)
        seen.append(video)
        return read_frames(folder, video)

    monkeypatch.setattr(charades, "read_frames", interrupted)
    assert main(arguments(source, tmp_path / "dest")) == 130
    assert capsys.readouterr() == ("", "skiprnn-prepare: interrupted\n") and not (tmp_path / "dest").exists()
    prints(main, *arguments(source, tmp_path / "dest"))
    seen.remove("interrupted")
    assert seen == ["AAAA1", "B2B2B", "CCC33", "D4D4D", "EEEE5"]
    assert contents(tmp_path / "dest") == contents(tmp_path / "whole")
    assert sorted(os.listdir(tmp_path)) == ["dest", "source", "whole"]


@pytest.mark.parametrize("end, log", [(b"", ""), (b"half a frame", ""), (b"\0" * 4096 * 4, "4\t"), (b"", "\0\0\n")])
def test_a_killed_run_is_carried_on(prints, tmp_path, source, end, log):
    """Also where it was killed in the midst of writing."""
    code = """
import os, signal, sys
from skiprnn_plugin.cli.prepare import main
from skiprnn_plugin.prepare import charades
read_frames = charades.read_frames
def killed(folder, video):
    if video == "D4D4D": os.kill(os.getpid(), signal.SIGKILL)
    return read_frames(folder, video)
charades.read_frames = killed
main(sys.argv[1:])
"""
    process = run_forked("-c", code, *arguments(source, tmp_path / "dest"), PYTHONPATH=ROOT)
    assert process.returncode == -signal.SIGKILL
    part = tmp_path / ".dest.partial"
    with open(part / "features.npy", "ab") as file:
        file.write(end)
    with open(part / "unfinished.log", "a") as file:
        file.write(log)
    shutil.rmtree(source / "rgb/AAAA1")  # it is not read again
    prints(main, *arguments(source, tmp_path / "dest"))
    items = read_manifest(tmp_path / "dest", ())
    store = FeatureStore(tmp_path / "dest", items)
    for position, (name, *_, count) in enumerate(VIDEOS["train"] + VIDEOS["test"]):
        np.testing.assert_allclose(store.view(position), frames(name, count), rtol=1e-5, atol=1e-6)
    assert sorted(os.listdir(tmp_path)) == ["dest", "source"]


def test_another_source_or_options_start_anew(capsys, prints, tmp_path, source, monkeypatch):
    seen, read_frames = [], charades.read_frames

    def interrupted(folder, video):
        seen.append(video)
        if video == "CCC33" and seen.count(video) == 1:
            signal.raise_signal(signal.SIGINT)
        return read_frames(folder, video)

    monkeypatch.setattr(charades, "read_frames", interrupted)
    assert main(arguments(source, tmp_path / "dest")) == 130
    prints(main, *arguments(source, tmp_path / "dest"), "--dtype", "float16")
    assert seen[3:] == ["AAAA1", "B2B2B", "CCC33", "D4D4D", "EEEE5"]
    assert np.load(tmp_path / "dest/features.npy", mmap_mode="r").dtype == np.float16
