"""Installing and importing the plugin in all the ways that users do, each in a separate process."""

import email
import sys
import tarfile
import zipfile

import pytest

from skiprnn_plugin.version import __version__

from .command_line import PLUGIN, ROOT, run, train_options
from .conftest import list_sources
from .forked import run_forked

SHORT = [*train_options(), "--max-update", "1"]
FAIRSEQ_TRAIN = "from fairseq_cli.train import cli_main; cli_main()"


def python(code, *arguments, **options):
    return run(sys.executable, "-c", code, *arguments, **options)


def fairseq_train(*arguments, before="", **options):
    """``fairseq-train`` in a process that has imported fairseq, then runs another statement."""
    return run_forked("-c", f"{before}\n{FAIRSEQ_TRAIN}", *arguments, **options)


def trained(process):
    return process.returncode == 0 and "done training" in process.stdout + process.stderr


@pytest.fixture(scope="module")
def installed(distributions, tmp_path_factory):
    """A folder into which pip has installed the plugin."""
    _, wheel = distributions
    target = tmp_path_factory.mktemp("site")
    process = run(sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", "--target", target, wheel)
    assert process.returncode == 0, process.stderr
    assert (target / "skiprnn_plugin" / "py.typed").exists()
    return target


@pytest.mark.parametrize("path", ["", "installed", "checkout"], ids=lambda p: f"PYTHONPATH-{p or 'none'}")
@pytest.mark.parametrize("user_dir", ["checkout", "installed"])
def test_user_dir(tmp_path, installed, path, user_dir):
    folders = {"": "", "installed": str(installed), "checkout": str(ROOT)}
    plugin = installed / "skiprnn_plugin" if user_dir == "installed" else PLUGIN
    arguments = [plugin if word == str(PLUGIN) else word for word in SHORT]
    process = fairseq_train(*arguments, "--save-dir", tmp_path / "run", cwd=tmp_path, PYTHONPATH=folders[path])
    assert trained(process), process.stderr[-2000:]


@pytest.mark.parametrize(
    "order",
    [
        *(pytest.param(f"skiprnn_plugin{part}, fairseq", marks=pytest.mark.thorough) for part in ("", ".modules")),
        "fairseq, skiprnn_plugin",
    ],
)
def test_a_program_that_imports_the_plugin_needs_no_user_dir(tmp_path, order):
    arguments = [*SHORT[2:], "--save-dir", tmp_path / "run"]
    assert SHORT[0] == "--user-dir" and "--user-dir" not in arguments
    if order.startswith("fairseq"):
        process = fairseq_train(*arguments, before=f"import {order}", PYTHONPATH=ROOT)
    else:
        process = python(f"import {order}; {FAIRSEQ_TRAIN}", *arguments, PYTHONPATH=ROOT)
    assert trained(process), process.stderr[-2000:]


def test_imported_and_given_as_user_dir(tmp_path):
    process = fairseq_train(*SHORT, "--save-dir", tmp_path / "run", before="import skiprnn_plugin", PYTHONPATH=ROOT)
    assert trained(process), process.stderr[-2000:]


def test_worker_processes_find_the_plugin(tmp_path):
    process = fairseq_train(*SHORT, "--num-workers", "2", "--save-dir", tmp_path / "run", cwd=tmp_path)
    assert trained(process), process.stderr[-2000:]


def test_registers_when_fairseq_comes_and_imports_it_not_before():
    code = """
import sys, skiprnn_plugin, skiprnn_plugin.modules, skiprnn_plugin.ops
assert "fairseq" not in sys.modules
import fairseq.data
from fairseq.tasks import TASK_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.criterions import CRITERION_REGISTRY
assert "adding" in TASK_REGISTRY and "skip_gru" in ARCH_MODEL_REGISTRY
assert {"mse_with_budget", "cross_entropy_with_budget"} <= set(CRITERION_REGISTRY)
print("registered")
"""
    process = python(code, PYTHONPATH=ROOT)
    assert process.stdout.endswith("registered\n"), process.stderr


def test_works_where_fairseq_does_not():
    """fairseq is absent, or broken so that its import fails; then the import can be tried again."""
    code = """
import sys, torch
class Broken:
    def find_spec(self, name, path=None, target=None):
        if name == "fairseq": raise ImportError("broken")
sys.meta_path.insert(0, Broken())
from skiprnn_plugin.modules import SkipGRU
for _ in range(2):
    try: import fairseq
    except ImportError as error: print(error)
print(SkipGRU(2, 3)(torch.zeros(1, 4, 2))[0].shape)
"""
    process = python(code, PYTHONPATH=ROOT)
    assert process.stdout == "broken\nbroken\ntorch.Size([1, 4, 3])\n", process.stderr


def test_module_prints_its_folder():
    process = run(sys.executable, "-m", "skiprnn_plugin", cwd=ROOT)
    assert process.stdout == f"{PLUGIN}\n", process.stderr


def test_the_source_distribution_holds_the_checkout(distributions):
    """Its tests, recipes, examples and pages too, so that tests run from it."""
    with tarfile.open(distributions[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    hidden = {name for name in list_sources() if name.startswith(".")}  # of this checkout's tools
    assert {name for name in list_sources() if (ROOT / name).exists()} - hidden - names == set()
    assert {name for name in names if name.startswith(("tests/", "docs/", "recipes/"))} - set(list_sources()) <= {
        name for name in names if (ROOT / name).is_dir()
    }


def test_metadata(distributions):
    archive = zipfile.ZipFile(distributions[1])
    (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    metadata = email.message_from_bytes(archive.read(name))
    assert (metadata["Author"], metadata["License-Expression"]) == ("the skiprnn-plugin developers", "MIT")
    assert metadata["License-File"] == "LICENSE" and metadata["Requires-Python"] == ">=3.10,<3.13"
    versions = [value.rpartition(" ")[2] for value in metadata.get_all("Classifier") if "Python :: 3." in value]
    assert versions == ["3.10", "3.11", "3.12"]
    assert metadata.get_all("Project-URL") and "skiprnn_plugin/cli/plot/skiprnn.mplstyle" in archive.namelist()


def test_builds_where_the_encoding_of_files_is_not_utf_8():
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    process = run(sys.executable, "setup.py", "--version", cwd=ROOT, **locale)
    assert (process.returncode, process.stdout.strip()) == (0, __version__), process.stderr


def test_uninstalling_leaves_nothing(distributions, tmp_path):
    """Also what Python has compiled in the meantime is removed."""
    process = run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "env")
    assert process.returncode == 0, process.stderr
    before = {path for path in (tmp_path / "env").rglob("*")}
    python = tmp_path / "env/bin/python"

    def pip(*arguments):
        process = run(sys.executable, "-m", "pip", "--python", python, "--quiet", *arguments)
        assert process.returncode == 0, process.stderr

    pip("install", "--no-deps", "--no-compile", distributions[1])
    code = "import skiprnn_plugin.average_precision"
    process = run(python, "-c", code, cwd=tmp_path, PYTHONPATH="", PYTHONDONTWRITEBYTECODE="")
    assert "numpy" in process.stderr  # which this environment lacks; the package itself has been imported and compiled
    assert (tmp_path / "env/bin/skiprnn-plot").exists() and list((tmp_path / "env").rglob("skiprnn_plugin/**/*.pyc"))
    pip("uninstall", "--yes", "skiprnn-plugin")
    assert {path for path in (tmp_path / "env").rglob("*")} == before


@pytest.mark.parametrize("part", ["hub", "tasks", "models", "data.manifest", "cli"])
def test_says_in_one_line_that_fairseq_is_missing(tmp_path, part):
    code = f"import skiprnn_plugin.{part}"
    if part == "cli":
        code = "from skiprnn_plugin.cli.report import main; sys.exit(main([]))"
    process = python(f"import sys; sys.modules['fairseq'] = sys.modules['omegaconf'] = None; {code}", PYTHONPATH=ROOT)
    last = process.stderr.splitlines()[-1]
    assert process.returncode == (2 if part == "cli" else 1) and "needs fairseq (" in last
    assert last.endswith("without it, skiprnn_plugin.modules and skiprnn_plugin.ops work")
    assert part != "cli" or process.stderr.count("\n") == 1
