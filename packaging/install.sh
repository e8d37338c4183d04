#!/bin/sh
# Installs a release of Anabranch: programs, manual pages and completions, for Linux on x86-64 and
# arm64. As root under /usr/local, otherwise under ~/.local.
#
#   sh install.sh                     installs
#   sh install.sh --prefix FOLDER     installs there
#   sh install.sh --uninstall         removes all files that it has installed
#
# ANABRANCH_URL replaces the address of the release, for example by file:///media/usb.
set -eu

version=@VERSION@
release_url=${ANABRANCH_URL:-@RELEASE_URL@}

main() {
    prefix=
    is_removal=
    while [ $# -gt 0 ]; do
        case $1 in
            --prefix) prefix=${2:-}; shift ;;
            --prefix=*) prefix=${1#--prefix=} ;;
            --uninstall) is_removal=yes ;;
            -h | --help) usage; exit 0 ;;
            *) usage >&2; exit 2 ;;
        esac
        [ $# -eq 0 ] || shift
    done
    if [ -z "$prefix" ]; then
        if [ "$(id -u)" -eq 0 ]; then prefix=/usr/local; else prefix=$HOME/.local; fi
    fi
    case $prefix in
        /*) ;;
        *) fail "--prefix takes an absolute path, not $prefix" ;;
    esac
    list=$prefix/share/anabranch/installed
    if [ -n "$is_removal" ]; then uninstall; else install_release; fi
}

usage() {
    echo "usage: sh install.sh [--prefix FOLDER] [--uninstall]"
}

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

install_release() {
    [ -n "$release_url" ] || fail "set ANABRANCH_URL to the address of the release's files"
    case $release_url in
        https://* | file://*) ;;
        *) fail "the address of the release is https://… or file://…, not $release_url" ;;
    esac
    [ "$(uname -s)" = Linux ] || fail "this release is for Linux; build it from source here"
    case $(uname -m) in
        x86_64 | amd64) architecture=x86_64 ;;
        aarch64 | arm64) architecture=aarch64 ;;
        *) fail "this release has no program for $(uname -m): build it from source" ;;
    esac
    name=anabranch-$version-$architecture-linux
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    trap 'exit 130' INT TERM
    download "$name.tar.gz"
    download SHA256SUMS
    verify "$name.tar.gz"
    tar -xzf "$folder/$name.tar.gz" -C "$folder"
    "$folder/$name/bin/anabranch" --version >/dev/null || fail "its program does not run here"
    # Files of an older version that this one lacks must not stay.
    [ ! -f "$list" ] || uninstall >/dev/null
    mkdir -p "$prefix" "${list%/*}" || fail "cannot write $prefix: choose another --prefix"
    (cd "$folder/$name" && find . -type f | sed 's,^\./,,' | sort) >"$folder/list"
    # The list first: an installation that was interrupted can be removed.
    cp "$folder/list" "$list"
    cp -R "$folder/$name/." "$prefix/"
    echo "installed Anabranch $version in $prefix"
    case :$PATH: in
        *:"$prefix/bin":*) ;;
        *) echo "add $prefix/bin to PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
    esac
}

# download FILE: from the release into the folder.
download() {
    if command -v curl >/dev/null; then
        curl --proto '=https,file' --proto-redir '=https' --tlsv1.2 \
            --fail --silent --show-error --location --output "$folder/$1" "$release_url/$1"
    elif command -v wget >/dev/null; then
        # It follows no redirection away from HTTPS.
        wget --https-only --quiet --output-document="$folder/$1" "$release_url/$1"
    else
        fail "it takes curl or wget"
    fi || fail "cannot download $release_url/$1"
}

# verify FILE: whether it has its checksum of SHA256SUMS.
verify() {
    expected=$(awk -v name="$1" '$2 == name {print $1}' "$folder/SHA256SUMS")
    [ -n "$expected" ] || fail "SHA256SUMS has no checksum of $1"
    if command -v sha256sum >/dev/null; then
        found=$(sha256sum "$folder/$1")
    elif command -v shasum >/dev/null; then
        found=$(shasum -a 256 "$folder/$1")
    else
        fail "it takes sha256sum or shasum"
    fi
    [ "${found%% *}" = "$expected" ] || fail "$1 does not have its checksum: download it again"
}

uninstall() {
    [ -f "$list" ] || fail "nothing is installed in $prefix by this script"
    while IFS= read -r file; do
        rm -f "$prefix/$file"
    done <"$list"
    rm -f "$list"
    # Folders that nothing else uses, innermost first.
    for place in share/anabranch share/doc/anabranch/operations share/doc/anabranch \
        share/man/man1 share/man \
        share/bash-completion/completions share/bash-completion share/zsh/site-functions share/zsh \
        share/fish/vendor_completions.d share/fish share/doc share bin; do
        rmdir "$prefix/$place" 2>/dev/null || true
    done
    echo "removed Anabranch from $prefix"
}

# A download that was cut off must run nothing.
main "$@"
