#!/usr/bin/env bash
# Reproduce the paper's two tables of sentiment analysis on IMDB, at 200 and at 400 words: its settings, four seeds,
# every row or the rows that you name.
#
#   bash recipes/imdb.sh ACLIMDB [ROW...]              rows: python -m skiprnn_plugin.cli.tables imdb-200
#   bash recipes/imdb.sh ACLIMDB --quick [ROW...]      minutes, with other settings than the paper's
#
# ACLIMDB is the Large Movie Review Dataset of Maas et al. (https://ai.stanford.edu/~amaas/data/sentiment/):
# aclImdb_v1.tar.gz, or the folder aclImdb in it. The recipe prepares it once, in $RUNS/imdb-data.
#
# You can set in the environment: WORD2VEC (a file of word vectors with 300 numbers each, from which training starts;
# GoogleNews-vectors-negative300.bin in the paper; default: none, all words start at random), LENGTHS (default
# "200 400"), SEEDS (default "1 2 3 4"), MAX_UPDATE (training updates; default 4200, which are 50 epochs), JOBS (runs at
# a time; default: one per core) and RUNS (the folder of the runs; default: runs).
# Each run is validated and saved after every epoch. It ends when the accuracy on the validation reviews, 15% of those
# for training, has not risen for 10 epochs. The table reports the test reviews, with the checkpoint of the best
# validation accuracy. samples.html of each run with the first seed shows which words of a few reviews it used, and
# runs/imdb-200/accuracy.png (imdb-400/accuracy.png) validation accuracy over the epochs. Run the recipe again to
# resume: it skips finished runs and continues the others from their last checkpoint. The two checkpoints of a run take
# 210 MB. On one core, a training update at 200 words takes 0.42 s (GRU) or 0.51 s (LSTM), of which 0.08 s are for the
# embedding (most of them for Adam); so a run takes at most 30 or 36 minutes, and twice as long at 400 words.
# The paper does not say at which end a review is cropped or padded. The recipe keeps the end of a review and pads at
# its start, which gave the best accuracy on the validation reviews. Best of three epochs at 200 words, learning rate
# 1e-3, from word vectors, GRU and LSTM: 0.878 and 0.879 this way; 0.878 and 0.867 when the start is kept; 0.878 and
# 0.817 when the start is kept and the end padded.
#
# --quick trains a Skip LSTM (lambda=1e-3) at 200 words, with one seed, for 4 epochs: 336 training updates (MAX_UPDATE)
# with a learning rate that falls from 1e-3 to 0. Expect accuracy 0.820 on the test reviews with 67 of the 200 words,
# without WORD2VEC, in 3 minutes of CPU time.
set -euo pipefail
source "$(dirname "$0")/table.sh"

read_arguments 1 "$@"
reviews=$data
if [ ! -e "$reviews" ]; then
    echo "error: ACLIMDB: expected the folder aclImdb or its .tar.gz, got '$reviews'" >&2
    exit 2
fi
reviews=$(absolute "$reviews") # absolute, as read_settings changes the folder
if [ -n "${WORD2VEC:-}" ]; then
    if [ ! -f "$WORD2VEC" ]; then
        echo "error: WORD2VEC: expected a file of word vectors, got '$WORD2VEC'" >&2
        exit 2
    fi
    WORD2VEC=$(absolute "$WORD2VEC")
fi

settings=(--hidden-size 128 --dropout 0.2 --criterion cross_entropy_with_budget --validate-interval 1 --save-interval 1)
settings+=(--best-checkpoint-metric accuracy --maximize-best-checkpoint-metric)
metric="accuracy accuracy"
folder=imdb
if $quick; then
    SEEDS=${SEEDS:-1}
    LENGTHS=${LENGTHS:-200}
    read_settings 336
    folder=imdb-quick
    settings+=(--lr 1e-3 --lr-scheduler polynomial_decay --total-num-update "$max_update")
    if [ ${#rows[@]} = 0 ]; then
        rows=(skip-lstm-1e-3)
    fi
else
    read_settings 4200
    settings+=(--patience 10)
fi
read -ra lengths <<<"${LENGTHS:-200 400}"
check_distinct LENGTHS "${lengths[@]}"
for length in "${lengths[@]}"; do
    if [ "$length" != 200 ] && [ "$length" != 400 ]; then
        echo "error: LENGTHS: expected 200, 400 or both, got '$LENGTHS'" >&2
        exit 2
    fi
done

list_rows imdb-200 "${rows[@]}" >/dev/null # checks the rows before the long work; imdb-400 has the same rows

prepare ACLIMDB imdb "$reviews" imdb-data
task=(--task imdb_sentiment --data-dir "$data")
if [ -n "${WORD2VEC:-}" ]; then
    task+=(--embedding-path "$WORD2VEC")
fi
python -m skiprnn_plugin.cli.check_data "${task[@]}" --valid-subset valid,test >&2
for length in "${lengths[@]}"; do
    options=("${task[@]}" --sequence-length "$length" "${settings[@]}")
    start "imdb-$length" "$folder-$length" "$length words, " "${rows[@]}"
done
finish
for run in "${first_runs[@]}"; do
    skiprnn-plot samples "$run/checkpoint_best.pt" --split test --output "$run/samples.html" --set "data_dir=$data"
done
for length in "${lengths[@]}"; do
    curves "imdb-$length" "${RUNS:-runs}/$folder-$length/accuracy.png"
    report "imdb-$length" --checkpoint best --set "data_dir=$data"
done
