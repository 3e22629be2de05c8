# Source this: training in the background, so that Ctrl-C and SIGTERM reach it, and what a signal stopped is not taken
# for finished.
#
#   background COMMAND...   starts a shell command as a job
#   logged LOG COMMAND...   in such a job: runs fairseq-train; its output goes to standard output and is added to LOG.
#                           Fails if the command does, or if a signal made it save and stop.
#   wait_for_runs           waits until all jobs have ended; ends the script with 130 if it was told to stop
#
# A first signal makes the runs save and stop, a second one ends them at once.

set -m # a process group for each run: Ctrl-C in a terminal then goes to the script alone, which passes it on
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
        trap : INT TERM # fairseq-train sees to them; this shell waits for it
        "$@"
    ) </dev/null &
}

logged() { # LOG COMMAND...
    local before
    touch "$1"
    before=$(wc -c <"$1")
    trap : INT TERM # again: in a pipeline this is a subshell
    "${@:2}" 2>&1 | (trap '' INT TERM && exec tee -a "$1")
    if tail -c "+$((before + 1))" "$1" | grep -q '| stopped by '; then
        return 1
    fi
}

wait_for_runs() {
    while [ -n "$(jobs -rp)" ]; do
        wait -n || true # also ends when a signal comes; a failure shows in what is missing
    done
    if $stopped; then
        echo "stopped; the same command goes on from where the runs were saved" >&2
        exit 130
    fi
}
