#!/usr/bin/env bash
# The paper's table of sequential MNIST: its settings, four seeds, every row or those named.
#
#   bash recipes/mnist.sh DATA_DIR [ROW...]             rows: python -m skiprnn_plugin.cli.tables mnist
#   bash recipes/mnist.sh DATA_DIR --quick              a minute, with other settings than the paper's
#
# DATA_DIR holds the four files of the MNIST database as LeCun, Cortes and Burges publish them
# (http://yann.lecun.com/exdb/mnist/), compressed by gzip or not: train-images-idx3-ubyte, train-labels-idx1-ubyte,
# t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte.
#
# SEEDS (default "1 2 3 4"), MAX_UPDATE (default 129000: 600 epochs), VALID_SIZE (default 5000: the training images held
# out for validation), JOBS (runs at a time; default: one per core) and RUNS (where to put them; default: runs) can be
# set in the environment.
# Each run is validated and saved after every epoch. The table is of the test images, by each run's checkpoint of the
# best validation accuracy (the paper reports after 600 epochs); beside it, validation accuracy over the epochs goes to
# runs/mnist/accuracy.png, and which pixels of a few digits a run with the first seed used to its samples.png. Started
# again, the recipe leaves finished runs alone and goes on with the others from their last checkpoint.
# On one core an update takes 0.33 s (GRU) or 0.45 s (LSTM) while all pixels are used, a run thus 12 or 16 hours at most;
# without AVX-512 the GRU's takes 1.25 s.
#
# --quick trains a Skip GRU that reads 28 rows of 28 pixels, not 784 pixels, with one seed, for two epochs: 1,720 updates
# (MAX_UPDATE) of 64 images, with a learning rate that falls from 3e-3 to 0 and lambda 5e-3 per row. Expect accuracy
# 0.979 on the test images with 16.7 of the 28 rows, in a minute (33 seconds of CPU time).
set -euo pipefail
source "$(dirname "$0")/table.sh"

read_arguments "$@"
if [ ! -d "$data" ]; then
    echo "error: DATA_DIR: expected a folder with the four files of the MNIST database, got '$data'" >&2
    exit 2
fi
if $quick && [ ${#rows[@]} != 0 ]; then
    echo "error: ROW: --quick has a model of its own, got '${rows[0]}'" >&2
    exit 2
fi
data=$(cd -- "$data" && pwd) # before the folder is left
valid_size=${VALID_SIZE:-5000}
check_count VALID_SIZE "$valid_size"

options=(--task sequential_mnist --data-dir "$data" --valid-size "$valid_size")
options+=(--criterion cross_entropy_with_budget --validate-interval 1 --save-interval 1)
options+=(--best-checkpoint-metric accuracy --maximize-best-checkpoint-metric)
metric="accuracy accuracy"
if $quick; then
    SEEDS=${SEEDS:-1}
    read_settings 1720
    options+=(--rows --arch skip_gru --cost-per-sample 5e-3 --gru-reset before --batch-size 64)
    options+=(--lr 3e-3 --lr-scheduler polynomial_decay --total-num-update "$max_update")
else
    read_settings 129000
fi
python -m skiprnn_plugin.cli.check_data "${options[@]}" --valid-subset valid,test >&2
if $quick; then
    launch mnist mnist-quick "rows, skip-gru" "${options[@]}"
else
    start mnist mnist "" "${rows[@]}"
fi
finish
for run in "${first_runs[@]}"; do
    skiprnn-plot samples "$run/checkpoint_best.pt" --split test --num-sequences 12 --output "$run/samples.png" \
        --set "data_dir=$data"
done
if ! $quick; then
    curves mnist "${RUNS:-runs}/mnist/accuracy.png"
fi
report mnist --checkpoint best --set "data_dir=$data"
