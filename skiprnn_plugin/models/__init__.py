"""fairseq models; importing them registers them."""

import fairseq  # noqa: F401  (registers the plugin, before a module of this package is half imported)

from . import skip_rnn  # noqa: F401
