#!/bin/sh
# Looks for the tools that `make demo` and `make test` need, and installs them.
#
#   scripts/setup.sh check demo     prints nothing if all are present; otherwise names the missing
#   scripts/setup.sh check test     ones and the one command that installs them, and fails
#   scripts/setup.sh install        runs this command, for both
set -eu
cd "$(dirname "$0")/.."

oldest_rust=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)

main() {
    case "${1:-} ${2:-}" in
        "check demo" | "check test") check "$2" ;;
        "install ") install ;;
        *) sed -n '4,6s/^# *//p' "$0" >&2; exit 2 ;;
    esac
}

check() {
    missing=$(missing_tools "$1")
    [ -n "$missing" ] || return 0
    {
        printf 'make %s needs tools that are missing here:\n%s\n\n' "$1" "$missing"
        printf '"make setup" installs them. It runs:\n%s\n' "$(command_line)"
    } >&2
    exit 1
}

install() {
    missing=$(missing_tools test)
    if [ -z "$missing" ]; then
        echo "All tools are installed."
        return
    fi
    line=$(command_line)
    printf '%s\n' "$line"
    sh -c "$line"
    # rustup installs cargo here, and changes PATH for later shells.
    PATH=$HOME/.cargo/bin:$PATH
    missing=$(missing_tools test)
    if [ -n "$missing" ]; then
        printf 'still missing:\n%s\n' "$missing" >&2
        exit 1
    fi
    echo "All tools are installed. A new shell finds cargo, too."
}

# missing_tools demo|test: a line for each missing tool.
missing_tools() {
    can_compile c cc stdlib.h || echo "a C compiler, cc"
    can_compile c++ c++ cstdlib || echo "a C++ compiler, c++"
    found=$(cargo_version)
    if ! is_new "$found"; then
        echo "Rust $oldest_rust or later (found: ${found:-none})"
    elif [ "$1" = test ]; then
        for part in fmt clippy; do
            cargo "$part" --version >/dev/null 2>&1 || echo "Rust's component of cargo $part"
        done
    fi
}

# can_compile LANGUAGE COMPILER HEADER: whether the compiler makes a program with this header.
can_compile() {
    has "$2" || return 1
    printf '#include <%s>\nint main() { return 0; }\n' "$3" |
        "$2" -x "$1" -o /dev/null - 2>/dev/null
}

has() {
    command -v "$1" >/dev/null
}

# Version of cargo, such as 1.95.0; nothing without one, also if rustup has no toolchain.
cargo_version() {
    cargo --version 2>/dev/null | sed -n 's/^cargo \([0-9.]*\).*/\1/p'
}

# is_new VERSION: whether it is at least rust-version of Cargo.toml.
is_new() {
    [ -n "$1" ] || return 1
    older=$(printf '%s\n' "$1" "$oldest_rust" | sort -t. -k1,1n -k2,2n | head -n 1)
    [ "$older" = "$oldest_rust" ]
}

# The one command that installs the missing tools on this system.
command_line() {
    root=
    [ "$(id -u)" -eq 0 ] || root="sudo "
    rust_package=
    if [ "$(uname -s)" = Darwin ] && has brew; then
        packages="brew install python"
        rust_package=rust
    elif [ "$(uname -s)" = Darwin ]; then
        packages="xcode-select -p || xcode-select --install"
    elif has apt-get; then
        # The cargo of Debian 12 is version 1.63, and that of Debian 13 is 1.85.
        packages="${root}apt-get update &&
${root}apt-get install --yes build-essential curl python3-venv"
    elif has dnf; then
        packages="${root}dnf install --assumeyes gcc gcc-c++ curl python3"
        rust_package="cargo clippy rustfmt"
    else
        packages="echo 'install a C and a C++ compiler, curl and Python 3.10 with venv'"
    fi
    case $missing in
        *Rust*) ;;
        *) echo "$packages"; return ;;
    esac
    if has rustup; then
        echo "$packages &&
rustup toolchain install stable --component rustfmt,clippy && rustup default stable"
    elif [ -n "$rust_package" ] && ! has cargo; then
        echo "$packages $rust_package"
    else
        # The command of https://rustup.rs.
        echo "$packages &&
curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y"
    fi
}

main "$@"
