# Source this: checks of what a recipe is told, each with one clear error.

check_count() { # NAME VALUE
    if ! [[ $2 =~ ^[1-9][0-9]*$ ]]; then
        echo "error: $1: expected a whole number of at least 1, got '$2'" >&2
        exit 2
    fi
}

check_distinct() { # NAME VALUE...
    local twice
    twice=$(printf '%s\n' "${@:2}" | sort | uniq -d | head -n 1)
    if [ -n "$twice" ]; then
        echo "error: $1: '$twice' is given twice" >&2
        exit 2
    fi
}
