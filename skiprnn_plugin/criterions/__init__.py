"""fairseq criterions, one file each; importing them registers them."""

from . import cross_entropy_with_budget, mse_with_budget  # noqa: F401
