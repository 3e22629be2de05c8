"""Turns raw data into what a task reads: a corpus into a folder, or one text or video into the steps of a sequence."""

import fairseq  # noqa: F401  (it registers the plugin; that must be finished before this package's modules load)
