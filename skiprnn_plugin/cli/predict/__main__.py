"""``python -m skiprnn_plugin.cli.predict``: as the command ``skiprnn-predict``."""

import sys

from . import main

sys.exit(main())
