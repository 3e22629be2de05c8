# Source this from a recipe that trains many runs, for example those of a table of the paper. It defines:
#
#   read_arguments PATHS ARGUMENT...  sets `quick` if --quick is given, `data` to the first other argument if PATHS is
#                                     1 (and not 0), and `rows` to the rest
#   read_settings MAX_UPDATE          reads SEEDS (default 1 2 3 4), MAX_UPDATE (default as given), JOBS (default one
#                                     per core) and RUNS (default runs) from the environment; changes to the project's
#                                     folder
#   absolute PATH                     prints the absolute path
#   list_rows TABLE ROW...            prints these rows of a table (all, if none is named), each with its flags for
#                                     fairseq-train; ends the recipe if a row does not exist
#   start TABLE FOLDER TITLE ROW...   starts the unfinished runs of these rows of a table (of all, if none is named), in
#                                     $RUNS/FOLDER/ROW/seed*; on the screen, TITLE precedes the row's name
#   launch TABLE FOLDER TITLE FLAG... does the same for one row, in $RUNS/FOLDER/seed*, with these flags for
#                                     fairseq-train; TABLE may be "" if there is no table to report. Adds the runs to
#                                     `runs`, and the run with the first seed to `first_runs`, whose samples are drawn.
#                                     Ends the recipe if a run has been trained with other flags, which are in its file
#                                     flags; MAX_UPDATE is none of them, so that a run can be continued
#   prepare ARGUMENT KIND SOURCE NAME makes $RUNS/NAME, once, by skiprnn-prepare KIND SOURCE, and sets `data` to its path.
#                                     Ends the recipe if it was made of another source; ARGUMENT is the recipe's name for
#                                     the source
#   finish                            waits until all runs have ended, and ends the recipe if one failed or a signal
#                                     stopped it
#   curves TABLE FILE                 draws the metric of a table's runs and the samples used, over the epochs
#   report TABLE FLAG...              prints the table of the runs that were started, with these flags for
#                                     skiprnn-report
#
# Before it calls these, the recipe sets `metric`, "NAME TITLE" of the number to show at each validation; for `start`
# also `options`, an array of the flags that fairseq-train gets in every run, and perhaps `full_options`, the flags that
# rows which update at every step get in addition. These flags override those in `train` below.

# shellcheck disable=SC1091
source "$(dirname "${BASH_SOURCE[0]}")/check.sh"
# shellcheck disable=SC1091
source "$(dirname "${BASH_SOURCE[0]}")/jobs.sh"

read_arguments() {
    local argument
    quick=false
    data=
    rows=()
    for argument in "${@:2}"; do
        if [ "$argument" = --quick ]; then
            quick=true
        elif [ "$1" = 1 ] && [ -z "$data" ]; then
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

prepared_from= # the source of the data that the recipe has prepared

prepare() { # ARGUMENT KIND SOURCE NAME
    local source=$3
    if [ -f "$source" ]; then
        source+=" ($(TZ=UTC0 stat -Lc '%s bytes, changed at %y' -- "$source"))"
    fi
    mkdir -p "${RUNS:-runs}"
    data=$(absolute "${RUNS:-runs}/$4") # absolute, so that the checkpoints' models find it from any folder
    (
        if command -v flock >/dev/null; then
            flock 9 # several recipes may start at the same time
        fi
        if [ ! -e "$data" ]; then
            printf '%s\n' "$source" >"$data.source"
            skiprnn-prepare "$2" "$3" "$data" >&2 || {
                status=$?
                rm "$data.source"
                exit "$status"
            }
        elif [ -e "$data.source" ] && [ "$(<"$data.source")" != "$source" ]; then # earlier versions did not write it
            echo "error: $1: expected $(<"$data.source"), from which $data was made, got $source; set RUNS to another" \
                "folder, or remove $data and the runs that were trained on it" >&2
            exit 2
        fi
    ) 9<"${data%/*}" # the folder is the lock
    prepared_from=$(cat "$data.source" 2>/dev/null || true)
}

# What a run is trained with, a line for each option and its values. Paths in $RUNS are written so that it can be moved.
print_flags() { # FLAG...
    local folder=${RUNS:-runs}
    if [ -d "$folder" ]; then
        folder=$(cd -- "$folder" && pwd)
    fi
    printf '%q ' "${@/#"$folder/"/RUNS/}" | sed 's/ $//; s/ --/\n--/g'
    if [ -n "$prepared_from" ]; then
        printf '\nRUNS has data of %s' "$prepared_from"
    fi
    echo
}

check_flags() { # RUN FLAG...
    local used given expected got
    if [ ! -e "$1/flags" ]; then
        return # a new run, or one of an earlier version
    fi
    used=$(<"$1/flags")
    given=$(print_flags "${@:2}")
    if [ "$used" != "$given" ]; then
        expected=$(grep -vxF -e "$used" <<<"$given" | paste -sd ' ' -) || true
        got=$(grep -vxF -e "$given" <<<"$used" | paste -sd ' ' -) || true
        echo "error: RUNS: expected a run with the flags '$expected' in $1, got one with '$got'; set RUNS to another" \
            "folder, or remove that one, or only its file flags if both are the same" >&2
        exit 2
    fi
}

train() { # RUN NAME FLAG...
    local finished=$1/finished-$max_update
    if [ -e "$finished" ]; then
        return
    fi
    if ! is_trained "$1" "$max_update"; then
        mkdir -p "$1"
        print_flags "${@:3}" >"$1/flags.part"
        mv "$1/flags.part" "$1/flags"
        # Each run has one thread. Its whole log goes to its folder, and its validations to the screen.
        logged "$1/train.log" env OMP_NUM_THREADS=1 fairseq-train --user-dir skiprnn_plugin --cpu \
            --optimizer adam --lr 1e-4 --adam-eps 1e-8 --clip-norm 1.0 \
            --batch-size 256 --max-update "$max_update" --num-workers 0 \
            --save-dir "$1" --no-epoch-checkpoints --save-interval 10 --validate-interval 10 \
            --log-format json --log-interval 100 "${@:3}" | (
            trap '' INT TERM
            exec sed -nu "s/.* | valid | .*\"valid_${metric%% *}\": \"\([^\"]*\)\".*\"valid_update_fraction\": \"\([^\"]*\)\".*\
\"valid_num_updates\": \"\([^\"]*\)\".*/$2, update \3: ${metric#* } \1, fraction used \2/p"
        )
    fi
    touch "$finished"
}

full_options=()
runs=()
first_runs=()
tables=() # the table of each run

list_rows() {
    check_distinct ROW "${@:2}"
    python -m skiprnn_plugin.cli.tables "$1" -- "${@:2}"
}

start() {
    local rows row flags extra
    rows=$(list_rows "$1" "${@:4}")
    while IFS=$'\t' read -r row flags; do
        extra=()
        if [[ $flags == *"--arch full_"* ]]; then
            extra=("${full_options[@]}")
        fi
        # shellcheck disable=SC2086  # flags are separate words
        launch "$1" "$2/$row" "$3$row" --gru-reset before "${options[@]}" "${extra[@]}" $flags
    done <<<"$rows"
}

launch() {
    local seed run
    first_runs+=("${RUNS:-runs}/$2/seed${seeds[0]}")
    for seed in "${seeds[@]}"; do
        check_flags "${RUNS:-runs}/$2/seed$seed" --seed "$seed" "${@:4}"
    done
    for seed in "${seeds[@]}"; do
        run=${RUNS:-runs}/$2/seed$seed
        runs+=("$run")
        tables+=("$1")
        while (($(jobs -rp | wc -l) >= jobs)); do
            wait -n || true # finish reports a failure
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

choose() { # TABLE: sets `chosen` to the runs of the table
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
