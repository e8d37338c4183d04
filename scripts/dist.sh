#!/usr/bin/env bash
# Builds the files of a release in target/packages: static programs for x86-64 and arm64 with manual
# pages and completions as .tar.gz and .deb, a container image, install.sh, the elements of
# GStreamer, the playground, an SBOM and checksums. Where their compilers are, a .zip for Windows and
# a .tar.gz for macOS, too.
#
# scripts/dist.sh [STEP…] runs some of the steps: build, library, pages, archives, packages, windows,
# macos, installer, gstreamer, playground, sbom, image, sums, try. `check TAG` compares a tag with
# the version, `notes` prints the changelog's section.
#
#   TARGETS      Rust's targets; both by default
#   PROGRAMS     folder of built programs for this machine, instead of TARGETS
#   LIBRARY      with PROGRAMS: folder that scripts/c-library.sh has laid out
#   PROFILE      Cargo's profile of the steps windows and macos: dist by default, or one that
#                compiles faster, as release and demo
#   OUTPUT       folder of the files
#   COMPRESSION  level of archives and packages; 9 and 6 by default
#   RELEASE_URL  address from which install.sh downloads
#   IMAGE_OPTIONS  options of the image's build: --from=IMAGE for a base of this machine
set -euo pipefail
cd "$(dirname "$0")/.."

programs=(anabranch anabranch-lab)
packages=(anabranch-cli anabranch-lab-cli)
folders=(cli lab-cli)
features=anabranch-cli/demo,anabranch-cli/emulate
cargo=${CARGO:-cargo}
output=${OUTPUT:-target/packages}
targets=${TARGETS:-x86_64-unknown-linux-musl aarch64-unknown-linux-musl}
profile=${PROFILE:-dist}
stage=$output-stage
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
# Equal sources make equal archives.
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}

main() {
    local step
    case ${1:-} in
        check) [ "${2:-}" = "v$version" ] || fail "the tag ${2:-} is not v$version, the version of Cargo.toml"; return ;;
        notes) notes; return ;;
    esac
    if [ $# -eq 0 ]; then
        rm -rf "$output" "$stage"
        set -- build library pages archives packages windows macos installer gstreamer playground \
            sbom image sums try
    fi
    mkdir -p "$output" "$stage"
    for step in "$@"; do
        case $step in
            build | library | pages | archives | packages | windows | macos | installer) ;;
            gstreamer | playground | sbom | image | sums | try) ;;
            *) fail "unknown step $step" ;;
        esac
        echo "dist: $step"
        "$step"
    done
}

fail() {
    echo "dist: $1" >&2
    exit 1
}

notes() {
    awk -v version="$version" '/^## / {is_section = index($0, version) > 0; next} is_section' CHANGELOG.md
}

# Says that a part of the release is missing, and why.
skip() {
    echo "dist: skipped $1: $2"
}

# architectures: those of the programs, in the words of the kernel.
architectures() {
    if [ -n "${PROGRAMS:-}" ]; then
        uname -m
        return
    fi
    local target
    for target in $targets; do
        echo "${target%%-*}"
    done
}

# folder_of ARCHITECTURE: the folder of its programs.
folder_of() {
    if [ -n "${PROGRAMS:-}" ]; then
        echo "$PROGRAMS"
        return
    fi
    local target
    for target in $targets; do
        if [ "${target%%-*}" = "$1" ]; then
            echo "${CARGO_TARGET_DIR:-target}/$target/dist"
        fi
    done
}

# name_of ARCHITECTURE: the archive's name without its ending.
name_of() {
    echo "anabranch-$version-$1-linux"
}

# debian_of ARCHITECTURE: its name in Debian.
debian_of() {
    case $1 in
        x86_64) echo amd64 ;;
        aarch64) echo arm64 ;;
        *) echo "$1" ;;
    esac
}

need_zigbuild() {
    command -v cargo-zigbuild >/dev/null ||
        fail "cargo-zigbuild is missing: pip install cargo-zigbuild ziglang"
}

# The codec is C++: zig brings a compiler, a libc and a libc++ for each target.
build() {
    [ -z "${PROGRAMS:-}" ] || return 0
    need_zigbuild
    if [[ $targets == *x86_64* ]] && ! command -v nasm >/dev/null; then
        fail "nasm is missing (Debian: nasm): the codec for x86-64 would be several times slower"
    fi
    local target package of_package
    for target in $targets; do
        if command -v rustup >/dev/null; then
            rustup target add "$target"
        fi
        # One by one: the laboratory's worlds in memory must not be in the streaming program.
        for package in "${packages[@]}"; do
            of_package=(--package "$package")
            [ "$package" != anabranch-cli ] || of_package+=(--features "$features")
            CARGO_PROFILE_DIST_STRIP=symbols "$cargo" zigbuild --locked --profile dist \
                --target "$target" "${of_package[@]}"
        done
    done
}

# The C library of the Debian package, for the C library of bullseye and later.
library() {
    [ -z "${PROGRAMS:-}" ] || return 0
    need_zigbuild
    python3 -m ziglang version >/dev/null 2>&1 || fail "zig is missing: pip install ziglang"
    local architecture tools
    for architecture in $(architectures); do
        tools=
        if [ "$architecture" != "$(uname -m)" ]; then
            tools=$architecture-linux-gnu-
            if ! command -v "${tools}ld" >/dev/null; then
                skip "the C library for $architecture" \
                    "${tools}ld is missing (Debian: binutils-$architecture-linux-gnu)"
                continue
            fi
        fi
        if command -v rustup >/dev/null; then
            rustup target add "$architecture-unknown-linux-gnu"
        fi
        TARGET=$architecture-unknown-linux-gnu.2.31 TOOLS=$tools \
            LIBDIR=lib/$architecture-linux-gnu scripts/c-library.sh "$stage/library-$architecture"
    done
}

# add_library ARCHITECTURE FOLDER: copies the C library into a tree, if it was built.
add_library() {
    local from=$stage/library-$1
    [ -z "${PROGRAMS:-}" ] || from=${LIBRARY:-$from}
    [ ! -d "$from/include" ] || cp -R "$from/include" "$from/lib" "$2/"
}

# Both architectures have the same pages and completions, written by a program that runs here.
pages() {
    local program folder
    rm -rf "$stage/share"
    mkdir -p "$stage/share/man/man1" "$stage/share/bash-completion/completions" \
        "$stage/share/zsh/site-functions" "$stage/share/fish/vendor_completions.d"
    folder=$(folder_of "$(uname -m)")
    [ -n "$folder" ] || fail "no program of TARGETS runs on this machine to write the manual pages"
    for program in "${programs[@]}"; do
        "$folder/$program" manual "$stage/share/man/man1"
        "$folder/$program" completions bash >"$stage/share/bash-completion/completions/$program"
        "$folder/$program" completions zsh >"$stage/share/zsh/site-functions/_$program"
        "$folder/$program" completions fish >"$stage/share/fish/vendor_completions.d/$program.fish"
    done
}

# lay_out ARCHITECTURE FOLDER: the tree that install.sh copies.
lay_out() {
    local program
    rm -rf "$2"
    mkdir -p "$2/bin" "$2/share/doc/anabranch/operations"
    for program in "${programs[@]}"; do
        install -m 755 "$(folder_of "$1")/$program" "$2/bin/$program"
    done
    cp -R "$stage/share/." "$2/share/"
    install -m 644 README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT docs/compatibility.md \
        packaging/grafana.json "$2/share/doc/anabranch/"
    install -m 644 docs/operations/*.md "$2/share/doc/anabranch/operations/"
}

archives() {
    local architecture name
    for architecture in $(architectures); do
        name=$(name_of "$architecture")
        lay_out "$architecture" "$stage/$name"
        tar --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw,a-s \
            --mtime="@$epoch" -C "$stage" -cf - "$name" | gzip "-${COMPRESSION:-9}n" \
            >"$output/$name.tar.gz"
    done
}

packages() {
    if ! command -v dpkg-deb >/dev/null; then
        skip packages "dpkg-deb is missing (Debian: dpkg)"
        return
    fi
    local architecture
    for architecture in $(architectures); do
        package "$architecture"
    done
}

# depends_of FOLDER: the packages with the libraries that its programs and libraries need, as the
# field Depends of a Debian package. Static programs need none.
depends_of() {
    local file name shown libc='' others=()
    command -v readelf >/dev/null || fail "readelf is missing (Debian: binutils)"
    while IFS= read -r -d '' file; do
        shown=$(readelf --wide --dynamic --version-info "$file" 2>/dev/null) || continue
        libc=$(printf '%s\n' "$libc" "$(grep -oE 'GLIBC_[0-9.]+' <<<"$shown" | cut -d _ -f 2)" |
            sort -V | tail -n 1)
        while read -r name; do
            case $name in
                libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | ld-linux*) ;;
                libgcc_s.so.1) others+=(libgcc-s1) ;;
                libstdc++.so.6) others+=(libstdc++6) ;;
                *) fail "$file needs $name, of an unknown package" ;;
            esac
        done < <(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$shown")
    done < <(find "$1/bin" "$1/lib" -type f -print0)
    [ -z "$libc" ] || others=("libc6 (>= $libc)" "${others[@]}")
    [ ${#others[@]} -eq 0 ] || printf '%s\n' "${others[@]}" | sort -u | paste -sd , | sed 's/,/, /g'
}

# package ARCHITECTURE: a Debian package. The programs of a release need no libraries of the system,
# the C library needs its C library.
package() {
    local root debian depends
    debian=$(debian_of "$1")
    root=$stage/deb-$debian
    rm -rf "$root"
    lay_out "$1" "$root/usr"
    add_library "$1" "$root/usr"
    mkdir -p "$root/DEBIAN" "$root/etc/anabranch" "$root/usr/share/anabranch" \
        "$root/usr/lib/systemd/system"
    mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
    gzip -9n "$root"/usr/share/man/man1/*.1
    install -m 644 packaging/*.service "$root/usr/lib/systemd/system/"
    install -m 644 packaging/tun.conf "$root/usr/share/anabranch/"
    install -m 644 packaging/copyright "$root/usr/share/doc/anabranch/"
    depends=$(depends_of "$root/usr") || exit 1
    (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
    sed -e "s/@VERSION@/${version/-/\~}/" -e "s/@ARCHITECTURE@/$debian/" \
        -e "s/@SIZE@/$(du -sk "$root/usr" | cut -f 1)/" -e "s/@DEPENDS@/$depends/" \
        -e '/^Depends: $/d' packaging/control >"$root/DEBIAN/control"
    chmod -R u+rwX,go=rX "$root"
    install -m 755 packaging/postinst packaging/postrm "$root/DEBIAN/"
    SOURCE_DATE_EPOCH=$epoch dpkg-deb --root-owner-group -Zxz "-z${COMPRESSION:-6}" \
        --build "$root" "$output/anabranch_${version/-/\~}_$debian.deb" >/dev/null
}

# The compiler's libraries are in the programs. Rust asks for the shared one of the codec's C++, so
# the linker first finds a folder that has the other alone. WebRTC is left out: its library does not
# build here.
windows() {
    local target=x86_64-pc-windows-gnu name=anabranch-$version-x86_64-windows program
    local static=${CARGO_TARGET_DIR:-target}/$target/static
    if ! command -v x86_64-w64-mingw32-g++ >/dev/null; then
        skip windows "its compiler is missing (Debian: g++-mingw-w64-x86-64)"
        return
    fi
    mkdir -p "$static"
    ln -sf "$(x86_64-w64-mingw32-g++ -print-file-name=libstdc++.a)" "$static/"
    build_elsewhere rustc "$target" "-C link-arg=-static" -- -C "link-arg=-L$(realpath "$static")"
    lay_out_elsewhere "$target" "$stage/$name" .exe packaging/windows
    add_licences "$stage/$name/share/doc/anabranch"
    for program in "${programs[@]}"; do
        check_imports "$stage/$name/bin/$program.exe"
    done
    rm -f "$output/$name.zip"
    (cd "$stage" && SOURCE_DATE_EPOCH=$epoch python3 - "$name" "../${output##*/}/$name.zip" <<'END'
import os, pathlib, sys, time, zipfile
folder, archive = pathlib.Path(sys.argv[1]), sys.argv[2]
at = time.gmtime(max(int(os.environ["SOURCE_DATE_EPOCH"]), 315532800))[:6]
with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            file.writestr(zipfile.ZipInfo(str(path), at), path.read_bytes(), zipfile.ZIP_DEFLATED)
END
    )
}

# add_licences FOLDER: those of the compiler's libraries.
add_licences() {
    local file package
    for file in /usr/share/doc/{mingw-w64-common,g++-mingw-w64-x86-64-*}/copyright; do
        [ -e "$file" ] || continue
        package=${file%/copyright}
        install -m 644 "$file" "$1/copyright-of-${package##*/}"
    done
    compgen -G "$1/copyright-of-mingw-*" >/dev/null ||
        fail "the licences of mingw-w64 are missing (Debian: mingw-w64-common)"
}

# check_imports PROGRAM: fails if it needs a library that is not part of Windows.
check_imports() {
    local imports library
    imports=$(x86_64-w64-mingw32-objdump -p "$1" | sed -n 's/.*DLL Name: //p')
    [ -n "$imports" ] || fail "the libraries of ${1##*/} cannot be read"
    for library in $imports; do
        case ${library,,} in
            advapi32.dll | bcrypt.dll | bcryptprimitives.dll | iphlpapi.dll | kernel32.dll) ;;
            msvcrt.dll | ntdll.dll | user32.dll | userenv.dll | winmm.dll | ws2_32.dll) ;;
            api-ms-win-*) ;;
            *) fail "${1##*/} needs $library, which Windows may lack" ;;
        esac
    done
}

# zig links without Apple's SDK what needs no framework. Without a version it takes that of its SDK.
macos() {
    local target=aarch64-apple-darwin name=anabranch-$version-aarch64-macos
    local -x MACOSX_DEPLOYMENT_TARGET=11.0
    if ! command -v cargo-zigbuild >/dev/null; then
        skip macos "cargo-zigbuild is missing: pip install cargo-zigbuild ziglang"
        return
    fi
    build_elsewhere zigbuild "$target" ""
    lay_out_elsewhere "$target" "$stage/$name" "" packaging/macos
    scripts/check-mach.py "$MACOSX_DEPLOYMENT_TARGET" "$stage/$name/bin"/*
    tar --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw,a-s \
        --mtime="@$epoch" -C "$stage" -cf - "$name" | gzip "-${COMPRESSION:-9}n" \
        >"$output/$name.tar.gz"
}

# build_elsewhere COMMAND TARGET FLAGS [OPTION…]: builds the programs for another system. Options are
# for the command.
build_elsewhere() {
    local index of_package
    if command -v rustup >/dev/null; then
        rustup target add "$2"
    fi
    for index in "${!programs[@]}"; do
        of_package=(--package "${packages[index]}" --bin "${programs[index]}")
        [ "${programs[index]}" != anabranch ] ||
            of_package+=(--no-default-features --features "$features,anabranch-cli/top")
        CARGO_PROFILE_DIST_STRIP=symbols RUSTFLAGS="$3" "$cargo" "$1" --locked \
            --profile "$profile" --target "$2" "${of_package[@]}" "${@:4}"
    done
}

# lay_out_elsewhere TARGET FOLDER ENDING OWN: the tree of an archive without an installer.
lay_out_elsewhere() {
    local program
    rm -rf "$2"
    mkdir -p "$2/bin" "$2/share/doc/anabranch/operations"
    for program in "${programs[@]}"; do
        install -m 755 "${CARGO_TARGET_DIR:-target}/$1/$profile/$program$3" "$2/bin/$program$3"
    done
    cp "$4"/* "$2/"
    install -m 644 README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT docs/compatibility.md \
        packaging/copyright "$2/share/doc/anabranch/"
    install -m 644 docs/operations/*.md "$2/share/doc/anabranch/operations/"
}

installer() {
    sed -e "s,@VERSION@,$version," -e "s,@RELEASE_URL@,${RELEASE_URL:-}," packaging/install.sh \
        >"$output/install.sh"
    chmod 755 "$output/install.sh"
}

# The plugin uses the system's libraries, so it is built for this machine's architecture alone.
gstreamer() {
    if ! pkg-config --exists gstreamer-1.0 gstreamer-base-1.0 2>/dev/null; then
        skip gstreamer "GStreamer's headers are missing (Debian: libgstreamer1.0-dev)"
        return
    fi
    local name
    name=anabranch-$version-$(uname -m)-linux-gstreamer
    CARGO_TARGET_DIR=$PWD/gst/target CARGO_PROFILE_RELEASE_STRIP=symbols "$cargo" build --locked \
        --release --lib --manifest-path gst/Cargo.toml
    rm -rf "${stage:?}/$name"
    mkdir -p "$stage/$name"
    install -m 755 gst/target/release/libgstanabranch.so "$stage/$name/"
    install -m 644 LICENSE-APACHE LICENSE-MIT docs/operations/encoder.md "$stage/$name/"
    tar --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw,a-s \
        --mtime="@$epoch" -C "$stage" -cf - "$name" | gzip "-${COMPRESSION:-9}n" \
        >"$output/$name.tar.gz"
}

# A static page for any web server. The folder in the archive is the page.
playground() {
    local name=anabranch-$version-playground code=0
    rm -rf "${stage:?}/$name"
    scripts/playground.sh "$stage/$name" || code=$?
    case $code in
        0) ;;
        3) skip playground "a tool is missing, as said above"; return ;;
        *) fail "the playground cannot be built" ;;
    esac
    tar --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw,a-s \
        --mtime="@$epoch" -C "$stage" -cf - "$name" | gzip "-${COMPRESSION:-9}n" \
        >"$output/$name.tar.gz"
}

# One document for each program. The tool writes beside manifests, so it works on a copy.
sbom() {
    if ! "$cargo" cyclonedx --version >/dev/null 2>&1; then
        skip sbom "cargo-cyclonedx is missing: scripts/cargo-tool.sh cargo-cyclonedx"
        return
    fi
    local copy index
    copy=$(cd "$stage" && pwd)/sbom
    rm -rf "$copy"
    mkdir -p "$copy"
    cp -R Cargo.toml Cargo.lock crates "$copy/"
    SOURCE_DATE_EPOCH=$epoch "$cargo" cyclonedx --quiet --format json --spec-version 1.5 \
        --target "${targets%% *}" --override-filename sbom --manifest-path "$copy/Cargo.toml"
    for index in "${!programs[@]}"; do
        # No path of the machine that built it.
        sed "s,file://$copy/,file:///,g" "$copy/crates/${folders[index]}/sbom.json" \
            >"$output/${programs[index]}-$version.cdx.json"
    done
    rm -rf "$copy"
}

# works ENGINE: whether it can build; docker needs a server that runs.
works() {
    case $1 in
        buildah) command -v buildah >/dev/null ;;
        *) command -v "$1" >/dev/null && "$1" info >/dev/null 2>&1 ;;
    esac
}

# A container image of the Debian package, as an OCI archive.
image() {
    local engine architecture
    for engine in ${ENGINE:-podman docker buildah none}; do
        if works "$engine"; then break; fi
    done
    if ! works "$engine"; then
        skip image "neither podman nor docker (with its server) nor buildah works here"
        return
    fi
    for architecture in $(architectures); do
        image_of "$architecture" "$engine"
    done
}

# image_of ARCHITECTURE ENGINE
image_of() {
    local debian name archive base
    debian=$(debian_of "$1")
    base=$(sed -n 's/^FROM //p' packaging/Dockerfile)
    name=anabranch:$version-$debian
    archive=$output/anabranch-$version-$1-image.tar
    if [ "$1" != "$(uname -m)" ] && [ ! -e "/proc/sys/fs/binfmt_misc/qemu-$1" ]; then
        skip "image for $1" "this machine cannot run its programs (Debian: qemu-user-static)"
        return
    fi
    if [ -z "${IMAGE_OPTIONS:-}" ] && ! "$2" pull --platform "linux/$debian" "$base" >/dev/null 2>&1; then
        skip "image for $1" "its base $base cannot be downloaded; IMAGE_OPTIONS may name a local one"
        return
    fi
    # shellcheck disable=SC2086 # Words of options.
    "$2" build --platform "linux/$debian" --build-arg "TARGETARCH=$debian" ${IMAGE_OPTIONS:-} \
        --file packaging/Dockerfile --tag "$name" "$output"
    rm -f "$archive"
    case $2 in
        buildah) buildah push --quiet "$name" "oci-archive:$archive:$name" ;;
        podman) podman save --quiet --format oci-archive --output "$archive" "$name" ;;
        *) "$2" save --output "$archive" "$name" ;;
    esac
    gzip -9nf "$archive"
}

sums() {
    (cd "$output" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | sort |
        xargs sha256sum) >"$output/SHA256SUMS"
    cat "$output/SHA256SUMS"
}

# Sends video with each program, by emulation if it is for another machine.
try() {
    local architecture emulator
    for architecture in $(architectures); do
        emulator=
        if [ "$architecture" != "$(uname -m)" ]; then
            emulator=qemu-$architecture-static
            if ! command -v "$emulator" >/dev/null; then
                skip "try of $architecture" "$emulator is missing (Debian: qemu-user-static)"
                continue
            fi
        fi
        scripts/try-program.sh "$(folder_of "$architecture")/${programs[0]}" ${emulator:+"$emulator"}
        $emulator "$(folder_of "$architecture")/${programs[1]}" --version
    done
}

main "$@"
