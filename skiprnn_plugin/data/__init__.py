"""Datasets of prepared data. They need numpy, torch and ``FairseqDataset`` only."""

from .._fairseq import required  # noqa: F401  (imports fairseq, which registers the plugin, before the modules below)
