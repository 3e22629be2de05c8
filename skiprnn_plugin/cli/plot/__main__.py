"""``python -m skiprnn_plugin.cli.plot``: as the command ``skiprnn-plot``."""

import sys

from . import main

sys.exit(main())
