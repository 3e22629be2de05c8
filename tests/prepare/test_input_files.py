"""A user's own ``.csv`` file: whether its first line holds names or numbers, and which columns are read."""

import numpy as np
import pytest

from skiprnn_plugin.arguments import UserError
from skiprnn_plugin.prepare.input_files import read_csv
from skiprnn_plugin.prepare.record import TableColumns


@pytest.mark.parametrize(
    "text, feature_names, expected",
    [
        ("y,time,x\n1,12:00,2\n3,12:01,4\n", ["x", "y"], [[2, 1], [4, 3]]),
        ("sequence,label,x\na,up,1\na,up,2\n", ["x"], [[1], [2]]),
        ("# y, x\n1,2\n3,4\n", ["x", "y"], [[2, 1], [4, 3]]),
        ("#y,x\n1,2\n3,4\n", ["x", "#y"], [[2, 1], [4, 3]]),
        ("time,1,0\n5,1,2\n5,3,4\n", ["0", "1"], [[2, 1], [4, 3]]),
        ("1,0\n1.5,2.5\n3.5,4.5\n", ["0", "1"], [[2.5, 1.5], [4.5, 3.5]]),
        ("1,2\n3,4\n", ["x", "y"], [[1, 2], [3, 4]]),
        ("y,x\n1,2\n3,4\n", None, [[1, 2], [3, 4]]),
        ("0,1\n1.5,2.5\n3.5,4.5\n", None, [[1.5, 2.5], [3.5, 4.5]]),
        ("0,1\n1.5,2\n3.5,4.5\n", None, [[0, 1], [1.5, 2], [3.5, 4.5]]),
        ("0,1\n", None, [[0, 1]]),
        ("0\n2\n1.5\n", None, [[0], [2], [1.5]]),
        ("0\n0.5\n", None, [[0], [0.5]]),
    ],
    ids=[
        "names",
        "the lines of a sequence in a table",
        "names from savetxt",
        "a name that begins so",
        "numbers and others as names",
        "numbers as names",
        "no header",
        "unknown names",
        "header from pandas",
        "whole numbers among others",
        "one step",
        "one column",
        "one column that begins with 0",
    ],
)
def test_headers(tmp_path, text, feature_names, expected):
    (tmp_path / "x.csv").write_text(text)
    np.testing.assert_array_equal(read_csv(str(tmp_path / "x.csv"), TableColumns(feature_names)), expected)


@pytest.mark.parametrize(
    "name, text, feature_names, expected",
    [
        ("x.csv", "y;time;x\n1,5;12:00;2\n3;12:01;4,25\n", ["x", "y"], [[2, 1.5], [4.25, 3]]),
        ("x.csv", "1,5;2,5\n3;05\n", None, [[1.5, 2.5], [3, 5]]),
        ("x.csv", "1.5;2.5\n3;4\n", ["x", "y"], [[1.5, 2.5], [3, 4]]),
        ("x.csv", "y\tx\n1,5\t2\n", ["x", "y"], [[2, 1.5]]),
        ("x.tsv", "time of; day\tx\n12:00\t2,5\n", ["x"], [[2.5]]),
        ("x.csv", '"a;b;c", "x, of\nall"\n1,2\n3,4\n', ["x, of\nall", "a;b;c"], [[2, 1], [4, 3]]),
        ("x.csv", '"a,b,c";x\n1,5;2\n', ["x", "a,b,c"], [[2, 1.5]]),
    ],
    ids=["semicolons", "no header", "points", "tabs", ".tsv", "quotation marks", "commas in quotation marks"],
)
def test_tables_as_training_takes_them(tmp_path, name, text, feature_names, expected):
    (tmp_path / name).write_text(text)
    np.testing.assert_array_equal(read_csv(str(tmp_path / name), TableColumns(feature_names)), expected)


@pytest.mark.parametrize(
    "text, feature_names, message",
    [
        ("x,z\n1,2\n", ["x", "y"], r"x.csv:1: expected a column 'y', as the training data had, got columns x, z"),
        ("x,x\n1,2\n", ["x"], r"x.csv:1: expected a column 'x', as the training data had, got 2 of them"),
        (
            "sequence,label,x\na,up,1\na,up,1\nb,up,2\n",
            ["x"],
            "x.csv:4: expected the steps of one sequence, got those of 'a' and 'b' in column 'sequence'",
        ),
        ("x;y\n1;2,5\n1.5;2\n", ["x", "y"], r"x.csv:3: column 'x': expected a decimal ',', as in line 2, got '1.5'"),
        (
            "x;y\n1;999\n2;1,000\n",
            ["x", "y"],
            r"x.csv: line 3: expected decimal commas, got '1,000' beside '999' in one",
        ),
        ("x;y\n1;up\n", ["x", "y"], r"x.csv:2: column 'y': expected a number, got 'up'"),
        ("when,x\nnow,\n", ["x"], r"x.csv:2: column 'x': expected a number, got ''"),
        ("x,y\n1,2,3\n", ["x", "y"], r"x.csv:2: expected 2 numbers, as the header has names, got 3"),
        ("0\n1.5\n", ["0"], r"x.csv: expected names or numbers in the first line, got 0, which may be either"),
        ("1,0\n1,1\n", ["0", "1"], r"x.csv: expected names or numbers in the first line, got 1,0, which may be either"),
    ],
    ids=[
        "missing",
        "twice",
        "several sequences",
        "points and commas",
        "separated thousands",
        "a name among numbers",
        "an empty cell",
        "more numbers than names",
        "one column of pandas",
        "whole numbers below",
    ],
)
def test_unclear_headers(tmp_path, text, feature_names, message):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(UserError, match=message):
        read_csv(str(tmp_path / "x.csv"), TableColumns(feature_names))


def test_several_sequences_by_a_column_of_another_name(tmp_path):
    (tmp_path / "x.csv").write_text("walk,x\na,1\nb,1\n")
    with pytest.raises(UserError, match="x.csv:3: expected the steps of one sequence, .* 'a' and 'b' in column 'walk'"):
        read_csv(str(tmp_path / "x.csv"), TableColumns(["x"], "walk"))


@pytest.mark.parametrize("text, dtype", [("1\n9007199254740991\n", "int64"), ("1\n9007199254740992\n", "float64")])
def test_whole_numbers_are_integers_where_floats_hold_them_exactly(tmp_path, text, dtype):
    (tmp_path / "a.csv").write_text(text)
    assert read_csv(str(tmp_path / "a.csv")).dtype == dtype
