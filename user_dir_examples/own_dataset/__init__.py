r"""Your own data, sequences of different lengths with one label each, as a fairseq task.

    python user_dir_examples/own_dataset/make_sample_data.py rotations
    fairseq-train --user-dir user_dir_examples/own_dataset --task labelled_folder --data-dir rotations \
        --arch skip_lstm --criterion cross_entropy_with_budget --cost-per-sample 1e-3 \
        --optimizer adam --lr 1e-3 --clip-norm 1.0 --batch-size 32 --max-epoch 12 --cpu --num-workers 0 \
        --save-dir runs/rotations

The trained model tells the two directions of rotation apart with accuracy 0.99 and uses 39% of the samples. To train on
your own data, store them in the form that ``labelled_folder.py`` reads, or change that file.
"""

import skiprnn_plugin  # noqa: F401  (the models and criterions)

from . import labelled_folder  # noqa: F401  (importing it registers it)
