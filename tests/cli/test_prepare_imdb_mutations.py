"""``skiprnn-prepare imdb`` on damaged archives: one clear error and nothing written, or what they really say."""

import gzip
import os
import random
import tarfile

from skiprnn_plugin.cli.prepare import main

from ..tiny_imdb import FILES, tar
from .test_prepare_imdb import QUARTER, contents


def change(rng, content):
    """The bytes with one bit flipped, some deleted, or the end cut off."""
    start, kind = rng.randrange(len(content)), rng.randrange(3)
    if kind == 0:
        return content[:start] + bytes([content[start] ^ 1 << rng.randrange(8)]) + content[start + 1 :]
    return content[:start] + (content[start + rng.randint(1, 64) :] if kind == 1 else b"")


def change_files(rng, files):
    """The files with one renamed, garbled or removed."""
    name, kind = rng.choice(list(files)), rng.randrange(3)
    files = dict(files)
    content = files.pop(name)
    if kind == 0:
        kept = name.rindex("/") + 2
        files[name[:kept] + change(rng, name[kept:].encode()).decode("latin-1")] = content
    elif kind == 1:
        files[name] = change(rng, content)
    return files


def outcome(capsys, source, dest):
    """What is at ``dest`` after a run, None after an error."""
    before = os.listdir(dest.parent)
    code = main(["imdb", str(source), str(dest), *map(str, QUARTER)])
    error = capsys.readouterr().err
    if code == 0:
        assert error == ""
        return contents(dest)
    assert code == 2 and error.startswith(f"skiprnn-prepare: error: {source}: ") and error.count("\n") == 1, error
    assert os.listdir(dest.parent) == before
    return None


def outcomes(capsys, folder, archives):
    """Of each archive, given as bytes: its path and what became of it."""
    for number, content in enumerate(archives):
        place = folder / str(number)
        place.mkdir()
        (place / "a.tar.gz").write_bytes(content)
        yield place / "a.tar.gz", outcome(capsys, place / "a.tar.gz", place / "data")


def test_changed_bytes(capsys, tmp_path):
    """Of the archive before or after it was zipped: no review is lost and, once zipped, no letter changes unnoticed."""
    rng, archive = random.Random(1), tar(FILES)
    zipped = [change(rng, gzip.compress(archive, mtime=0)) for _ in range(40)]
    unzipped = [gzip.compress(change(rng, archive)) for _ in range(40)]
    (_, right), *made = outcomes(capsys, tmp_path, [gzip.compress(archive), *zipped, *unzipped])
    assert all(result in (None, right) for _, result in made[:40])
    taken = [result for _, result in made[40:] if result]
    assert 0 < len(taken) < 40
    for result in taken:
        assert [counts["reviews"] for counts in result["prepare.json"]["splits"].values()] == [6, 2, 8]


def test_changed_files(capsys, tmp_path):
    """Where the archive is taken, the folder that it unpacks to gives the same."""
    rng = random.Random(2)
    made = list(outcomes(capsys, tmp_path, [gzip.compress(tar(change_files(rng, FILES))) for _ in range(40)]))
    taken = [(source, result) for source, result in made if result]
    assert 0 < len(taken) < 40
    for source, result in taken:
        with tarfile.open(source) as archive:
            archive.extractall(source.parent, filter="data")
        assert outcome(capsys, source.parent / "aclImdb", source.parent / "unpacked") == result
