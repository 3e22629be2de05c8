#!/usr/bin/env bash
# Reproduce the paper's two tables of frequency discrimination, sampled every 1 ms and every 0.5 ms: its settings, four
# seeds, every row or the rows that you name.
#
#   bash recipes/frequency.sh [ROW...]             rows: python -m skiprnn_plugin.cli.tables frequency-1ms
#   bash recipes/frequency.sh --quick [ROW...]     minutes, with other settings than the paper's
#
# You can set in the environment: SAMPLING_PERIODS (default "1 0.5"), SEEDS (default "1 2 3 4"), MAX_UPDATE (training
# updates; default 60000), JOBS (runs at a time; default: one per core) and RUNS (the folder of the runs; default:
# runs). Rows that update at every step end when the task is solved, the others at MAX_UPDATE: the number of samples
# used keeps falling after the task is solved. Run the recipe again to resume: it skips finished runs and continues the
# others from their last checkpoint (one every 3,000 training updates).
# A run takes several times as long as one of adding.sh: its sequences are twice as long, or four times at 0.5 ms.
#
# --quick trains a Skip GRU (lambda=1e-4) on waves sampled every 1 ms, with one seed, for 1,600 training updates
# (MAX_UPDATE), and draws which samples it used. Its settings are NOT the paper's: the learning rate starts ten times
# higher and falls to 0, and a batch has 64 sequences, not 256. Expect accuracy 0.998 with 45 of the 100 samples, in
# half a minute.
set -euo pipefail
source "$(dirname "$0")/table.sh"

read_arguments 0 "$@"

options=(--task frequency_discrimination --criterion cross_entropy_with_budget)
full_options=(--stop-update-fraction 1)
metric="accuracy accuracy"
folder=frequency
if $quick; then
    SEEDS=${SEEDS:-1}
    SAMPLING_PERIODS=${SAMPLING_PERIODS:-1}
    read_settings 1600
    folder=frequency-quick
    options+=(--lr 1e-3 --lr-scheduler polynomial_decay --total-num-update "$max_update" --batch-size 64)
    options+=(--train-size 12800 --validate-interval 1 --save-interval 1)
    if [ ${#rows[@]} = 0 ]; then
        rows=(skip-gru-1e-4)
    fi
else
    read_settings 60000
fi
periods=${SAMPLING_PERIODS:-1 0.5}
for period in $periods; do
    if [ "$period" != 1 ] && [ "$period" != 0.5 ]; then
        echo "error: SAMPLING_PERIODS: expected 1, 0.5 or both, got '$periods'" >&2
        exit 2
    fi
done

common=("${options[@]}")
for period in $periods; do
    options=("${common[@]}" --sampling-period "$period")
    start "frequency-${period}ms" "$folder-${period}ms" "$period ms, " "${rows[@]}"
done
finish
for period in $periods; do
    report "frequency-${period}ms"
done
if $quick; then
    for run in "${first_runs[@]}"; do
        skiprnn-plot samples "$run/checkpoint_last.pt" --output "$run/samples.png"
    done
fi
