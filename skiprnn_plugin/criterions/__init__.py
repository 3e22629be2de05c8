"""fairseq criterions, one file per criterion; importing this package registers them."""

from .._fairseq import required  # noqa: F401  (imports fairseq, which registers the plugin, before the modules below)

# isort: split
from . import binary_cross_entropy_with_budget, cross_entropy_with_budget, mse_with_budget, with_budget  # noqa: F401
