#!/usr/bin/env bash
# Measure how much a task's metric suffers from fewer updates: train with several lambda (--cost-per-sample) and draw
# the metric against the updates, beside models that update at every step or skip at random.
#
#   bash recipes/sweep.sh [--quick] [adding | frequency] [-- FLAG...]
#   bash recipes/sweep.sh own -- --user-dir DIR --task TASK --criterion CRITERION [FLAG...]
#
# Every run gets the FLAGs, flags of fairseq-train, which override the recipe's. Paths in them are relative to the
# project's folder.
#
# You can set in the environment: LAMBDAS (default "0 1e-5 1e-4 1e-3"), ARCHS (default "skip_lstm skip_gru"), BASELINES
# (default "full random", or none with the task own), SKIP_PROBS of the baseline random (default "0.2 0.5"), METRIC (the
# metric to draw; default mse for adding, otherwise accuracy), SEEDS (default "1 2 3 4"), MAX_UPDATE (training updates;
# default 60000), JOBS (runs at a time; default: one per core) and RUNS (the folder of the runs; default: runs). Run the
# recipe again to resume: it skips finished runs and continues the others from their last checkpoint. It ends with a
# table and a picture, runs/sweep-TASK/tradeoff.png. The settings are the paper's: a run of adding takes about 25
# minutes of CPU time, and one of frequency several times as long.
#
# --quick trains Skip LSTM and its baselines with one seed, for 1,000 training updates (MAX_UPDATE), on shorter
# sequences, with 64 units, batches of 64, a learning rate that falls from 3e-3 to 0 and other LAMBDAS. For adding,
# expect in 5 minutes of CPU time that Skip LSTM solves the task with 74% of the samples at lambda 1e-4, does not quite
# solve it at 3e-4 (65%, MSE 0.01), and fails at 1e-3, and that random skips reach an MSE of 0.035 with 80%. For
# frequency, expect accuracy 0.98 with 34 of the 50 samples at lambda 1e-4.
set -euo pipefail
source "$(dirname "$0")/table.sh"

quick=false
task=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    if [ "$1" = --quick ]; then
        quick=true
    elif [ -z "$task" ]; then
        task=$1
    else
        echo "error: TASK: expected one, got '$task' and '$1' (flags of fairseq-train follow --)" >&2
        exit 2
    fi
    shift
done
flags=("${@:2}")

quick_options=(--hidden-size 64 --batch-size 64 --train-size 12800 --validate-interval 1 --save-interval 1)
case ${task:=adding} in
    adding)
        options=(--task adding --criterion mse_with_budget --gru-reset before)
        quick_options+=(--sequence-length 30)
        METRIC=${METRIC:-mse}
        ;;
    frequency)
        options=(--task frequency_discrimination --criterion cross_entropy_with_budget --gru-reset before)
        quick_options+=(--sequence-duration 50)
        ;;
    own)
        options=()
        BASELINES=${BASELINES:-}
        if $quick; then
            echo "error: --quick: expected task adding or frequency, got own" >&2
            exit 2
        fi
        ;;
    *)
        echo "error: TASK: expected adding, frequency or own, got '$task'" >&2
        exit 2
        ;;
esac
for flag in "${flags[@]}"; do
    case ${flag%%=*} in
        --arch | -a | --cost-per-sample | --skip-prob | --seed | --max-update | --save-dir)
            echo "error: FLAG: $flag is set by ARCHS, LAMBDAS, SKIP_PROBS, SEEDS, MAX_UPDATE or RUNS" >&2
            exit 2
            ;;
    esac
done
METRIC=${METRIC:-accuracy}
metric="$METRIC $METRIC"
if $quick; then
    SEEDS=${SEEDS:-1}
    ARCHS=${ARCHS:-skip_lstm}
    LAMBDAS=${LAMBDAS:-0 3e-5 1e-4 3e-4 1e-3}
    read_settings 1000
    options+=("${quick_options[@]}" --lr 3e-3 --lr-scheduler polynomial_decay --total-num-update "$max_update")
else
    read_settings 60000
fi
read -ra lambdas <<<"${LAMBDAS:-0 1e-5 1e-4 1e-3}"
read -ra archs <<<"${ARCHS:-skip_lstm skip_gru}"
read -ra baselines <<<"${BASELINES-full random}"
read -ra skip_probs <<<"${SKIP_PROBS:-0.2 0.5}"
check_numbers LAMBDAS "${lambdas[@]}"
check_numbers SKIP_PROBS "${skip_probs[@]}"
check_distinct ARCHS "${archs[@]}"
for baseline in "${baselines[@]}"; do
    if [ "$baseline" != full ] && [ "$baseline" != random ]; then
        echo "error: BASELINES: expected full, random, both or none, got '$baseline'" >&2
        exit 2
    fi
done
for arch in "${archs[@]}"; do
    if [[ $arch == full_* || $arch == random_* ]]; then
        echo "error: ARCHS: expected architectures with a gate (BASELINES has the others), got '$arch'" >&2
        exit 2
    fi
done

folder=sweep-$task
if $quick; then
    folder+=-quick
fi

sweep() { # NAME FLAG...
    launch "" "$folder/$1" "$1" "${options[@]}" "${@:2}" "${flags[@]}"
}

for arch in "${archs[@]}"; do
    for lambda in "${lambdas[@]}"; do
        sweep "$arch-$lambda" --arch "$arch" --cost-per-sample "$lambda"
    done
    for baseline in "${baselines[@]}"; do
        if [ "$baseline" = full ]; then
            sweep "${arch/#skip/full}" --arch "${arch/#skip/full}"
        else
            for skip_prob in "${skip_probs[@]}"; do
                sweep "random_$arch-$skip_prob" --arch "random_$arch" --skip-prob "$skip_prob"
            done
        fi
    done
done
finish
skiprnn-plot tradeoff "${runs[@]/%//train.log}" --metric "$METRIC" --output "${RUNS:-runs}/$folder/tradeoff.png"
echo "Drawn: ${RUNS:-runs}/$folder/tradeoff.png"
