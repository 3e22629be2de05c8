#!/usr/bin/env bash
# Reproduce the paper's table of UCF-101, videos with one label each: its settings, every row or the rows that you name.
#
#   bash recipes/ucf101.sh DATA_DIR [ROW...]            rows: python -m skiprnn_plugin.cli.tables ucf101
#   bash recipes/ucf101.sh DATA_DIR --quick [ROW...]    minutes, with other settings than the paper's
#
# DATA_DIR is the folder that this makes from the videos and lists of https://www.crcv.ucf.edu/data/UCF101.php:
#
#   skiprnn-prepare video UCF-101 DATA_DIR --splits ucfTrainTestlist --weights resnet50-0676ba61.pth
#
# A second of video has 25 frames, and the features of a frame are the 2,048 numbers after the average pooling of a
# ResNet-50 that was trained on ImageNet. The split train is the list trainlist01, and the split valid, which the table
# reports, is testlist01. One core encodes about 16 of the 2.4 million frames in a second; --device cuda uses a GPU.
#
# You can set in the environment: SEEDS (default 1), MAX_UPDATE (training updates; default 11400, which are 300 epochs),
# JOBS (runs at a time; default: one per core) and RUNS (the folder of the runs; default: runs).
# The models read the first 250 frames; shorter videos are padded with zeros, which are steps like any other. Each run
# is validated and saved after every epoch. The table reports the checkpoint with the best accuracy, which is chosen on
# the same videos, as there are no others. FLOPs include those of ResNet-50 for the frames that are used.
# runs/ucf101/accuracy.png shows accuracy over the epochs, and samples.png of each run with the first seed which frames
# of a few videos it used. Run the recipe again to resume: it skips finished runs and continues the others from their
# last checkpoint.
# On one core, a training update takes about 38 s (GRU) or 51 s (LSTM) while all frames are used, so a run takes at most
# 5 or 7 days.
#
# --quick trains a Skip GRU (lambda=1e-4, one layer of 128 units) on 50 frames, with one seed, for 2 epochs: 600
# training updates (MAX_UPDATE) on 32 videos each, with a learning rate that falls from 1e-3 to 0.
set -euo pipefail
source "$(dirname "$0")/videos.sh"

read_arguments 1 "$@"
options=(--task feature_classification --padding data --encoder-flops 3.8e9 --criterion cross_entropy_with_budget)
paper_options=(--sequence-length 250 --hidden-size 512 --num-layers 2)
quick_options=(--sequence-length 50 --hidden-size 128 --batch-size 32)
metric="accuracy accuracy"
train_videos ucf101 11400 600 skip-gru-1e-4
