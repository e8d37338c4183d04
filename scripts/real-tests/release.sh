# Tests of workflows and of a release's files. The files are made from the programs that the script
# has built: nothing is compiled.

group workflows beside
needs workflows python:yaml=python3-yaml
tests workflows workflows_and_the_tag_are_checked

group release beside
tests release every_command_has_a_page_and_completions_parse \
    install_sh_installs_compares_checksums_and_removes a_package_has_programs_pages_and_valid_units

open_release() {
    local name
    mkdir -p "$folder/programs"
    for name in anabranch anabranch-lab; do
        if [ ! -x "$(dirname "$program")/$name" ]; then
            reason="the program $name is not beside $program"
            return 1
        fi
        # Debugging information would take longer to compress than all tests.
        strip -o "$folder/programs/$name" "$(dirname "$program")/$name" 2>/dev/null ||
            cp "$(dirname "$program")/$name" "$folder/programs/$name"
    done
    # The log of a step that has failed stays, and is printed.
    # The group c_interface has built the library, if it runs, too.
    LIBRARY=$shared/c-library PROGRAMS=$folder/programs OUTPUT=$folder/release COMPRESSION=1 \
        scripts/dist.sh \
        pages archives packages installer sums >"$folder/dist.log" 2>&1
}

workflows_and_the_tag_are_checked() {
    local version
    version=$(sed -n 's/^version: //p' CITATION.cff)
    scripts/check-workflows.py || return 1
    scripts/dist.sh check "v$version" || return 1
    if scripts/dist.sh check v9.9.9 2>/dev/null; then
        echo "a wrong tag was accepted"
        return 1
    fi
    if [ -z "$(scripts/dist.sh notes)" ]; then
        echo "the changelog has no section of $version"
        return 1
    fi
    if command -v actionlint >/dev/null && ! actionlint .github/workflows/*.yml; then return 1; fi
    if command -v shellcheck >/dev/null; then
        shellcheck -x scripts/{dist,try-deb,try-program,test-real}.sh scripts/real-tests/*.sh \
            scripts/{playground,test-browser}.sh packaging/install.sh packaging/post* || return 1
    fi
}

every_command_has_a_page_and_completions_parse() {
    local share=$folder/release-stage/share name command
    for name in anabranch anabranch-lab; do
        for command in $("$folder/programs/$name" --help | awk '/^Commands:/ {is_list = 1; next}
            /^[^ ]/ {is_list = 0} is_list && /^  [a-z]/ && $1 != "help" {print $1}'); do
            if ! grep -q '^\.SH' "$share/man/man1/$name-$command.1"; then
                echo "$name $command has no page"
                return 1
            fi
        done
        bash -n "$share/bash-completion/completions/$name" || return 1
        if command -v zsh >/dev/null; then zsh -n "$share/zsh/site-functions/_$name" || return 1; fi
        if command -v fish >/dev/null; then
            fish --no-execute "$share/fish/vendor_completions.d/$name.fish" || return 1
        fi
    done
    # Bash offers the options of a command.
    if ! bash -c "source '$share/bash-completion/completions/anabranch'
        COMP_WORDS=(anabranch send --enco) COMP_CWORD=2
        _anabranch anabranch --enco send; echo \"\${COMPREPLY[@]}\"" |
        grep -q -- "--encoder-range"; then
        echo "bash does not complete send --enco"
        return 1
    fi
}

# install OPTION…: with the release of the folder, into $folder/prefix.
install_release() {
    ANABRANCH_URL=$release_url sh "$folder/release/install.sh" --prefix "$folder/prefix" "$@" \
        >"$folder/install.log" 2>&1
}

install_sh_installs_compares_checksums_and_removes() {
    local archive release_url=file://$folder/release damaged=$folder/damaged
    mkdir -p "$folder/prefix/bin" "$damaged"
    echo mine >"$folder/prefix/bin/mine"
    install_release || return 1
    "$folder/prefix/bin/anabranch" --version &&
        "$folder/prefix/bin/anabranch-lab" --version || return 1
    install_release && install_release --uninstall || return 1
    if [ "$(find "$folder/prefix" -type f)" != "$folder/prefix/bin/mine" ]; then
        echo "removal has left or removed other files: $(find "$folder/prefix" -type f)"
        return 1
    fi
    if install_release --uninstall; then
        echo "it removed an installation that does not exist"
        return 1
    fi
    cp "$folder/release/SHA256SUMS" "$damaged/"
    archive=$(basename "$folder"/release/*-linux.tar.gz)
    { cat "$folder/release/$archive"; echo damage; } >"$damaged/$archive"
    release_url=file://$damaged
    if install_release || [ -e "$folder/prefix/bin/anabranch" ]; then
        echo "a damaged archive was installed"
        return 1
    fi
    await install 1 "does not have its checksum" || return 1
    command -v python3 >/dev/null || return 0
    start server python3 -u -m http.server --bind 127.0.0.1 --directory "$folder/release" 17410
    await server 10 "Serving HTTP" || return 1
    release_url=http://127.0.0.1:17410
    if install_release || [ -e "$folder/prefix/bin/anabranch" ]; then
        echo "a release came without HTTPS"
        return 1
    fi
    await install 1 "https://"
}

# files_of_library: prints files of the C library, if it was built.
files_of_library() {
    [ ! -d "$shared/c-library/include" ] ||
        echo usr/include/anabranch.h usr/lib/libanabranch.{a,so,so.0} usr/lib/pkgconfig/anabranch.pc
}

a_package_has_programs_pages_and_valid_units() {
    local root=$folder/package package unit
    if ! command -v dpkg-deb >/dev/null; then
        skip "the program dpkg-deb is missing (Debian: dpkg)"
        return
    fi
    package=$(echo "$folder"/release/anabranch_*.deb)
    dpkg-deb --extract "$package" "$root" || return 1
    for unit in "$root"/usr/lib/systemd/system/*.service; do
        cp "$unit" "${unit/@/@try}"
    done
    (cd "$root" && md5sum --quiet --check <(dpkg-deb --info "$package" md5sums)) || return 1
    for name in usr/bin/anabranch usr/bin/anabranch-lab \
        usr/share/man/man1/anabranch-send.1.gz usr/share/anabranch/tun.conf \
        usr/share/bash-completion/completions/anabranch etc/anabranch $(files_of_library); do
        if [ ! -e "$root/$name" ]; then
            echo "the package has no $name"
            return 1
        fi
    done
    # Programs of this machine need its C library, at least.
    if ! dpkg-deb --field "$package" Depends | grep -qE '^libc6 \(>= 2\.[0-9]+\)'; then
        echo "the package does not say which C library it needs"
        return 1
    fi
    if [ -n "$(find "$root/usr/lib" -name '*.so.*' -type f -perm /111)" ]; then
        echo "a shared library is executable"
        return 1
    fi
    if dpkg-deb --contents "$package" | grep -v ' root/root '; then
        echo "these files do not belong to root"
        return 1
    fi
    command -v systemd-analyze >/dev/null || return 0
    # The units want targets and slices, which the root lacks.
    cp -R /usr/lib/systemd/system/{network-online,sysinit,basic,shutdown,multi-user}.target \
        "$root/usr/lib/systemd/system/" 2>/dev/null
    for unit in "$root"/usr/lib/systemd/system/*@try.service; do
        systemd-analyze verify --root="$root" --recursive-errors=no "$(basename "$unit")" ||
            return 1
    done
}
