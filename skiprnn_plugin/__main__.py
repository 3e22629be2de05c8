"""``python -m skiprnn_plugin`` prints the installed package's folder, for ``--user-dir``."""

from pathlib import Path

print(Path(__file__).parent)
