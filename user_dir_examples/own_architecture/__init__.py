r"""Your own architectures: other defaults for the model ``skip_rnn``, and a model that builds on ``SkipLSTM``.

    fairseq-train --user-dir user_dir_examples/own_architecture --arch conv_skip_lstm --channels 32 --stride 4 \
        --task frequency_discrimination --train-size 12800 \
        --criterion cross_entropy_with_budget --cost-per-sample 1e-4 \
        --optimizer adam --lr 1e-3 --clip-norm 1.0 --batch-size 64 --max-update 600 --cpu --num-workers 0 \
        --save-dir runs/conv

The other architecture is ``--arch skip_lstm_deep``, without ``--channels`` and ``--stride``.
"""

import skiprnn_plugin  # noqa: F401  (the tasks, models and criterions)

from . import conv_skip_lstm, skip_lstm_deep  # noqa: F401  (importing them registers them)
