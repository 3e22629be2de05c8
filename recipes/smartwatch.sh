#!/usr/bin/env bash
# Recognise seven shoulder exercises in the recordings of a smart watch, sequences of 947 to 2,618 steps. A GRU and an
# LSTM that read every step are compared with Skip GRU and Skip LSTM over lambda, on people that training has not seen.
#
#   bash recipes/smartwatch.sh FILE.npz               four seeds of each
#   bash recipes/smartwatch.sh FILE.npz --quick       a minute: one seed
#
# The recordings (Burns et al., 2018: 140 of 10 people, acceleration and rotation at 50 Hz) come with the package
# seglearn. After pip install seglearn pandas, perhaps in another environment, this writes FILE.npz:
#
#   import numpy as np, seglearn.datasets
#   d = seglearn.datasets.load_watch()
#   np.savez("FILE.npz", values=np.concatenate(d["X"]), lengths=[len(x) for x in d["X"]], labels=d["y"],
#            subject=d["subject"], label_names=d["y_labels"])
#
# Any other file of that form works; skiprnn-prepare features --help describes it. The recipe prepares it once, in
# $RUNS/smartwatch-data: a fifth of the people for validation (split valid), a fifth for the table (split test). Another
# file needs another RUNS.
#
# You can set in the environment: CELLS (default "gru lstm"), LAMBDAS (default "0 1e-4 3e-4 1e-3"), SEEDS (default
# "1 2 3 4"), MAX_UPDATE (training updates; default 280, which are 40 epochs), JOBS (runs at a time; default: one per
# core) and RUNS (the folder of the runs; default: runs). Each run is validated and saved every four epochs, and the
# table reports its checkpoint of the best validation accuracy. samples.png of each run with the first seed shows which
# steps of a few recordings it used, and runs/smartwatch/tradeoff.png accuracy against updates. Run the recipe again to
# resume: it skips finished runs and continues the others from their last checkpoint. A run takes ten seconds of CPU
# time.
#
# --quick has one seed, only the GRU, and only lambda 1e-4 and 1e-3. Expect accuracy 0.75 with every step, 0.79 with 32%
# of them and 0.68 with 4%, in 45 seconds of CPU time. The table is of 28 recordings of two people, so one recording
# more or less changes accuracy by 0.036.
set -euo pipefail
source "$(dirname "$0")/table.sh"

read_arguments 1 "$@"
if [ ${#rows[@]} != 0 ]; then
    echo "error: FILE.npz: expected one, got '$data' and '${rows[0]}'" >&2
    exit 2
fi
if [ ! -f "$data" ]; then
    echo "error: FILE.npz: expected a file of recordings, got '$data'" >&2
    exit 2
fi
file=$(absolute "$data") # absolute, as read_settings changes the folder
folder=smartwatch
if $quick; then
    CELLS=${CELLS:-gru}
    SEEDS=${SEEDS:-1}
    LAMBDAS=${LAMBDAS:-1e-4 1e-3}
    folder=smartwatch-quick
fi
read_settings 280
read -ra cells <<<"${CELLS:-gru lstm}"
for cell in "${cells[@]}"; do
    if [ "$cell" != gru ] && [ "$cell" != lstm ]; then
        echo "error: CELLS: expected gru, lstm or both, got '$cell'" >&2
        exit 2
    fi
done
check_distinct CELLS "${cells[@]}"
read -ra lambdas <<<"${LAMBDAS:-0 1e-4 3e-4 1e-3}"
check_numbers LAMBDAS "${lambdas[@]}"

prepare FILE.npz features "$file" smartwatch-data
options=(--task feature_classification --data-dir "$data" --normalize --criterion cross_entropy_with_budget)
options+=(--hidden-size 64 --batch-size 12 --lr 3e-3 --lr-scheduler polynomial_decay --total-num-update "$max_update")
options+=(--validate-interval 4 --save-interval 4)
options+=(--best-checkpoint-metric accuracy --maximize-best-checkpoint-metric)
metric="accuracy accuracy"
python -m skiprnn_plugin.cli.check_data "${options[@]}" --valid-subset valid,test >&2
for cell in "${cells[@]}"; do
    launch "" "$folder/full_$cell" "full_$cell" "${options[@]}" --arch "full_$cell"
    for lambda in "${lambdas[@]}"; do
        name=skip_$cell-$lambda
        launch "" "$folder/$name" "$name" "${options[@]}" --arch "skip_$cell" --cost-per-sample "$lambda"
    done
done
finish
for run in "${first_runs[@]}"; do
    skiprnn-plot samples "$run/checkpoint_best.pt" --split test --output "$run/samples.png" --set "data_dir=$data"
done
skiprnn-plot tradeoff "${runs[@]/%//checkpoint_best.pt}" --split test --output "${RUNS:-runs}/$folder/tradeoff.png" \
    --set "data_dir=$data"
echo "Drawn: ${RUNS:-runs}/$folder/tradeoff.png"
