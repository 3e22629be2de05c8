"""fairseq models; importing them registers them."""

from . import skip_rnn  # noqa: F401
