"""fairseq tasks, one file each; importing them registers them."""

from . import adding  # noqa: F401
