"""Skip RNN as ``torch.nn`` modules. torch only: importing this needs no fairseq."""

from ..ops import SkipState
from .skip_rnn import SkipGRU, SkipLSTM

__all__ = ["SkipGRU", "SkipLSTM", "SkipState"]
