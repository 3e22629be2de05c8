"""Features of frames equal those of torchvision's network; wrong weights are refused."""

import json
import zlib

import numpy as np
import pytest
import torch

from skiprnn_plugin.prepare.frame_encoder import Encoding, FrameEncoder, read_encoding

from ..command_line import ROOT
from ..forked import run_forked
from ..tiny_videos import image

FRAMES = [image(0), image(40)[:, :40], np.random.default_rng(0).integers(0, 256, (300, 500, 3), dtype=np.uint8)]


@pytest.fixture(scope="module")
def expected(resnet50_weights):
    """The output of the pooling of torchvision's network, frame by frame."""
    from torchvision import models

    network = models.resnet50()
    network.load_state_dict(torch.load(resnet50_weights, weights_only=True))
    found = []
    network.avgpool.register_forward_hook(lambda module, arguments, output: found.append(output.flatten().numpy()))
    transform = models.ResNet50_Weights.IMAGENET1K_V1.transforms()
    with torch.no_grad():
        for frame in FRAMES:
            network.eval()(transform(torch.from_numpy(frame).permute(2, 0, 1))[None])
    return np.stack(found)


@pytest.mark.parametrize("batch_size", [1, 2, 3, 32])
def test_features_are_torchvisions(resnet50_weights, expected, batch_size):
    encoder = FrameEncoder(resnet50_weights, batch_size=batch_size)
    features = encoder.encode(iter(FRAMES))
    assert features.shape == (3, encoder.width) == (3, 2048) and features.dtype == np.float32
    np.testing.assert_allclose(features, expected, rtol=1e-4, atol=1e-4)
    crc32 = zlib.crc32(resnet50_weights.read_bytes())
    assert encoder.description == {"encoder": "resnet50", "weights": "resnet50.pth", "weights_crc32": crc32}
    with pytest.raises(ValueError, match="expected frames, got none"):
        encoder.encode([])


def test_the_last_layer_does_not_matter(resnet50_weights, expected, tmp_path):
    state = torch.load(resnet50_weights, weights_only=True)
    del state["fc.bias"]
    state["fc.weight"] = torch.zeros(5, 2048)
    torch.save(state, tmp_path / "other.pth")
    features = FrameEncoder(tmp_path / "other.pth").encode(FRAMES[:1])
    np.testing.assert_allclose(features, expected[:1], rtol=1e-4, atol=1e-4)


def of_another_net(state):
    from torchvision import models

    return models.resnet18().state_dict()


@pytest.mark.parametrize(
    "change, message",
    [
        (of_another_net, r"expected the weights of torchvision's ResNet-50 \(Missing key\(s\) in state_dict: "),
        (
            lambda state: {**state, "conv1.weight": torch.zeros(64, 1, 7, 7)},
            r"ResNet-50 \(size mismatch for conv1.weight",
        ),
        (lambda state: {**state, "bn1.bias": torch.full([64], float("nan"))}, "expected finite weights"),
        (list, "expected a state dict of torchvision's ResNet-50, got list"),
        (lambda state: {"model": state}, "expected a state dict of torchvision's ResNet-50, got dict"),
        (lambda state: state["fc.weight"].data_ptr, "can't be read as torch's weights"),
    ],
)
def test_other_weights(resnet50_weights, tmp_path, change, message):
    torch.save(change(torch.load(resnet50_weights, weights_only=True)), tmp_path / "w.pth")
    with pytest.raises(ValueError, match=f"^{tmp_path}/w.pth: .*{message}") as error:
        FrameEncoder(tmp_path / "w.pth")
    assert "\n" not in str(error.value) and len(str(error.value)) < 400


@pytest.mark.parametrize("kept", [0, 0.3, 0.999])
def test_files_that_are_cut_off(resnet50_weights, tmp_path, kept):
    content = resnet50_weights.read_bytes()
    (tmp_path / "w.pth").write_bytes(content[: round(kept * len(content))])
    with pytest.raises(ValueError, match=f"^{tmp_path}/w.pth: can't be read as torch's weights"):
        FrameEncoder(tmp_path / "w.pth")


def test_wrong_arguments(resnet50_weights, tmp_path):
    with pytest.raises(ValueError, match=f"^{tmp_path}/no.pth: can't be read .No such file"):
        FrameEncoder(tmp_path / "no.pth")
    with pytest.raises(ValueError, match="batch_size: expected an integer of at least 1, got 0"):
        FrameEncoder(resnet50_weights, batch_size=0)
    for device in ("abacus", "cuda:99"):
        with pytest.raises(ValueError, match=f"device: expected one that torch has here, got '{device}'"):
            FrameEncoder(resnet50_weights, device)


def test_torchvision_is_needed_when_an_encoder_is_made(tmp_path):
    """torchvision may also be built for another torch."""
    (tmp_path / "torchvision.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    code = """
import sys
from pathlib import Path
from skiprnn_plugin.prepare.frame_encoder import FrameEncoder
assert "torchvision" not in sys.modules
try:
    FrameEncoder(Path("w.pth"))
except ImportError as error:
    print(error)
"""
    process = run_forked("-c", code, PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert process.returncode == 0 and process.stdout.count("\n") == 1, process.stderr
    assert f"needs the torchvision that was built for torch {torch.__version__}: pip install 'ski" in process.stdout


ENCODER = {"encoder": "resnet50", "weights": "w.pth", "weights_crc32": 7}
RECORD = {"frame_rate": 25, "dtype": "float16", **ENCODER, "features": 2048}


def test_the_encoding_of_a_folder(tmp_path):
    (tmp_path / "prepare.json").write_text(json.dumps(RECORD))
    assert read_encoding(tmp_path) == Encoding(25.0, np.dtype(np.float16), ENCODER)


@pytest.mark.parametrize("content", [None, "", "[]", "{", '{"frame_rate": 25}', json.dumps({**RECORD, "dtype": None})])
def test_a_folder_that_was_not_made_from_videos(tmp_path, content):
    if content is not None:
        (tmp_path / "prepare.json").write_text(content)
    with pytest.raises(ValueError, match=f"^{tmp_path}/prepare.json: expected frame_rate, dtype, encoder, weights an"):
        read_encoding(tmp_path)
