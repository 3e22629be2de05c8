#!/usr/bin/env bash
# The paper's table of UCF-101, videos with one label each: its settings, every row or those named.
#
#   bash recipes/ucf101.sh DATA_DIR [ROW...]            rows: python -m skiprnn_plugin.cli.tables ucf101
#   bash recipes/ucf101.sh DATA_DIR --quick [ROW...]    minutes, with other settings than the paper's
#
# DATA_DIR is what this makes of the videos and lists of https://www.crcv.ucf.edu/data/UCF101.php:
#
#   skiprnn-prepare video UCF-101 DATA_DIR --splits ucfTrainTestlist --weights resnet50-0676ba61.pth
#
# 25 frames in a second, and of each what ResNet-50, trained on ImageNet, has after its average pooling (2,048 numbers).
# Its splits train and valid, which the table is of, are the lists trainlist01 and testlist01. One core makes about 16
# frames in a second, of 2.4 million; --device cuda does it on a GPU.
#
# SEEDS (default 1), MAX_UPDATE (default 11400: 300 epochs), JOBS (runs at a time; default: one per core) and RUNS
# (where to put them; default: runs) can be set in the environment.
# The first 250 frames are read; empty ones, which are steps too, fill shorter videos up. Each run is validated and
# saved after every epoch. The table is of each run's checkpoint of the best accuracy, on the same videos: there are no
# others. FLOPs include ResNet-50's for the frames that are used. Accuracy over the epochs goes to
# runs/ucf101/accuracy.png, and which frames of a few videos a run with the first seed used to its samples.png. Started
# again, the recipe leaves finished runs alone and goes on with the others from their last checkpoint.
# On one core an update takes about 38 s (GRU) or 51 s (LSTM) while all frames are used, a run thus 5 or 7 days at most.
#
# --quick trains Skip GRU, lambda=1e-4, of one layer of 128 units, on 50 frames, with one seed, for 2 epochs: 600
# updates (MAX_UPDATE) of 32 videos, with a learning rate that falls from 1e-3 to 0.
set -euo pipefail
source "$(dirname "$0")/table.sh"

read_arguments "$@"
check_features "$data"
data=$(cd -- "$data" && pwd) # before the folder is left

options=(--task feature_classification --data-dir "$data" --padding data --encoder-flops 3.8e9)
options+=(--criterion cross_entropy_with_budget --validate-interval 1 --save-interval 1)
options+=(--best-checkpoint-metric accuracy --maximize-best-checkpoint-metric)
metric="accuracy accuracy"
folder=ucf101
SEEDS=${SEEDS:-1}
if $quick; then
    read_settings 600
    folder=ucf101-quick
    options+=(--sequence-length 50 --hidden-size 128 --batch-size 32 --lr 1e-3 --lr-scheduler polynomial_decay)
    options+=(--total-num-update "$max_update")
    if [ ${#rows[@]} = 0 ]; then
        rows=(skip-gru-1e-4)
    fi
else
    read_settings 11400
    options+=(--sequence-length 250 --hidden-size 512 --num-layers 2)
fi
python -m skiprnn_plugin.cli.check_data "${options[@]}" >&2
start ucf101 "$folder" "" "${rows[@]}"
finish
for run in "${first_runs[@]}"; do
    skiprnn-plot samples "$run/checkpoint_best.pt" --output "$run/samples.png" --set "data_dir=$data"
done
curves ucf101 "${RUNS:-runs}/$folder/accuracy.png"
report ucf101 --checkpoint best --set "data_dir=$data"
