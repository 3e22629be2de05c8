"""fairseq criterions, one file each; importing them registers them."""

import fairseq  # noqa: F401  (registers the plugin, before a module of this package is half imported)

from . import binary_cross_entropy_with_budget, cross_entropy_with_budget, mse_with_budget, with_budget  # noqa: F401
