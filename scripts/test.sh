#!/usr/bin/env bash
# Runs all tests that need neither root nor other programs, step by step, and prints the time of
# each step. All steps run although one fails.
#
#     scripts/test.sh            all steps
#     scripts/test.sh STEP…      some of them: format, lint, systems, build, test, python,
#                                real-time
#
# TIMES names a file to which the times are appended.
#
# Tests in real time come last: a build beside them would make them late. A machine that is late all
# the same leaves checks unjudged; the last line counts them, and with STRICT=1 one is a failure.
#
# A test that fails runs once more, with no other beside it. If it passes then, it is called flaky,
# which is a failure with STRICT=1 only (docs/decisions/0280-a-flaky-test-is-named.md).
set -uo pipefail
cd "$(dirname "$0")/.."

readonly steps=(format lint systems build test python real-time)
readonly features=anabranch-cli/demo,anabranch-cli/emulate
cargo=${CARGO:-cargo}
log=$(mktemp)
said=$(mktemp)
trap 'rm -f "$log" "$said"' EXIT
flaky=()

main() {
    local step began status failures=() times=()
    for step in "${@:-${steps[@]}}"; do
        if ! is_step "$step"; then
            echo "scripts/test.sh: there is no step \"$step\"; the steps are: ${steps[*]}" >&2
            exit 2
        fi
    done
    for step in "${@:-${steps[@]}}"; do
        echo "==> $step"
        began=$SECONDS
        "run_$step"
        status=$?
        times+=("$(printf '%-12s %5d s' "$step" $((SECONDS - began)))")
        [ "$status" -eq 0 ] || failures+=("$step")
    done
    echo
    printf 'make test: %s\n' "${times[@]}" | tee -a "${TIMES:-/dev/null}"
    conclude
}

is_step() {
    [[ " ${steps[*]} " == *" $1 "* ]]
}

# Prints the sums of all test programs, failed steps, flaky tests, and the number of unjudged checks.
conclude() {
    local unjudged
    unjudged=$(grep -c "NOT JUDGED" "$log")
    [ ${#failures[@]} -eq 0 ] || echo "FAILED: ${failures[*]}"
    awk '/^test result:/ {passed += $4; failed += $6; skipped += $8}
        END {printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped}' "$log"
    echo "make test: $unjudged checks not judged"
    if [ ${#flaky[@]} -gt 0 ]; then
        echo "make test: ${#flaky[@]} flaky, which passed when they ran alone: ${flaky[*]}"
    fi
    if [ ${#flaky[@]} -gt 0 ] && [ -n "${STRICT:-}" ]; then
        echo "STRICT=1: a flaky test is a failure" >&2
        exit 1
    fi
    if [ "$unjudged" -gt 0 ] && [ -n "${STRICT:-}" ]; then
        echo "STRICT=1: an idle machine judges every check" >&2
        exit 1
    fi
    [ ${#failures[@]} -eq 0 ]
}

run_format() {
    "$cargo" fmt --all -- --check
}

run_lint() {
    "$cargo" clippy --workspace --features $features --all-targets -- -D warnings
}

# Windows and macOS.
run_systems() {
    CARGO=$cargo scripts/check-systems.sh
}

# The tests' output goes through a pipe, the build's progress to the terminal.
run_build() {
    "$cargo" test --workspace --features $features --no-run
}

# The filter `real_time` matches the modules real_time and real_time_tests.
run_test() {
    : >"$said"
    "$cargo" test --quiet --workspace --features $features --no-fail-fast -- --skip real_time \
        2>&1 | tee -a "$log" "$said" || run_again
}

# Runs the tests that `said` lists as failed once more, one after the other. Fails if one of them
# fails again, or if a program ended without a list.
run_again() {
    local names passed
    mapfile -t names < <(failed_tests <"$said" | sort -u)
    if [ ${#names[@]} -eq 0 ] || [ "$(grep -c "^error: test failed, " "$said")" -ne \
        "$(grep -c "^test result: FAILED" "$said")" ]; then
        return 1
    fi
    echo "==> once more: ${names[*]}"
    if ! alone "$cargo" test --quiet --workspace --features $features --no-fail-fast \
        --lib --bins --tests -- --exact --test-threads 1 "${names[@]}" >"$said" 2>&1; then
        cat "$said"
        return 1
    fi
    passed=$(awk '/^test result: ok/ {passed += $4} END {print passed + 0}' "$said")
    [ "$passed" -ge ${#names[@]} ] || return 1
    flaky+=("${names[@]}")
}

# Prints the names of the last list under "failures:" of each program.
failed_tests() {
    awk '/^failures:$/ {count = 0; is_list = 1; next}
        /^test result:/ {for (i = 0; i < count; i++) print names[i]; count = 0; is_list = 0}
        is_list && /^    [^ ]+$/ {names[count++] = $1}'
}

run_python() {
    scripts/test-python.sh
}

# Tests that judge times run one after another. The others mostly wait for programs.
run_real-time() {
    local status=0
    in_real_time real_time -- --skip real_time::timed --skip real_time_timed --test-threads 3 ||
        status=1
    in_real_time -- real_time::timed real_time_timed --test-threads 1 || status=1
    return $status
}

# in_real_time ARGUMENT…: runs tests alone. Programs without a test that matches are not shown.
in_real_time() {
    : >"$said"
    alone "$cargo" test --workspace --features $features --no-fail-fast --lib --bins --tests "$@" \
        2>&1 | grep --line-buffered -v -e "^running 0 tests$" -e "^ *Running " -e "^$" \
        -e "^test result: ok. 0 passed" | tee -a "$log" "$said" || run_again
}

# alone COMMAND…: in a session of its own where there is setsid. Linux shares the processors
# between sessions first, so a build in another one takes at most half of them.
alone() {
    if ! command -v setsid >/dev/null; then
        "$@"
        return
    fi
    setsid --wait "$@" &
    local process=$!
    # shellcheck disable=SC2064 # This process, whatever the variable is later.
    trap "kill -TERM -- -$process 2>/dev/null; exit 130" INT TERM
    wait "$process"
}

main "$@"
