"""``skiprnn-plot samples`` of labels at every step."""

import numpy as np
from matplotlib.image import imread

from skiprnn_plugin.cli.plot import features, main
from skiprnn_plugin.runs.samples import Read
from skiprnn_plugin.tasks.presentation import Presented

from ..command_line import train
from ..tiny_localization import write_localization


def test_titles_name_as_many_classes_as_there_are():
    task = Presented()
    task.predicts, task.per_step, task.class_names = "labels", True, list("abcdef")
    target = np.zeros((2, 3, 6), dtype=bool)
    target[0, 1, [0, 3]] = True
    prediction = np.zeros((2, 3, 6))
    prediction[0, 2, 4] = prediction[0, 0, 3] = 1
    prediction[0, :, 1] = 0.75  # at every step, but the others are likelier at one
    prediction[1, 2, 5] = 9  # at padding
    prediction[1, 0, 1] = 1
    read = Read(np.zeros((2, 3, 9)), np.ones((2, 3), dtype=bool), np.array([3, 2]), target, prediction)
    made = features.make(task, read)
    assert made.captions == ["labels a d, likeliest d e, used 3 of 3", "labels none, likeliest b, used 2 of 2"]


def test_picture(prints, tmp_path):
    data = write_localization(tmp_path / "data")
    train(tmp_path / "run", "--data-dir", data, "--max-update", 1, task="feature_localization")
    prints(main, "samples", tmp_path / "run", "--output", tmp_path / "samples.png")
    assert imread(tmp_path / "samples.png").shape[1] == 1380
