"""Reviews are read as they are stored, from a folder or an archive; damaged ones are refused."""

import gzip
import os
import tarfile

import pytest

from skiprnn_plugin.prepare.aclimdb import read_aclimdb

from ..tiny_imdb import FILES, HIDDEN_FILES, OTHER_FILES, TEXTS, member, tar, write_archive, write_folder

REVIEW = "train/pos/9_10.txt"


def test_folder_and_archive_in_any_order(tmp_path):
    files = {**OTHER_FILES, **HIDDEN_FILES, **FILES}
    backwards = dict(reversed(files.items()))
    reviews = read_aclimdb(write_folder(tmp_path / "folder", files))
    for split in ("train", "test"):
        assert [(review.label, review.text) for review in reviews[split]] == [
            (label, text) for label in ("neg", "pos") for text in TEXTS[label]
        ]
        assert [review.id for review in reviews[split]] == 2 * [9, 10, 11, 12]
        assert [review.name for review in reviews[split]] == [name for name in FILES if name.startswith(split)]
    assert read_aclimdb(write_archive(tmp_path / "a.tar.gz", files)) == reviews
    assert read_aclimdb(write_archive(tmp_path / "b.tar.gz", backwards)) == reviews


def without(prefix):
    return {name: content for name, content in FILES.items() if not name.startswith(prefix)}


@pytest.mark.parametrize("write", [write_folder, write_archive])
@pytest.mark.parametrize(
    "files, reason",
    [
        (without("test/neg"), "no reviews in test/neg"),
        ({**FILES, "train/pos/notes.txt": b"good"}, "'train/pos/notes.txt': expected a name ID_RATING.txt"),
        ({**FILES, "train/pos/1_10.txt\n": b"good"}, r"'train/pos/1_10.txt\\n': expected a name"),
        ({**FILES, "train/pos/more/1_10.txt": b"good"}, "'train/pos/more"),
        ({**FILES, REVIEW: b"caf\xe9"}, f"{REVIEW}': not UTF-8 \\(unexpected end of data, byte 3\\)"),
        ({**FILES, REVIEW: b" \n"}, f"{REVIEW}': empty"),
        ({**FILES, "train/pos/09_7.txt": b"good"}, "two reviews with the same number"),
    ],
)
def test_refuses_what_is_no_review(tmp_path, write, files, reason):
    source = tmp_path / "aclImdb"
    with pytest.raises(ValueError, match=f"^{source}: .*{reason}"):
        read_aclimdb(write(source, files))


@pytest.mark.parametrize(
    "name, kind, reason",
    [
        ("/aclImdb/train/pos/1_1.txt", tarfile.REGTYPE, "leads out"),
        ("aclImdb/../../1_1.txt", tarfile.REGTYPE, "leads out"),
        ("aclImdb/train/pos/1_1.txt", tarfile.SYMTYPE, "no links"),
        ("aclImdb/link", tarfile.LNKTYPE, "no links"),
        ("aclImdb/device", tarfile.CHRTYPE, "no links or devices"),
        ("aclImdb/train/pos/1_1.txt", tarfile.DIRTYPE, "expected a plain file"),
        ("aclImdb/train/pos/9_10.txt", tarfile.REGTYPE, "empty"),
    ],
)
def test_refuses_a_member(tmp_path, name, kind, reason):
    source = write_archive(tmp_path / "a.tar.gz", FILES, member(name, kind, "aclImdb/README"))
    with pytest.raises(ValueError, match=f"{source}: .*{reason}"):
        read_aclimdb(source)


def damaged_header(content):
    """A member in the middle has a wrong checksum, which tarfile takes for the end of the archive."""
    middle = content.index(b"aclImdb/test/neg/9_1.txt")
    return content[:middle] + b"b" + content[middle + 1 :]


ARCHIVE = tar(FILES)
ZIPPED = gzip.compress(ARCHIVE)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        ARCHIVE,
        gzip.compress(b""),
        gzip.compress(b"hello"),
        gzip.compress(damaged_header(ARCHIVE)),
        gzip.compress(ARCHIVE[: ARCHIVE.index(b"aclImdb/test/neg/9_1.txt")]),
        ZIPPED[:-1],
        ZIPPED[: len(ZIPPED) // 2],
        ZIPPED[:-8] + b"\0\0\0\0" + ZIPPED[-4:],
        ZIPPED + b"hello",
    ],
    ids=(
        "empty,text,not-zipped,nothing-zipped,text-zipped,damaged-header,half-a-tar,cut,half,checksum,longer".split(",")
    ),
)
def test_refuses_a_damaged_archive(tmp_path, content):
    source = tmp_path / "a.tar.gz"
    source.write_bytes(content)
    with pytest.raises(ValueError, match=f"^{source}: can't be read as a .tar.gz"):
        read_aclimdb(source)


def test_refuses_what_can_not_be_read(tmp_path):
    with pytest.raises(ValueError, match="nowhere: no such file or folder"):
        read_aclimdb(tmp_path / "nowhere")
    folder = write_folder(tmp_path / "aclImdb", FILES)
    (folder / REVIEW).unlink()
    os.mkfifo(folder / REVIEW)
    with pytest.raises(ValueError, match=f"'{REVIEW}': expected a plain file"):
        read_aclimdb(folder)
