#!/usr/bin/env bash
# Train a Skip GRU on the adding task until it is solved with at most 75% of the samples, evaluate it on held-out
# sequences and draw which samples it used.
#
#   bash recipes/quickstart.sh [MAX_UPDATE]
#
# MAX_UPDATE (default 6000; can be set in the environment too) is the most training updates that it takes; 2,700 were
# enough when we tried it. Results go to runs/quickstart in the project's folder (RUNS names another folder than runs).
# If it is interrupted, run it again to resume from its last checkpoint (one every 300 training updates).
#
# The settings are the paper's (recipes/adding.sh has them all), except for a ten times higher learning rate, which
# solves the task in thousands of training updates instead of tens of thousands.
set -euo pipefail
source "$(dirname "$0")/check.sh"

max_update=${1:-${MAX_UPDATE:-6000}}
check_count MAX_UPDATE "$max_update"
source "$(dirname "$0")/setup.sh"
source recipes/jobs.sh
run=${RUNS:-runs}/quickstart
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} # the model is so small that a second thread helps little

train() {
    if is_trained "$run" "$max_update"; then
        touch "$run/finished-$max_update"
        return
    fi
    mkdir -p "$run"
    # The whole log goes to the folder, and a line for each validation to the screen.
    logged "$run/train.log" fairseq-train --user-dir skiprnn_plugin --cpu \
        --task adding --stop-update-fraction 0.75 \
        --arch skip_gru --gru-reset before \
        --criterion mse_with_budget --cost-per-sample 1e-5 \
        --optimizer adam --lr 1e-3 --adam-eps 1e-8 --clip-norm 1.0 \
        --batch-size 256 --max-update "$max_update" --seed 1 --num-workers 0 \
        --save-dir "$run" --no-epoch-checkpoints --log-format json --log-interval 100 | (
        trap '' INT TERM
        number='"\([^"]*\)"'
        logged="\"valid_mse\": $number.*\"valid_update_fraction\": $number.*\"valid_num_updates\": $number"
        exec sed -nu "s/.* | valid | .*$logged.*/training update \3: MSE \1, fraction of the samples used \2/p"
    )
    touch "$run/finished-$max_update"
}

if [ ! -e "$run/finished-$max_update" ]; then
    background train >&2
    wait_for_runs
fi
if [ ! -e "$run/finished-$max_update" ]; then
    echo "error: training failed or was stopped; see the end of $run/train.log" >&2
    exit 1
fi
skiprnn-report "$run"
skiprnn-plot samples "$run/checkpoint_last.pt" --output "$run/samples.png"
echo "Which samples it used: $run/samples.png"
