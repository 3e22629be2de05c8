"""Which frames of a video are drawn, and as what."""

from types import SimpleNamespace

import numpy as np
import torch

from skiprnn_plugin.hub import Prediction
from skiprnn_plugin.prepare.video_reader import VideoWork
from skiprnn_plugin.runs.frames import SIDE, read_sheet
from skiprnn_plugin.runs.inputs import Input


def test_a_frame_is_used_that_either_direction_uses(monkeypatch):
    """Of 5 frames the model reads the last 3, and a step of padding."""
    read = Input("x.mp4", torch.zeros(4, 1), range(2, 5), VideoWork(np.ones(5, bool), 1.0))
    used = np.array([[1, 0, 0, 1], [1, 0, 1, 0]], bool)
    prediction = Prediction(np.array([0.25, 0.75]), "run", used, 0.001)
    task = SimpleNamespace(per_step=False)
    hub = SimpleNamespace(task=task, class_names=["walk", "run"], run=lambda encoded: [prediction])
    frames = [np.full((2, 4, 3), number, np.uint8) for number in range(5)]
    videos = SimpleNamespace(frames=lambda path: iter(frames), frame_rate=10.0)
    monkeypatch.setattr("skiprnn_plugin.runs.inputs.read_inputs", lambda *arguments: [read])
    sheet = read_sheet(hub, videos, "a/x.mp4", 2)
    assert sheet.used.tolist() == [True, False] and sheet.times.tolist() == [0.2, 0.3]
    assert sheet.frames.shape == (2, SIDE // 2, SIDE, 3) and sheet.frames[:, 0, 0, 0].tolist() == [2, 3]
    assert sheet.title == "x.mp4: run 0.75, used 2 of 3 frames (and 1 of 1 steps of padding), the first 2 shown"
    assert read_sheet(hub, videos, "a/x.mp4", 9).used.tolist() == [True, False, True]
