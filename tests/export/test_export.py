"""Exported models predict what the hub predicts, and read the same samples."""

import dataclasses
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from skiprnn_plugin.arguments import UserError
from skiprnn_plugin.cli.export import main
from skiprnn_plugin.cli.prepare import main as prepare
from skiprnn_plugin.export.c_header import make_header
from skiprnn_plugin.export.onnx_file import make_onnx
from skiprnn_plugin.export.parts import collect_parts
from skiprnn_plugin.hub import SkipRNNHub, from_pretrained
from skiprnn_plugin.modules import SkipGRU
from skiprnn_plugin.ops.native import library as native
from skiprnn_plugin.predictions import as_probabilities
from skiprnn_plugin.prepare.input_files import read_csv

from ..command_line import ROOT, WARNINGS, run, train
from ..made_up_recordings import make_recordings

CASES = {
    "gru": "--arch skip_gru",
    "gru_reset_before": "--arch skip_gru --gru-reset before",
    "lstm": "--arch skip_lstm --num-layers 2 --gate-layers 0,1",
    "rnn": "--arch skip_gru --cell rnn",
    "full": "--arch full_lstm",
}
NAMES = ['say "a" $hidden', "back\\slash NAME_x", "Größe??/"]  # of classes


@dataclass
class Trained:
    """A model that was trained for two updates, and recordings as a sensor gives them."""

    checkpoint: str
    hub: SkipRNNHub
    recordings: list

    @property
    def used(self):
        """The numbers of the steps that the hub reads, for each recording."""
        return [np.nonzero(used)[0].tolist() for used in self.hub.used_samples(self.recordings)]

    def export(self, path, *options):
        assert main([str(self.checkpoint), str(path), *options]) == 0
        assert path.exists() and len(list(path.parent.iterdir())) == 1  # no part of a file is left
        return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A prepared folder of recordings, whose channels have large means and small and large deviations."""
    recordings, labels = make_recordings(24, 30, 60)
    recordings = [(recording * [1, 100, 1e-3] + [5, 1000, 0]).astype(np.float32) for recording in recordings]
    path = tmp_path_factory.mktemp("features")
    np.savez(path / "made-up.npz", *recordings, labels=np.array(NAMES)[labels])
    assert prepare(["features", str(path / "made-up.npz"), str(path / "data")]) == 0
    return path / "data", recordings


# The quick tests take a stack whose gate reads both layers
QUICK = ("lstm",)


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=() if name in QUICK else pytest.mark.thorough) for name in CASES]
)
def trained(request, folder, tmp_path_factory):
    data, recordings = folder
    save_dir = tmp_path_factory.mktemp(request.param)
    options = ["--data-dir", data, "--normalize", *CASES[request.param].split(), "--update-bias", -1.5]
    train(save_dir, *options, "--max-update", 2, task="feature_classification")
    checkpoint = save_dir / "checkpoint_last.pt"
    return Trained(checkpoint, from_pretrained(checkpoint), recordings[:6])


def open_onnx(path):
    """A function that calls an ONNX model and returns its outputs by name."""
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # it warns of inputs with a default
    session = onnxruntime.InferenceSession(str(path), options)
    names = [output.name for output in session.get_outputs()]
    return lambda **inputs: dict(zip(names, session.run(None, inputs)))


def test_onnx_sequence(trained, tmp_path):
    call = open_onnx(trained.export(tmp_path / "model.onnx", "--what", "sequence"))
    lengths = np.array([len(recording) for recording in trained.recordings])
    x = np.full((len(lengths), lengths.max(), 3), np.nan, np.float32)
    for row, recording in zip(x, trained.recordings):
        row[: len(recording)] = recording
    got = call(x=x, lengths=lengths)
    np.testing.assert_allclose(got["prediction"], trained.hub.predict(trained.recordings), atol=1e-6)
    assert [np.nonzero(row)[0].tolist() for row in got["updates"]] == trained.used
    # a sequence in two parts, without lengths
    first = call(x=x[:1, :11])
    state = {name: first[f"{name}_out"] for name in ("h", "c", "p", "acc") if f"{name}_out" in first}
    second = call(x=x[:1, 11 : lengths[0]], **state)
    np.testing.assert_allclose(second["prediction"], got["prediction"][:1], atol=1e-6)
    assert np.array_equal(second["updates"][0], got["updates"][0, 11 : lengths[0]])


def test_onnx_step(trained, tmp_path):
    call = open_onnx(trained.export(tmp_path / "model.onnx"))
    predictions = trained.hub.predict(trained.recordings)
    for recording, used, prediction in zip(trained.recordings, trained.used, predictions):
        rnn = trained.hub.model.rnn
        states = ["h", "c"] if rnn.cell == "lstm" else ["h"]
        state = {name: np.full((rnn.num_layers, 1, rnn.hidden_size), np.nan, np.float32) for name in states}
        time, read = 0, []
        while time < len(recording):
            read.append(time)
            got = call(x=recording[None, time], start=np.array([time == 0]), **state)
            state = {name: got[f"{name}_out"] for name in ("h", "c") if f"{name}_out" in got}
            time += int(got["wait"][0])
        assert read == used
        np.testing.assert_allclose(got["prediction"][0], prediction, atol=1e-6)


def test_every_input_of_onnx_step_is_required(trained, tmp_path):
    """onnxruntime's bindings for Java and Node.js give no value to an input that has a default. The streams of a batch
    start at any time."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(trained.export(tmp_path / "model.onnx")))
    assert {name.name for name in session.get_inputs()} <= {"x", "start", "h", "c"}
    assert not session.get_overridable_initializers()
    names = [output.name for output in session.get_outputs()]
    x = np.stack([recording[0] for recording in trained.recordings[:2]])
    shapes = {given.name: given.shape for given in session.get_inputs()[2:]}

    def call(x, start, state):
        return dict(zip(names, session.run(None, {"x": x, "start": np.array(start), **state})))

    zeros = {name: np.zeros((shape[0], 2, shape[2]), np.float32) for name, shape in shapes.items()}
    first = call(x, [True, True], zeros)
    second = call(x, [True, False], {name: first[f"{name}_out"] for name in shapes})
    np.testing.assert_array_equal(second["h_out"][:, 0], first["h_out"][:, 0])
    assert not np.allclose(second["h_out"][:, 1], first["h_out"][:, 1])


@pytest.mark.parametrize("predicts", ["labels", "numbers"])
def test_onnx_predicts_at_every_step(trained, predicts):
    onnxruntime = pytest.importorskip("onnxruntime")
    parts = dataclasses.replace(collect_parts(trained.hub), per_step=True, predicts=predicts)
    session = onnxruntime.InferenceSession(make_onnx(parts, "sequence").SerializeToString())
    recordings = np.stack([recording[:20] for recording in trained.recordings])
    model, x = trained.hub.model, torch.stack([trained.hub.encode(recording) for recording in recordings])
    schedule = None if parts.gate_layers else torch.ones(x.shape[:2])
    with torch.no_grad():
        expected = as_probabilities(model.head(model.rnn(x, schedule=schedule)[0]), predicts)
    (prediction,) = session.run(["prediction"], {"x": recordings})
    np.testing.assert_allclose(prediction, expected, atol=1e-6)


HOST = """
#include <stdio.h>
#include "sensor_model.h"
int main(void) {
    float sample[SENSOR_MODEL_INPUTS], outputs[SENSOR_MODEL_OUTPUTS];
    sensor_model_state state;
    unsigned long time = 0, wanted = 0;
    sensor_model_start(&state);
    for (; scanf("%f,%f,%f", sample, sample + 1, sample + 2) == 3; time++) {
        if (time != wanted) continue;
        const uint32_t wait = sensor_model_update(&state, sample);
        printf("%lu ", time);
        wanted = wait == SENSOR_MODEL_NEVER ? (unsigned long)-1 : time + wait;
    }
    sensor_model_predict(&state, outputs);
    for (int j = 0; j < SENSOR_MODEL_OUTPUTS; j++) printf("\\n%s\\n%.9g", sensor_model_classes[j], outputs[j]);
    return 0;
}
"""


def compile_c(*arguments):
    compiler = shutil.which("cc") or pytest.skip("no C compiler is installed")
    process = subprocess.run([compiler, *WARNINGS, *map(str, arguments)], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr


def as_csv(recording):
    return "".join(",".join(f"{number:.9g}" for number in step) + "\n" for step in recording)


@pytest.mark.parametrize("name", ["name", "file_name", "Rename_NAME_"])
def test_c_header_of_any_name(trained, name):
    text = make_header(collect_parts(trained.hub), name)
    known = {f"{name.upper()}_OUTPUTS", f"{name.upper()}_CLASSES", f"{name}_update"}
    assert f"#define {name.upper()}_CLASSES 3" in text
    assert set(re.findall(r"\w*(?:OUTPUTS|CLASSES|update)\b", text)) - {"update"} == known


@pytest.mark.parametrize("predicts", ["classes", "labels", "numbers"])
def test_c_header_says_whether_it_predicts_classes(trained, tmp_path, predicts):
    names = () if predicts == "numbers" else tuple(NAMES)
    parts = dataclasses.replace(collect_parts(trained.hub), predicts=predicts, class_names=names)
    (tmp_path / "model.h").write_text(make_header(parts, "model"))
    compiler = shutil.which("cc") or pytest.skip("no C compiler is installed")
    source = ROOT / "examples/microcontroller/main.c"
    process = run(compiler, "-std=c99", f"-I{tmp_path}", "-fsyntax-only", source)
    assert (process.returncode == 0) == (predicts == "classes")
    assert ('#error "main.c needs a model that predicts classes"' in process.stderr) == (predicts != "classes")


def test_c_header(trained, tmp_path):
    header = trained.export(tmp_path / "sensor-model.h")
    header.rename(tmp_path / "sensor_model.h")
    (tmp_path / "main.c").write_text(HOST)
    compile_c("-std=c99", "-pedantic", "-O1", "-o", tmp_path / "main", tmp_path / "main.c", "-lm")
    predictions = trained.hub.predict(trained.recordings)
    for recording, used, prediction in zip(trained.recordings, trained.used, predictions):
        process = subprocess.run(
            [tmp_path / "main"], input=as_csv(recording), capture_output=True, text=True, check=True
        )
        read, *lines = process.stdout.split("\n")
        assert list(map(int, read.split())) == used and lines[::2] == trained.hub.class_names
        np.testing.assert_allclose(list(map(float, lines[1::2])), prediction, atol=1e-6)


@pytest.fixture(scope="module")
def predict_in_c(tmp_path_factory):
    """The program of examples/c."""
    pytest.importorskip("safetensors")
    if native.missing():
        pytest.skip(native.missing())
    library = Path(native.load()._name)
    program, link = tmp_path_factory.mktemp("c") / "predict", f"-Wl,-rpath,{library.parent}"
    compile_c("-std=c11", f"-I{library.parent}", "-o", program, ROOT / "examples/c/predict.c", library, link, "-lm")
    return program


def edit_header(model, old, new):
    """Replace what matches ``old``, once, in the header of a safetensors file."""
    content = model.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header, count = re.subn(old, new, content[8 : 8 + size].decode())
    assert count == 1
    model.write_bytes(len(header.encode()).to_bytes(8, "little") + header.encode() + content[8 + size :])


@pytest.mark.parametrize(
    "old, new, message",
    [
        (r'("head_bias":.*?"data_offsets":\[)\d+,\d+', r"\g<1>18446744073709551608,0", "head_bias: the tensor has the"),
        (r'"classes":"[^"]*"', '"classes":""', "classes: too few"),
        (r'"classes":"[^"]*', '"classes":"' + "x" * 2**16, "classes: the text is too long"),
        (r"(?s)^.*$", r'"format_version":"\\', "format_version: the text has no end"),
        (None, "nan", "recording.csv: line 1: expected finite numbers, also as float32 and normalised, got 'nan'"),
    ],
    ids=["offsets", "no classes", "long classes", "no end", "no number"],
)
def test_bad_files_in_c(trained, predict_in_c, tmp_path, old, new, message):
    model = trained.export(tmp_path / "model.safetensors")
    recording = as_csv(trained.recordings[0])
    if old is None:
        recording = recording.replace(recording.split(",")[0], new, 1)
    else:
        edit_header(model, old, new)
    (tmp_path / "recording.csv").write_text(recording)
    process = run(predict_in_c, model, tmp_path / "recording.csv")
    assert process.returncode == 2 and message in process.stderr, process.stderr


FINITE = "finite numbers, also as float32 and normalised"


@pytest.mark.parametrize(
    "line, message",
    [
        ("1,2", "expected 3 numbers, got 2"),
        ("1,2,3,4", "expected 3 numbers, got 4"),
        ("1,2,", "expected a number, got ''"),
        ("1,2,x", "expected a number, got 'x'"),
        ("1,2,0x10", "expected a number, got '0x10'"),
        ("1,2,3 4", "expected a number, got '3 4'"),
        ("1,2,na", "expected a number, got 'na'"),
        ("1,2\0,3", "expected a number, got '2?'"),
        ("1,2,-inf", f"expected {FINITE}, got '-inf'"),
        ("1,2,1e39", f"expected {FINITE}, got '1e39'"),
        ("1,2,3e38", f"expected {FINITE}, got '3e38'"),  # normalised, as this channel differs by thousandths
    ],
)
@pytest.mark.parametrize("header", ["", "a,b,c\n"], ids=["no header", "header"])
def test_bad_lines_in_c(trained, predict_in_c, tmp_path, line, message, header):
    model, recording = trained.export(tmp_path / "model.safetensors"), tmp_path / "recording.csv"
    recording.write_text(f"{header}1,2,3\n\n{line}\n1,2,3\n")
    process = run(predict_in_c, model, recording)
    number = 4 if header else 3
    assert process.stderr == f"predict: error: {recording}: line {number}: {message}\n" and process.returncode == 2


@pytest.mark.parametrize("text", ["", "\n", "a,b,c\n", "na,,\n1,2,3\n", "a,2,c\n1,2,3\n", "1 2 3\n", " \n1,2,3"])
def test_files_that_neither_program_reads(trained, predict_in_c, tmp_path, text):
    model, recording = trained.export(tmp_path / "model.safetensors"), tmp_path / "recording.csv"
    recording.write_text(text)
    process = run(predict_in_c, model, recording)
    assert process.returncode == 2 and f"{recording}: " in process.stderr
    with pytest.raises((UserError, ValueError)):
        trained.hub.encode(read_csv(recording))


def test_files_that_both_programs_read(trained, predict_in_c, tmp_path):
    model, recording = trained.export(tmp_path / "model.safetensors"), tmp_path / "recording.csv"
    text = as_csv(trained.recordings[0])
    recording.write_text(text)
    printed = run(predict_in_c, model, recording).stdout
    assert printed
    spaced = text.replace(",", " , \t").replace("\n", " \r\n\r\n")
    for other in (
        "a,b,c\n" + text,
        "\n\na , nan!,c\n" + text,
        "# x\n" + text,
        spaced,
        "\ufeff" + text,
        text.rstrip("\n"),
    ):
        recording.write_text(other, encoding="utf-8")
        process = run(predict_in_c, model, recording)
        assert (process.stdout, process.stderr) == (printed, "")
        np.testing.assert_array_equal(read_csv(recording).astype(np.float32), trained.recordings[0])


METADATA = {  # what the program in C expects, and values that it refuses
    "threshold": ("a probability in [0, 1)", ["x", "nan", "inf", "1", "-0.1", "", " 0.5", "0.5x"]),
    "num_layers": ("an integer from 1 to 1000000", ["x", "0", "-1", "", "2.5", "2x", "1e1", "99999999999999999999"]),
    "hidden_size": ("an integer from 1 to 1000000", ["0", "4611686018427387904"]),
    "input_size": ("an integer from 1 to 1000000", ["0", "0" * 40 + "x"]),
    "output_size": ("an integer from 1 to 1000000", ["nan", "0"]),
    "gate_layers": (
        "numbers of layers from 0 on, separated by commas",
        ["x", "9999999", "-1", ",", "0,", "0,,0", "0.5", " 0", "0 0", "99999999999999999999", "0," * 64 + "x"],
    ),
    "format_version": ("1", ["2", "", "1.0"]),
    "cell": ("lstm, gru, gru_reset_before or rnn", ["", "LSTM", "0"]),
}


@pytest.mark.parametrize("name, value", [(name, value) for name, (_, values) in METADATA.items() for value in values])
def test_bad_metadata_in_c(trained, predict_in_c, tmp_path, name, value):
    model = trained.export(tmp_path / "model.safetensors")
    edit_header(model, f'"{name}":"[^"]*"', f'"{name}":"{value}"')
    (tmp_path / "recording.csv").write_text(as_csv(trained.recordings[0]))
    process = run(predict_in_c, model, tmp_path / "recording.csv")
    message = f"predict: error: {name}: expected {METADATA[name][0]}, got {value}\n"
    assert (process.returncode, process.stderr) == (2, message)


@pytest.mark.parametrize("missing, left", [("std", "mean"), ("mean", "std")])
def test_half_a_normalisation_in_c(trained, predict_in_c, tmp_path, missing, left):
    model = trained.export(tmp_path / "model.safetensors")
    edit_header(model, f'"{missing}":', '"other":')
    (tmp_path / "recording.csv").write_text(as_csv(trained.recordings[0]))
    process = run(predict_in_c, model, tmp_path / "recording.csv")
    message = f"predict: error: {model}: expected mean and std, or neither, got {left} alone\n"
    assert (process.returncode, process.stderr) == (2, message)


def test_safetensors_in_c(trained, predict_in_c, tmp_path):
    model, program = trained.export(tmp_path / "model.safetensors"), predict_in_c
    for recording, prediction in zip(trained.recordings, trained.hub.run(map(trained.hub.encode, trained.recordings))):
        (tmp_path / "recording.csv").write_text(as_csv(recording))
        line = run(program, model, tmp_path / "recording.csv").stdout
        label, probability, used, steps = line.rstrip("\n").split("\t")
        assert label == prediction.label and float(probability) == pytest.approx(prediction.values.max(), abs=2e-6)
        assert (int(used), int(steps)) == (prediction.used.sum(), len(recording))


@pytest.fixture(scope="module")
def microcontroller_program(trained, tmp_path_factory):
    """The program of examples/microcontroller, for this computer."""
    folder = tmp_path_factory.mktemp("microcontroller")
    trained.export(folder / "model.h")
    source = ROOT / "examples/microcontroller/main.c"
    compile_c("-std=c99", "-pedantic", f"-I{folder}", "-o", folder / "main", source, "-lm")
    return folder / "main"


def test_microcontroller(trained, tmp_path):
    """The commands of examples/microcontroller, on a simulated Cortex-M4F."""
    text = (ROOT / "examples/microcontroller/README.md").read_text().replace("\\\n", "")
    *_, compile_it, simulate = (shlex.split(line) for line in re.findall(r"^    (\w.*)", text, re.MULTILINE))
    for program in (compile_it[0], simulate[0]):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    trained.export(tmp_path / "model.h")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    process = run(*compile_it, cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    recording, used = trained.recordings[0], trained.used[0]
    (prediction,) = trained.hub.run([trained.hub.encode(recording)])
    (tmp_path / "recording.csv").write_text(as_csv(recording))
    printed = run(*simulate, cwd=tmp_path).stdout.splitlines()
    assert list(map(int, printed[0].split())) == used
    label, probability = printed[1].split("\t")
    assert label == prediction.label and float(probability) == pytest.approx(prediction.values.max(), abs=2e-6)


@pytest.mark.parametrize(
    "line", ["nan,1,1", "1,inf,1", "1,1,1e39", "a,b,c", "1,2", "1,2,3,4", "1,2,3,", "1,2,,3", "1 2 3"]
)
def test_bad_lines_on_a_microcontroller(trained, microcontroller_program, tmp_path, line):
    """One NaN would stay in the model's state."""
    header = microcontroller_program.with_name("model.h").read_text()
    assert "NaN stays in the state and the outputs until model_start" in header
    steps = as_csv(trained.recordings[0]).splitlines()
    for bad in (0, len(trained.used[0])):
        (tmp_path / "recording.csv").write_text("\n".join([*steps[:bad], line, *steps[bad:]]))
        process = run(microcontroller_program, cwd=tmp_path)
        *times, message = process.stdout.splitlines()
        assert message == f"recording.csv: line {bad + 1}: expected 3 finite numbers, separated by commas"
        read = [step for step in trained.used[0] if step < bad]
        assert process.returncode == 1 and [list(map(int, text.split())) for text in times] == [read] * bool(bad)


def test_spaces_and_empty_lines_on_a_microcontroller(trained, microcontroller_program, tmp_path):
    text = as_csv(trained.recordings[0])
    (tmp_path / "recording.csv").write_text(text)
    printed = run(microcontroller_program, cwd=tmp_path).stdout
    assert list(map(int, printed.splitlines()[0].split())) == trained.used[0]
    (tmp_path / "recording.csv").write_text("\n" + text.replace(",", " ,\t").replace("\n", " \r\n\r\n").strip())
    process = run(microcontroller_program, cwd=tmp_path)
    assert (process.returncode, process.stdout) == (0, printed)
    (tmp_path / "recording.csv").write_text("")
    assert run(microcontroller_program, cwd=tmp_path).stdout.startswith("recording.csv: line 1: expected 3")


LOAD = """
import sys, numpy, torch
import skiprnn_plugin.ops
program = torch.export.load(sys.argv[1]).module()
file = numpy.load(sys.argv[2])
for size in (1, len(file["lengths"])):
    lengths = torch.from_numpy(file["lengths"][:size])
    x = torch.from_numpy(file["x"][:size, : lengths.max()])
    prediction, updates = program(x, lengths)
    numpy.testing.assert_allclose(prediction.numpy(), file["prediction"][:size], atol=1e-6)
    assert updates.tolist() == file["used"][:size, : lengths.max()].tolist()
assert "fairseq" not in sys.modules
"""


@pytest.mark.thorough
def test_torch_program(trained, tmp_path):
    path = trained.export(tmp_path / "model.pt2")
    lengths = np.array([len(recording) for recording in trained.recordings])
    x = np.zeros((len(lengths), lengths.max(), 3), np.float32)
    for row, recording in zip(x, trained.recordings):
        row[: len(recording)] = recording

    used = np.zeros(x.shape[:2], bool)
    for row, steps in zip(used, trained.used):
        row[steps] = True
    np.savez(
        tmp_path / "expected.npz", x=x, lengths=lengths, prediction=trained.hub.predict(trained.recordings), used=used
    )
    process = run(sys.executable, "-c", LOAD, path, tmp_path / "expected.npz", cwd=ROOT)
    assert process.returncode == 0, process.stderr


def test_torch_program_with_limits(trained, tmp_path):
    """The only kind of file that holds them; models without a gate have none."""
    if not trained.hub.model.has_gate:
        pytest.skip("it has no gate")
    path = trained.export(tmp_path / "model.pt2", "--set", "min_skip=4", "--set", "max_skip=5")
    program, hub = torch.export.load(path).module(), from_pretrained(trained.checkpoint, min_skip=4, max_skip=5)
    used = hub.used_samples(trained.recordings)
    for recording, steps, free in zip(trained.recordings, used, trained.used):
        prediction, updates = program(torch.from_numpy(recording)[None], torch.tensor([len(recording)]))
        assert updates[0].tolist() == steps.tolist() and np.flatnonzero(steps).tolist() != free
        np.testing.assert_allclose(prediction.numpy(), hub.predict([recording]), atol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("batch, steps", [(1, 7), (1, 1), (2, 1)])
def test_a_module_of_ones_own_from_an_example_of_size_1(batch, steps):
    """With the switch that docs/export.md names, torch.export does not fix these sizes."""
    rnn, switch = SkipGRU(3, 4).eval(), "backed_size_oblivious"
    assert switch in (ROOT / "docs/export.md").read_text()
    sizes = ({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},)
    with torch.fx.experimental._config.patch({switch: True}), torch.no_grad():
        program = torch.export.export(rnn, (torch.randn(batch, steps, 3),), dynamic_shapes=sizes).module()
        for shape in ((5, 11, 3), (1, 1, 3)):
            x = torch.randn(shape)
            assert torch.equal(program(x)[0], rnn(x)[0])


def check_batch(names, trained):
    """The function ``read`` of docs/export.md, with rows that want their samples at different times."""
    steps = min(map(len, trained.recordings))
    x = np.stack([recording[:steps] for recording in trained.recordings])
    state = {name: np.zeros((shape[0], len(x), shape[2]), np.float32) for name, shape in names["shapes"].items()}
    expected = trained.hub.predict(x)
    prediction, wanted, used = np.zeros_like(expected), np.zeros(len(x), np.int64), [[] for _ in x]
    for time in range(steps):
        rows = np.flatnonzero(wanted == time)
        if len(rows):
            names["read"](x[rows, time], rows, time, state, prediction, wanted)
        for row in rows:
            used[row].append(time)
    assert used == [np.flatnonzero(row).tolist() for row in trained.hub.used_samples(x)]
    np.testing.assert_allclose(prediction, expected, atol=1e-6)


def test_page(trained, tmp_path, monkeypatch, capsys):
    """The programs of docs/export.md."""
    pytest.importorskip("onnxruntime")
    text = (ROOT / "docs/export.md").read_text()
    monkeypatch.chdir(tmp_path)
    onnx_code, batch_code, torch_code, module_code, translation_code = re.findall(
        r"```python\n(.*?)```", text, re.DOTALL
    )
    (tmp_path / "onnx").mkdir()
    trained.export(tmp_path / "onnx" / "model.onnx").rename("model.onnx")
    recording = trained.recordings[0]
    assert "torch.export.load" in torch_code  # test_torch_program runs the same
    module = {}
    exec(compile(module_code, "export.md", "exec"), module)
    x = torch.randn(3, 20, 3)
    torch.testing.assert_close(torch.export.load("rnn.pt2").module()(x), module["rnn"](x))
    assert "onnx_translations" in translation_code  # test_onnx_translation.py runs it
    names = {"recording": recording}
    exec(compile(onnx_code, "export.md", "exec"), names)
    printed = np.array(capsys.readouterr().out.splitlines()[-1].strip("[]").split(), float)
    np.testing.assert_allclose(printed, trained.hub.predict([recording])[0], atol=1e-6)
    exec(compile(batch_code, "export.md", "exec"), names)
    check_batch(names, trained)

    (c_code,) = re.findall(r"```c\n(.*?)```", text, re.DOTALL)
    (tmp_path / "h").mkdir()
    trained.export(tmp_path / "h" / "model.h").rename("model.h")
    declarations = "void read_sensor(float *sample);\nvoid sleep_samples(uint32_t samples);\nvoid run(void);\n"
    (tmp_path / "main.c").write_text("#include <stdint.h>\n" + declarations + c_code)
    compile_c("-std=c99", "-c", "-o", tmp_path / "main.o", tmp_path / "main.c")
