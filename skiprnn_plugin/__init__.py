"""Skip RNN (Campos et al., ICLR 2018) for fairseq: RNNs that learn which elements of a sequence to read.

``SkipLSTM``, ``SkipGRU`` and ``skip_scan`` need only torch, and are imported when they are first used; so are
``SkipRNNClassifier`` and ``SkipRNNRegressor``, which need fairseq.

Importing this package registers its tasks, models and criterions with fairseq: at once if fairseq has been imported
already, otherwise as soon as it is. So ``skiprnn_plugin.modules`` and ``skiprnn_plugin.ops``, which need only torch,
neither wait for fairseq nor need it to be installed.
"""

import importlib
from typing import TYPE_CHECKING

from ._fairseq.registration import when_imported
from .version import __version__

if TYPE_CHECKING:
    from .estimators import SkipRNNClassifier, SkipRNNRegressor
    from .modules import SkipGRU, SkipLSTM
    from .ops import skip_scan

__all__ = ["SkipGRU", "SkipLSTM", "SkipRNNClassifier", "SkipRNNRegressor", "__version__", "skip_scan"]

# name -> the module that defines it
_SHOWN = {
    "SkipGRU": ".modules",
    "SkipLSTM": ".modules",
    "SkipRNNClassifier": ".estimators",
    "SkipRNNRegressor": ".estimators",
    "skip_scan": ".ops",
}


def __getattr__(name):
    if name not in _SHOWN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_SHOWN[name], __name__), name)
    return value


def __dir__():
    return sorted({*globals(), *_SHOWN})


def _register():
    from . import criterions, models, tasks  # noqa: F401  (importing them is what registers)
    from ._fairseq import patches

    patches.apply()


when_imported("fairseq", _register)
