"""fairseq tasks, one file each; importing them registers them."""

import fairseq  # noqa: F401  (registers the plugin, before a module of this package is half imported)

from . import (  # noqa: F401
    adding,
    feature_classification,
    feature_localization,
    frequency_discrimination,
    imdb_sentiment,
    sequential_mnist,
)
