"""fairseq tasks, one file each; importing them registers them."""

from .._fairseq import required  # noqa: F401  (imports fairseq, which registers the plugin, before the modules below)
from . import (  # noqa: F401
    adding,
    feature_classification,
    feature_localization,
    feature_regression,
    frequency_discrimination,
    imdb_sentiment,
    sequential_mnist,
)
