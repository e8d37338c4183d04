#!/usr/bin/env bash
# Checks the sets of features that users may choose, and with `msrv` the oldest supported compiler.
# Usage: scripts/check-features.sh [features|msrv]...; without arguments, both.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}

# Package and features. The library without features must build without sockets.
features() {
    local sets=(
        "anabranch --no-default-features"
        "anabranch"
        "anabranch --no-default-features --features laboratory"
        "anabranch --all-features"
        "anabranch-core --features invariants,testing"
        "anabranch-video --no-default-features"
        "anabranch-cli --no-default-features"
        "anabranch-cli --no-default-features --features top"
        "anabranch-cli --no-default-features --features webrtc"
        "anabranch-cli --no-default-features --features codec"
        "anabranch-cli --no-default-features --features demo"
        "anabranch-cli --no-default-features --features emulate"
        "anabranch-lab-cli"
        "anabranch-cli"
    )
    local set
    for set in "${sets[@]}"; do
        echo "check: --package $set"
        # shellcheck disable=SC2086
        $cargo check --quiet --locked --package $set
    done
    local built
    built=$($cargo tree --locked --package anabranch --no-default-features --edges normal --prefix none)
    if grep -E '^(anabranch-net|tokio|rustix|socket2) ' <<<"$built"; then
        echo "the library without features must build without sockets" >&2
        exit 1
    fi
}

msrv() {
    local version
    version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    if ! rustup toolchain list | grep -q "^$version"; then
        echo "msrv: toolchain $version is not installed: rustup toolchain install $version --profile minimal" >&2
        # A machine without it tests nothing, which CI must not take for success.
        exit "${MSRV_MISSING:-1}"
    fi
    echo "check: rust $version"
    CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/msrv \
        rustup run "$version" cargo check --quiet --locked --workspace --all-features
}

for part in "${@:-features msrv}"; do
    # Without arguments, the default has two words.
    for name in $part; do
        case $name in
        features) features ;;
        msrv) msrv ;;
        *)
            echo "unknown part: $name" >&2
            exit 2
            ;;
        esac
    done
done
