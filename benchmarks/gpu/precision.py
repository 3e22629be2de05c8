"""Precisions of products, and how far rounding may lead."""

from typing import NamedTuple

import torch


class Precision(NamedTuple):
    """A dtype, and what torch may do with float32.

    Attributes:
        dtype: of x and the weights.
        matmul: torch's float32 matmul precision.
        output: the largest error of a result, |result - expected| / |expected|.
        gradient: the same for a gradient.
        margin: rounding may change a decision whose v is closer to the threshold than this.
    """

    dtype: torch.dtype
    matmul: str
    output: float
    gradient: float
    margin: float


PRECISIONS = {
    "float32": Precision(torch.float32, "highest", 1e-5, 1e-4, 1e-5),
    "tf32": Precision(torch.float32, "high", 5e-3, 3e-2, 3e-3),
    "bfloat16": Precision(torch.bfloat16, "highest", 2e-2, 5e-2, 8e-3),
    "float16": Precision(torch.float16, "highest", 3e-3, 1e-2, 1e-3),
}


def use(precision: str) -> None:
    """Let torch's products and cuDNN's RNNs use tf32 for float32, or not."""
    torch.set_float32_matmul_precision(PRECISIONS[precision].matmul)
    torch.backends.cudnn.allow_tf32 = PRECISIONS[precision].matmul != "highest"
