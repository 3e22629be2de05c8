"""Skip RNN as functions of tensors. torch only.

``skip_scan`` runs a stack over a batch; ``reference.py`` is the specification that every engine is tested against.
"""

from .cells import CELLS, Cell
from .engines import ENGINES
from .random import uniform
from .scan import skip_scan
from .types import Gate, LayerWeights, SkipState

__all__ = ["CELLS", "ENGINES", "Cell", "Gate", "LayerWeights", "SkipState", "skip_scan", "uniform"]
