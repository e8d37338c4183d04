#!/usr/bin/env bash
# Builds the site in target/site: the documents as a book, the documentation of the published
# crates under api/, and the playground under playground/. Then it checks all links.
#
# It needs Python 3 and mdBook, which it installs by cargo if it is missing. CLAIMS="S0 own" adds
# a report of these claims of `anabranch-lab reproduce`; `CLAIMS=all` has all of them, and takes hours.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-target}
site=target/site
book=target/site-book
# Exit code of scripts/playground.sh if Rust's target for WebAssembly or Node.js is missing.
missing=3

main() {
    command -v python3 >/dev/null || fail "Python 3 is missing (Debian: python3)"
    CARGO="$cargo" nice scripts/cargo-tool.sh mdbook
    rm -rf "$site"
    mkdir -p "$site"
    build_book
    build_api
    build_playground
    build_report
    scripts/check-site.py "$site"
    echo "The site is in $site: open $site/index.html, or python3 -m http.server -d $site"
}

fail() {
    echo "site: $1" >&2
    exit 1
}

build_book() {
    rm -rf "$book"
    mkdir -p "$book/theme/fonts"
    cp web/site/book.toml web/site/site.css "$book/"
    cp web/icon.svg "$book/theme/favicon.svg"
    if [ -n "${CLAIMS:-}" ]; then
        cp web/site/header.hbs "$book/theme/"
    else
        sed '/report\.html/d' web/site/header.hbs >"$book/theme/header.hbs"
    fi
    echo "/* Readers have fonts of their own. */" >"$book/theme/fonts/fonts.css"
    # mdBook empties its folder, so that the book comes first.
    scripts/book.py "$book" "$book/linked"
    cp web/style.css "$book/src/"
    mdbook build --dest-dir "$PWD/$site" "$book"
    if [ -d "$book/linked" ]; then cp -R "$book/linked/." "$site/"; fi
}

# The crates without `publish = false`.
published_crates() {
    "$cargo" metadata --no-deps --format-version 1 --locked | python3 -c '
import json, sys
for package in json.load(sys.stdin)["packages"]:
    if package["publish"] is None:
        print(package["name"])'
}

build_api() {
    local crates=() name
    for name in $(published_crates); do crates+=(--package "$name"); done
    rm -rf "$target/doc"
    RUSTDOCFLAGS="-D warnings" "$cargo" doc --no-deps --locked --quiet \
        --features anabranch/laboratory "${crates[@]}"
    cp -R "$target/doc" "$site/api"
    rm -f "$site/api/.lock"
    cp web/site/api.html "$site/api/index.html"
}

build_playground() {
    local code=0
    if [ ! -x scripts/playground.sh ]; then
        without_playground "scripts/playground.sh does not exist"
        return
    fi
    scripts/playground.sh "$site/playground" || code=$?
    case $code in
    0) ;;
    "$missing") without_playground "Rust's target for WebAssembly or Node.js is missing" ;;
    *) fail "the playground has not been built" ;;
    esac
}

build_report() {
    local claims=()
    if [ -z "${CLAIMS:-}" ]; then return; fi
    if [ "$CLAIMS" != all ]; then read -r -a claims <<<"$CLAIMS"; fi
    "$cargo" run --release --locked --quiet -p anabranch-lab-cli -- reproduce --site . \
        --output "$site/report.html" "${claims[@]}"
}

# without_playground REASON: a page says so, too, because other pages lead to it.
without_playground() {
    echo "site: THE PLAYGROUND IS LEFT OUT: $1." >&2
    mkdir -p "$site/playground"
    sed "s|REASON|$1|" web/site/no-playground.html >"$site/playground/index.html"
}

main
