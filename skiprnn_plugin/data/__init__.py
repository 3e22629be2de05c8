"""Datasets: numpy, torch and ``FairseqDataset`` only."""

import fairseq  # noqa: F401  (registers the plugin, before a module of this package is half imported)
