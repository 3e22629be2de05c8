#!/usr/bin/env bash
# The paper's table of the adding task: its settings, four seeds, every row or those named.
#
#   bash recipes/adding.sh [ROW...]        rows: python -m skiprnn_plugin.cli.tables adding
#
# SEEDS (default "1 2 3 4"), MAX_UPDATE (default 60000), JOBS (runs at a time; default: one per core) and RUNS (where to
# put them; default: runs) can be set in the environment.
# Rows that update at every step end once solved, the others at MAX_UPDATE: the fraction of samples used goes on
# falling after the task is solved, and some rows never solve it. Started again, it leaves finished runs alone and goes
# on with the others from their last checkpoint (one every 3,000 updates).
# A run of 60,000 updates takes about 25 minutes of CPU time (Skip GRU, lambda=1e-5, with the native engine).
set -euo pipefail
source "$(dirname "$0")/table.sh"

read_settings 60000
options=(--task adding --criterion mse_with_budget)
full_options=(--stop-update-fraction 1)
metric="mse MSE"
start adding adding "" "$@"
finish
report adding
