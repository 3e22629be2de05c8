#!/usr/bin/env bash
# Train a Skip LSTM to translate a made-up corpus, and print its BLEU and the fraction of the steps that it updates.
#
#   bash user_dir_examples/translation/run.sh FOLDER [OPTION...]
#
# FOLDER gets the texts, the prepared data and the run. Texts that are there already (train.source, train.target, and
# the same for valid and test) are taken as they are. Each OPTION goes to fairseq-train, as in --max-update 400, and
# wins over the one below. Run it again to resume a training that was interrupted. It needs fairseq's commands and
# Python on the PATH, as in an active virtual environment. README.md has the results to expect.
set -euo pipefail
case ${1-} in
    -h | --help)
        sed -n '2,/^[^#]/s/^#\( \|$\)//p' "$0"
        exit
        ;;
esac

if [ $# = 0 ]; then
    echo "error: FOLDER: expected a folder for the texts and the run, got nothing" >&2
    exit 2
fi
folder=$1
shift
example=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
plugin=$example/../../skiprnn_plugin
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} # the model is so small that a second thread helps little

if [ ! -e "$folder/train.source" ]; then
    python "$example/make_data.py" "$folder"
fi
if [ ! -e "$folder/data/test.source-target.target.idx" ]; then
    fairseq-preprocess --source-lang source --target-lang target --trainpref "$folder/train" \
        --validpref "$folder/valid" --testpref "$folder/test" --destdir "$folder/data" --workers 1
fi
fairseq-train "$folder/data" --user-dir "$plugin" --task translation \
    --arch skip_lstm_seq2seq --encoder-bidirectional --encoder-embed-dim 64 \
    --encoder-hidden-size 128 --decoder-embed-dim 64 --decoder-hidden-size 128 \
    --decoder-out-embed-dim 64 --dropout 0 --criterion with_budget \
    --base-criterion label_smoothed_cross_entropy --label-smoothing 0.1 \
    --cost-per-sample 3e-3 --optimizer adam --lr 3e-3 --clip-norm 1.0 --max-tokens 1000 \
    --lr-scheduler polynomial_decay --total-num-update 1600 --max-update 1600 \
    --required-batch-size-multiple 1 --cpu --save-dir "$folder/run" \
    --best-checkpoint-metric task_loss --no-epoch-checkpoints --num-workers 0 "$@"

best=$folder/run/checkpoint_best.pt
test=(--user-dir "$plugin" --path "$best" --max-tokens 2000 --required-batch-size-multiple 1 --cpu)
fairseq-generate "$folder/data" "${test[@]}" --beam 5 >"$folder/run/translations.txt"
fairseq-validate "$folder/data" "${test[@]}" --task translation --valid-subset test --log-format json \
    >"$folder/run/test.log" 2>&1
echo "Translations: $folder/run/translations.txt"
grep -o 'BLEU.*' "$folder/run/translations.txt"
echo "Updated steps of the source: $(grep -o '"test_update_fraction": "[^"]*"' "$folder/run/test.log" | cut -d '"' -f 4)"
