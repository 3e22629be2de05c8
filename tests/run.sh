#!/usr/bin/env bash
# Set up .venv if need be, then lint and test.
#   tests/run.sh               every test but the slow and rare combinations (marker "thorough")
#   tests/run.sh --all         those too, as before a merge
#   tests/run.sh ARGUMENT...   arguments go to pytest, as files or -k; nothing that they name is left out as "thorough"
# Reproductions (marker "slow") are run by their recipes alone. Cases of the triton engine that take hours, interpreted or
# compiled for other GPUs (marker "interpreted"), run with `tests/run.sh -m interpreted`; on a CUDA device,
# benchmarks/gpu.sh --training runs them compiled.
set -euo pipefail
selection="not slow and not interpreted"
if [[ ${1-} == --all ]]; then
    shift
elif (($# == 0)); then
    selection="not slow and not interpreted and not thorough"
fi
source "$(dirname "$0")/../recipes/setup.sh"
ruff check .
ruff format --check .
# The models here are small: threads cost more than they bring, above all beside other work.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
# One file after another on each core, as a file's tests share what they trained, in the order of tests/conftest.py; with
# few tests, `-n 0` starts sooner.
python -m pytest -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder -m "$selection" "$@"
