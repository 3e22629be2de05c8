#!/usr/bin/env bash
# Reproduce the paper's table of Charades (what happens in videos, and when): its settings, every row or the rows that
# you name.
#
#   bash recipes/charades.sh DATA_DIR [ROW...]          rows: python -m skiprnn_plugin.cli.tables charades
#   bash recipes/charades.sh DATA_DIR --quick [ROW...]  minutes, with other settings than the paper's
#
# DATA_DIR is a folder that skiprnn-prepare features made from the videos' fc7 features: 4,096 numbers for each frame, 6
# frames in a second, by the RGB stream of the two-stream network. These features and the annotations are published at
# https://prior.allenai.org/projects/charades. The table reports the split valid, which is the official test set.
#
# You can set in the environment: SEEDS (default 1), MAX_UPDATE (training updates; default 3200, which are 100 epochs;
# the paper does not say how many), JOBS (runs at a time; default: one per core) and RUNS (the folder of the runs;
# default: runs).
# Each run is validated and saved after every epoch. The table reports the checkpoint with the best mAP, the mean
# average precision at 100 points of each video; it is chosen on the same videos, as there are no others. The spread of
# updates is over the videos. FLOPs include those of VGG-16 for the frames that are used. runs/charades/mAP.png shows
# mAP over the epochs, and samples.png of each run with the first seed which frames of a few videos it used. Run the
# recipe again to resume: it skips finished runs and continues the others from their last checkpoint.
# While all frames are used, a training update on 256 videos takes 7 s (GRU) or 8 s (LSTM) of CPU time on one AMD EPYC
# core, and 3.6 GB of memory; a run with its validations takes 6 to 8 hours. Each epoch reads the features, 23 GB in
# float32.
#
# --quick trains a Skip GRU (lambda=1e-3, one layer of 64 units) with one seed for 2 epochs: 500 training updates
# (MAX_UPDATE) on 32 videos each, with a learning rate that falls from 1e-3 to 0. While all frames are used, a training
# update takes 0.3 s and a run 3 minutes and 1 GB of memory.
#
# To try it without Charades, on 40 made-up videos:
#
#   python -m tests.made_up_charades made
#   skiprnn-prepare features made/rgb data --annotations made/train.csv made/test.csv --classes made/classes.txt
#
# On these videos, --quick takes 3 minutes of CPU time, most of it to validate and save after each training update, and
# ends with mAP 7.94% (chance: 3.2%) from 11.2 of 167 frames: 20 videos are few to learn 157 classes from.
set -euo pipefail
source "$(dirname "$0")/videos.sh"

read_arguments 1 "$@"
options=(--task feature_localization --eval-points 100 --encoder-flops 1.53e10)
options+=(--criterion binary_cross_entropy_with_budget)
paper_options=(--hidden-size 256 --num-layers 2)
quick_options=(--hidden-size 64 --batch-size 32)
metric="mAP mAP"
train_videos charades 3200 500 skip-gru-1e-3
