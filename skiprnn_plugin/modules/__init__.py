"""Skip RNN as ``torch.nn`` modules. They need only torch, not fairseq."""

from ..ops import SkipState
from .budget import Budget
from .convert import from_authors, from_torch, to_torch
from .skip_rnn import SkipGRU, SkipLSTM, SkipRNN

__all__ = ["Budget", "SkipGRU", "SkipLSTM", "SkipRNN", "SkipState", "from_authors", "from_torch", "to_torch"]
