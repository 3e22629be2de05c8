# Source this from a recipe of many runs, as of a table of the paper: what those recipes do alike.
#
#   read_arguments ARGUMENT...        takes --quick, and of what stands beside it the first as `data`, the others as `rows`
#   read_settings MAX_UPDATE          takes from the environment SEEDS (default 1 2 3 4), MAX_UPDATE (default as given),
#                                     JOBS (default one per core) and RUNS (default runs)
#   absolute PATH                     prints it as an absolute one
#   list_rows TABLE ROW...            prints these rows of a table (all, if none is named), each with its flags of
#                                     fairseq-train; ends the recipe if there is no such row
#   start TABLE FOLDER TITLE ROW...   starts the runs of these rows of a table (of all, if none is named) that are not
#                                     finished, in $RUNS/FOLDER/ROW/seed*; on the screen TITLE precedes the row's name
#   launch TABLE FOLDER TITLE FLAG... does so for one row in $RUNS/FOLDER/seed*, with these flags of fairseq-train; TABLE
#                                     may be "", where there is none to report. Adds to `runs`, and the first seed's to
#                                     `first_runs`, which are enough to draw
#   finish                            waits until they all have ended, and ends the recipe if one failed or a signal
#                                     stopped it
#   curves TABLE FILE                 draws their metric over the epochs
#   report TABLE FLAG...              prints the table of the runs that were started, with these flags of skiprnn-report
#
# Before these, the recipe sets `metric`, "NAME TITLE" of the number to show at each validation, and for start
# `options`, an array of what fairseq-train gets in every run, and perhaps `full_options`, what rows that update at every
# step get besides. Flags win over what is set below.

# shellcheck disable=SC1091
source "$(dirname "${BASH_SOURCE[0]}")/check.sh"
# shellcheck disable=SC1091
source "$(dirname "${BASH_SOURCE[0]}")/jobs.sh"

read_arguments() {
    local argument
    quick=false
    data=
    rows=()
    for argument in "$@"; do
        if [ "$argument" = --quick ]; then
            quick=true
        elif [ -z "$data" ]; then
            data=$argument
        else
            rows+=("$argument")
        fi
    done
}

absolute() { # PATH
    echo "$(cd -- "$(dirname -- "$1")" && pwd)/$(basename -- "$1")"
}

read_settings() {
    local seed
    read -ra seeds <<<"${SEEDS:-1 2 3 4}"
    max_update=${MAX_UPDATE:-$1}
    jobs=${JOBS:-$(nproc)}
    check_count MAX_UPDATE "$max_update"
    check_count JOBS "$jobs"
    for seed in "${seeds[@]}"; do
        check_count SEEDS "$seed"
    done
    check_distinct SEEDS "${seeds[@]}"
    # shellcheck disable=SC1091
    source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
}

train() { # RUN NAME FLAG...
    local finished=$1/finished-$max_update
    if [ ! -e "$finished" ]; then
        mkdir -p "$1"
        # One thread each; the run's whole log in its folder, its validations on the screen.
        logged "$1/train.log" env OMP_NUM_THREADS=1 fairseq-train --user-dir skiprnn_plugin --cpu \
            --optimizer adam --lr 1e-4 --adam-eps 1e-8 --clip-norm 1.0 \
            --batch-size 256 --max-update "$max_update" --num-workers 0 \
            --save-dir "$1" --no-epoch-checkpoints --save-interval 10 --validate-interval 10 \
            --log-format json --log-interval 100 "${@:3}" | (
            trap '' INT TERM
            exec sed -nu "s/.* | valid | .*\"valid_${metric%% *}\": \"\([^\"]*\)\".*\"valid_update_fraction\": \"\([^\"]*\)\".*\
\"valid_num_updates\": \"\([^\"]*\)\".*/$2, update \3: ${metric#* } \1, fraction used \2/p"
        )
        touch "$finished"
    fi
}

full_options=()
runs=()
first_runs=()
tables=() # of each run

list_rows() {
    check_distinct ROW "${@:2}"
    python -m skiprnn_plugin.cli.tables "$1" -- "${@:2}"
}

start() {
    local rows row flags besides
    rows=$(list_rows "$1" "${@:4}")
    while IFS=$'\t' read -r row flags; do
        besides=()
        if [[ $flags == *"--arch full_"* ]]; then
            besides=("${full_options[@]}")
        fi
        # shellcheck disable=SC2086  # flags are words
        launch "$1" "$2/$row" "$3$row" --gru-reset before "${options[@]}" "${besides[@]}" $flags
    done <<<"$rows"
}

launch() {
    local seed run
    first_runs+=("${RUNS:-runs}/$2/seed${seeds[0]}")
    for seed in "${seeds[@]}"; do
        run=${RUNS:-runs}/$2/seed$seed
        runs+=("$run")
        tables+=("$1")
        while (($(jobs -rp | wc -l) >= jobs)); do
            wait -n || true # a failure shows in finish
        done
        if $stopped; then
            return
        fi
        background train "$run" "$3 seed $seed" --seed "$seed" "${@:4}"
    done
}

finish() {
    local run
    wait_for_runs
    for run in "${runs[@]}"; do
        if [ ! -e "$run/finished-$max_update" ]; then
            echo "error: a run failed or was stopped; see the end of $run/train.log" >&2
            exit 1
        fi
    done
}

choose() { # TABLE: sets `chosen`, its runs
    local index
    chosen=()
    for index in "${!runs[@]}"; do
        if [ "${tables[index]}" = "$1" ]; then
            chosen+=("${runs[index]}")
        fi
    done
}

curves() {
    choose "$1"
    skiprnn-plot curves "${chosen[@]/%//train.log}" --over epochs --output "$2" >&2
}

report() {
    choose "$1"
    skiprnn-report "${chosen[@]}" --table "$1" "${@:2}"
}
