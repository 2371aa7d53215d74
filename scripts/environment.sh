# Set-up that scripts/demo and scripts/test share: sourced by them, from the root of the repository.
#
#   need PROGRAM...                 see that programs are there; as root on Debian or Ubuntu, install what is missing
#   environment FOLDER              a virtual environment with Python 3.11 or newer
#   wheels FOLDER WORK              the project and `studies` as wheels in an empty folder WORK, made with that environment's setuptools
#   install FOLDER EXTRA            the project and `studies` as wheels, with an extra's packages, into that environment; does nothing where nothing changed
# shellcheck shell=bash

export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin           # where apt's and the server's helpers lie

say() { printf '%s\n' "$*" >&2; }
fail() { say "$0: $*"; exit 1; }

apt_install() {
    # root on Debian or Ubuntu installs; anybody else gets the line to type
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        say "installing $* (apt-get install)"
        local log
        log=$(mktemp)
        if ! { DEBIAN_FRONTEND=noninteractive apt-get update -qq &&
               DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } >"$log" 2>&1; then
            tail -n 20 "$log" >&2
            rm -f "$log"
            fail "apt-get could not install $*"
        fi
        rm -f "$log"
    elif command -v apt-get >/dev/null; then
        fail "packages are missing; type:  sudo apt-get install $*"
    else
        fail "programs are missing; install what your system calls $*"
    fi
}

need() {
    local program missing=()
    for program in "$@"; do
        command -v "$program" >/dev/null || missing+=("$program")
    done
    [ ${#missing[@]} -eq 0 ] || apt_install "${missing[@]}"     # the Debian packages are called as the programs are
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
}

environment() {
    local folder=$1 python
    if "$folder/bin/python" -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        return
    fi
    python=$(find_python)
    if [ -z "$python" ]; then
        command -v python3 >/dev/null || apt_install python3 python3-venv
        python=$(find_python)
        [ -n "$python" ] || fail "Python 3.11 or newer is needed, python3 here is $(python3 -c 'import platform; print(platform.python_version())');" \
            "where your system packages a newer one, type:  sudo apt-get install python3.11 python3.11-venv"
    fi
    # Debian keeps ensurepip in a package of its own, named after the version
    "$python" -c 'import ensurepip, venv' 2>/dev/null || apt_install "$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
    "$python" -m venv --clear "$folder"
}

sources_digest() {
    # of all that goes into the wheels
    find pyproject.toml setup.py README.md LICENSE src boards dsl hdl host models sim studies -type f ! -name '*.pyc' -print0 \
        | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum | cut -d ' ' -f 1
}

wheels() {
    # from copies: setuptools leaves files beside the sources, and takes up what it left the last time
    local folder=$1 work=$2
    mkdir "$work/source"
    tar --exclude=__pycache__ --exclude='*.egg-info' -cf - pyproject.toml setup.py README.md LICENSE src boards dsl hdl host models sim studies | tar -xf - -C "$work/source"
    mv "$work/source/studies" "$work/studies"
    "$folder/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$work" "$work/source" "$work/studies"
}

install() {
    local folder=$1 extra=$2 digest work options=(--quiet --disable-pip-version-check)
    digest=$(sources_digest)
    [ "$(cat "$folder/penstock-sources" 2>/dev/null)" != "$digest $extra" ] || return 0
    rm -f "$folder/penstock-sources"
    "$folder/bin/python" - "$extra" >"$folder/penstock-requirements.txt" <<'PYTHON'
import sys, tomllib
with open("pyproject.toml", "rb") as file:
    made = tomllib.load(file)
optional = made["project"]["optional-dependencies"]
extra = dict.fromkeys(line for name in sys.argv[1].split(",") for line in optional[name])
print(*made["build-system"]["requires"], *made["project"]["dependencies"], *extra, sep="\n")
PYTHON
    if ! cmp -s "$folder/penstock-requirements.txt" "$folder/penstock-packages.txt"; then
        say "installing Python packages into $folder (some 300 MB the first time)"
        # bytecode is made of what is imported, which is less than a tenth
        "$folder/bin/python" -m pip install "${options[@]}" --no-compile -r "$folder/penstock-requirements.txt"
        cp "$folder/penstock-requirements.txt" "$folder/penstock-packages.txt"
    fi
    say "installing Penstock into $folder"
    work=$(mktemp -d)
    wheels "$folder" "$work" || { rm -rf "$work"; return 1; }
    "$folder/bin/python" -m pip install "${options[@]}" --no-deps --force-reinstall "$work"/penstock*.whl || { rm -rf "$work"; return 1; }
    rm -rf "$work"
    printf '%s\n' "$digest $extra" >"$folder/penstock-sources"
}
