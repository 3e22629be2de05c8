#!/usr/bin/env bash
# Spoken digits through fairseq's task speech_to_text: a Skip LSTM and a full LSTM read the frames, three at a time, and
# fairseq's LSTM decoder with attention writes the digits.
#
#   bash user_dir_examples/speech/run.sh [FOLDER [UTTERANCES [UPDATES]]]
#
# By default it makes 6,000 utterances in runs/speech and trains each model for 600 training updates. It ends with two
# lines, for the test set: the accuracy (percent of words right, given those before them) and the fraction of the steps
# that were updated.
#
#   full: accuracy 97.586, update_fraction 1
#   skip: accuracy 98.592, update_fraction 0.545404
#
# This took 8 minutes on one of 2 AMD EPYC cores with AVX2, beside other work (2026-11-29).
set -euo pipefail
folder=${1-runs/speech} utterances=${2-6000} updates=${3-600}
here=$(dirname "$0")
plugin=$(python -m skiprnn_plugin)
export OMP_NUM_THREADS=${OMP_NUM_THREADS-1}
[[ -d $folder/digits ]] || python "$here/make_digits.py" "$folder/digits" "$utterances"
task=(--user-dir "$plugin" --task speech_to_text --max-tokens 4000 --required-batch-size-multiple 1 --num-workers 0 --cpu)

train() { # NAME ARCH OPTION...
    fairseq-train "$folder/digits" "${task[@]}" --arch "$2" --stack-frames 3 --encoder-hidden-size 64 \
        --decoder-embed-dim 32 --decoder-hidden-size 64 --decoder-out-embed-dim 32 \
        --criterion with_budget --base-criterion label_smoothed_cross_entropy --label-smoothing 0.1 --report-accuracy \
        --optimizer adam --lr 4e-3 --lr-scheduler polynomial_decay --total-num-update "$updates" --clip-norm 1.0 \
        --max-update "$updates" --no-epoch-checkpoints --save-dir "$folder/$1" "${@:3}"
}

train full full_lstm_s2t
train skip skip_lstm_s2t --cost-per-sample 3e-3 --cost-warmup-updates $((updates / 3)) --gate-init zeros
for name in full skip; do
    fairseq-validate "$folder/digits" "${task[@]}" --path "$folder/$name/checkpoint_last.pt" --valid-subset test \
        --log-format json |&
        sed -nE "s/.*\"test_(accuracy)\": \"([^\"]+)\".*\"test_(update_fraction)\": \"([^\"]+)\".*/$name: \1 \2, \3 \4/p"
done
