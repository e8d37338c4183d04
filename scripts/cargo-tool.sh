#!/bin/sh
# Installs tools of cargo, unless their versions are here: the one list of these versions.
#
#   scripts/cargo-tool.sh cargo-fuzz cargo-mutants
set -eu
cargo=${CARGO:-cargo}
# mdBook's search and navigation suffice: its web server and watcher would double the build.
readonly tools='
cargo-cyclonedx 0.5.9
cargo-deny 0.20.2
cargo-fuzz 0.13.2
cargo-mutants 27.1.0
mdbook 0.5.4 --no-default-features --features search
'

for tool in "$@"; do
    line=$(printf '%s' "$tools" | grep "^$tool ") || {
        echo "scripts/cargo-tool.sh: no version of $tool is listed" >&2
        exit 2
    }
    # shellcheck disable=SC2086 # Options are several words.
    set -- ${line#"$tool "}
    version=$1
    shift
    case $tool in
        cargo-*) shown=$("$cargo" "${tool#cargo-}" --version 2>/dev/null) || shown= ;;
        *) shown=$("$tool" --version 2>/dev/null) || shown= ;;
    esac
    # "cargo-fuzz 0.13.2", "mdbook v0.5.4"
    case "$shown " in
        *[\ v]"$version "*) ;;
        *) "$cargo" install "$tool" --locked --version "$version" "$@" ;;
    esac
done
