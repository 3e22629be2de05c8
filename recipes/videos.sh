# Source this from the recipe of a table of videos. It sources table.sh, and defines:
#
#   train_videos TABLE UPDATES QUICK_UPDATES QUICK_ROW
#       trains rows of a table on the features in the folder `data`, draws their samples and curves, and prints the
#       table. The rows are those in `rows`, or all if there are none; they train for UPDATES training updates by
#       default. With --quick they train for QUICK_UPDATES by default; if `rows` is empty, only QUICK_ROW is trained
#
# Before it calls this, the recipe calls read_arguments, and sets `metric` and `options` as table.sh says, and
# `paper_options` and `quick_options`, the flags that fairseq-train gets in addition without --quick and with it.

# shellcheck disable=SC1091
source "$(dirname "${BASH_SOURCE[0]}")/table.sh"

# shellcheck disable=SC2154  # read_arguments and the recipe set these variables
train_videos() {
    local folder=$1 run
    check_features "$data"
    data=$(cd -- "$data" && pwd) # absolute, as read_settings changes the folder
    SEEDS=${SEEDS:-1}
    options+=(--data-dir "$data" --validate-interval 1 --save-interval 1)
    options+=(--best-checkpoint-metric "${metric%% *}" --maximize-best-checkpoint-metric)
    if $quick; then
        read_settings "$3"
        folder=$1-quick
        options+=("${quick_options[@]}" --lr 1e-3 --lr-scheduler polynomial_decay --total-num-update "$max_update")
        if [ ${#rows[@]} = 0 ]; then
            rows=("$4")
        fi
    else
        read_settings "$2"
        options+=("${paper_options[@]}")
    fi
    python -m skiprnn_plugin.cli.check_data "${options[@]}" >&2
    start "$1" "$folder" "" "${rows[@]}"
    finish
    for run in "${first_runs[@]}"; do
        skiprnn-plot samples "$run/checkpoint_best.pt" --output "$run/samples.png" --set "data_dir=$data"
    done
    curves "$1" "${RUNS:-runs}/$folder/${metric%% *}.png"
    report "$1" --checkpoint best --set "data_dir=$data"
}
