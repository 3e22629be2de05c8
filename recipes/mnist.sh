#!/usr/bin/env bash
# Reproduce the paper's table of sequential MNIST: its settings, four seeds, every row or the rows that you name.
#
#   bash recipes/mnist.sh DATA_DIR [ROW...]             rows: python -m skiprnn_plugin.cli.tables mnist
#   bash recipes/mnist.sh DATA_DIR --fast [ROW...]      the same rows in five epochs, not 600, by another schedule
#   bash recipes/mnist.sh DATA_DIR --quick              a minute, with another model than the paper's
#
# DATA_DIR holds the four files of the MNIST database as LeCun, Cortes and Burges publish them
# (http://yann.lecun.com/exdb/mnist/), compressed by gzip or not: train-images-idx3-ubyte, train-labels-idx1-ubyte,
# t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte.
#
# You can set in the environment: SEEDS (default "1 2 3 4"), MAX_UPDATE (training updates; default 129000, which are 600
# epochs), VALID_SIZE (the number of training images held out for validation; default 5000), JOBS (runs at a time;
# default: one per core) and RUNS (the folder of the runs; default: runs).
# Each run is validated and saved after every epoch. The table reports the test images, with the checkpoint of the best
# validation accuracy (the paper reports after 600 epochs). runs/mnist/accuracy.png shows validation accuracy over the
# epochs, and samples.png of each run with the first seed which pixels of a few digits it used. Run the recipe again to
# resume: it skips finished runs and continues the others from their last checkpoint.
# On one core, a training update takes 0.33 s (GRU) or 0.45 s (LSTM) while all pixels are used, so a run takes at most
# 12 or 16 hours; without AVX-512 a training update of the GRU takes 1.25 s.
#
# --fast trains for five epochs, 8,595 training updates (MAX_UPDATE) on 32 images each, with one seed. The learning rate
# falls from 4e-3 to 0 after 100 training updates of warm-up, lambda rises to its value within 3,000, and the units start
# with memories of up to 100 updates (--chrono-init). The folder of the runs is runs/mnist-fast. A GRU or a Skip GRU takes
# half an hour on one core without AVX-512. Expect accuracy 0.984 on the test images, and 0.978 with 333 of the 784 pixels;
# of an LSTM 0.982, and of a Skip LSTM 0.974 with 361 pixels.
#
# --quick trains a Skip GRU that reads 28 rows of 28 pixels, not 784 pixels, with one seed, for two epochs: 1,720
# training updates (MAX_UPDATE) on 64 images each, with a learning rate that falls from 3e-3 to 0 and lambda 5e-3 per
# row. Expect accuracy 0.979 on the test images with 16.7 of the 28 rows, in a minute (33 seconds of CPU time).
set -euo pipefail
source "$(dirname "$0")/table.sh"

fast=false
arguments=()
for argument in "$@"; do
    if [ "$argument" = --fast ]; then
        fast=true
    else
        arguments+=("$argument")
    fi
done
read_arguments 1 "${arguments[@]}"
if $fast && $quick; then
    echo "error: --fast: expected it without --quick, which trains another model" >&2
    exit 2
fi
if [ ! -d "$data" ]; then
    echo "error: DATA_DIR: expected a folder with the four files of the MNIST database, got '$data'" >&2
    exit 2
fi
if $quick && [ ${#rows[@]} != 0 ]; then
    echo "error: ROW: expected none, as --quick trains another model, got '${rows[0]}'" >&2
    exit 2
fi
data=$(cd -- "$data" && pwd) # absolute, as read_settings changes the folder
valid_size=${VALID_SIZE:-5000}
check_count VALID_SIZE "$valid_size"

options=(--task sequential_mnist --data-dir "$data" --valid-size "$valid_size")
options+=(--criterion cross_entropy_with_budget --validate-interval 1 --save-interval 1)
options+=(--best-checkpoint-metric accuracy --maximize-best-checkpoint-metric)
metric="accuracy accuracy"
folder=mnist
if $fast; then
    SEEDS=${SEEDS:-1}
    read_settings 8595
    folder=mnist-fast
    options+=(--batch-size 32 --chrono-init 100 --cost-warmup-updates 3000)
    options+=(--lr 4e-3 --lr-scheduler polynomial_decay --warmup-updates 100 --total-num-update "$max_update")
elif $quick; then
    SEEDS=${SEEDS:-1}
    read_settings 1720
    folder=mnist-quick
    options+=(--rows --arch skip_gru --cost-per-sample 5e-3 --gru-reset before --batch-size 64)
    options+=(--lr 3e-3 --lr-scheduler polynomial_decay --total-num-update "$max_update")
else
    read_settings 129000
fi
python -m skiprnn_plugin.cli.check_data "${options[@]}" --valid-subset valid,test >&2
if $quick; then
    launch mnist "$folder" "rows, skip-gru" "${options[@]}"
else
    start mnist "$folder" "" "${rows[@]}"
fi
finish
for run in "${first_runs[@]}"; do
    skiprnn-plot samples "$run/checkpoint_best.pt" --split test --num-sequences 12 --output "$run/samples.png" \
        --set "data_dir=$data"
done
if ! $quick; then
    curves mnist "${RUNS:-runs}/$folder/accuracy.png"
fi
report mnist --checkpoint best --set "data_dir=$data"
