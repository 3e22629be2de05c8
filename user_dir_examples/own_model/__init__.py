"""A fairseq model of your own that contained an ``nn.LSTM``: what changes for a ``SkipLSTM`` and the budget.

``run.sh`` makes data, trains the model and validates it.
"""

import skiprnn_plugin  # noqa: F401  (new: the criterion with_budget)

from . import lstm_classifier  # noqa: F401  (importing it registers it)
