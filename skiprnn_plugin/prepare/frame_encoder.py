"""Computes the features of video frames: the output of the average pooling of torchvision's ResNet-50."""

import io
import zlib
from itertools import islice
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional

import numpy as np
import torch

from ..arguments import check_size
from ..reading import first_sentence
from .record import RECORD, read_record

NAME = "resnet50"
WIDTH = 2048


class FrameEncoder:
    """ResNet-50 (He et al., 2016) without its last layer, in evaluation mode, with weights from a file.

    Frames are prepared with torchvision's transform for the weights ``ResNet50_Weights.IMAGENET1K_V1``: the shorter
    side is resized to 256 pixels, 224 x 224 pixels are cut from the centre, and these are normalised by ImageNet's mean
    and standard deviation.

    Args:
        weights: the file of a state dict of torchvision's ``resnet50``, as torchvision publishes it; the last layer may
            have any number of classes, or be left out.
        device: "cpu", "cuda" or another of torch's devices.
        batch_size: the number of frames that are encoded at a time.

    Attributes:
        width: the number of features of a frame.
        description: what identifies this encoder in ``prepare.json``.

    Raises:
        ValueError: the file can't be read or holds other weights, or the device does not exist.
        ImportError: torchvision is missing, or was built for another torch.
    """

    width = WIDTH

    def __init__(self, weights: Path, device: str = "cpu", batch_size: int = 32):
        models = _import_models()
        content = _read(weights)
        network = models.resnet50()
        network.fc = torch.nn.Identity()
        _load(network, content, weights)
        try:
            self.network = network.eval().to(device, memory_format=torch.channels_last)  # faster on a CPU
        except (RuntimeError, AssertionError) as error:  # the latter where torch was built without CUDA
            raise ValueError(
                f"device: expected one that torch has here, got {device!r} ({first_sentence(error)})"
            ) from error
        self.transform = models.ResNet50_Weights.IMAGENET1K_V1.transforms()
        self.device = device
        self.batch_size = check_size("batch_size", batch_size)
        self.description: Dict[str, Any] = {
            "encoder": NAME,
            "weights": weights.name,
            "weights_crc32": zlib.crc32(content),
        }

    @torch.inference_mode()
    def encode(self, frames: Iterable[np.ndarray]) -> np.ndarray:
        """The features, float32 [T, width], of frames, each uint8 RGB [H, W, 3]. Raises ValueError for no frames."""
        frames = iter(frames)
        found: List[np.ndarray] = []
        while batch := [self._prepare(frame) for frame in islice(frames, self.batch_size)]:
            images = torch.stack(batch).to(self.device, memory_format=torch.channels_last)
            found.append(self.network(images).cpu().numpy())
        if not found:
            raise ValueError("expected frames, got none")
        return np.concatenate(found)

    def _prepare(self, frame: np.ndarray) -> torch.Tensor:
        """[H, W, 3] -> float32 [3, 224, 224]"""
        return self.transform(torch.from_numpy(frame).permute(2, 0, 1))


def _import_models():
    try:
        from torchvision import models
    except (ImportError, RuntimeError) as error:  # the latter if its operators are missing or built for another torch
        raise ImportError(
            f"the encoder needs the torchvision that was built for torch {torch.__version__}: pip install "
            f"'skiprnn-plugin[video]', from the index that torch came from ({first_sentence(error)})"
        ) from error
    return models


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: can't be read ({error.strerror})") from error


def _load(network: torch.nn.Module, content: bytes, path: Path) -> None:
    """Load the weights into the network. Raises ValueError if they are not those of a ResNet-50."""
    try:
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # a file can be broken in any way
        raise ValueError(f"{path}: can't be read as torch's weights ({first_sentence(error)})") from error
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise ValueError(f"{path}: expected a state dict of torchvision's ResNet-50, got {type(state).__name__}")
    state = {name: value for name, value in state.items() if name not in ("fc.weight", "fc.bias")}
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        reason = " ".join(str(error).split("\n\t", 1)[-1].split())
        raise ValueError(f"{path}: expected the weights of torchvision's ResNet-50 ({reason:.100} ...)") from error
    if not all(value.isfinite().all() for value in network.state_dict().values()):
        raise ValueError(f"{path}: expected finite weights")


DESCRIPTION = {"encoder": str, "weights": str, "weights_crc32": int}  # the types of a FrameEncoder.description
ENCODING = ("frame_rate", "dtype", *DESCRIPTION)  # the keys of an encoding in prepare.json


class Encoding(NamedTuple):
    """How a folder of features was made from videos.

    Attributes:
        frame_rate: the number of frames in a second.
        dtype: the type of the stored numbers.
        encoder: the :attr:`FrameEncoder.description`, with the keys of :data:`DESCRIPTION`.
    """

    frame_rate: float
    dtype: np.dtype
    encoder: Dict[str, Any]


def find_encoding_options(record: Mapping[str, Any]) -> Dict[str, Any]:
    """What a record says about the encoding of videos, for :func:`read_encoding`."""
    return {name: record[name] for name in ENCODING if name in record}


def read_encoding(folder: Path, record: Optional[Mapping[str, Any]] = None) -> Encoding:
    """How a folder was made, from its ``prepare.json``, or from what :func:`find_encoding_options` has found there.

    Raises ValueError if the folder was not made by ``skiprnn-prepare video``.
    """
    try:
        if record is None:
            record = read_record(folder)
        encoder = {name: kind(record[name]) for name, kind in DESCRIPTION.items()}
        return Encoding(float(record["frame_rate"]), np.dtype(str(record["dtype"])), encoder)
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{folder / RECORD}: expected frame_rate, dtype, encoder, weights and weights_crc32, as skiprnn-prepare "
            f"video writes them ({first_sentence(error)})"
        ) from error
