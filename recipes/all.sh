#!/usr/bin/env bash
# Reproduce the paper's tables, except UCF-101 and Charades: train every row with every seed that the results lack,
# cheapest first, one run on each core. Stop it at any moment and start it again: it resumes.
#
#   bash recipes/all.sh [--until HOURS] [--jobs N] [--mnist DATA_DIR] [--imdb ACLIMDB] [--results DIR] [OPTION...]
#   bash recipes/all.sh --plan [OPTION...]          only print what it would train, and for how long
#
# --until HOURS     stop after this many hours; runs that have not finished are saved, and resumed the next time
# --jobs N          number of runs at a time (default: one per core)
# --seeds N...      seeds of every row (default: 1 2 3 4)
# --only TABLE...   only these tables: adding, frequency-1ms, frequency-0.5ms, imdb-200, imdb-400, mnist
# --rows ROW...     only these rows (python -m skiprnn_plugin.cli.tables TABLE prints them)
# --max-update N    training updates of a run (default: those of the recipe). Runs in the results that had fewer training
#                   updates are continued if their checkpoints still exist; otherwise they start again from the beginning
# --mnist DATA_DIR, --imdb ACLIMDB, --word2vec FILE
#                   data of these tables, as mnist.sh and imdb.sh describe them; tables whose data are not given are
#                   left out
# --results DIR     where the results are kept (default: docs/results, which has those of this project; name a new
#                   folder to reproduce everything yourself)
#
# The runs are in $RUNS (default: runs), a run's output in $RUNS/all/. When a run has finished, its numbers are added to
# DIR/TABLE.json (and DIR/best/TABLE.json: the checkpoint of the best validation loss, beside the last one), a line with
# its time to DIR/finished.tsv, and the tables are written to DIR/tables.md or, for docs/results, into docs/results.md.
# Everything with four seeds takes about five weeks on two cores, most of it MNIST at the paper's learning rate; --plan
# estimates it table by table.
set -euo pipefail
caller=$PWD
# shellcheck disable=SC1091
source "$(dirname "$0")/check.sh"
# shellcheck disable=SC1091
source "$(dirname "$0")/setup.sh"
exec python -m recipes.all_runs --relative-to "$caller" "$@"
