"""The files equal those of ``fairseq-preprocess --only-source``, byte for byte."""

import pytest
from fairseq import options
from fairseq_cli import preprocess

from skiprnn_plugin.prepare.binarize import build_dictionary, write_items

TRAIN = ["b a c a", "d b a", "c"]
TEST = ["a e b", "c"]


@pytest.mark.parametrize("min_count", [1, 2])
def test_as_fairseq_writes_them(tmp_path, min_count):
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for split, lines in (("train", TRAIN), ("test", TEST)):
        (tmp_path / split).write_text("\n".join(lines) + "\n")
    prefixes = ["--trainpref", tmp_path / "train", "--testpref", tmp_path / "test", "--destdir", theirs]
    flags = ["--only-source", "--thresholdsrc", min_count, "--padding-factor", 1, *prefixes]
    preprocess.main(options.get_preprocessing_parser().parse_args([str(flag) for flag in flags]))

    ours.mkdir()
    dictionary = build_dictionary(map(str.split, TRAIN), min_count)
    dictionary.save(str(ours / "dict.txt"))
    assert write_items(ours / "train", dictionary, map(str.split, TRAIN)) == (8, 0 if min_count == 1 else 1)
    assert write_items(ours / "test", dictionary, map(str.split, TEST)) == (4, 1)
    names = {path.name for path in ours.iterdir()}
    assert names == {"dict.txt", "train.bin", "train.idx", "test.bin", "test.idx"}
    for name in names:
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name
