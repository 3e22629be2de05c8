# Source this for checks of a recipe's arguments and environment, which end the recipe with a one-line error, and for
# --help, which prints the comment at the head of the recipe.

for _argument in "$@"; do
    case $_argument in
        --) break ;; # the flags after -- are for fairseq-train
        -h | --help)
            sed -n '2,/^[^#]/s/^#\( \|$\)//p' "$0"
            exit
            ;;
    esac
done

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

check_numbers() { # NAME VALUE...
    local value
    for value in "${@:2}"; do
        if ! [[ $value =~ ^([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?$ ]]; then
            echo "error: $1: expected numbers of at least 0, got '$value'" >&2
            exit 2
        fi
    done
    check_distinct "$@"
}

check_features() { # DATA_DIR
    if [ ! -f "$1/manifest.tsv" ]; then
        echo "error: DATA_DIR: expected a folder that skiprnn-prepare features or video made, got '$1'" >&2
        exit 2
    fi
}
