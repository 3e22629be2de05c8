"""Files that are written whole, or not at all."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from skiprnn_plugin.writing import is_part, write_whole


@pytest.mark.parametrize("content", ["für alle", b"\0\1"])
def test_replaces_a_file(tmp_path, content):
    (tmp_path / "x").write_bytes(b"before")
    write_whole(tmp_path / "x", content)
    assert (tmp_path / "x").read_bytes() == (content if isinstance(content, bytes) else content.encode())
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize(
    "path, error, reason",
    [
        ("absent/model.pt", FileNotFoundError, "No such file or directory"),
        ("file/model.pt", NotADirectoryError, "Not a directory"),
        ("folder", IsADirectoryError, "Is a directory"),
        (".", IsADirectoryError, "Is a directory"),
    ],
)
def test_errors_name_the_file_that_was_asked_for(tmp_path, monkeypatch, path, error, reason):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(error) as caught:
        write_whole(Path(path), "x")
    assert (caught.value.filename, caught.value.strerror) == (path, reason)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


@pytest.mark.parametrize("content", ["before", None])
def test_a_link_stays_one(tmp_path, content):
    """The target, which may lie in another folder and need not exist, is written."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "x").symlink_to("disk/y")
    if content is not None:
        (tmp_path / "disk/y").write_text(content)
    write_whole(tmp_path / "x", "new")
    assert (tmp_path / "x").is_symlink() and (tmp_path / "disk/y").read_text() == "new"
    assert os.listdir(tmp_path / "disk") == ["y"]


@pytest.mark.parametrize("before", [0o600, 0o664, None])
def test_modes(tmp_path, before):
    """Of a file that exists, or the usual one of a new file."""
    path, usual = tmp_path / "x", tmp_path / "usual"
    usual.write_text("")
    if before is not None:
        path.write_text("")
        path.chmod(before)
    write_whole(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == (before or stat.S_IMODE(usual.stat().st_mode))


@pytest.mark.parametrize("name", [255 * "x", 63 * "\U0001f600"], ids=["characters", "bytes"])
def test_long_names(tmp_path, name):
    write_whole(tmp_path / name, "new")
    assert os.listdir(tmp_path) == [name] and (tmp_path / name).read_text() == "new"


def test_threads_do_not_share_a_temporary_file(tmp_path, monkeypatch):
    barrier, replace = threading.Barrier(2, timeout=30), os.replace

    def wait(source, target):
        barrier.wait()  # both have written
        contents.add(Path(source).read_text())
        replace(source, target)

    contents = set()
    monkeypatch.setattr(os, "replace", wait)
    threads = [threading.Thread(target=write_whole, args=(tmp_path / "x", text)) for text in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert contents == {"one", "two"} and os.listdir(tmp_path) == ["x"]


def test_what_is_no_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()), daemon=True)
    read = []
    reader.start()
    write_whole(tmp_path / "pipe", "new")
    reader.join(30)
    assert read == ["new"] and stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.parametrize("name", ["x.pt", 100 * "x"], ids=["short", "long"])
def test_recognises_what_a_killed_process_leaves(tmp_path, name):
    code = "import os, pathlib, sys; from skiprnn_plugin import writing; os.replace = lambda *paths: os._exit(9)"
    command = [sys.executable, "-c", f"{code}; writing.write_whole(pathlib.Path(sys.argv[1]), 'new')"]
    assert subprocess.run([*command, tmp_path / name]).returncode == 9
    (part,) = tmp_path.iterdir()
    old = tmp_path / f".{name}.12345.part"
    others = [tmp_path / other for other in (name, f".{name}.part", f"{name}.12345.part", f".{name}.own.part")]
    for path in (old, *others):
        path.write_text("")
    assert [is_part(path, name) for path in (part, old)] == [True, True]
    assert not any(is_part(path, name) for path in others) and not is_part(part, "y.pt")
    old.unlink()
    old.mkdir()
    assert not is_part(old, name)
