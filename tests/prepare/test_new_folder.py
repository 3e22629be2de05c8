"""A folder exists whole or not at all, whatever happened to the processes that made it before."""

import contextlib
import os
from pathlib import Path

import pytest

from skiprnn_plugin.arguments import UserError
from skiprnn_plugin.locking import hold_file
from skiprnn_plugin.prepare import new_folder as new_folder_module
from skiprnn_plugin.prepare.new_folder import new_folder

RECORD = "record.json"


def make(dest, content="new", overwrite=False):
    with new_folder(dest, overwrite, RECORD) as folder:
        (folder / RECORD).write_text(content)
        assert folder.parent == dest.parent


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_replaces_only_when_told(tmp_path):
    make(tmp_path / "dest", "old")
    with pytest.raises(UserError, match="dest: already exists; --overwrite"):
        make(tmp_path / "dest")
    assert (tmp_path / "dest" / RECORD).read_text() == "old"
    make(tmp_path / "dest", overwrite=True)
    assert (tmp_path / "dest" / RECORD).read_text() == "new" and names(tmp_path) == ["dest"]


def test_a_link_stays_one(tmp_path):
    """The target of the link, perhaps on another disk, is created and replaced."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk/dest")
    for content in ("old", "new"):
        with new_folder(tmp_path / "link", content == "new", RECORD) as folder:
            (folder / RECORD).write_text(content)
        assert (tmp_path / "disk/dest" / RECORD).read_text() == content and (tmp_path / "link").is_symlink()
        assert names(tmp_path) == ["disk", "link"] and names(tmp_path / "disk") == ["dest"]


def test_replaces_nothing_of_somebody_elses(tmp_path):
    (tmp_path / "dest").mkdir()
    with pytest.raises(UserError, match="holds no record.json"):
        make(tmp_path / "dest", overwrite=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="holds no record.json"):
        make(tmp_path / "file", overwrite=True)
    with pytest.raises(UserError, match="/: already exists"):
        make(Path("/"))
    with pytest.raises(UserError, match=rf"{tmp_path}/file/dest: can't be written \(.+\)$"):
        make(tmp_path / "file" / "dest")


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("made", [(), ("a",), ("a", "b")])
def test_makes_parents_and_leaves_none_empty(tmp_path, made, resume):
    """Those that were there before stay."""
    (tmp_path / Path(*made)).mkdir(exist_ok=True, parents=True)
    dest = tmp_path / "a/b/dest"
    with pytest.raises(ValueError):
        with new_folder(dest, False, RECORD, resume) as folder:
            folder.rmdir()
            raise ValueError
    assert sorted(tmp_path.rglob("*")) == [tmp_path.joinpath(*made[:count]) for count in range(1, len(made) + 1)]
    make(dest)
    assert names(dest) == [RECORD] and names(dest.parent) == ["dest"]


def test_parents_of_what_goes_on_later_stay(tmp_path):
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "a/dest", False, RECORD, resume=True) as folder:
        raise KeyboardInterrupt
    assert names(tmp_path / "a") == [folder.name]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
@pytest.mark.parametrize("before", [[], ["dest"]])
def test_leaves_what_was_there_when_it_fails(tmp_path, before, error):
    for name in before:
        make(tmp_path / name, "old")
    with pytest.raises(UserError if error is OSError else error):
        with new_folder(tmp_path / "dest", True, RECORD) as folder:
            (folder / RECORD).write_text("new")
            raise error("broken")
    assert names(tmp_path) == before
    assert all((tmp_path / name / RECORD).read_text() == "old" for name in before)


def test_names_the_folder_that_was_asked_for_and_not_the_temporary_one(tmp_path):
    with pytest.raises(UserError) as caught, new_folder(tmp_path / "dest", False, RECORD) as folder:
        (folder / "absent" / "file").touch()
    assert str(caught.value) == f"{tmp_path}/dest: can't be written (No such file or directory)"


def test_puts_back_what_it_can_not_replace(tmp_path, monkeypatch):
    make(tmp_path / "dest", "old")
    rename = os.rename

    def full(source, target):
        if str(source).endswith(".partial"):
            raise OSError("disk full")
        rename(source, target)

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(UserError, match=r"dest: can't be written \(OSError: disk full\)"):
        make(tmp_path / "dest", overwrite=True)
    assert names(tmp_path) == ["dest"] and (tmp_path / "dest" / RECORD).read_text() == "old"


# What earlier versions left, with the number of their process, which may be that of another one now
LEFT_BY_EARLIER = {"this": f".dest.{os.getpid()}", "parent": f".dest.{os.getppid()}", "none": ".dest.999999999"}


@pytest.mark.parametrize(
    "part", [".dest.partial", *(f"{name}.part" for name in LEFT_BY_EARLIER.values())], ids=["now", *LEFT_BY_EARLIER]
)
def test_tidies_up_after_killed_processes(tmp_path, part):
    others = [".dest.1.partial", ".other.1.part", ".dest.part", ".dest.x.part"]
    for name in [part, *others]:
        make(tmp_path / name)
    (tmp_path / ".dest.lock").touch()
    make(tmp_path / "dest")
    assert names(tmp_path) == sorted([*others, "dest"])


@pytest.mark.parametrize(
    "old", [".dest.replaced", *(f"{name}.old" for name in LEFT_BY_EARLIER.values())], ids=["now", *LEFT_BY_EARLIER]
)
def test_a_process_killed_while_it_replaced(tmp_path, old):
    make(tmp_path / old, "old")
    with pytest.raises(UserError, match="already exists"):
        make(tmp_path / "dest")
    assert names(tmp_path) == ["dest"] and (tmp_path / "dest" / RECORD).read_text() == "old"


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("resume", [False, True])
def test_only_one_process_at_a_time_makes_a_folder(tmp_path, overwrite, resume):
    """Numbers of processes do not tell them apart: in a container all commands have the number 1."""
    dest = tmp_path / "a/dest"
    message = f"^{dest}: expected a folder of this run alone, another process makes it$"
    with new_folder(dest, overwrite, RECORD, resume) as folder:
        (folder / RECORD).write_text("first")
        for second in (False, True):
            with pytest.raises(UserError, match=message), new_folder(dest, overwrite, RECORD, second):
                raise AssertionError
        make(tmp_path / "a/other")
    assert names(dest.parent) == ["dest", "other"] and (dest / RECORD).read_text() == "first"


def test_the_folder_that_was_made_while_another_process_waited(tmp_path, monkeypatch):
    """It ended between the first look at the folder and the lock."""

    @contextlib.contextmanager
    def hold_late(path):
        with monkeypatch.context() as patch:
            patch.setattr(new_folder_module, "hold_file", hold_file)
            make(tmp_path / "dest", "first")
        with hold_file(path):
            yield

    monkeypatch.setattr(new_folder_module, "hold_file", hold_late)
    with pytest.raises(UserError, match="already exists"):
        make(tmp_path / "dest")
    assert names(tmp_path) == ["dest"] and (tmp_path / "dest" / RECORD).read_text() == "first"


@pytest.mark.parametrize(
    "left", [[".dest.partial"], [f"{name}.part" for name in LEFT_BY_EARLIER.values()]], ids=["now", "earlier"]
)
def test_goes_on_where_another_was_interrupted(tmp_path, left):
    """Of several it takes one; and without resume none."""
    dest = tmp_path / "dest"
    for name in left:
        (tmp_path / name).mkdir()
        (tmp_path / name / "first").write_text("half")
    with pytest.raises(KeyboardInterrupt), new_folder(dest, False, RECORD, resume=True) as folder:
        assert names(folder) == ["first"] and names(tmp_path) == [".dest.lock", folder.name]
        (folder / "second").write_text("")
        raise KeyboardInterrupt
    assert names(tmp_path) == [folder.name]
    with new_folder(dest, False, RECORD, resume=True) as folder:
        assert names(folder) == ["first", "second"]
    assert names(tmp_path) == ["dest"] and names(dest) == ["first", "second"]
    (tmp_path / ".other.partial").mkdir()
    (tmp_path / ".other.partial/first").write_text("half")
    make(tmp_path / "other")
    assert names(tmp_path / "other") == [RECORD]
