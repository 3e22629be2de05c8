#!/usr/bin/env bash
# Run the native engine's tests with a library built with the address and undefined-behaviour sanitizers, which end the
# tests at the first wrong access or operation. Needs g++ and its sanitizers (Linux). Arguments go to pytest.
set -euo pipefail
source "$(dirname "$0")/../recipes/setup.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export CXX=${CXX:-g++}
# An empty tensor has a null pointer, and copying 0 bytes from it works with every compiler.
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
# Both must be loaded before Python: the sanitizer's library, and libstdc++, as the sanitizer intercepts exceptions.
# The sanitizer writes its messages directly, as it ends pytest.
LD_PRELOAD="$($CXX -print-file-name=libasan.so) $($CXX -print-file-name=libstdc++.so)" \
    python -m pytest --capture=sys tests/ops -k native "$@"
