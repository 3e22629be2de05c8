"""README and pages: the site builds, commands are tested ones, links lead somewhere, and what they show runs."""

import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from importlib.util import find_spec
from io import StringIO

import numpy as np
import pytest

from .command_line import ROOT, run
from .forked import run_forked

README = ROOT / "README.md"
CARDS = [*(ROOT / "skiprnn_plugin/zoo").glob("*.md")]
PAGES = sorted(
    [README, ROOT / "CONTRIBUTING.md", ROOT / "benchmarks/README.md", *(ROOT / "docs").rglob("*.md"), *CARDS]
)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAM = re.compile(r"(fairseq-\w|skiprnn-\w|bash |python |mkdocs |pip )")

# What a page's command starts with, and the test file with the test that runs it
TESTS = {
    "bash benchmarks/gpu.sh": ("test_benchmark_gpu.py", "test_command"),
    "bash recipes/adding.sh": ("recipes/test_synthetic.py", "test_adding_runs_the_rows"),
    "bash recipes/all.sh": ("recipes/test_all.py", "test_finished_runs"),
    "bash recipes/charades.sh": ("recipes/test_videos.py", "test_charades_ends_with"),
    "bash recipes/frequency.sh": ("recipes/test_synthetic.py", "test_frequency_quick"),
    "bash recipes/imdb.sh": ("recipes/test_imdb.py", "test_imdb_quick"),
    "bash recipes/mnist.sh": ("recipes/test_mnist.py", "test_mnist_ends_with"),
    "bash recipes/quickstart.sh": ("recipes/test_synthetic.py", "test_quickstart"),
    "bash recipes/smartwatch.sh": ("recipes/test_smartwatch.py", "test_smartwatch"),
    "bash recipes/sweep.sh": ("recipes/test_sweep.py", "test_sweep_quick"),
    "bash recipes/ucf101.sh": ("recipes/test_videos.py", "test_ucf101"),
    "bash user_dir_examples/speech/run.sh": ("test_speech.py", "test_example"),
    "bash tests/run.sh": ("recipes/test_set_up.py", "test_another_python_is_told"),  # it would run these tests
    "bash user_dir_examples/translation/run.sh": ("test_example_translation.py", "test_script"),
    "fairseq-generate digits": ("test_speech.py", "test_commands"),
    "bash user_dir_examples/own_model/run.sh": ("test_own_model.py", "test_its_commands"),
    "fairseq-generate noisy/data": ("test_translation.py", "test_commands"),
    "fairseq-hydra-train": ("test_hydra.py", "test_one_run"),
    "fairseq-hydra-train --multirun": ("test_nodes.py", "test_submitit"),
    "fairseq-hydra-train --config-dir skiprnn_plugin/config": ("test_translation.py", "test_hydra"),
    "fairseq-hydra-train --config-dir skiprnn_plugin/config --config-name skip_rnn task=sentence_prediction": (
        "test_sentence_prediction.py",
        "test_hydra",
    ),
    "fairseq-interactive noisy/data": ("test_translation.py", "test_commands"),
    "fairseq-preprocess --only-source": ("test_sentence_prediction.py", "test_other_data"),
    "fairseq-preprocess --source-lang source": ("test_translation.py", "corpus"),
    "fairseq-train digits": ("test_speech.py", "test_commands"),
    "fairseq-train data/imdb": ("test_sentence_prediction.py", "test_commands"),
    "fairseq-train data/mine": ("test_sentence_prediction.py", "test_other_data"),
    "fairseq-train noisy/data": ("test_translation.py", "test_commands"),
    "fairseq-train --user-dir skiprnn_plugin --task adding": ("test_docs.py", "test_readme"),
    "fairseq-train --user-dir skiprnn_plugin --task frequency_discrimination": (
        "criterions/test_good.py",
        "test_the_best_checkpoint_is_the_thriftiest",
    ),
    "fairseq-train --user-dir skiprnn_plugin --task feature_classification": ("test_docs.py", "test_getting_started"),
    "fairseq-train --user-dir skiprnn_plugin --task imdb_sentiment": (
        "tasks/test_imdb_sentiment.py",
        "test_trains_validates_and_predicts_in_a_fresh_process",
    ),
    "fairseq-train --user-dir user_dir_examples/own_dataset": ("test_examples.py", "test_own_dataset_with_a_criterion"),
    "fairseq-validate": ("test_docs.py", "test_readme"),
    "fairseq-validate digits": ("test_speech.py", "test_commands"),
    "fairseq-validate data/imdb": ("test_sentence_prediction.py", "test_commands"),
    "fairseq-validate noisy/data": ("test_translation.py", "test_commands"),
    "mkdocs build": ("test_docs.py", "test_site"),
    "pip install": ("test_package.py", "installed"),
    "pip uninstall": ("test_package.py", "test_uninstalling_leaves_nothing"),
    "python -m benchmarks.budget": ("test_benchmark_budget.py", "test_runs_what_the_file_lacks"),
    "python -m benchmarks.gpu": ("test_benchmark_gpu.py", "test_command"),
    "python -m benchmarks.int8": ("test_benchmark_int8.py", "test_times"),
    "python -m benchmarks.on_demand": ("test_benchmark_on_demand.py", "test_command"),
    "python -m benchmarks.report": ("test_benchmark_reports.py", "test_merging_command"),
    "python -m benchmarks.run": ("test_benchmarks.py", "test_command"),
    "python -m benchmarks.skip_limits": ("test_benchmark_skip_limits.py", "test_command"),
    "python -m benchmarks.stream": ("test_benchmark_stream.py", "test_command"),
    "python -m benchmarks.trained": ("test_benchmark_trained.py", "test_command"),
    "python -m benchmarks.translation": ("test_benchmark_translation.py", "test_command"),
    "python -m benchmarks.video": ("test_benchmark_video.py", "test_command"),
    "python -m pip wheel": ("conftest.py", "distributions"),
    "python -m recipes.zoo": ("cli/test_zoo.py", "test_a_file_for_the_zoo_has_half_the_precision"),
    "python -m skiprnn_plugin": ("test_docs.py", "test_readme"),
    "python -m skiprnn_plugin.zoo": ("cli/test_zoo.py", "test_commands_take_a_name"),
    "python -m tests.made_up_charades": ("cli/test_prepare_charades.py", "test_made_up_videos"),
    "python -m tests.made_up_recordings": ("cli/test_made_up_recordings.py", "test_picture_of_a_model_of"),
    "python docs/draw_gate.py": ("test_docs.py", "test_picture"),
    "python setup.py sdist": ("conftest.py", "distributions"),
    "python user_dir_examples/own_dataset/make_sample_data.py": ("test_examples.py", "rotations"),
    "python user_dir_examples/translation/make_data.py": ("test_translation.py", "corpus"),
    "python user_dir_examples/speech/make_digits.py": ("test_speech.py", "corpus"),
    "skiprnn-export": ("export/test_export.py", "test_c_header"),
    "python user_dir_examples/stream_server/server.py": ("test_example_stream_server.py", "test_load"),
    "python user_dir_examples/stream_server/load.py": ("test_example_stream_server.py", "test_load"),
    "skiprnn-plot curves": ("cli/test_plot_curves.py", "test_a_real_log"),
    "skiprnn-plot frames": ("cli/test_plot_frames.py", "test_shows_the_models_own_updates"),
    "skiprnn-plot samples": ("test_docs.py", "test_readme"),
    "skiprnn-plot tradeoff": ("test_docs.py", "test_getting_started"),
    "skiprnn-plot tradeoff noisy/run": ("test_translation.py", "test_commands"),
    "skiprnn-predict": ("test_docs.py", "test_readme"),
    "skiprnn-prepare features": ("test_docs.py", "test_getting_started"),
    "skiprnn-prepare imdb": ("cli/test_prepare_imdb.py", "test_what_it_writes"),
    "skiprnn-prepare video": ("cli/test_prepare_video.py", "test_ucf101"),
    "skiprnn-train": ("cli/test_train.py", "test_trains_and_says_how_to_predict"),
    "skiprnn-report": ("test_docs.py", "test_readme"),
}
# No test runs these, for the reason given
RUN_BY_HAND = (
    "python3.10 -m venv .venv310",  # with a Python that is not everywhere, and another fairseq
    ".venv310/bin/",
    "bash tests/arm64.sh",  # it downloads Python and torch for another processor
    "bash benchmarks/gpu_wheels.sh",  # it downloads them
    "bash tests/sanitize.sh",  # it builds the library again and takes minutes
)


def read_code(page, language):
    """The fenced blocks of that language."""
    return [text for found, text in BLOCK.findall(page.read_text()) if found == language]


def read_commands(page):
    """The commands of a page: the lines of indented blocks, joined where they continue, and those within a sentence."""
    text = BLOCK.sub("", page.read_text())
    lines = re.sub(r" *\\\n *", " ", text).splitlines()
    lines = [line.strip() for line in lines if line.startswith("    ")]
    sentences = [" ".join(found.split()) for found in re.findall(r"`([^`]+)`", text)]
    return [re.sub(r" {2,}# .*| # .*", "", line) for line in lines + sentences if PROGRAM.match(line)]


COMMANDS = [(page, command) for page in PAGES for command in read_commands(page)]


def find_test(command):
    names = [name for name in TESTS if f"{command} ".startswith(f"{name} ")]
    return TESTS[max(names, key=len)] if names else None


def test_readme_is_short():
    assert len(README.read_text().splitlines()) <= 150


def test_every_command_is_one_that_a_test_runs():
    assert len(COMMANDS) > 50
    # Alone, as `bash recipes/x.sh` in a sentence, a program needs no options
    commands = {command for _, command in COMMANDS if len(command.split()) > 1}
    missing = {command for command in commands if find_test(command) is None and not command.startswith(RUN_BY_HAND)}
    assert not missing, f"give the commands an entry in TESTS: {missing}"


def test_the_tests_exist():
    for file, name in TESTS.values():
        assert re.search(rf"def {name}", (ROOT / "tests" / file).read_text()), (file, name)


def test_every_option_is_known():
    """An option of a page's command is written in the program or its configuration (where - is _)."""
    files = [
        path
        for folder in ("skiprnn_plugin", "recipes", "benchmarks", "user_dir_examples", "tests")
        for pattern in ("*.py", "*.sh")
        for path in (ROOT / folder).rglob(pattern)
        if path.name != "test_docs.py"
    ]
    source = "\n".join(path.read_text() for path in files)
    others = {"--strict", "--no-deps"}  # of mkdocs and pip
    others |= {"--source-lang", "--target-lang", "--trainpref", "--validpref", "--testpref", "--destdir"}  # of fairseq
    others |= {"--beam", "--finetune-from-model", "--gen-subset", "--input", "--post-process", "--zero-infinity"}
    for page, command in COMMANDS:
        for option in re.findall(r"(?<=\s)--[a-z][\w-]*", command):
            name = option[2:].replace("-", "_")
            known = option in others or re.search(rf"{option}\b|\b{name}:|\"{name}\"", source)
            assert known, f"{page.name}: {command}: {option} is in no source"


def find_anchors(page):
    headings = re.findall(r"^#+ (.*)", re.sub(r"^    .*", "", BLOCK.sub("", page.read_text()), flags=re.M), re.M)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_links_lead_somewhere():
    count = 0
    for page in PAGES:
        text = page.read_text()
        if page.name == "contributing.md" and "--8<--" in text:
            (name,) = re.findall(r'--8<-- "(.*)"', text)
            assert (ROOT / name).is_file()
        for link in re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", text)):
            if "://" in link:
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), f"{page}: {link}"
            if page.is_relative_to(ROOT / "docs"):
                assert target.is_relative_to(ROOT / "docs"), f"{page}: {link} is not on the site"
            if target.name == "contributing.md":
                target = ROOT / "CONTRIBUTING.md"
            assert not anchor or anchor in find_anchors(target), f"{page}: {link}"
            count += 1
    assert count > 30


@pytest.mark.thorough
@pytest.mark.skipif(find_spec("mkdocs") is None, reason="needs mkdocs: pip install '.[docs]'")
def test_site(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"]
    process = run(*command, cwd=ROOT, NO_MKDOCS_2_WARNING="1")
    assert process.returncode == 0, process.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 15
    assert "SkipLSTM" in (tmp_path / "site/api/modules.html").read_text()
    for page in pages:
        text = page.read_text()
        assert not re.search(r":(?:attr|class|data|func|meth|mod):", text), page  # a role of a docstring, as it is
        # nothing is fetched from elsewhere
        assert not re.search(r"<(?:script|img|link)[^>]*(?:src|href)=\"?https?://", text), page


def test_picture(tmp_path):
    (tmp_path / "gate.json").write_text((ROOT / "docs/gate.json").read_text())
    (tmp_path / "draw_gate.py").write_text((ROOT / "docs/draw_gate.py").read_text())
    process = run(sys.executable, tmp_path / "draw_gate.py", PYTHONPATH=ROOT, MPLBACKEND="nonsense")
    assert process.returncode == 0, process.stderr
    assert (tmp_path / "gate.png").read_bytes()[:4] == b"\x89PNG"


def test_readmes_program_prints_what_it_says():
    (code,), (expected,) = read_code(README, "python"), read_code(README, "text")
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert printed.getvalue() == expected


def test_programs_of_pages(capsys):
    for page in ("streaming", "plain-torch"):
        for code in read_code(ROOT / f"docs/{page}.md", "python"):
            exec(compile(code, page, "exec"), {})
    used, equal = capsys.readouterr().out.splitlines()
    assert equal == "True" and f"This prints `{used}`." in (ROOT / "docs/streaming.md").read_text()


def test_estimators(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    classifier, regressor = (
        re.sub(r"max_updates=\d+", "max_updates=4", code) for code in read_code(ROOT / "docs/estimators.md", "python")
    )
    values = {}
    exec(compile(classifier, "estimators.md", "exec"), values)
    recordings, labels = values["recordings"], values["labels"]
    assert (values["again"].predict(recordings) == values["model"].predict(recordings)).all()
    exec(compile(regressor, "estimators.md", "exec"), values)
    score, predicted, fraction, numbers = capsys.readouterr().out.splitlines()
    held_out = recordings[120:]
    assert float(score) == (values["again"].predict(held_out) == labels[120:]).mean() and predicted.endswith("(3, 3)")
    assert float(fraction) == np.mean([row.mean() for row in values["again"].used_samples(held_out)])
    assert float(numbers.split()[0]) < 1 and values["model"].predict(recordings).dtype == float


class Folder:
    """A folder with the plugin beside it, as in a checkout, for commands and programs."""

    def __init__(self, path):
        self.path = path
        (path / "skiprnn_plugin").symlink_to(ROOT / "skiprnn_plugin", target_is_directory=True)

    def run(self, command, **replaced):
        """A command, with the numbers of these options replaced (or added); its standard output."""
        process = self.start(command, **replaced)
        assert process.returncode == 0, process.stdout[-2000:] + process.stderr[-2000:]
        return process.stdout

    def start(self, command, **replaced):
        """As ``run``, but returns the finished process, which may have failed."""
        words = ["-c", START, *shlex.split(command)]
        for name, value in replaced.items():
            option = "--" + name.replace("_", "-")
            if option in words:
                words[words.index(option) + 1] = str(value)
            else:
                words += [option, str(value)]
        return run_forked(*words, cwd=self.path, PYTHONPATH=ROOT)

    def run_program(self, code):
        process = run_forked("-c", code, cwd=self.path, PYTHONPATH=ROOT)
        assert process.returncode == 0, process.stderr
        return process.stdout


START = """
import sys
from importlib.metadata import entry_points
sys.argv = sys.argv[1:]  # as if the command had been started
name = sys.argv[0]
(entry,) = {entry.value: entry for entry in entry_points(group="console_scripts") if entry.name == name}.values()
sys.exit(entry.load()())
"""
SMALL = {"max_update": 4, "num_workers": 0, "log_format": "none"}


def commands_of(page, *starts):
    """The first command that begins so, for each."""
    return [next(command for command in read_commands(page) if command.startswith(start)) for start in starts]


def test_readme(tmp_path):
    folder = Folder(tmp_path)
    train, validate, report, samples = commands_of(
        README, "fairseq-train", "fairseq-validate", "skiprnn-report", "skiprnn-plot samples"
    )
    folder.run(train, train_size=64, valid_size=36, batch_size=16, **SMALL)
    folder.run(validate, valid_size=36)
    assert "Skip GRU, lambda=1e-5" in folder.run(report)
    folder.run(samples)
    assert list(tmp_path.rglob("*.png"))
    folder.run_program("import numpy as np; np.save('recording.npy', np.random.rand(9, 2))")
    (predict,) = commands_of(ROOT / "docs/trained-models.md", "skiprnn-predict")
    assert folder.run(predict).endswith("recording.npy\n")
    (code,) = read_code(ROOT / "docs/trained-models.md", "python")
    assert len(folder.run_program(code).splitlines()) >= 5
    process = subprocess.run([sys.executable, "-m", "skiprnn_plugin"], cwd=ROOT, capture_output=True, text=True)
    assert process.stdout == f"{ROOT / 'skiprnn_plugin'}\n"


def test_many_csv_files(tmp_path):
    page, folder = ROOT / "docs/data.md", Folder(tmp_path)
    (join,) = read_code(page, "python")
    (tmp_path / "sensor").mkdir()
    for number in range(12):
        lines = [f"{step / 50},{step + number},{number % 3}" for step in range(5 + number)]
        name = f"{('walk', 'sit')[number % 2]}_{number:02}.csv"
        (tmp_path / "sensor" / name).write_text("\n".join(["time,x,y", *lines]))
    folder.run_program(join)
    train, predict = commands_of(page, "skiprnn-train recordings.csv", "skiprnn-predict")
    assert "| test | " in folder.run(train, max_updates=2, hidden_size=4)
    label, _, used, steps, _, name = folder.run(predict).splitlines()[1].split("\t")
    assert label in ("walk", "sit") and 1 <= int(used) <= int(steps) == 5 and name == "sensor/walk_00.csv"


def test_getting_started(tmp_path):
    page, folder = ROOT / "docs/getting-started.md", Folder(tmp_path)
    make, use = read_code(page, "python")
    folder.run_program(make)
    prepare, train, samples, tradeoff, predict = commands_of(
        page, "skiprnn-prepare", "fairseq-train", "skiprnn-plot samples", "skiprnn-plot tradeoff", "skiprnn-predict"
    )
    assert "train 240 sequences" in folder.run(prepare)
    folder.run(train, **SMALL)
    folder.run(samples)
    assert (tmp_path / "waves.png").exists()
    assert "Skip GRU" in folder.run(tradeoff, output="tradeoff.png")
    head, *rows = folder.run(predict).splitlines()
    (shown,) = read_code(page, "text")
    assert head == shown.splitlines()[0]
    assert [row.split("\t")[-1] for row in rows] == ["slow.npy", "fast.npy"]
    assert folder.run_program(use).startswith("['fast', 'slow'] [[")
