#!/usr/bin/env bash
# Builds the C library: libanabranch.so.0, libanabranch.a, the header and the file for pkg-config.
#
#   scripts/c-library.sh FOLDER    lays lib/ and include/ out in the folder
#
#   TARGET   Rust's target, built by cargo-zigbuild; this machine by default
#   PROFILE  Cargo's profile; dist by default
#   PREFIX   folder of the installed files, for pkg-config; /usr by default
#   LIBDIR   folder below PREFIX; lib by default
#   TOOLS    prefix of GNU's tools for another machine, as aarch64-linux-gnu-
set -euo pipefail
cd "$(dirname "$0")/.."

# Bar of the project for the static library, stripped.
readonly most_bytes=$((8 << 20))
# Number of the generation of the interface: AB_ABI / 65536, less one.
readonly soname=libanabranch.so.0
# Prefix of the names of GNU's tools, as aarch64-linux-gnu- (Debian: binutils-aarch64-linux-gnu).
readonly tools=${TOOLS:-}
# Folder of intermediate files.
work=

main() {
    [ $# -eq 1 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
    local out=$1 profile=${PROFILE:-dist} libdir=${LIBDIR:-lib} cargo=${CARGO:-cargo} version folder
    version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
    folder=${CARGO_TARGET_DIR:-target}/${TARGET:+${TARGET%%.*}/}${profile/#dev/debug}
    if [ -n "${TARGET:-}" ]; then
        command -v cargo-zigbuild >/dev/null || {
            echo "c-library: cargo-zigbuild is missing: pip install cargo-zigbuild ziglang" >&2
            exit 1
        }
        "$cargo" zigbuild --locked --profile "$profile" --package anabranch-capi --target "$TARGET"
    else
        "$cargo" build --locked --profile "$profile" --package anabranch-capi
    fi
    mkdir -p "$out/$libdir/pkgconfig" "$out/include"
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    install -m 644 crates/capi/include/anabranch.h "$out/include/"
    combine "$folder/libanabranch_c.a" "$out/$libdir/libanabranch.a"
    link_shared "$out/$libdir" "$version"
    sed -e "s,@PREFIX@,${PREFIX:-/usr}," -e "s,@LIBDIR@,$libdir," -e "s,@VERSION@,$version," \
        crates/capi/anabranch.pc.in >"$out/$libdir/pkgconfig/anabranch.pc"
    check_size "$out/$libdir/libanabranch.a"
}

# combine FROM TO: makes an archive of one object with all that the functions of the header use, and
# no other global symbol: an application may contain other libraries of Rust. Rustc's archive has
# all of every crate, and the compiler's intermediate code beside it.
combine() {
    local roots=()
    sed -n 's/^ *\(ab_[a-z_]*\);$/\1/p' crates/capi/libanabranch.map >"$work/symbols"
    mapfile -t roots < <(sed 's/^/--undefined=/' "$work/symbols")
    "${tools}ld" -r --gc-sections "${roots[@]}" -o "$work/all.o" --whole-archive "$1"
    "${tools}objcopy" --strip-debug -R .llvmbc -R .llvmcmd -R .comment \
        --keep-global-symbols="$work/symbols" "$work/all.o" "$work/anabranch.o"
    "${tools}strip" --strip-unneeded "$work/anabranch.o"
    rm -f "$2"
    "${tools}ar" rcsD "$2" "$work/anabranch.o"
}

# link_shared FOLDER VERSION: makes the shared library of the same object. Cargo cannot give the
# symbols versions: rustc has an anonymous list of symbols of its own, which excludes versions.
link_shared() {
    local name=$soname.${2#0.}
    local compiler=(${CC:-cc}) unwinder=-lgcc_s
    if [ -n "${TARGET:-}" ]; then
        compiler=(python3 -m ziglang cc -target "$(zig_target)")
        unwinder=-lunwind
    fi
    "${compiler[@]}" -shared -o "$1/$name" "$work/anabranch.o" -Wl,-soname,$soname \
        -Wl,--version-script=crates/capi/libanabranch.map -Wl,-z,defs -Wl,-z,relro -Wl,-z,now \
        "$unwinder" -lm -lpthread -ldl
    # Debian's libraries are not executable.
    chmod 644 "$1/$name"
    ln -sf "$name" "$1/$soname"
    ln -sf "$soname" "$1/libanabranch.so"
}

# zig_target: zig's name of TARGET, as aarch64-linux-gnu.2.31.
zig_target() {
    sed 's/-unknown-/-/' <<<"$TARGET"
}

check_size() {
    local bytes
    bytes=$(stat -c %s "$1")
    echo "c-library: libanabranch.a has $bytes bytes"
    if [ "$bytes" -gt "$most_bytes" ] && [ "${PROFILE:-dist}" = dist ]; then
        echo "c-library: $1 has more than $most_bytes bytes" >&2
        exit 1
    fi
}

main "$@"
