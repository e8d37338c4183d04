# The plan of groups. A file of tests declares its groups with these functions. A group may have
# these of its own:
#   build_GROUP   makes files and downloads before all tests
#   open_GROUP    runs in the group's namespace before its tests; may skip them all
#
# Groups that run `beside` others measure no time. Those that run `alone` do.

groups=()
declare -A manner_of needs_of cargo_of tests_of

# group NAME beside|alone
group() {
    groups+=("$1")
    manner_of[$1]=$2
    needs_of[$1]=
    cargo_of[$1]=
    tests_of[$1]=
}

# needs GROUP THING=PACKAGE…: things without which no test of it runs, and Debian's packages.
needs() {
    local name=$1
    shift
    needs_of[$name]+=" $*"
}

# compiles GROUP OPTION…: options of `cargo build` for more programs than all groups use.
compiles() {
    local name=$1
    shift
    cargo_of[$name]+=" $*"
}

# tests GROUP TEST…
tests() {
    local name=$1
    shift
    tests_of[$name]+=" $*"
}

# has THING: whether this machine has a program, python:MODULE, gi:NAMESPACE, gst:ELEMENT or
# pkg-config:LIBRARY.
has() {
    local name=${1#*:}
    # Debian's Python has the modules of Debian's packages.
    case $1 in
        python:*) python3 -c "import $name" || /usr/bin/python3 -c "import $name" ;;
        gi:*) /usr/bin/python3 -c "import gi; gi.require_version('$name', '1.0')" ;;
        gst:*) gst-inspect-1.0 --exists "$name" ;;
        pkg-config:*) pkg-config --exists "$name" ;;
        *) command -v "$1" ;;
    esac >/dev/null 2>&1
}

# missing_of GROUP: prints the entries of things that are missing.
missing_of() {
    local entry
    for entry in ${needs_of[$1]}; do
        has "${entry%%=*}" || echo "$entry"
    done
}

# select_tests PATTERN…: keeps the tests whose names contain one of them, and groups of that name.
select_tests() {
    local name test pattern kept selected=()
    for name in "${groups[@]}"; do
        kept=
        for test in ${tests_of[$name]}; do
            for pattern in "$@"; do
                if [[ $test == *$pattern* || $name == "$pattern" ]]; then
                    kept+=" $test"
                    break
                fi
            done
        done
        tests_of[$name]=$kept
        [ -z "$kept" ] || selected+=("$name")
    done
    groups=("${selected[@]}")
}

list_tests() {
    local name test
    for name in "${groups[@]}"; do
        for test in ${tests_of[$name]}; do
            printf '%-14s %s\n' "$name" "$test"
        done
    done
}

# install_packages: asks Debian for all missing ones at once, if this is root.
install_packages() {
    local name packages=() package
    for name in "${groups[@]}"; do
        mapfile -t -O "${#packages[@]}" packages < <(missing_of "$name" | sed 's/.*=//')
    done
    mapfile -t packages < <(printf '%s\n' "${packages[@]}" | sort -u | grep .)
    if [ "${#packages[@]}" -eq 0 ] || [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        return
    fi
    echo "installs ${packages[*]}"
    apt-get update --quiet >/dev/null 2>&1
    ask_debian "${packages[@]}" && return
    # One that this Debian lacks would keep the others away.
    for package in "${packages[@]}"; do
        ask_debian "$package" || echo "        $package cannot be installed"
    done
}

# ask_debian PACKAGE…
ask_debian() {
    DEBIAN_FRONTEND=noninteractive apt-get install --option DPkg::Lock::Timeout=300 --yes --quiet \
        --no-install-recommends "$@" >/dev/null 2>&1
}
