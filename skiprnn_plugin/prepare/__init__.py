"""Turns raw data into what a task reads: a corpus into a folder, or one text or video into the steps of a sequence."""

from .._fairseq import required  # noqa: F401  (imports fairseq, which registers the plugin, before the modules below)
