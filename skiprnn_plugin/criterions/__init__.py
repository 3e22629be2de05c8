"""fairseq criterions, one file per criterion; importing this package registers them."""

import fairseq  # noqa: F401  (it registers the plugin; that must be finished before the modules below are imported)

from . import binary_cross_entropy_with_budget, cross_entropy_with_budget, mse_with_budget, with_budget  # noqa: F401
