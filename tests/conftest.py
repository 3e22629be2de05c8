import os
import shutil
import subprocess
import sys

import pytest
import torch

from .command_line import ROOT, run

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before the plugin is imported: the triton engine's kernels run on the CPU


def pytest_addoption(parser):
    parser.addoption("--device", default="cpu", help="the device for the tests of ops and modules, such as cuda")


# The files that take longest. Each worker process takes a file after another: what ends last should be short.
LONG = (
    "test_videos.py",
    "test_smartwatch.py",
    "test_imdb.py",
    "test_synthetic.py",
    "test_mnist.py",
    "test_sweep.py",
    "test_triton_compile.py",
    "test_signals.py",
    "test_processes.py",
    "test_benchmark_gpu.py",
    "test_engines.py",
    "test_translation.py",
    "test_examples.py",
    "test_package.py",
    "test_docs.py",
    "test_triton.py",
)


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))


def pytest_configure(config):
    if config.getoption("--device") != "cpu":
        torch.set_default_device(config.getoption("--device"))


torch.set_num_threads(1)  # the tests' tensors are too small to gain from more threads


@pytest.fixture(autouse=True)
def uninitialized_memory_is_nan():
    """Make ``torch.empty`` hold NaN in every test, so that a read of uninitialised memory is noticed."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture(scope="session")
def resnet50_weights(tmp_path_factory):
    """A file of random weights of torchvision's ResNet-50; tests that use it are skipped without torchvision."""
    pytest.importorskip(f"{__package__}.torchvision_beside_cpu_torch")
    from torchvision import models

    path = tmp_path_factory.mktemp("weights") / "resnet50.pth"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        torch.save(models.resnet50().state_dict(), path)
    return path


def list_sources():
    """The names of the files that git tracks or would add; in an unpacked source distribution, of all its files."""
    if (ROOT / ".git").exists():
        command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
        return list(filter(None, names))
    outputs = (".venv", "build", "dist", "runs", "__pycache__", ".pytest_cache", ".ruff_cache")
    files = [path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file()]
    return [
        str(path)
        for path in files
        if not any(part in outputs or part.endswith(".egg-info") for part in path.parts)
        and path.suffix not in (".pyc", ".so", ".dylib")
    ]


@pytest.fixture(scope="session")
def copied_tree(tmp_path_factory):
    """A function that copies the files that git tracks or would add, without build outputs, to a new folder."""
    names = list_sources()

    def copy():
        folder = tmp_path_factory.mktemp("tree")
        for name in names:
            if (ROOT / name).exists():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, folder / name)
        return folder

    return copy


@pytest.fixture(scope="session")
def distributions(copied_tree, tmp_path_factory):
    """The source distribution, and the wheel that this machine's compiler builds from it."""
    folder = tmp_path_factory.mktemp("dist")
    process = run(sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", folder, cwd=copied_tree())
    assert process.returncode == 0, process.stderr
    (source,) = folder.glob("*.tar.gz")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", folder, source]
    process = run(*command, CXXFLAGS="-O0")  # a fifth of the time
    assert process.returncode == 0, process.stderr
    (wheel,) = folder.glob("*.whl")
    return source, wheel
