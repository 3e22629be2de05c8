#!/usr/bin/env bash
# Spoken digits through fairseq's task speech_to_text: a Skip LSTM, a Skip GRU and a full LSTM read the frames in both
# directions, three at a time, and fairseq's LSTM decoder with attention writes the digits.
#
#   bash user_dir_examples/speech/run.sh [FOLDER [UTTERANCES [UPDATES]]]
#
# By default it makes 6,000 utterances in runs/speech and trains each model for 900 training updates. It ends with three
# lines, for the test set: the accuracy (percent of words right, given those before them) and the fraction of the steps
# that were updated.
#
#   full_lstm_s2t: accuracy 99.619, update_fraction 1
#   skip_lstm_s2t: accuracy 99.333, update_fraction 0.246175
#   skip_gru_s2t: accuracy 99.238, update_fraction 0.256884
#
# The three took 10 minutes on one of 2 AMD EPYC cores with AVX2, beside other work (2026-11-29). A corpus in
# FOLDER/digits, such as one that make_digits.py --espeak has made, is taken as it is.
set -euo pipefail
case ${1-} in
    -h | --help)
        sed -n '2,/^[^#]/s/^#\( \|$\)//p' "$0"
        exit
        ;;
esac
folder=${1-runs/speech} utterances=${2-6000} updates=${3-900}
here=$(dirname "$0")
plugin=$(python -m skiprnn_plugin)
export OMP_NUM_THREADS=${OMP_NUM_THREADS-1}
[[ -d $folder/digits ]] || python "$here/make_digits.py" "$folder/digits" "$utterances"
task=(--user-dir "$plugin" --task speech_to_text --max-tokens 4000 --required-batch-size-multiple 1 --num-workers 0 --cpu)

train() { # ARCH OPTION...
    fairseq-train "$folder/digits" "${task[@]}" --arch "$1" --encoder-bidirectional --stack-frames 3 --encoder-hidden-size 64 \
        --decoder-embed-dim 32 --decoder-hidden-size 64 --decoder-out-embed-dim 32 \
        --criterion with_budget --base-criterion label_smoothed_cross_entropy --label-smoothing 0.1 --report-accuracy \
        --optimizer adam --lr 4e-3 --lr-scheduler polynomial_decay --total-num-update "$updates" --clip-norm 5.0 \
        --max-update "$updates" --no-epoch-checkpoints --save-dir "$folder/$1" "${@:2}"
}

skip=(--cost-per-sample 5e-3 --cost-warmup-updates $((updates / 2)))
train full_lstm_s2t
train skip_lstm_s2t "${skip[@]}"
train skip_gru_s2t "${skip[@]}"
for name in full_lstm_s2t skip_lstm_s2t skip_gru_s2t; do
    fairseq-validate "$folder/digits" "${task[@]}" --path "$folder/$name/checkpoint_last.pt" --valid-subset test \
        --log-format json |&
        sed -nE "s/.*\"test_(accuracy)\": \"([^\"]+)\".*\"test_(update_fraction)\": \"([^\"]+)\".*/$name: \1 \2, \3 \4/p"
done
