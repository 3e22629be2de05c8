#!/usr/bin/env bash
# Set up .venv if need be, then lint and test everything. Arguments go to pytest.
set -euo pipefail
source "$(dirname "$0")/../recipes/setup.sh"
ruff check .
ruff format --check .
# The models here are small: threads cost more than they bring, above all beside other work.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
# One file after another on each core, as a file's tests share what they trained; with few tests, `-n 0` starts sooner.
python -m pytest -n auto --maxprocesses 8 --dist loadfile "$@"
