#!/usr/bin/env bash
# Reproduce the paper's table of the adding task: its settings, four seeds, every row or the rows that you name.
#
#   bash recipes/adding.sh [ROW...]        rows: python -m skiprnn_plugin.cli.tables adding
#
# You can set in the environment: SEEDS (default "1 2 3 4"), MAX_UPDATE (training updates; default 60000), JOBS (runs at
# a time; default: one per core) and RUNS (the folder of the runs; default: runs).
# Rows that update at every step end when the task is solved, the others at MAX_UPDATE: the fraction of samples used
# keeps falling after the task is solved, and some rows never solve it. Run the recipe again to resume: it skips
# finished runs and continues the others from their last checkpoint (one every 3,000 training updates).
# docs/results/finished.tsv lists how long runs took: 60,000 training updates 61 to 93 minutes, on a core that also did
# other work.
set -euo pipefail
source "$(dirname "$0")/table.sh"

read_settings 60000
options=(--task adding --criterion mse_with_budget)
full_options=(--stop-update-fraction 1)
metric="mse MSE"
start adding adding "" "$@"
finish
report adding
