# Sourced by the scripts beside it once bin= names this folder. Sets root= and python=, and gives them set_up.

root=$(CDPATH='' cd -P -- "$bin/.." && pwd -P)
python=$root/.venv/bin/python

# set_up PINS...: after this .venv holds exactly these pins. When it does already, that costs one cmp a file.
set_up() {
    if is_ready "$@"; then return; fi
    find_python
    "$maker" -I "$root/bin/make_venv.py" "$0" "$@" || exit
}

is_ready() {
    [ -x "$python" ] || return 1
    for pins; do
        cmp -s "$root/$pins" "$root/.venv/pi-marathon/$pins" || return 1
    done
}

# Sets maker= to a Python that can make .venv. A name on PATH proves nothing (version managers' shims): run each.
find_python() {
    if [ -n "${MARATHON_PYTHON:-}" ]; then
        set -- "$MARATHON_PYTHON"
    else
        set -- python3.14 python3.13 python3.12 python3.11 python3 python
    fi
    without_venv=
    for maker; do
        can "$maker" 'import sys; sys.exit(sys.version_info < (3, 11))' || continue
        if can "$maker" 'import ensurepip, venv'; then return; fi
        without_venv=$maker
    done
    if [ -n "$without_venv" ]; then
        give_up "$without_venv cannot make virtual environments: install its venv package (Debian, Ubuntu: apt install python3-venv), then try again."
    elif [ -n "${MARATHON_PYTHON:-}" ]; then
        give_up "MARATHON_PYTHON ($MARATHON_PYTHON) is not a Python 3.11 or newer that runs."
    fi
    give_up 'no Python 3.11 or newer was found on PATH: install one, or name one with MARATHON_PYTHON=/path/to/python3.'
}

can() {
    "$1" -I -c "$2" </dev/null >/dev/null 2>&1
}

give_up() {
    printf 'pi-marathon: %s\n' "$1" >&2
    exit 1
}
