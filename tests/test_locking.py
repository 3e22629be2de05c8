"""Locks that keep other processes away. They are of an open file, so that here one process plays all."""

import errno
import fcntl
import os
import subprocess
import sys

import pytest

from skiprnn_plugin import locking
from skiprnn_plugin.locking import HeldByAnother, hold, hold_file


@pytest.mark.parametrize("holding", [hold, hold_file])
def test_one_at_a_time(tmp_path, holding):
    path = tmp_path if holding is hold else tmp_path / "lock"
    for _ in range(2):
        with holding(path):
            with pytest.raises(HeldByAnother), holding(path):
                raise AssertionError
            with pytest.raises(HeldByAnother), holding(path):
                raise AssertionError
    assert not list(tmp_path.iterdir())


def test_a_file_of_a_killed_process_is_taken_over(tmp_path):
    path = tmp_path / "lock"
    code = "import os, pathlib, sys; from skiprnn_plugin.locking import hold_file\n"
    code += "with hold_file(pathlib.Path(sys.argv[1])): os._exit(9)"
    assert subprocess.run([sys.executable, "-c", code, path]).returncode == 9 and path.exists()
    with hold_file(path):
        pass
    assert not path.exists()


def test_a_file_that_its_holder_removes_is_made_again(tmp_path, monkeypatch):
    """Between the opening and the locking: otherwise two processes would hold files of the same name."""
    path, lock, locked = tmp_path / "lock", locking.lock, []

    def lock_late(descriptor):
        if not locked:
            path.unlink()
        lock(descriptor)
        locked.append(descriptor)

    monkeypatch.setattr(locking, "lock", lock_late)
    with hold_file(path):
        assert len(locked) == 2 and path.exists()
    assert not path.exists()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EBADF, errno.ENOTSUP])
def test_without_locks_nothing_is_held(tmp_path, monkeypatch, number):
    def flock(descriptor, operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    for holding, path in ((hold, tmp_path), (hold_file, tmp_path / "lock")):
        with holding(path), holding(path):
            pass
    assert not list(tmp_path.iterdir())
