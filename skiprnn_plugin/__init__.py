"""Skip RNN (Campos et al., ICLR 2018) for fairseq: RNNs that learn which elements of a sequence to read.

Importing this package registers its tasks, models and criterions with fairseq, at once if fairseq has been imported
already and as soon as it is otherwise. So ``skiprnn_plugin.modules`` and ``skiprnn_plugin.ops``, which need torch
alone, neither wait for fairseq nor need it to be installed.
"""

from ._fairseq.registration import when_imported
from .version import __version__  # noqa: F401


def _register():
    from . import criterions, models, tasks  # noqa: F401  (importing them is what registers)
    from ._fairseq import patches

    patches.apply()


when_imported("fairseq", _register)
