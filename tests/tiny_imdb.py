"""A few reviews in the form of the Large Movie Review Dataset, as a folder and as an archive."""

import gzip
import io
import tarfile

TEXTS = {
    "neg": ("A bad film.", "Bad, bad, bad!<br /><br />I don't like it.", "not a good film", "The plot? It was bad..."),
    "pos": ("A good film!", "I like it; it's good.", "Good plot, good film", "It was NOT bad!"),
}
# Names and contents in the order of a split's labels and numbers
FILES = {
    f"{split}/{label}/{number}_{rating}.txt": text.encode()
    for split in ("train", "test")
    for label, rating in (("neg", 1), ("pos", 10))
    for number, text in enumerate(TEXTS[label], start=9)  # 10 comes before 9 in a listing
}
OTHER_FILES = {"README": b"", "imdb.vocab": b"the\n", "train/unsup/0_0.txt": b"\xff", "train/urls_pos.txt": b""}
# macOS puts these into folders and archives
HIDDEN_FILES = {
    ".DS_Store": b"\0",
    "train/pos/.DS_Store": b"\0",
    "train/pos/._9_10.txt": b"\0",
    "test/neg/.x/1_1.txt": b"",
}


def write_folder(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def tar(files, *members):
    """The bytes of a tar archive of the files, below ``aclImdb/``, and of the further members, without content."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"aclImdb/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for member in members:
            archive.addfile(member)
    return stream.getvalue()


def write_archive(path, files, *members):
    path.write_bytes(gzip.compress(tar(files, *members)))
    return path


def member(name, kind=tarfile.REGTYPE, target=""):
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, target
    return made
