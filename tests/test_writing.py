"""Files that are written whole, or not at all."""

from pathlib import Path

import pytest

from skiprnn_plugin.writing import write_whole


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
