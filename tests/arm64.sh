#!/usr/bin/env bash
# Run the native engine's tests on an emulated 64-bit Arm processor: bash tests/arm64.sh FOLDER [ARGUMENT...]
#
# FOLDER/arm64 gets Debian's Python for arm64 and torch, 700 MB that are kept for the next time. ARGUMENTs go to pytest in
# place of the tests below, which take long in the emulator. Tests that start programs, or threads after a fork, fail in the
# emulator. Needs Debian 12 and its packages g++-aarch64-linux-gnu and qemu-user.
set -euo pipefail
case ${1-} in
    -h | --help)
        sed -n '2,/^[^#]/s/^#\( \|$\)//p' "$0"
        exit
        ;;
esac
if [ $# = 0 ]; then
    echo "error: FOLDER: expected a folder for Python and torch, got nothing" >&2
    exit 2
fi
mkdir -p "$1/arm64"
folder=$(cd -- "$1/arm64" >/dev/null && pwd)
shift
for program in aarch64-linux-gnu-g++ qemu-aarch64 apt-get; do
    if ! command -v "$program" >/dev/null; then
        echo "error: $program: no such program; Debian's packages g++-aarch64-linux-gnu and qemu-user are needed" >&2
        exit 1
    fi
done
source "$(dirname "$0")/../recipes/setup.sh"

if [ ! -e "$folder/root" ]; then # the packages of an apt of its own, so that this machine's packages stay as they are
    rm -rf "$folder/unpacked" "$folder/apt"
    mkdir -p "$folder"/apt/{lists/partial,cache/archives/partial} "$folder/unpacked"
    touch "$folder/apt/status"
    cat >"$folder/apt/apt.conf" <<EOF
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Install-Recommends "false";
Dir::State "$folder/apt";
Dir::State::lists "$folder/apt/lists";
Dir::State::status "$folder/apt/status";
Dir::Cache "$folder/apt/cache";
EOF
    export APT_CONFIG=$folder/apt/apt.conf
    apt-get update -qq
    apt-get install -qq --yes --download-only python3-distutils libgomp1 libstdc++6
    for package in "$folder"/apt/cache/archives/*.deb; do
        dpkg-deb --extract "$package" "$folder/unpacked"
    done
    mv "$folder/unpacked" "$folder/root"
fi
interpreter=$(echo "$folder"/root/usr/bin/python3.[0-9]*)
version=${interpreter##*python}
if [ ! -e "$folder/site" ]; then
    rm -rf "$folder/unpacked"
    # Later builds of torch for arm64 need a GPU's libraries. pip would look for this machine's dependencies
    pip install --quiet --target "$folder/unpacked" --no-deps --only-binary=:all: --python-version "$version" \
        --platform manylinux_2_28_aarch64 --platform manylinux_2_17_aarch64 torch==2.8.0 \
        numpy typing_extensions sympy mpmath filelock jinja2 markupsafe networkx fsspec \
        pytest pluggy iniconfig packaging pygments
    mv "$folder/unpacked" "$folder/site"
fi

# With this variable setup.py builds for arm64
_PYTHON_HOST_PLATFORM=linux-aarch64 CXX=aarch64-linux-gnu-g++ python -W ignore setup.py --quiet build_ext \
    --build-lib "$folder/library" --build-temp "$folder/objects"
export SKIPRNN_NATIVE_LIBRARY=$folder/library/skiprnn_plugin/ops/native/libskiprnn.so
if [ ! -e "$SKIPRNN_NATIVE_LIBRARY" ]; then
    echo "error: the library could not be built for arm64" >&2
    exit 1
fi
export QEMU_LD_PREFIX=$folder/root PYTHONHOME=$folder/root/usr PYTHONPATH=$folder/site OMP_NUM_THREADS=1
if [ $# = 0 ]; then
    set -- tests/ops/test_native.py tests/ops/test_jumps.py tests/ops/test_int8.py tests/ops/test_golden.py \
        tests/modules/test_stream.py
fi
exec qemu-aarch64 "$interpreter" -m pytest -p no:cacheprovider "$@"
