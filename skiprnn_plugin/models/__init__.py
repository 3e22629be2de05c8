"""fairseq models; importing them registers them."""

from .._fairseq import required  # noqa: F401  (imports fairseq, which registers the plugin, before the modules below)
from . import ctc, s2t, seq2seq, skip_rnn, text  # noqa: F401
