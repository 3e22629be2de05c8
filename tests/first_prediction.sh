#!/bin/bash
# From nothing to a prediction for one's own recording, as a new user goes: bash tests/first_prediction.sh FOLDER [OPTION...]
# The folder gets an environment with the package in it, 180 made-up recordings of sensors in one .npz file, and a trained
# model. The options are for skiprnn-train. It all should take at most 15 minutes on two cores. The variables of pip, such as
# PIP_EXTRA_INDEX_URL, can name an index with torch's build for the CPU, which is much smaller. With INSTALL=no the commands
# of the environment that is active are used.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$1
shift
mkdir -p "$folder"
SECONDS=0

if [ "${INSTALL:-yes}" = yes ]; then
    "${PYTHON:-python3}" -m venv "$folder/venv"
    source "$folder/venv/bin/activate"
    pip install --quiet "$root[plot]"
fi
echo "installed: $SECONDS s"

PYTHONPATH=$root python - "$folder" <<'PROGRAM'
import sys

import numpy as np

from tests.made_up_recordings import make_recordings

recordings, classes = make_recordings(186)
names = np.array(["left", "right", "up"])[classes]
np.savez(f"{sys.argv[1]}/recordings.npz", *recordings[:180], labels=names[:180])
for number in range(180, 186):  # the names say what they show
    np.save(f"{sys.argv[1]}/{names[number]}-{number}.npy", recordings[number])
PROGRAM

cd "$folder"
rm -rf run
skiprnn-train recordings.npz --save-dir run --target-fraction 0.25 "$@"
echo "trained: $SECONDS s"

skiprnn-predict run ./*-*.npy | tee predictions.tsv
echo "predicted: $SECONDS s"
right=$(awk -F '\t' 'NR > 1 && index($NF, "./" $1 "-") == 1' predictions.tsv | wc -l)
echo "$right of 6 recordings right"
if [ $# -eq 0 ]; then
    [ "$right" -ge 5 ] && [ "$SECONDS" -le 900 ]
fi
