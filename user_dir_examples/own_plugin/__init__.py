r"""Your own plugin, with a task and a criterion. fairseq takes one ``--user-dir``, so this one imports skiprnn_plugin.

    fairseq-train --user-dir user_dir_examples/own_plugin --task temporal_order --train-size 12800 --arch skip_gru \
        --criterion label_smoothed_cross_entropy_with_budget --label-smoothing 0.05 --cost-per-sample 1e-3 \
        --optimizer adam --lr 2e-3 --clip-norm 1.0 --batch-size 64 --max-update 600 --cpu --num-workers 0 \
        --save-dir runs/order
"""

import skiprnn_plugin  # noqa: F401  (the tasks, models and criterions)

from . import label_smoothed_cross_entropy_with_budget, temporal_order  # noqa: F401  (importing them registers them)
