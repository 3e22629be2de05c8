"""fairseq tasks, one file each; importing them registers them."""

import fairseq  # noqa: F401  (it registers the plugin; that must be finished before the modules below are imported)

from . import (  # noqa: F401
    adding,
    feature_classification,
    feature_localization,
    feature_regression,
    frequency_discrimination,
    imdb_sentiment,
    sequential_mnist,
)
