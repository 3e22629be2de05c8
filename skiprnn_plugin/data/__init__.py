"""Datasets of prepared data. They need numpy, torch and ``FairseqDataset`` only."""

import fairseq  # noqa: F401  (fairseq registers the plugin here, while no module of this package is half imported)
