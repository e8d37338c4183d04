#!/usr/bin/env bash
# Builds the playground, a static page, into a folder: scripts/playground.sh OUTPUT_DIR
#
# It needs Node.js 20 with npm, and Rust's standard library for wasm32-unknown-unknown: that of rustup,
# of a distribution, or its source, which is then built, too. Debian 12 has it in the packages
# rustc-web, cargo-web, rust-web-src and lld-22. Without them the script says how to get them, and
# exits with code 3, so that its caller can build the rest. PLAYGROUND_WASM names a module that has
# been built, PLAYGROUND_PROFILE Cargo's profile for it (`wasm-testing` in tests).
set -eu
cd "$(dirname "$0")/.."

readonly missing=3

main() {
    local output=${1:?usage: scripts/playground.sh OUTPUT_DIR} module
    mkdir -p "$output"
    output=$(cd "$output" && pwd)
    command -v npm >/dev/null || lack "Node.js 20 with npm"
    module=$(wasm_module)
    cd web/playground
    if ! [ -d node_modules ] || [ package-lock.json -nt node_modules ]; then
        npm ci --no-audit --no-fund --loglevel=error >&2
        touch node_modules
    fi
    node build.mjs "$output" "$module"
    cd ../..
    crates >>"$output/licenses.txt"
    sizes "$output"
}

# Prints the path of the simulator's module, which it builds.
wasm_module() {
    if [ -n "${PLAYGROUND_WASM:-}" ]; then
        realpath "$PLAYGROUND_WASM"
        return
    fi
    local profile=${PLAYGROUND_PROFILE:-wasm} source=()
    if ! has_target; then
        has_source || lack "Rust's standard library for wasm32-unknown-unknown:
  rustup target add wasm32-unknown-unknown
  or Debian's packages rustc-web, cargo-web, rust-web-src and lld-22"
        # A stable compiler may build its own standard library with this variable alone.
        export RUSTC_BOOTSTRAP=1
        source=(-Zbuild-std=std,panic_abort)
    fi
    choose_linker
    ${CARGO:-cargo} build --quiet --locked --package anabranch-wasm --lib --profile "$profile" \
        --target wasm32-unknown-unknown "${source[@]}" >&2 || exit 1
    realpath "${CARGO_TARGET_DIR:-target}/wasm32-unknown-unknown/$profile/anabranch_wasm.wasm"
}

# Prints the crates that the module contains, and their licences.
crates() {
    printf '\n----\n\nCrates in anabranch.wasm:\n\n'
    ${CARGO:-cargo} tree --locked --package anabranch-wasm --edges normal --prefix none \
        --target wasm32-unknown-unknown --format '{p} ({l})' |
        sed 's/ (\/[^)]*)//; s/ (\*)$//' | sort -u
}

has_target() {
    local libraries
    libraries=$(${RUSTC:-rustc} --print target-libdir --target wasm32-unknown-unknown 2>&1) &&
        compgen -G "$libraries/libstd-*.rlib" >/dev/null
}

has_source() {
    [ -e "$(${RUSTC:-rustc} --print sysroot)/lib/rustlib/src/rust/library/Cargo.lock" ]
}

# rustup's toolchains contain rust-lld. Distributions have the linker of the same LLVM, or a later one.
choose_linker() {
    local found
    if [ -n "${CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER:-}" ] || command -v rust-lld >/dev/null ||
        compgen -G "$(${RUSTC:-rustc} --print sysroot)/lib/rustlib/*/bin/rust-lld" >/dev/null; then
        return
    fi
    found=$( (compgen -c wasm-ld || true) | sort --unique --version-sort | tail -n 1)
    [ -n "$found" ] || lack "a linker for WebAssembly, rust-lld or wasm-ld (Debian: lld-22)"
    export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$found
}

lack() {
    echo "playground: not built; it needs $1" >&2
    exit $missing
}

# Prints the sizes of what a visitor loads.
sizes() {
    local raw packed
    raw=$(cat "$1"/*.{wasm,js,css,html,json} | wc -c)
    packed=$(for file in "$1"/*.{wasm,js,css,html,json}; do gzip -9 -c "$file"; done | wc -c)
    echo "playground: $1, $((raw / 1000)) kB, $((packed / 1000)) kB with gzip"
    if command -v brotli >/dev/null; then
        packed=$(for file in "$1"/*.{wasm,js,css,html,json}; do brotli -c "$file"; done | wc -c)
        echo "playground: $((packed / 1000)) kB with brotli"
    fi
    if [ "$packed" -gt 3000000 ]; then
        echo "playground: larger than 3 MB" >&2
        exit 1
    fi
}

main "$@"
