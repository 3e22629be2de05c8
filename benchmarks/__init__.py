"""Times the engines, and other libraries on the same problems: ``python -m benchmarks.run``. Needs torch and tqdm."""
