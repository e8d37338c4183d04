#!/bin/sh
# Builds the Python package in a virtual environment under target/, and runs its tests. Without
# Python 3.10 it says so, and the other tests go on. `scripts/test-python.sh wheel` only builds the
# wheel that others can install, optimised, in target/wheels.
set -eu
cd "$(dirname "$0")/.."
root=$PWD

find_python() {
    for name in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
        if "$name" -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
}

python=$(find_python)
if [ -z "$python" ]; then
    echo "The Python package is NOT tested: install Python 3.10 or later with its module venv" >&2
    echo "(Debian: apt install python3-venv), or name one: PYTHON=/path/to/python3 make test." >&2
    [ "${1:-}" = wheel ] && exit 1
    exit 0
fi

# The environment is made again when Python or the packages that it needs change.
environment=$root/target/python/venv
state="$("$python" -VV) $(cksum < python/pyproject.toml)"
if [ "$(cat "$environment/state" 2>/dev/null)" != "$state" ]; then
    rm -rf "$environment"
    "$python" -m venv "$environment"
    needed=$("$python" - <<'END'
import re
text = open("python/pyproject.toml").read()
wanted = [re.search(rf"^{key} = \[(.*)\]$", text, re.M)[1] for key in ("requires", "dependencies", "test")]
print("\n".join(re.findall(r'"(.*?)"', ",".join(wanted))))
END
)
    echo "$needed" > "$environment/needed.txt"
    if ! "$environment/bin/pip" install --quiet --disable-pip-version-check \
        -r "$environment/needed.txt"; then
        echo "The Python package is NOT tested: the packages above cannot be installed." >&2
        [ "${1:-}" = wheel ] && exit 1
        exit 0
    fi
    echo "$state" > "$environment/state"
fi
PATH=$environment/bin:$PATH
export PATH VIRTUAL_ENV="$environment" PYO3_PYTHON="$environment/bin/python"

cd python
if [ "${1:-}" = wheel ]; then
    exec maturin build --release --locked --interpreter "$PYO3_PYTHON" --out "$root/target/wheels"
fi
# Tests of emulation and of sweeps without Python need the programs that `make test` has built.
programs=${CARGO_TARGET_DIR:-target}/debug
case $programs in
    /*) ;;
    *) programs=$root/$programs ;;
esac
export ANABRANCH="$programs/anabranch" ANABRANCH_LAB="$programs/anabranch-lab"
if ! "$ANABRANCH" emulate --help >/dev/null 2>&1; then
    echo "Emulation is NOT tested: cargo build -p anabranch-cli --features emulate" >&2
fi
if [ ! -x "$ANABRANCH_LAB" ]; then
    echo "Sweeps without Python are NOT tested: cargo build -p anabranch-lab-cli" >&2
fi
export CARGO_TARGET_DIR="$root/target/python"
wheels=$root/target/python/wheels
rm -rf "$wheels"
maturin build --quiet --profile testing --locked --interpreter "$PYO3_PYTHON" --out "$wheels"
pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$wheels"/*.whl
pytest
mypy
