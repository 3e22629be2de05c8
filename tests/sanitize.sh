#!/usr/bin/env bash
# Run the native engine's tests with a library that address and undefined-behaviour sanitizers watch: the first wrong
# access or operation ends them. Needs g++ and its sanitizers (Linux). Arguments go to pytest.
set -euo pipefail
source "$(dirname "$0")/../recipes/setup.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export CXX=${CXX:-g++}
# An empty tensor has no address, and copying 0 bytes from nowhere is fine with every compiler.
sanitizers="-fsanitize=address,undefined -fno-sanitize=nonnull-attribute -fno-sanitize-recover=undefined"
CXXFLAGS="$sanitizers -fno-omit-frame-pointer -g -O1" LDFLAGS="$sanitizers" \
    python -W ignore setup.py --quiet build_ext --build-lib "$folder" --build-temp "$folder/objects"
export SKIPRNN_NATIVE_LIBRARY="$folder/skiprnn_plugin/ops/native/libskiprnn.so"
if [ ! -e "$SKIPRNN_NATIVE_LIBRARY" ]; then
    echo "error: CXX: expected a compiler with address and undefined-behaviour sanitizers, got '$CXX'" >&2
    exit 1
fi
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 # Python itself leaks
# Both have to be there before Python: the sanitizer's library, and libstdc++, whose exceptions it wants to see thrown.
# What it says goes past pytest, which it ends.
LD_PRELOAD="$($CXX -print-file-name=libasan.so) $($CXX -print-file-name=libstdc++.so)" \
    python -m pytest --capture=sys tests/ops -k native "$@"
