"""``python -m skiprnn_plugin.cli.prepare``: as the command ``skiprnn-prepare``."""

import sys

from . import main

sys.exit(main())
