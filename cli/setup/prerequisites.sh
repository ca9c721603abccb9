#!/bin/sh
# Looks for what the Makefile needs from the machine. Everything else is installed into the project's own folders.
#
#   prerequisites.sh            print what was found; exit 1 and say how to get it if something is missing
#   prerequisites.sh --python   print the path of a Python 3.13, or nothing
set -u

# "python3.13" may be a pyenv shim that only says that the version is not selected here: ask each what it is.
is_python_3_13() {
    [ "$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "3.13" ]
}

find_python() {
    for candidate in python3.13 python3 python; do
        path=$(command -v "$candidate") && is_python_3_13 "$path" && echo "$path" && return
    done
    for path in "${PYENV_ROOT:-${HOME:-}/.pyenv}"/versions/3.13*/bin/python3.13; do
        [ -x "$path" ] && is_python_3_13 "$path" && echo "$path" && return
    done
}

python=$(find_python)
if [ "${1:-}" = "--python" ]; then
    echo "$python"
    exit 0
fi

newline='
'
missing=0
found() { printf '  %-14s %s\n' "$1" "$2"; }
lacks() {
    printf '  %-14s missing: %s\n' "$1" "$2" >&2
    missing=1
}

echo "Prerequisites:"
if [ -z "$python" ]; then
    lacks "Python 3.13" "get it from your system (package python3.13), python.org, pyenv (pyenv install 3.13) or uv (uv python install 3.13)"
elif ! "$python" -c 'import ensurepip, ssl, venv' 2>/dev/null; then
    lacks "Python's venv" "$python has no venv, ensurepip or ssl; on Debian and Ubuntu install python3.13-venv"
else
    found "Python 3.13" "$python"
fi

node=$(node --version 2>/dev/null)
major=${node#v}
major=${major%%.*}
case "$major" in
    '') lacks "Node 20" "get Node 20 or newer (22 or 24 for preference) from your system, nodejs.org or nvm" ;;
    *[!0-9]*) lacks "Node 20" "node --version says \"$node\"; get Node 20 or newer from your system, nodejs.org or nvm" ;;
    *)
        if [ "$major" -lt 20 ]; then
            lacks "Node 20" "this is Node $node; the AWS CDK needs 20 or newer (22 or 24 for preference)"
        elif [ "$major" -lt 22 ]; then
            found "Node" "$node (works, but has reached its end of life: 22 or 24 for preference)"
        else
            found "Node" "$node"
        fi
        ;;
esac

for tool in npm make git; do
    if version=$("$tool" --version 2>/dev/null); then
        found "$tool" "${version%%"$newline"*}"
    else
        lacks "$tool" "install the package $tool of your system"
    fi
done

if [ "$missing" -ne 0 ]; then
    echo "Nothing was changed. Install what is missing and run the same command again." >&2
fi
exit "$missing"
