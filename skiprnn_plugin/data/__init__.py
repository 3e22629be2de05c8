"""Datasets: numpy, torch and ``FairseqDataset`` only."""
