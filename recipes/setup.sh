# Source this from bash. It changes to the project's folder and activates .venv, which it makes if it does not exist.
# It needs Python 3.11 or 3.12, and looks for it in python3, python3.11 and python3.12, or only in $PYTHON if it is set.

_supported() {
    "$1" -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))' >/dev/null 2>&1
}

# Succeeds if .venv was set up from this checkout, and setup.py and the native engine's sources have not changed since.
_installed() {
    local file
    [ "$(cat .venv/installed 2>/dev/null)" = "$PWD" ] || return 1
    for file in setup.py skiprnn_plugin/ops/native/*.{cpp,h}; do
        [ ! "$file" -nt .venv/installed ] || return 1
    done
}

_install() {
    .venv/bin/python -m pip install --quiet --disable-pip-version-check "$@"
}

_ready() {
    _supported .venv/bin/python && _installed
}

# Makes .venv, unless it exists, and installs what it lacks.
_make() { # PYTHON...
    local candidate chosen=""
    if [ ! -x .venv/bin/python ]; then
        for candidate in "$@"; do
            if _supported "$candidate"; then
                chosen=$candidate
                break
            fi
        done
        if [ -z "$chosen" ]; then
            echo "error: this needs Python 3.11 or 3.12, and $1 is" \
                "$("$1" --version 2>/dev/null || echo not installed). Set PYTHON to one of them." >&2
            return 1
        fi
        if ! "$chosen" -m venv .venv; then
            rm -rf .venv # otherwise the next call would use the incomplete one
            return 1
        fi
    elif ! _supported .venv/bin/python; then
        echo "error: .venv holds $(.venv/bin/python --version 2>&1), and this needs Python 3.11 or 3.12. Remove .venv." >&2
        return 1
    fi
    if ! _installed; then
        echo "Setting up .venv (minutes, the first time) ..." >&2
        # torch has the version that was tested. It is in the last command too, so that pip does not install another one.
        _install torch==2.13.0 || return 1
        # A CUDA build of torch has brought its triton. With a CPU build the tests take the oldest one that is supported,
        # on the systems for which it exists.
        if ! .venv/bin/python -c 'import triton' 2>/dev/null; then
            _install triton==3.6.0 2>/dev/null || true
        fi
        _install -e '.[dev]' torch==2.13.0 || return 1
        if ! compgen -G 'skiprnn_plugin/ops/native/libskiprnn.*' >/dev/null; then
            echo "The native engine's library was not built; engine auto takes indexed." \
                "See why: .venv/bin/python -m pip install --no-deps -v -e ." >&2
        fi
        echo "$PWD" >.venv/installed
    fi
}

_setup() {
    local candidates=(python3 python3.11 python3.12)
    if [ -n "${PYTHON:-}" ]; then
        candidates=("$PYTHON")
    fi
    if [ -n "${RUNS:-}" ] && [[ $RUNS != /* ]]; then
        RUNS=$PWD/$RUNS # relative to the caller's folder, which is left here
    fi
    cd "$(dirname "${BASH_SOURCE[0]}")/.." || return 1
    if ! _ready; then
        # Recipes may start at the same time. Where there is no flock, or no lock on this file system, none waits.
        {
            if command -v flock >/dev/null && ! flock -n 9; then
                echo "Waiting while another process sets up .venv ..." >&2
                flock 9 || true
            fi
            _make "${candidates[@]}" || return 1
        } 9<. # the folder is the lock
    fi
    # shellcheck disable=SC1091
    source .venv/bin/activate
}

_setup
