#!/usr/bin/env bash
# Train a Skip GRU on the adding task until it is solved with fewer than 90% of the samples, evaluate it on held-out
# sequences and draw which samples it used.
#
#   bash recipes/quickstart.sh [MAX_UPDATE]
#
# MAX_UPDATE (default 6000) is where training ends at the latest. Results go to runs/quickstart (RUNS names another
# folder than runs). Started again, it goes on from its checkpoint.
#
# Settings are the paper's (recipes/adding.sh has them all) but for a ten times higher learning rate, which gets there
# in about 2,000 updates instead of tens of thousands.
set -euo pipefail

max_update=${1:-6000}
if ! [[ $max_update =~ ^[1-9][0-9]*$ ]]; then
    echo "error: MAX_UPDATE: expected a whole number of at least 1, got '$max_update'" >&2
    exit 2
fi
source "$(dirname "$0")/setup.sh"
run=${RUNS:-runs}/quickstart
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} # the model is so small that a second thread brings little

fairseq-train --user-dir skiprnn_plugin --cpu \
    --task adding --stop-update-fraction 0.75 \
    --arch skip_gru --gru-reset before \
    --criterion mse_with_budget --cost-per-sample 1e-5 \
    --optimizer adam --lr 1e-3 --adam-eps 1e-8 --clip-norm 1.0 \
    --batch-size 256 --max-update "$max_update" --seed 1 --num-workers 0 \
    --save-dir "$run" --no-epoch-checkpoints --log-interval 100

skiprnn-report "$run"
skiprnn-plot samples "$run/checkpoint_last.pt" --output "$run/samples.png"
