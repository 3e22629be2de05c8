"""Turns raw data into what a task reads: a corpus into a folder, or one text or video into the steps of a sequence."""

import fairseq  # noqa: F401  (fairseq registers the plugin here, while no module of this package is half imported)
