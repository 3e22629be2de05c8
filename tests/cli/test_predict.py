"""``skiprnn-predict``: the hub's own numbers for every kind of input, and what can't be read."""

import io
import json
import os
import random
import re
import struct
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from skiprnn_plugin.arguments import UserError
from skiprnn_plugin.cli.predict import main
from skiprnn_plugin.cli.predict.output import as_json, as_rows
from skiprnn_plugin.cli.prepare import main as prepare
from skiprnn_plugin.hub import Prediction, from_pretrained
from skiprnn_plugin.runs.inputs import Input, read_inputs

from ..command_line import ROOT, run, train
from ..forked import run_forked
from ..frozen.make import FOLDER
from ..idx_files import write_digits
from ..own_tasks import make_checkpoint
from ..tiny_texts import write_texts

RNG = np.random.default_rng(0)
PAIRS = [RNG.normal(size=(steps, 2)).astype(np.float32) for steps in (12, 12, 5)]
WAVES = [RNG.normal(size=(30, 1)).astype(np.float32) for _ in range(2)]
IMAGES = RNG.integers(256, size=(2, 3, 3), dtype=np.uint8)
TEXTS = ["good film", "bad good other film film"]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Paths by task; of adding a save-dir."""
    folder = tmp_path_factory.mktemp("checkpoints")
    (folder / "adding").mkdir()
    (folder / "adding/checkpoint_last.pt").write_bytes(b"not the best")
    (folder / "adding/checkpoint_best.pt").write_bytes((FOLDER / "skip_gru.pt").read_bytes())
    for task in ("words", "images"):
        make_checkpoint(FOLDER / "skip_lstm.pt", task, folder / f"{task}.pt")
    return {
        "adding": folder / "adding",
        "waves": FOLDER / "skip_lstm.pt",
        "words": folder / "words.pt",
        "images": folder / "images.pt",
    }


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The folder, now the current one, of all files that the tests read."""
    monkeypatch.chdir(tmp_path)
    np.save("pair.npy", PAIRS[0])
    np.save("pairs.npy", np.stack(PAIRS[:2]).astype(">f8"))
    np.savetxt("plain.csv", PAIRS[2], delimiter=",")
    np.savetxt("header.csv", PAIRS[2], delimiter=",", header='"value",marker', comments="")
    np.save("wave.npy", WAVES[0][:, 0])
    np.save("waves.npy", np.stack(WAVES)[:, :, 0])
    np.save("image.npy", IMAGES[0])
    np.save("images.npy", IMAGES.reshape(2, 9))
    Image.fromarray(IMAGES[0]).save("image.png")
    np.save("words.npy", np.array([2, 3]))
    (tmp_path / "text.txt").write_text("bad good\nother film film\n")
    # what can't be read
    np.save("wide.npy", np.zeros((4, 3)))
    np.save("deep.npy", np.stack(PAIRS[:2])[None])
    np.save("nothing.npy", np.zeros((0, 2)))
    np.save("number.npy", np.array(3.0))
    np.save("names.npy", np.array([["a", "b"]]))
    np.save("objects.npy", np.array([{}]), allow_pickle=True)
    np.save("nan.npy", np.array([[[1, 2], [3, 4]], [[5, 6], [7, np.nan]]]))
    np.save("huge.npy", np.full((2, 2), 1e300))
    np.save("unknown.npy", np.array([1, 4]))
    np.save("float.npy", np.array([1.0, 2.0]))
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "cut.npy").write_bytes((tmp_path / "pair.npy").read_bytes()[:-1])
    (tmp_path / "ragged.csv").write_text("1,2\n3\n")
    (tmp_path / "letters.csv").write_text("a,b\n1,2\n\n3,x\n")
    (tmp_path / "missing.csv").write_text("NA,\n1,2\n")
    (tmp_path / "comment.csv").write_text("1,2\n#3,4\n5,6\n")
    (tmp_path / "commas.csv").write_text("1,5\n-2,75\n12,05\n")
    (tmp_path / "names.csv").write_text("value\n1,5\n")
    (tmp_path / "column.csv").write_text("1,5\n-2,75\n")
    (tmp_path / "header_alone.csv").write_text("a,b\n")
    (tmp_path / "empty.txt").write_text(" \n")
    (tmp_path / "latin.txt").write_bytes("café".encode("latin-1"))
    (tmp_path / "broken.png").write_bytes((tmp_path / "image.png").read_bytes()[:40])
    (tmp_path / "film.mp4").write_bytes(b"")
    (tmp_path / "folder.npy").mkdir()
    return tmp_path


# Task, what is given, what it is called in the output, what the hub gets
CASES = {
    "pairs": (
        "adding",
        ["pair.npy", "pairs.npy"],
        ["pair.npy", "pairs.npy[0]", "pairs.npy[1]"],
        [PAIRS[0], *PAIRS[:2]],
    ),
    "csv": ("adding", ["plain.csv", "header.csv"], ["plain.csv", "header.csv"], [PAIRS[2], PAIRS[2]]),
    "waves": ("waves", ["wave.npy", "waves.npy"], ["wave.npy", "waves.npy[0]", "waves.npy[1]"], [WAVES[0], *WAVES]),
    "images": (
        "images",
        ["image.png", "image.npy", "images.npy"],
        ["image.png", "image.npy", "images.npy[0]", "images.npy[1]"],
        IMAGES[[0, 0, 0, 1]],
    ),
    "texts": (
        "words",
        ["text.txt", "--text", TEXTS[0], "words.npy", "-"],
        [TEXTS[0], "text.txt", "words.npy", *TEXTS],
        [TEXTS[0], TEXTS[1], TEXTS[0], *TEXTS],
    ),
}


@pytest.mark.parametrize("batch_size", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_prints_what_the_hub_says(prints, checkpoints, files, monkeypatch, case, batch_size):
    task, inputs, names, sequences = CASES[case]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n \n".join(["", *TEXTS, ""])))
    printed = prints(main, checkpoints[task], "--batch-size", batch_size, *inputs)
    head, *rows = [line.split("\t") for line in printed.splitlines()]

    hub = from_pretrained(checkpoints[task])
    used = hub.used_samples(sequences)
    assert [row[-1] for row in rows] == names
    assert [row[-4:-2] for row in rows] == [[str(steps.sum()), str(steps.size)] for steps in used]
    assert all(float(row[-2]) > 0 for row in rows)
    predicted = hub.predict(sequences)
    if case in ("pairs", "csv"):
        assert head == ["prediction", "used", "steps", "ms", "input"]
        np.testing.assert_allclose([float(row[0]) for row in rows], predicted[:, 0], atol=1e-6)
    else:
        assert head == ["label", "probability", "used", "steps", "ms", "input"]
        classes = ("negative", "positive") if task == "words" else ("0", "1")
        assert [row[0] for row in rows] == [classes[index] for index in predicted.argmax(1)]
        np.testing.assert_allclose([float(row[1]) for row in rows], predicted.max(1), atol=1e-4)


@pytest.fixture
def values(monkeypatch, tmp_path):
    """``values(hub, file)``: what a model gets of a file in the current folder, a new one."""
    monkeypatch.chdir(tmp_path)
    return lambda hub, file: next(read_inputs(hub, [file], [])).encoded.numpy()


def test_whole_numbers_of_images_go_to_255(values, tmp_path):
    image = write_digits(tmp_path / "mnist")[0][0]
    train(tmp_path / "run", "--data-dir", "mnist", "--rows", "--max-update", 1, task="sequential_mnist")
    np.savetxt("whole.csv", image, delimiter=",", fmt="%d")
    np.savetxt("fractions.csv", image / 255, delimiter=",")
    hub = from_pretrained(tmp_path / "run")
    for name in ("whole.csv", "fractions.csv"):
        np.testing.assert_allclose(values(hub, name), image / 255, atol=1e-7)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("300,-2\n+3,4\n", [[300, -2], [3, 4]]),
        ("x,NA\n1, 2\n\n3,4.5\n", [[1, 2], [3, 4.5]]),
        ("10,05\n01,6\n", [[10, 5], [1, 6]]),
        ("12345678901234567890,0\n1,1\n", [[12345678901234567890, 0], [1, 1]]),
    ],
    ids=["whole", "header and blank line", "padded", "beyond int64"],
)
def test_numbers_of_others_are_as_they_are(values, tmp_path, text, expected):
    (tmp_path / "x.csv").write_text(text)
    found = values(from_pretrained(FOLDER / "skip_gru.pt"), "x.csv")
    np.testing.assert_array_equal(found, np.array(expected, dtype=np.float32))


def test_columns_are_those_of_the_table_that_the_model_was_trained_on(prints, values, tmp_path):
    lines = [f"s{n},{n % 2},{n},{-n}" for n in range(6) for step in range(2)]
    (tmp_path / "own.csv").write_text("\n".join(["sequence,label,x,y", *lines]))
    prints(prepare, "features", "own.csv", "data")
    train(tmp_path / "run", "--data-dir", "data", "--max-update", 1, task="feature_classification")
    for name, text in (
        ("new.csv", "time,y,x\n0:00,1,2\n0:01,3,4\n"),
        ("new.tsv", "time\ty\tx\n0:00\t1,0\t2\n0:01\t3\t4\n"),
    ):
        (tmp_path / name).write_text(text)
        np.testing.assert_array_equal(values(from_pretrained(tmp_path / "run"), name), [[2, 1], [4, 3]])


def test_a_table_of_several_sequences_by_the_column_that_training_was_told(prints, fails, tmp_path, monkeypatch):
    """It refuses the table as it does with the usual name; and an .npz file is refused as a file, not as a video."""
    monkeypatch.chdir(tmp_path)
    lines = [f"s{n},{n % 2},{n}" for n in range(6) for step in range(2)]
    (tmp_path / "own.csv").write_text("\n".join(["walk,label,x", *lines]))
    prints(prepare, "features", "own.csv", "data", "--sequence-column", "walk")
    train(tmp_path / "run", "--data-dir", "data", "--max-update", 1, task="feature_classification")
    (tmp_path / "data").rename(tmp_path / "moved")
    assert "'s0' and 's1' in column 'walk'; each needs a file of its own" in fails(main, "run", "own.csv")
    np.savez("own.npz", [1])
    message = "own.npz: expected a file .npy or .csv or .tsv or .png, as models of task feature_classification read"
    assert message in fails(main, "run", "own.npz")


def test_numbers_of_words_are_fitted_as_texts_are(values, tmp_path):
    write_texts(tmp_path / "texts")
    train(tmp_path / "run", "--data-dir", "texts", "--max-update", 1, task="imdb_sentiment")
    hub = from_pretrained(tmp_path / "run")
    for text in ("a bad b", " ".join("abcdefgh" * 2)):
        np.save("text.npy", [hub.task.source_dictionary.index(word) for word in text.split()])
        np.testing.assert_array_equal(values(hub, "text.npy"), hub.task.encode(text))
        assert len(values(hub, "text.npy")) == 12


PALETTE = Image.fromarray(IMAGES[0]).convert("P")


@pytest.mark.parametrize(
    "image, options, found",
    [
        (Image.fromarray(IMAGES[0].astype(np.uint16) * 256), {}, "I"),  # or I;16, by Pillow's version
        (Image.new("LA", (3, 3), (200, 254)), {}, "LA with transparency"),
        (Image.new("RGBA", (3, 3), (200, 200, 200, 0)), {}, "RGBA with transparency"),
        (Image.new("L", (3, 3), 200), {"transparency": 200}, "L with transparency"),
        (Image.new("RGB", (3, 3), "red"), {"transparency": (255, 0, 0)}, "RGB with transparency"),
        (PALETTE, {"transparency": int(np.asarray(PALETTE)[0, 0])}, "P with transparency"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_pictures_that_would_be_changed_are_refused(fails, checkpoints, files, image, options, found):
    image.save("x.png", **options)
    message = f"x.png: expected an opaque picture of 8 bits (1, L, LA, P, PA, RGB, RGBA), got mode {found}"
    assert fails(main, checkpoints["images"], "x.png").startswith(f"skiprnn-predict: error: {message}")


def test_colours_of_16_bits_are_refused(fails, checkpoints, files):
    """Of which Pillow reads the upper 8; it has no way to write them."""

    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header, pixels = struct.pack(">IIBBBBB", 1, 1, 16, 2, 0, 0, 0), b"\0" + struct.pack(">HHH", 65535, 300, 1)
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(pixels)), chunk(b"IEND", b"")]
    Path("x.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    assert "x.png: expected an opaque picture of 8 bits" in fails(main, checkpoints["images"], "x.png")


@pytest.mark.parametrize("mode", ["L", "P", "LA", "RGB", "RGBA"])
def test_pictures_of_any_kind_are_brightness(values, checkpoints, mode):
    Image.fromarray(IMAGES[0]).convert(mode).save("x.png")
    expected = IMAGES[0].reshape(9, 1) / 255
    np.testing.assert_array_equal(values(from_pretrained(checkpoints["images"]), "x.png"), expected.astype(np.float32))


TURNED = {2: np.fliplr, 3: lambda x: np.rot90(x, 2), 5: np.transpose, 6: lambda x: np.rot90(x, -1)}


@pytest.mark.parametrize("orientation", TURNED)
def test_pictures_are_turned_and_mirrored_as_the_file_says(values, checkpoints, orientation):
    exif = Image.Exif()
    exif[274] = orientation  # EXIF's number for it
    Image.fromarray(IMAGES[0]).save("x.png", exif=exif)
    expected = np.float32(TURNED[orientation](IMAGES[0]).reshape(9, 1)) / 255
    np.testing.assert_array_equal(values(from_pretrained(checkpoints["images"]), "x.png"), expected)


def test_json(prints, checkpoints):
    text = "good film other " * 10
    (item,) = json.loads(prints(main, checkpoints["words"], "--json", "--text", text))
    assert item.pop("ms") > 0
    (prediction,) = (hub := from_pretrained(checkpoints["words"])).run([hub.encode(text)])
    assert item == {
        "input": "good film other good film other good film other good film...",
        "label": prediction.label,
        "probabilities": dict(zip(("negative", "positive"), prediction.values.tolist())),
        "used": np.flatnonzero(prediction.used).tolist(),
        "steps": 30,
    }
    assert 0 < len(item["used"]) < 30


@pytest.mark.parametrize(
    "name, text", [("t.tsv", "0\t1\n2\t3\n"), ("t.csv", "0;1,5\n2;3,5\n"), ("t.csv", "0,1,2\n3,4,5\n")]
)
def test_a_table_is_one_sequence(fails, checkpoints, tmp_path, name, text):
    """Its lines are never sequences of a model of one feature."""
    (tmp_path / name).write_text(text)
    message = fails(main, checkpoints["waves"], tmp_path / name)
    assert re.search(r"t.[ct]sv: expected one number on each line, got [23]$", message)


def test_several_numbers_and_two_directions():
    used = np.array([[1, 0, 1], [1, 0, 0]], dtype=bool)
    prediction = Prediction(np.array([0.5, -2e6], dtype=np.float32), None, used, 0.25)
    hub = SimpleNamespace(task=SimpleNamespace(predicts="numbers", per_step=False))
    read = Input("x.npy", np.zeros((3, 2)), range(3))
    assert as_rows(hub, read, prediction, 0.5) == [["0.5 -2e+06", "3", "6", "250.000", "x.npy"]]
    assert as_json(hub, read, prediction, 0.5) == {
        "input": "x.npy", "prediction": [0.5, -2e6], "used": [[0, 2], [0]], "steps": 6, "ms": 250.0
    }  # fmt: skip


@pytest.mark.parametrize(
    "task, arguments, message",
    [
        ("adding", ["absent.npy"], "absent.npy: no such file"),
        ("adding", ["folder.npy"], "folder.npy: expected a file, got a folder"),
        ("words", ["good film"], "good film: no such file; a text is given by --text"),
        ("words", ["good film " * 40], f"{'good film ' * 6}...: File name too long; a text is given by --text"),
        ("adding", [], "expected an INPUT or --text, got none"),
        ("adding", ["pair.npy", "--batch-size", 0], "--batch-size: expected at least 1, got 0"),
        ("adding", ["pair.npy", "--threshold", 0.0], "--threshold: expected a number above 0 and at most 1, got 0.0"),
        ("adding", ["pair.npy", "--threshold", "nan"], "--threshold: expected a number above 0 and at most 1, got nan"),
        ("adding", ["pair.npy", "--threshold", 1], "--threshold: expected a model that predicts .* step, got adding"),
        ("adding", ["pair.npy", "--weights", "x.pth"], "--weights: expected a video to encode, got none"),
        ("adding", ["pair.npy", "--encode-all"], "--encode-all: expected a video to encode, got none"),
        ("adding", ["pair.npy", "--set", "engine"], "--set engine: expected NAME=VALUE"),
        ("adding", ["pair.npy", "--set", "engine=[1"], "--set engine=[1: can't be read (.*)"),
        ("adding", ["pair.npy", "--set", "engin=native"], "engin: none of the checkpoint's options, .*"),
        (
            "adding",
            ["pair.npy", "--set", "hidden_size=5"],
            ".*(RuntimeError: Error(s) in loading state_dict for SkipRNNModel: size mismatch for .*: copying a param "
            "with shape torch.Size([.*]) from checkpoint, the shape in current model is torch.Size([.*]))",
        ),
        ("adding", ["pair.npy", "--set", "engine=fast"], "engine: expected one of .*, got 'fast'"),
        ("adding", ["pair.npy", "--user-dir", "/nowhere"], "--user-dir /nowhere: can't be imported (.*)"),
        ("adding", ["--text", "good"], "--text: expected a model that reads texts, got one of task adding"),
        ("adding", ["-"], "-: expected a model that reads texts, got one of task adding"),
        (
            "adding",
            ["text.txt"],
            "text.txt: expected a file .npy or .csv or .tsv or .png, as models of task adding read",
        ),
        (
            "adding",
            ["film.mp4"],
            "film.mp4: expected a file .npy or .csv or .tsv or .png, as models of task adding read",
        ),
        ("words", ["film.mp4"], "film.mp4: expected a file .txt or .npy, as models of task words read"),
        ("words", ["image.png"], "image.png: expected a file .txt or .npy, as models of task words read"),
        ("adding", ["wide.npy"], "wide.npy: expected shape [T, 2], got (4, 3)"),
        ("adding", ["deep.npy"], "deep.npy: expected shape [T, 2], got (1, 2, 12, 2)"),
        ("adding", ["nothing.npy"], "nothing.npy: expected at least one step, got shape (0, 2)"),
        ("adding", ["number.npy"], "number.npy: expected at least one step, got shape ()"),
        ("adding", ["names.npy"], "names.npy: expected numbers, got <U1"),
        ("adding", ["objects.npy"], "objects.npy: can't be read (ValueError: Array can't be memory-mapped: .*)"),
        ("adding", ["nan.npy", "--json"], "nan.npy[1]: expected finite numbers, got others in step 1 (from 0)"),
        ("adding", ["huge.npy"], "huge.npy: expected finite numbers, got others in step 0 (from 0)"),
        ("adding", ["empty.npy"], "empty.npy: can't be read (.*)"),
        ("adding", ["cut.npy"], "cut.npy: can't be read (ValueError: mmap length is greater than file size)"),
        ("adding", ["ragged.csv"], "ragged.csv:2: expected 2 numbers, got 1"),
        ("adding", ["letters.csv"], "letters.csv:4: column 'b': expected a number, got 'x'"),
        ("adding", ["missing.csv"], "missing.csv:1: expected a number, got 'NA'"),
        ("adding", ["comment.csv"], "comment.csv:2: expected a number, got '#3'"),
        (
            "adding",
            ["commas.csv"],
            "commas.csv:3: expected numbers, got '12,05' (decimals need a point, as a comma .*)",
        ),
        ("adding", ["names.csv"], "names.csv:2: expected 1 numbers, as the header has names, got 2 (decimals need .*)"),
        ("waves", ["commas.csv"], "commas.csv:3: expected numbers, got '12,05' (decimals need a point, .*)"),
        ("waves", ["column.csv"], "column.csv: expected one number on each line, got 2 (decimals need a point, .*)"),
        ("adding", ["header_alone.csv"], "header_alone.csv: expected a line for each step, got none"),
        ("images", ["pair.npy"], "pair.npy: expected an image, uint8 [3, 3] or [9], got float32 (12, 2)"),
        ("images", ["broken.png"], "broken.png: can't be read (.*)"),
        ("words", ["empty.txt"], "empty.txt: expected a text, it is empty"),
        ("words", ["latin.txt"], "latin.txt: expected UTF-8 text, got a byte that is not (.*)"),
        ("words", ["--text", ""], "--text: expected a text, it is empty"),
        ("words", ["-"], "standard input: expected a text on each line, it is empty"),
        ("words", ["unknown.npy"], "unknown.npy: expected token ids from 0 to 3, got 4"),
        ("words", ["float.npy"], "float.npy: expected a text or token ids [T], integers, got torch.float64 (2,)"),
    ],
    ids=str,
)
def test_names_what_is_wrong(fails, checkpoints, files, monkeypatch, task, arguments, message):
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n \n"))
    printed = fails(main, checkpoints[task], *arguments)
    pattern = re.escape(f"skiprnn-predict: error: {message}\n").replace(r"\.\*", ".*")
    assert re.fullmatch(pattern, printed), printed


@pytest.mark.parametrize("what", ["absent.pt", "pair.npy", "."])
def test_names_the_checkpoint(fails, files, what):
    assert f"error: {what}: " in fails(main, what, "pair.npy")


@pytest.mark.parametrize(
    "address, message",
    [
        ("http://127.0.0.1:1/x.pt", "nothing can be loaded from this address"),
        ("unknown://x.tar.gz", "can't be loaded ("),
    ],
)
def test_an_address_that_can_not_be_loaded(fails, files, address, message):
    assert f"error: {address}: {message}" in fails(main, address, "pair.npy")


def test_a_library_that_is_missing(fails, checkpoints, monkeypatch):
    """As sentencepiece may be, where texts are to be cut as its model does it."""

    def encode(self, raw):
        raise ImportError("sentencepiece is missing")

    task = from_pretrained(checkpoints["words"]).task
    monkeypatch.setattr(type(task), "encode", encode)
    message = f"skiprnn-predict: error: {checkpoints['words']}: sentencepiece is missing\n"
    assert fails(main, checkpoints["words"], "--text", "good") == message


def test_damaged_files(files):
    """One error that names the file, or numbers, as those of a file with another number in it."""
    hub, rng = from_pretrained(FOLDER / "skip_gru.pt"), random.Random(0)
    read = failed = 0
    for _ in range(100):
        data = bytearray((files / "pair.npy").read_bytes())
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(data))
            data[place : place + rng.choice((0, 1, 1, 20))] = rng.randbytes(rng.choice((0, 1, 1, 9)))
        (files / "damaged.npy").write_bytes(data)
        try:
            inputs = list(read_inputs(hub, ["damaged.npy"], []))
        except UserError as error:
            failed += 1
            assert str(error).startswith("damaged.npy") and "\n" not in str(error)
        else:
            read += 1
            predictions = hub.run([given.encoded for given in inputs])
            assert all(np.isfinite(prediction.values).all() for prediction in predictions)
    assert read > 10 and failed > 10


@pytest.mark.parametrize("encoding, printed", [("ascii", r"caf\xe9 \udce9.txt"), ("utf-8", r"café \udce9.txt")])
def test_names_that_can_not_be_printed(checkpoints, tmp_path, encoding, printed):
    """A file's name need not be UTF-8."""
    name = os.fsdecode("café ".encode() + b"\xe9.txt")
    (tmp_path / name).write_text("good film")
    code = f"""
import sys
sys.stdout.reconfigure(encoding={encoding!r}, errors="strict")  # as with PYTHONIOENCODING
from skiprnn_plugin.cli.predict import main
sys.exit(main())
"""
    command = (checkpoints["words"], name, "--user-dir", ROOT / "tests/own_tasks")
    process = run_forked("-c", code, *command, cwd=tmp_path, PYTHONPATH=ROOT)
    assert process.stdout.splitlines()[1].split("\t")[-1] == printed, process.stderr


def test_a_process_that_reads_no_more_than_is_wanted(checkpoints):
    """A user's plugin, lines without end, and nobody to read the output to its end."""
    command = f"{sys.executable} -m skiprnn_plugin.cli.predict {checkpoints['words']} - --user-dir tests/own_tasks"
    process = run("bash", "-c", f"yes good film | {command} | head -n 3", cwd=ROOT)
    head, *rows = [line.split("\t") for line in process.stdout.splitlines()]
    (prediction,) = (hub := from_pretrained(checkpoints["words"])).run([hub.encode("good film")])
    expected = [prediction.label, f"{prediction.values.max():.4f}", str(prediction.used.sum()), "2"]
    assert [row[:4] for row in rows] == [expected] * 2 and process.stderr == ""
