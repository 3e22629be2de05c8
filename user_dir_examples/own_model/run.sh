#!/usr/bin/env bash
# Make data, train the model in lstm_classifier.py with the budget, and validate it:
#
#   bash user_dir_examples/own_model/run.sh FOLDER
#
# It ends with accuracy 100 and update_fraction 0.274 (one seed), after 52 seconds on one core.
#
# Only the line of the criterion is new in the command. With an nn.LSTM it was --criterion sentence_prediction.
set -euo pipefail
case ${1-} in
    -h | --help)
        sed -n '2,/^[^#]/s/^#\( \|$\)//p' "$0"
        exit
        ;;
esac
if [ $# != 1 ]; then
    echo "error: FOLDER: expected one folder for the texts and the run, got $# arguments" >&2
    exit 2
fi
here=$(dirname "${BASH_SOURCE[0]}")
folder=$1

python "$here/make_sample_data.py" "$folder"
fairseq-preprocess --only-source --trainpref "$folder/train.text" --validpref "$folder/valid.text" \
    --destdir "$folder/data/input0"
fairseq-preprocess --only-source --trainpref "$folder/train.label" --validpref "$folder/valid.label" \
    --destdir "$folder/data/label"
fairseq-train "$folder/data" --user-dir "$here" --task sentence_prediction --num-classes 2 --arch lstm_classifier \
    --criterion with_budget --base-criterion sentence_prediction --cost-per-sample 1e-3 --cost-warmup-updates 300 \
    --optimizer adam --lr 3e-3 --clip-norm 1.0 --batch-size 32 --required-batch-size-multiple 1 \
    --max-update 600 --best-checkpoint-metric task_loss --no-epoch-checkpoints --cpu --num-workers 0 --save-dir "$folder/run"
fairseq-validate "$folder/data" --user-dir "$here" --task sentence_prediction --criterion sentence_prediction \
    --path "$folder/run/checkpoint_best.pt" --batch-size 100 --required-batch-size-multiple 1 --cpu
