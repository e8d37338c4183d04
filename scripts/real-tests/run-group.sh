#!/usr/bin/env bash
# Runs the tests of one group, for scripts/test-real.sh, in a session and a network namespace of its
# own: run-group.sh GROUP TEST…
#
# It writes a line to $results for each test: `passed`, `failed` or `skipped`, the seconds and the
# name. A check that could not be judged has a line `unjudged`.
set -u
cd "$(dirname "$0")/../.." || exit
. scripts/real-tests/all.sh

main() {
    local name=$1
    shift
    [ -z "$HAS_NAMESPACE" ] || ip link set lo up
    trap 'stop_all; exit 1' TERM INT
    near=anabranch-near-$$ far=anabranch-far-$$
    sender_public=$("$program" keygen --output "$folder/sender.key")
    receiver_public=$("$program" keygen --output "$folder/receiver.key")
    reason=
    if ! can_run "$name"; then
        stop_all
        skip_all "$@"
        return
    fi
    local test
    for test in "$@"; do
        run "$test"
    done
}

# can_run GROUP: whether it can; without, `reason` has the reason unless opening it failed.
can_run() {
    local entry missing=()
    for entry in $(missing_of "$1"); do
        missing+=("${entry%%=*} (Debian: ${entry##*=})")
    done
    if [ "${#missing[@]}" -gt 0 ]; then
        reason="it lacks ${missing[*]}"
        return 1
    fi
    # build_GROUP has found something missing, or has failed.
    if [ -s "$shared/$1.skipped" ]; then
        reason=$(cat "$shared/$1.skipped")
        return 1
    fi
    if [ -e "$shared/$1.broken" ]; then
        cp "$shared/$1.broken" "$folder/build.log"
        return 1
    fi
    if ! declare -F "open_$1" >/dev/null; then
        return
    fi
    "open_$1"
}

# skip_all TEST…: skips them for a reason; they have failed if there is none.
skip_all() {
    local result=skipped test
    if [ -z "$reason" ]; then
        result=failed
        tail -n 20 "$folder"/*.log
    fi
    for test in "$@"; do
        echo "$result $test${reason:+: $reason}"
        echo "$result 0 $test" >>"$results"
    done
}

# run TEST: its programs are ended for it.
run() {
    local began=${EPOCHREALTIME/[.,]/} status result seconds
    reason=
    "$1"
    status=$?
    seconds=$(seconds_since "$began")
    case $status in
        0) result=passed ;;
        77) result=skipped ;;
        *)
            result=failed
            tail -n 20 "$folder"/*.log
            ;;
    esac
    echo "$result $seconds $1" >>"$results"
    if [ $result = failed ]; then result=FAILED; fi
    printf '%-7s %5s s  %s\n' "${result/passed/ok}" "$seconds" "$1${reason:+: $reason}"
    stop_all
    rm -f "$folder"/*.log "$folder"/*.ts
}

main "$@"
