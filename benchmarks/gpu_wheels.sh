#!/usr/bin/env bash
# Collects wheels of fairseq and of what it imports, for benchmarks/gpu.sh on a machine that has torch but no network.
#
#   bash benchmarks/gpu_wheels.sh FOLDER [PYTHON_VERSION]      the version there; default 3.12
#
# The versions are those that are installed here, where the tests run. Left out is what comes with an image that has
# torch: numpy, scipy, scikit-learn, packaging, tqdm. You can set PYTHON (the interpreter here; default python3).
set -euo pipefail
case ${1-} in
    -h | --help)
        sed -n '2,/^[^#]/s/^#\( \|$\)//p' "$0"
        exit
        ;;
esac
if [ $# = 0 ]; then
    echo "error: FOLDER: expected a folder for the wheels, got none" >&2
    exit 2
fi
python=${PYTHON:-python3}
version=${2:-3.12}
names=(ve-fairseq hydra-core omegaconf bitarray sacrebleu portalocker regex tabulate colorama lxml PyYAML)
pins=$("$python" -c '
import sys
from importlib.metadata import version
print(*(f"{name}=={version(name)}" for name in sys.argv[1:]))' "${names[@]}")
platforms=()
for platform in manylinux_2_{39,38,37,36,35,34,33,32,31,30,29,28,27,26,25,24,23,22,21,20,19,18,17}_x86_64 \
    manylinux2014_x86_64 manylinux1_x86_64; do
    platforms+=(--platform "$platform")
done
mkdir -p "$1"
# shellcheck disable=SC2086  # pins are separate words
"$python" -m pip download --quiet --no-deps --only-binary=:all: --python-version "$version" --implementation cp \
    "${platforms[@]}" --dest "$1" $pins
# This one is published as source, of plain Python
"$python" -m pip wheel --quiet --no-deps --wheel-dir "$1" \
    "antlr4-python3-runtime==$("$python" -c 'from importlib.metadata import version
print(version("antlr4-python3-runtime"))')"
du -ch "$1"/*.whl | tail -n 1 | cut -f 1
