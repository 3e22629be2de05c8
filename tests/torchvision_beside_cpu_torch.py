"""Import this before torchvision, to try it where it was built for CUDA and torch was not.

Its import fails there for want of operators of its own, which ResNet-50 does not need. Users are told to install the
torchvision that belongs to their torch.
"""

import torch

try:
    import torchvision  # noqa: F401
except RuntimeError:
    LIBRARY = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        LIBRARY.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
