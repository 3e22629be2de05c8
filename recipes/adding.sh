#!/usr/bin/env bash
# The paper's table of the adding task: its settings, four seeds, every row or those named.
#
#   bash recipes/adding.sh [ROW...]        rows: python -m skiprnn_plugin.cli.tables adding
#
# SEEDS (default "1 2 3 4"), MAX_UPDATE (default 60000), JOBS (runs at a time; default: one per core) and RUNS (where to
# put them; default: runs) can be set in the environment.
# Rows that update at every step end once solved, the others at MAX_UPDATE: the fraction of samples used goes on
# falling after the task is solved, and some rows never solve it. Started again, it goes on where it was stopped.
# The reference engine needs about an hour for 60,000 updates on one core.
set -euo pipefail
source "$(dirname "$0")/setup.sh"

seeds=${SEEDS:-1 2 3 4}
max_update=${MAX_UPDATE:-60000}
jobs=${JOBS:-$(nproc)}
folder=${RUNS:-runs}/adding
for setting in "MAX_UPDATE $max_update" "JOBS $jobs"; do
    if ! [[ ${setting#* } =~ ^[1-9][0-9]*$ ]]; then
        echo "error: ${setting% *}: expected a whole number of at least 1, got '${setting#* }'" >&2
        exit 2
    fi
done
rows=$(python -m skiprnn_plugin.cli.tables adding "$@")

train() { # ROW SEED FLAG...
    local run=$folder/$1/seed$2
    local finished=$run/finished-$max_update
    if [ ! -e "$finished" ]; then
        mkdir -p "$run"
        # One thread each; the run's whole log in its folder, its validations on the screen.
        OMP_NUM_THREADS=1 fairseq-train --user-dir skiprnn_plugin --cpu \
            --task adding --gru-reset before --seed "$2" "${@:3}" \
            --criterion mse_with_budget \
            --optimizer adam --lr 1e-4 --adam-eps 1e-8 --clip-norm 1.0 \
            --batch-size 256 --max-update "$max_update" --num-workers 0 \
            --save-dir "$run" --no-epoch-checkpoints --save-interval 10 --validate-interval 10 \
            --log-format json --log-interval 100 2>&1 | tee -a "$run/train.log" |
            sed -nu "s/.* | valid | .*\"valid_mse\": \"\([^\"]*\)\".*\"valid_update_fraction\": \"\([^\"]*\)\".*\
\"valid_num_updates\": \"\([^\"]*\)\".*/$1 seed $2, update \3: MSE \1, fraction used \2/p"
        touch "$finished"
    fi
}

set -m # a process group for each run, so that stopping the recipe stops them
trap 'for group in $(jobs -p); do kill -- "-$group" 2>/dev/null || true; done' EXIT
trap 'exit 130' INT TERM

runs=()
while IFS=$'\t' read -r row flags; do
    if [[ $flags == *"--arch full_"* ]]; then
        flags+=" --stop-update-fraction 1"
    fi
    for seed in $seeds; do
        runs+=("$folder/$row/seed$seed")
        while (($(jobs -rp | wc -l) >= jobs)); do
            wait -n || true # a failure shows below
        done
        # shellcheck disable=SC2086  # flags are words
        train "$row" "$seed" $flags </dev/null &
    done
done <<<"$rows"
wait

for run in "${runs[@]}"; do
    if [ ! -e "$run/finished-$max_update" ]; then
        echo "error: a run failed; see the end of $run/train.log" >&2
        exit 1
    fi
done
skiprnn-report "${runs[@]}" --table adding
