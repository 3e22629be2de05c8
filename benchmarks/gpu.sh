#!/usr/bin/env bash
# Checks and times the engine triton on a CUDA device.
#   bash benchmarks/gpu.sh             compiles, compares with the CPU, times beside cuDNN, trains an epoch of MNIST, and
#                                      says which policy that suggests; at most LIMIT seconds (default 240). Options are
#                                      those of python -m benchmarks.gpu. Needs torch with CUDA, which brings triton,
#                                      numpy and tqdm; the epoch also needs fairseq.
#   bash benchmarks/gpu.sh --tests     runs the tests of the engines on the device, and times all engines and cuDNN on
#                                      the paper's shapes; five minutes. Needs pytest.
#   bash benchmarks/gpu.sh --training  runs the tests of ops and modules on the device, and trains, resumes and reports
#                                      the adding task in float32, and trains it in half precision; five minutes. Needs
#                                      the plugin's requirements and pytest.
# What is measured goes to the folder $OUT, or to benchmarks/results if it is not set. You can also set:
#   DEVICE=cpu   to try this on a machine without a CUDA device, with TRITON_INTERPRET=1 and the option --small
#   WHEELS       a folder of wheels made by benchmarks/gpu_wheels.sh, if fairseq is not installed
#   MNIST        the folder of the MNIST database; random images are used otherwise
#   PYTHON       the interpreter (default python3)
set -uo pipefail
case ${1-} in
    -h | --help)
        sed -n '2,/^[^#]/s/^#\( \|$\)//p' "$0"
        exit
        ;;
esac
for name in OUT WHEELS MNIST; do
    if [ -n "${!name:-}" ]; then
        declare "$name=$(realpath -m -- "${!name}")" # the folder changes now
    fi
done
cd "$(dirname "$0")/.."
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} CUBLAS_WORKSPACE_CONFIG=:4096:8 # cuBLAS is deterministic with this
device=${DEVICE:-cuda}
python=${PYTHON:-python3}
out=${OUT:-benchmarks/results}
status=0

check() { # TEST... : run these tests on the device
    "$python" -m pytest --device "$device" -q -p no:cacheprovider "$@" || status=1
}

speed() {
    local kind
    kind=$("$python" -c "import torch; print(torch.cuda.get_device_name() if '$device' == 'cuda' else 'cpu')" |
        tr 'A-Z ' 'a-z-')
    "$python" -m benchmarks.run --suite gpu --device "$device" --seconds 0.5 --time-limit 140 \
        --output "$out/gpu-$kind.json" "$@" || status=1
}

train() { # NAME MAX_UPDATE FLAG...
    "$python" -c "from fairseq_cli.train import cli_main; cli_main()" --user-dir skiprnn_plugin \
        --task adding --arch skip_gru --gru-reset before --criterion mse_with_budget --cost-per-sample 1e-5 \
        --optimizer adam --lr 1e-3 --adam-eps 1e-8 --clip-norm 1.0 --batch-size 256 --max-update "$2" \
        --num-workers 0 --save-dir "$runs/$1" --no-epoch-checkpoints --log-format json --log-interval 100 "${@:3}" \
        >"$runs/$1.log" 2>&1 || { tail -n 5 "$runs/$1.log"; return 1; }
    grep -o '| valid | .*' "$runs/$1.log" | tail -n 1 | cut -c1-260 | sed "s/^/$1 /"
}

case ${1:-} in
--tests)
    check tests/ops/test_engines.py -k "not compiled"
    speed "${@:2}"
    ;;
--training)
    "$python" - <<'PYTHON' || status=1
import platform, torch
print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Python {platform.python_version()}")
PYTHON
    runs=$(mktemp -d)
    check tests/ops tests/modules
    train float32 150 || status=1
    train fp16 50 --fp16 || status=1
    train float32 200 || status=1 # resumes
    "$python" -m skiprnn_plugin.cli.report "$runs/float32" "$runs/fp16" --json |
        grep -E 'mse|update_fraction|path' || status=1
    ;;
*)
    options=(--device "$device" --limit "${LIMIT:-240}" --output "$out/gpu.jsonl")
    if [ -n "${WHEELS:-}" ]; then
        options+=(--wheels "$WHEELS")
    fi
    if [ -n "${MNIST:-}" ]; then
        options+=(--mnist "$MNIST")
    fi
    exec "$python" -m benchmarks.gpu "${options[@]}" "$@"
    ;;
esac
exit $status
