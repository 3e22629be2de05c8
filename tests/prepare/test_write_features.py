"""What the record of a folder of features says of rounding."""

import numpy as np

from skiprnn_plugin.prepare.write_features import ROUNDED, Source, write_features


def test_features_that_the_dtype_rounds_by_much_of_their_deviation(tmp_path):
    """In any sequence; the second feature is rounded by more, but its deviation is far larger."""
    rough = np.array([[1000.3, 30000.7], [1001.2, -30000.7]])
    arrays = [rough, np.zeros((1, 2)) + [1000, 0], rough]
    rows = [{"sequence": str(n), "split": split, "label": "a"} for n, split in enumerate(("train", "train", "valid"))]
    source = Source(tmp_path, rows, 2, ["a", "b"], arrays.__getitem__)
    (tmp_path / "folder").mkdir()
    record = write_features(source._replace(rows=rows[:2]), tmp_path / "folder", "float16", {})
    assert record[ROUNDED] == [0]
