"""fairseq models; importing them registers them."""

import fairseq  # noqa: F401  (it registers the plugin; that must be finished before the modules below are imported)

from . import ctc, s2t, seq2seq, skip_rnn, text  # noqa: F401
