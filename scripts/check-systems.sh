#!/usr/bin/env bash
# Checks that the programs compile for Windows and macOS. Nothing is linked, so no compiler of C for
# them is needed: a stand-in makes empty objects. Missing targets are installed by rustup.
#
#     scripts/check-systems.sh [TARGET…]
#
# The feature `webrtc` is left out: its library builds with CMake for the target itself.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly features=anabranch-cli/demo,anabranch-cli/emulate,anabranch-cli/top
cargo=${CARGO:-cargo}
targets=("${@:-x86_64-pc-windows-gnu aarch64-apple-darwin}")
# shellcheck disable=SC2206 # Words of targets.
[ $# -gt 0 ] || targets=(${targets[0]})

main() {
    local target
    for target in "${targets[@]}"; do
        require_target "$target"
    done
    local folder
    folder=$(mktemp -d)
    # shellcheck disable=SC2064 # This folder.
    trap "rm -rf '$folder'" EXIT
    make_stand_ins "$folder"
    for target in "${targets[@]}"; do
        echo "check-systems: $target"
        check "$target" "$folder"
    done
}

# require_target TARGET: installs the standard library, if it is missing.
require_target() {
    if [ -d "$(rustc --print sysroot)/lib/rustlib/$1/lib" ]; then
        return
    fi
    if ! command -v rustup >/dev/null || ! rustup target add "$1"; then
        echo "check-systems: Rust has no $1 here, and rustup cannot add it: rustup target add $1" >&2
        exit 1
    fi
}

# make_stand_ins FOLDER: a compiler and an archiver whose output is empty.
make_stand_ins() {
    cat >"$1/cc" <<'END'
#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in -o) : >"$2" ;; esac
    shift
done
END
    cat >"$1/ar" <<'END'
#!/bin/sh
for word; do
    case $word in *.a) : >"$word" ;; esac
done
END
    chmod 755 "$1/cc" "$1/ar"
}

# check TARGET FOLDER
check() {
    local name=${1//-/_}
    env "CC_$name=$2/cc" "CXX_$name=$2/cc" "AR_$name=$2/ar" "RANLIB_$name=true" \
        CARGO_INCREMENTAL=0 "$cargo" clippy --quiet --locked --target "$1" \
        --target-dir "${CARGO_TARGET_DIR:-target}/systems" --no-default-features \
        --package anabranch-cli --package anabranch-lab-cli --features "$features" -- -D warnings
}

main "$@"
