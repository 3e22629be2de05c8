"""The models that come with the package: their files, their cards, and every way to name one."""

import io
import re
import tarfile
import zipfile
from contextlib import redirect_stdout

import numpy as np
import pytest
import torch

from recipes import zoo as recipe
from skiprnn_plugin import zoo
from skiprnn_plugin.cli import export, plot, predict, report
from skiprnn_plugin.data.adding import AddingDataset
from skiprnn_plugin.hub import from_pretrained
from skiprnn_plugin.zoo import __main__ as zoo_command

from ..command_line import ROOT, train, validate

NAMES = ["adding", "imdb", "mnist-rows", "smartwatch"]
GOOD = "A wonderful film: funny, touching, and one of the best that I have seen. I loved it."
BAD = "The worst film of the year. The plot is stupid, the acting awful, and I was bored. Avoid it."
SOLVED = 1.67e-3  # the paper's limit of the adding task's MSE


@pytest.fixture(scope="module")
def hubs():
    return {name: from_pretrained(f"zoo:{name}") for name in NAMES}


def read_card(name, heading):
    """A number of a card's table of facts."""
    (value,) = re.findall(rf"^\| {heading} \| ([\d.e-]+)", zoo.card(name), re.MULTILINE)
    return float(value)


def test_names():
    assert zoo.names() == NAMES
    assert {path.stem for path in zoo.FOLDER.glob("*.md")} == {*NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_files_hold_a_model_and_nothing_of_its_training(name):
    path = zoo.find(f"zoo:{name}")
    assert path.stat().st_size < 2_000_000
    state = torch.load(path, map_location="cpu", weights_only=True)  # no code in it is run
    assert not state["last_optimizer_state"] and "metrics" not in state["extra_state"]
    (precision,) = re.findall(r"^\| weights \| (\w+) precision", zoo.card(name), re.MULTILINE)
    assert {weights.dtype for weights in state["model"].values()} == {recipe.PRECISIONS[precision]}
    strings = list(find_strings({**state, "task_state": None}))
    assert "skiprnn_plugin" in strings and not [text for text in strings if "/" in text]
    content = b"".join(read_members(path))
    assert not re.search(rb"(?<![\w<])/(?:home|root|tmp|work|usr|mnt|data|Users)\b", content)


def find_strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.items():
            yield from find_strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from find_strings(item)


def read_members(path):
    """The pickle of a checkpoint, without the weights, whose bytes are random."""
    with zipfile.ZipFile(path) as archive:
        return [archive.read(name) for name in archive.namelist() if name.endswith(".pkl")]


@pytest.mark.parametrize("name", NAMES)
def test_the_cards_program_prints_what_it_says(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # no folder of data is there
    card = zoo.card(name)
    (code,), (expected,) = (re.findall(rf"```{kind}\n(.*?)```", card, re.DOTALL) for kind in ("python", "text"))
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(code, name, "exec"), {})
    assert printed.getvalue() == expected
    assert len(list(filter(None, code.splitlines()))) <= 5


def test_the_index_shows_every_card(capsys):
    page = (ROOT / "docs/models.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(code, "models.md", "exec"), {})
    names, prediction = capsys.readouterr().out.splitlines()
    assert names == str(NAMES) and prediction.startswith("['neg', 'pos'] [[0.9")
    for name in NAMES:
        assert f'--8<-- "skiprnn_plugin/zoo/{name}.md"' in page
        (row,) = re.findall(rf"^\| `zoo:{name}` .*", page, re.MULTILINE)
        assert f"{zoo.find(name).stat().st_size / 1e3:,.0f} kB" in row


def test_adding_is_solved_with_the_samples_of_its_card(hubs):
    x, targets = AddingDataset(50, -0.5, 0.5, 500, (0,), True).draw(np.random.default_rng(1234), 500)
    predictions = list(hubs["adding"].run(torch.from_numpy(x)))
    errors = np.array([prediction.values[0] for prediction in predictions]) - targets
    assert (errors**2).mean() < SOLVED
    used = np.mean([prediction.used.mean() for prediction in predictions])
    assert 100 * used == pytest.approx(read_card("adding", "samples used"), abs=1)


def draw_digit(digit):
    """A 0 or a 1, drawn with a thick pen, 28 x 28 pixels of 0 to 255."""
    row, column = np.mgrid[:28, :28]
    if digit == 1:
        distance = np.abs(column - 14 + (row - 14) * 0.2) + 99 * (np.abs(row - 14) > 9)
    else:
        distance = np.abs(np.hypot((row - 13.5) / 9, (column - 13.5) / 6.5) - 1) * 6
    return (np.clip(2.2 - distance, 0, 1) * 255).astype(np.uint8)


@pytest.mark.parametrize("digit", [0, 1])
def test_mnist_rows(hubs, digit):
    hub, image = hubs["mnist-rows"], draw_digit(digit)
    (prediction,) = hub.run([hub.encode(image)])
    assert hub.class_names == list("0123456789") and prediction.values.shape == (10,)
    assert prediction.label == str(digit) and prediction.used.shape == (28,) and 3 < prediction.used.sum() < 28


@pytest.mark.parametrize("text, label", [(GOOD, "pos"), (BAD, "neg")], ids=["good", "bad"])
def test_imdb(hubs, text, label):
    hub = hubs["imdb"]
    (prediction,) = hub.run([hub.encode(text)])
    assert hub.class_names == ["neg", "pos"] and prediction.label == label and prediction.values.max() > 0.7
    words = len(hub.task.tokenize(text))
    assert prediction.used.shape == (words,) and 0 < prediction.used.sum() < words
    # It knows the words of its own dictionary, and no others
    assert hub.model.embedding.num_embeddings == len(hub.task.source_dictionary) < 20_000


def test_smartwatch(hubs):
    hub = hubs["smartwatch"]
    assert len(hub.class_names) == 7 and hub.task.input_size == 6
    mean = hub.task.facts.statistics.mean
    predictions = list(hub.run([hub.encode(np.tile(sample, (1200, 1))) for sample in (0 * mean, mean)]))
    for prediction in predictions:
        assert prediction.values.shape == (7,) and prediction.values.sum() == pytest.approx(1)
        assert prediction.used.shape == (1200,) and 0 < prediction.used.mean() < 0.9
    assert [prediction.label for prediction in predictions] == ["TRAP", "ROW"]


@pytest.mark.parametrize("name", ["zoo:", "zoo:smartwach", "zoo:../hub"])
def test_a_wrong_name_ends_in_one_line_that_lists_the_names(name, fails, capsys):
    line = f"zoo:NAME: expected a NAME of adding, imdb, mnist-rows, smartwatch, got {name[4:]!r}"
    with pytest.raises(FileNotFoundError) as raised:
        from_pretrained(name)
    assert str(raised.value) == line
    assert fails(report.main, name).endswith(f"error: {line}\n")
    assert fails(predict.main, name, "x.npy").endswith(f"error: {line}\n")
    assert fails(plot.main, "samples", name).endswith(f"error: {line}\n")
    with pytest.raises(SystemExit) as ended:
        zoo_command.main([name])
    assert ended.value.code == 2 and capsys.readouterr().err == f"python -m skiprnn_plugin.zoo: error: {line}\n"


def test_commands_take_a_name(tmp_path, prints, fails):
    lines = prints(zoo_command.main).splitlines()
    assert lines == [f"zoo:{name}" for name in NAMES]
    assert prints(zoo_command.main, "adding") == f"{ROOT / 'skiprnn_plugin/zoo/adding.pt'}\n"
    assert prints(zoo_command.main, "zoo:imdb", "--card") == f"{zoo.card('imdb')}\n"

    np.save(tmp_path / "recording.npy", np.random.default_rng(0).normal(size=(300, 6)))
    line = prints(predict.main, "zoo:smartwatch", tmp_path / "recording.npy").splitlines()[-1].split("\t")
    assert line[0] in from_pretrained("zoo:smartwatch").class_names and "300" in line
    assert "\nneg\t" in prints(predict.main, "zoo:imdb", "--text", BAD)
    prints(export.main, "zoo:smartwatch", tmp_path / "watch.h")
    assert "watch_" in (tmp_path / "watch.h").read_text()
    # The adding task makes its data itself; the others have to be told where theirs are
    table = prints(report.main, "zoo:adding", "--set", "valid_size=256")
    assert "| Skip GRU, lambda=1e-5 | Yes | 50.7% ± 2.6% | 9.40e5 | Yes |" in table
    prints(plot.main, "samples", "zoo:adding", "--output", tmp_path / "samples.png", "--set", "valid_size=8")
    assert (tmp_path / "samples.png").read_bytes().startswith(b"\x89PNG")
    assert "--set data_dir=DIR" in fails(report.main, "zoo:smartwatch")
    assert fails(plot.main, "curves", "zoo:adding").endswith("got a model of the zoo, which has none\n")


def test_fairseqs_commands_take_the_file(tmp_path):
    """fairseq-validate evaluates a model, and fairseq-train trains it further."""
    adding = ["--hidden-size", 48, "--gru-reset", "before", "--sequence-length", 50]
    (stats,) = validate(zoo.find("adding"), "--valid-size", 64)["valid"]
    assert stats["valid_mse"] < 2 * SOLVED
    stats = train(tmp_path, *adding, "--finetune-from-model", zoo.find("adding"), "--max-update", 2, "--lr", 1e-6)
    assert stats["valid"][-1]["valid_mse"] < 2 * SOLVED


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    train(folder, "--update-bias", -1.2)
    return folder / "checkpoint_last.pt"


def test_a_file_for_the_zoo_has_half_the_precision(checkpoint, tmp_path, prints, monkeypatch):
    monkeypatch.setattr(zoo, "FOLDER", tmp_path)
    lines = prints(recipe.main, checkpoint, "mine", "--folder", tmp_path).splitlines()
    assert lines[0].startswith("half precision: 0 of 432 decisions on split valid change")
    assert lines[-1] == f"{tmp_path / 'mine.pt'}: half precision"
    hub, single = from_pretrained("zoo:mine"), from_pretrained(checkpoint)
    assert torch.load(zoo.find("mine"))["model"]["rnn.weight_hh_l0"].dtype == torch.float16
    assert next(hub.model.parameters()).dtype == torch.float32  # it computes in single precision
    x = torch.rand(20, 12, 2) - 0.5
    assert (np.stack(hub.used_samples(x)) == np.stack(single.used_samples(x))).all()
    np.testing.assert_allclose(hub.predict(x), single.predict(x), atol=1e-3)


def test_a_file_for_the_zoo_keeps_single_precision_where_a_decision_changes(checkpoint, tmp_path, prints):
    """With this bias two skips in a row never happen; rounded to half precision it is below log(1/3): they do."""
    state = torch.load(checkpoint)
    state["model"]["rnn.update_weight"].zero_()
    state["model"]["rnn.update_bias"].fill_(-1.0985)
    torch.save(state, tmp_path / "close.pt")
    half, single, written = prints(recipe.main, tmp_path / "close.pt", "close", "--folder", tmp_path).splitlines()
    assert re.match(r"half precision: [1-9]\d* of 432 decisions", half)
    assert re.match(r"single precision: 0 of 432 decisions .* by at most 0.0e\+00", single)
    assert torch.load(tmp_path / "close.pt")["model"]["rnn.weight_hh_l0"].dtype == torch.float32
    assert written == f"{tmp_path / 'close.pt'}: single precision"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["mine/x"], "NAME: expected small letters, digits and -, got 'mine/x'"),
        (["mine", "--folder", "nowhere"], "--folder: no such folder: nowhere"),
        (["mine", "--split", "train"], "--split train: expected a held-out split"),
    ],
)
def test_wrong_arguments_of_the_recipe(checkpoint, arguments, message, fails):
    assert message in fails(recipe.main, checkpoint, *arguments)


def test_a_file_for_the_zoo_is_small(checkpoint, tmp_path, fails, monkeypatch):
    monkeypatch.setattr(recipe, "LIMIT", 1000)
    assert "expected a file of at most 1,000 bytes" in fails(recipe.main, checkpoint, "x", "--folder", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.thorough
def test_wheel_and_source_distribution_hold_the_zoo(distributions):
    with zipfile.ZipFile(distributions[1]) as wheel:
        for name in NAMES:
            assert wheel.read(f"skiprnn_plugin/zoo/{name}.pt") == zoo.find(name).read_bytes()
            assert wheel.read(f"skiprnn_plugin/zoo/{name}.md").decode() == zoo.card(name)
    with tarfile.open(distributions[0]) as source:
        assert {f"skiprnn_plugin/zoo/{name}.pt" for name in NAMES} <= {
            member.partition("/")[2] for member in source.getnames()
        }
