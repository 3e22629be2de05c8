"""Installing and importing the plugin in all the ways that users do, each in a separate process."""

import sys

import pytest

from .command_line import PLUGIN, ROOT, run, train_options
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
        pytest.param("skiprnn_plugin, fairseq", marks=pytest.mark.thorough),
        "skiprnn_plugin.modules, fairseq",
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
