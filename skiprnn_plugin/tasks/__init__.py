"""fairseq tasks, one file each; importing them registers them."""

import fairseq  # noqa: F401  (registers the plugin, before a module of this package is half imported)

from . import adding, feature_classification, frequency_discrimination, imdb_sentiment, sequential_mnist  # noqa: F401
