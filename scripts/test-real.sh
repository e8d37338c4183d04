#!/usr/bin/env bash
# Tests beyond loopback: interfaces that vanish and return, in network namespaces of their own, long
# pauses, other people's servers and players, pages in a browser, and the files of a release.
# `--help` shows the options.
#
# Groups that measure no time run side by side, each in a session and a network namespace of its
# own. Then the others run alone, one after the other. scripts/real-tests has the groups.
set -u
cd "$(dirname "$0")/.." || exit
# shellcheck source-path=SCRIPTDIR/..
. scripts/real-tests/all.sh

# Those of `make test`.
features=anabranch-cli/demo,anabranch-cli/emulate

usage() {
    cat <<END
usage: scripts/test-real.sh [--list] [PATTERN…]

Runs all tests, or those whose name contains a PATTERN or whose group has this name; --list lists
them. Missing packages of Debian are installed if this is root. A test that cannot run is skipped
with the reason, which is no failure. Without root it tries user namespaces.

  ANABRANCH     a program that has been built, with anabranch-lab beside it
  TIMES         a file to which the seconds of groups are appended
  JOBS          number of groups at a time; twice the processors by default
  STRICT=1      fails if a check could not be judged on this machine, or a test was flaky
  OPEN_FAULTS=1 runs tests that have not met their bars yet
  WINDOWS=1     compiles the programs for Windows and runs them by Wine
END
}

main() {
    local wants_list= twice
    # All files are read by one shell: the later of two functions would take the other's place.
    twice=$(grep -hoE "^[a-z_0-9]+\(\)" scripts/real-tests/[!r]*.sh scripts/real-tests/r[!u]*.sh |
        sort | uniq -d)
    if [ -n "$twice" ]; then
        echo "test-real: two files of tests define ${twice//$'\n'/, }" >&2
        return 2
    fi
    while [ $# -gt 0 ]; do
        case $1 in
            --help | -h) usage && return ;;
            --list) wants_list=yes ;;
            -*) usage >&2 && return 2 ;;
            *) break ;;
        esac
        shift
    done
    [ $# -eq 0 ] || select_tests "$@"
    if [ "${#groups[@]}" -eq 0 ]; then
        echo "test-real: no test has this name" >&2
        return 2
    fi
    if [ -n "$wants_list" ]; then
        list_tests
        return
    fi
    run_all
}

run_all() {
    local began
    folder=$(mktemp -d)
    shared=$folder/shared
    mkdir "$shared"
    declare -gA seconds_of=() began_of=() process_of=()
    flaky=
    trap 'stop_groups; rm -rf "$folder"' EXIT
    trap 'exit 130' INT TERM
    install_packages
    began=$SECONDS
    compile
    seconds_of["compiling"]=$((SECONDS - began))
    build_groups
    choose_launcher
    run_groups beside "$jobs"
    run_groups alone 1
    run_again
    report
}

# Compiles all programs at once. The packages, features and profile are those of `make test`, after
# which Cargo compiles nothing.
compile() {
    local name words options=()
    [ -n "${ANABRANCH:-}" ] || options+=(--bin anabranch --bin anabranch-lab)
    for name in "${groups[@]}"; do
        read -ra words <<<"${cargo_of[$name]}"
        [ -n "$(missing_of "$name")" ] || options+=("${words[@]}")
    done
    if [ "${#options[@]}" -gt 0 ]; then
        echo "compiles ${options[*]}"
        ${CARGO:-cargo} build --quiet --workspace --features "$features" "${options[@]}" \
            --message-format json-render-diagnostics >"$shared/compiled" || exit 1
    fi
    program=$(realpath "${ANABRANCH:-${CARGO_TARGET_DIR:-target}/debug/anabranch}")
    # For the tests in a browser.
    export program shared ANABRANCH=$program ANABRANCH_LAB=${program%/*}/anabranch-lab
}

# Makes the groups' files before any test. A group that lacks them shows the output.
build_groups() {
    local name began
    for name in "${groups[@]}"; do
        if ! declare -F "build_$name" >/dev/null || [ -n "$(missing_of "$name")" ]; then
            continue
        fi
        began=$SECONDS
        if ! "build_$name" >"$shared/$name.build" 2>&1 && [ ! -s "$shared/$name.skipped" ]; then
            mv "$shared/$name.build" "$shared/$name.broken"
        fi
        if [ $((SECONDS - began)) -ge 2 ]; then
            seconds_of["building $name"]=$((SECONDS - began))
            echo "built $name in $((SECONDS - began)) s"
        fi
    done
}

# Sets the command that gives a group a namespace of its own. Without one, groups share ports: they
# run one after the other.
choose_launcher() {
    launcher=() jobs=${JOBS:-$(($(getconf _NPROCESSORS_ONLN) * 2))}
    export HAS_NAMESPACE=yes
    # shellcheck disable=SC2016 # The inner shell's.
    local as_root=(unshare --user --map-root-user --net --mount
        sh -c 'mount -t tmpfs none /run && exec "$@"' --)
    if ! has ip; then
        HAS_NAMESPACE=
    elif unshare --net ip link set lo up 2>/dev/null; then
        launcher=(unshare --net)
        # Two that make the first namespace at once would mount its folder twice.
        ip netns add "anabranch-$$" && ip netns del "anabranch-$$"
    elif "${as_root[@]}" ip link set lo up 2>/dev/null; then
        launcher=("${as_root[@]}")
    else
        HAS_NAMESPACE=
    fi
    [ -n "$HAS_NAMESPACE" ] || jobs=1
    if has setsid; then launcher=(setsid "${launcher[@]}"); fi
}

# run_groups beside|alone COUNT: runs all groups of that manner, at most COUNT at a time.
run_groups() {
    local name
    for name in "${groups[@]}"; do
        [ "${manner_of[$name]}" = "$1" ] || continue
        start_group "$name"
        while [ "${#process_of[@]}" -ge "$2" ]; do
            await_groups
        done
    done
    while [ "${#process_of[@]}" -gt 0 ]; do
        await_groups
    done
}

# Runs each failed test once more, alone. One that passes then is called flaky, which is a failure
# with STRICT=1 only.
run_again() {
    local name failed
    for name in "${groups[@]}"; do
        failed=$(awk '$1 == "failed" {print $3}' "$folder/$name.results" 2>/dev/null | xargs)
        [ -n "$failed" ] || continue
        echo "-- once more: $failed"
        sed -i '/^failed/d' "$folder/$name.results"
        tests_of[$name]=$failed
        start_group "$name"
        while [ "${#process_of[@]}" -gt 0 ]; do
            await_groups
        done
        flaky+=" $(awk '$1 == "passed" {print $3}' "$folder/$name.results" |
            grep -xF "${failed// /$'\n'}" | xargs)"
    done
    flaky=$(xargs <<<"$flaky")
}

start_group() {
    mkdir "$folder/$1"
    began_of[$1]=${EPOCHREALTIME/[.,]/}
    # shellcheck disable=SC2086 # Words of names.
    env folder="$folder/$1" results="$folder/$1.results" "${launcher[@]}" \
        scripts/real-tests/run-group.sh "$1" ${tests_of[$1]} \
        >"$folder/$1.said" 2>&1 </dev/null &
    process_of[$1]=$!
}

# Waits a moment, and prints the output of groups that have ended.
await_groups() {
    local name
    sleep 0.2
    for name in "${!process_of[@]}"; do
        if ! kill -0 "${process_of[$name]}" 2>/dev/null; then
            wait "${process_of[$name]}" 2>/dev/null
            unset "process_of[$name]"
            end_group "$name"
        fi
    done
}

# end_group GROUP: prints its lines. Tests without a result have failed.
end_group() {
    local test
    seconds_of[$1]=$(seconds_since "${began_of[$1]}")
    echo "-- $1, ${manner_of[$1]}: ${seconds_of[$1]} s"
    cat "$folder/$1.said"
    for test in ${tests_of[$1]}; do
        if ! grep -qs " $test\$" "$folder/$1.results"; then
            echo "FAILED           $test: its group has ended before it"
            echo "failed 0 $test" >>"$folder/$1.results"
        fi
    done
    rm -rf "${folder:?}/$1"
}

stop_groups() {
    local process
    for process in "${process_of[@]}"; do
        # Its session too, if it has one.
        kill -TERM -- "-$process" 2>/dev/null || kill -TERM "$process" 2>/dev/null
        wait "$process" 2>/dev/null
        kill -KILL -- "-$process" 2>/dev/null
    done
}

# Prints the seconds, and sums up. Returns whether nothing has failed.
report() {
    local name failed unjudged
    echo "-- seconds of groups"
    for name in "${!seconds_of[@]}"; do
        printf 'make test-real: %-22s %5.0f s\n' "${name// /-}" "${seconds_of[$name]}"
    done | sort -k4 -rn | tee -a "${TIMES:-/dev/null}"
    echo "-- the slowest tests"
    awk '$2 > 0 {printf "%6.1f  %s\n", $2, $3}' "$folder"/*.results | sort -rn | head -n 10
    failed=$(result_count failed)
    unjudged=$(result_count unjudged)
    echo "test-real: $(result_count passed) passed, $failed failed, $(result_count skipped) skipped"
    echo "test-real: $unjudged checks not judged"
    [ -z "$flaky" ] || echo "test-real: flaky, which passed when they ran alone: $flaky"
    # Once more, since the output is long and its middle is what gets lost.
    for name in "${groups[@]}"; do
        if grep -qs ^failed "$folder/$name.results"; then
            echo "-- the end of group $name, which failed in" \
                "$(awk '$1 == "failed" {print $3}' "$folder/$name.results" | xargs)"
            grep -B 15 ^FAILED "$folder/$name.said" | tail -n 40
        fi
    done
    [ "$failed" -eq 0 ] && { [ "$unjudged$flaky" = 0 ] || [ -z "${STRICT:-}" ]; }
}

result_count() {
    cat "$folder"/*.results | grep -c "^$1"
}

main "$@"
