"""How long the engines take, and what others take for the same: ``python -m benchmarks.run``. Needs torch and tqdm."""
