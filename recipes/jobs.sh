# Source this to train in the background: Ctrl-C and SIGTERM reach the training, and a run that a signal stopped does
# not count as finished.
#
#   background COMMAND...   starts a shell command as a job
#   logged LOG COMMAND...   in such a job, runs fairseq-train; its output goes to standard output and to the end of
#                           LOG. Fails if the command fails, or if a signal made it save and stop.
#   is_trained RUN COUNT    succeeds if the run in the folder RUN, whose log is RUN/train.log, has saved a checkpoint after
#                           COUNT training updates or more, or has ended because it had nothing left to reach
#   wait_for_runs           waits until all jobs have ended; ends the script with status 130 if a signal arrived
#
# A first signal makes the runs save and stop, a second one ends them at once.

set -m # a process group for each run, so that Ctrl-C in a terminal goes only to the script, which passes it on
stopped=false
trap 'stopped=true; signal_runs' INT TERM
trap signal_runs EXIT

signal_runs() {
    local group
    for group in $(jobs -p); do
        kill -TERM -- "-$group" 2>/dev/null || true
    done
}

background() { # COMMAND...
    (
        trap : INT TERM # fairseq-train handles them; this shell waits for it
        "$@"
    ) </dev/null &
}

logged() { # LOG COMMAND...
    local before
    touch "$1"
    before=$(wc -c <"$1")
    trap : INT TERM # set again, because in a pipeline this is a subshell
    "${@:2}" 2>&1 | (trap '' INT TERM && exec tee -a "$1")
    if tail -c "+$((before + 1))" "$1" | grep -q '| stopped by '; then
        return 1
    fi
}

# A kill may come between the last checkpoint and the mark of a finished run. fairseq-train would resume such a run with
# one training update more. It logs a checkpoint once it is written.
is_trained() { # RUN COUNT
    [ -e "$1/checkpoint_last.pt" ] && [ -e "$1/train.log" ] && awk -v count="$2" '
        /Saved checkpoint / && match($0, / @ [0-9]+ updates, /) { saved = substr($0, RSTART + 3) + 0 }
        /Start iterating over samples/ { limited = ended = 0 }
        /Stopping training due to / { limited = 1 } # by COUNT, by a time limit or by a signal
        /done training in / { ended = 1 }
        END { exit !(saved >= count + 0 || (ended && !limited)) }
    ' "$1/train.log"
}

wait_for_runs() {
    while [ -n "$(jobs -rp)" ]; do
        wait -n || true # also returns at a signal; a run that failed has no file finished-*
    done
    if $stopped; then
        echo "stopped; run the same command again to resume" >&2
        exit 130
    fi
}
