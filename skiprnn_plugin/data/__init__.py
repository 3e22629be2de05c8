"""Datasets of prepared data. They need numpy, torch and ``FairseqDataset`` only."""

import fairseq  # noqa: F401  (it registers the plugin; that must be finished before this package's modules load)
