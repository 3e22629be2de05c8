"""The set-up of recipes and tests, .venv."""

import contextlib
import fcntl
import os
import shutil
import subprocess
import time

import pytest

from ..command_line import ROOT, run


@pytest.fixture
def checkout(tmp_path):
    """The scripts alone, in a folder without .venv whose name has a space."""
    folder = tmp_path / "my checkout"
    for name in ("recipes", "tests"):
        (folder / name).mkdir(parents=True)
        for script in (ROOT / name).glob("*.sh"):
            shutil.copy(script, folder / name)
    return folder


def fake_python(path, script):
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@contextlib.contextmanager
def open_folder(folder):
    number = os.open(folder, os.O_RDONLY)
    try:
        yield number
    finally:
        os.close(number)


@pytest.mark.parametrize("script", ["recipes/quickstart.sh", "tests/run.sh"])
@pytest.mark.parametrize("found", ["is Python 3.9.18", "is not installed"])
def test_another_python_is_told_what_is_needed(checkout, script, found):
    old = checkout / "python3.9"
    if "not installed" not in found:
        fake_python(old, 'if [ "$1" = --version ]; then echo Python 3.9.18; else exit 1; fi')
    process = run("bash", checkout / script, PYTHON=str(old))
    assert process.returncode == 1 and process.stderr.count("\n") == 1
    assert process.stderr.startswith(f"error: this needs Python 3.11 or 3.12, and {old} {found}. ")
    assert not (checkout / ".venv").exists()


def test_a_set_up_that_fails_leaves_nothing_to_be_taken_for_whole(checkout):
    broken = fake_python(checkout / "python", 'if [ "$1" = -m ]; then mkdir -p .venv/bin; exit 1; fi')
    process = run("bash", checkout / "recipes/quickstart.sh", PYTHON=broken)
    assert process.returncode == 1
    assert not (checkout / ".venv").exists()


def test_set_up_runs_again_where_what_it_builds_has_changed(checkout):
    """And in another checkout that shares .venv; it says so if there is no native library after it."""
    native = checkout / "skiprnn_plugin/ops/native"
    for folder in (native, checkout / ".venv/bin"):
        folder.mkdir(parents=True)
    (checkout / ".venv/bin/activate").touch()
    fake_python(checkout / ".venv/bin/python", 'if [ "$1 $2" = "-m pip" ]; then echo "$@" >>.venv/pip; fi')
    files = [checkout / "setup.py", native / "skiprnn.h", native / "kernels.cpp"]
    for file in files:
        file.touch()

    def set_age(file, seconds):
        os.utime(file, (time.time() - seconds, time.time() - seconds))

    def installs(folder=checkout):
        process = run("bash", "-c", "source recipes/setup.sh", cwd=folder)
        assert process.returncode == 0, process.stderr
        log = folder / ".venv/pip"
        installed = log.exists() and "install --quiet --disable-pip-version-check -e .[dev]" in log.read_text()
        assert installed == ("Setting up" in process.stderr)
        log.unlink(missing_ok=True)
        return installed, "library was not built" in process.stderr

    assert installs() == (True, True)
    assert installs() == (False, False)
    (native / "libskiprnn.so").touch()
    for changed in files:
        for file in files:
            set_age(file, 300)
        set_age(changed, 100)
        set_age(checkout / ".venv/installed", 200)
        assert installs() == (True, False)
        assert installs() == (False, False)
    other = shutil.copytree(checkout, checkout.parent / "other")
    assert installs(other) == (True, False)
    assert installs(other) == (False, False)


def test_one_of_two_sets_up_and_the_other_waits(checkout):
    (checkout / ".venv/bin").mkdir(parents=True)
    (checkout / ".venv/bin/activate").touch()
    install = "mkdir .venv/installing || exit 1; sleep 0.5; rmdir .venv/installing; echo >>.venv/installations"
    fake_python(checkout / ".venv/bin/python", f'if [ "$1 $2" = "-m pip" ]; then {install}; fi')
    native = checkout / "skiprnn_plugin/ops/native"
    native.mkdir(parents=True)
    for file in (checkout / "setup.py", native / "skiprnn.h", native / "kernels.cpp"):
        file.touch()
    command = ["bash", "-c", "source recipes/setup.sh"]
    first = subprocess.Popen(command, cwd=checkout, stderr=subprocess.PIPE, text=True)
    assert first.stderr.readline().startswith("Setting up")
    second = run(*command, cwd=checkout)
    assert first.wait() == second.returncode == 0, second.stderr
    assert second.stderr == "Waiting while another process sets up .venv ...\n"
    assert len((checkout / ".venv/installations").read_text()) == 2  # torch and the package, once
    first.stderr.close()
    with open_folder(checkout) as lock:  # as a process does that sets up
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert run(*command, cwd=checkout).stderr == ""  # .venv is ready, so there is nothing to wait for
