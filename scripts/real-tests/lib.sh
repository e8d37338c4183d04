# Helpers of the tests in this folder: programs in the background, and waits for conditions.
#
# A test prints its failure and returns 1. It may use these variables:
#   program           the streaming program
#   folder            a folder of its group, whose logs are removed after each test
#   shared            files that several groups read
#   sender_public, receiver_public   the keys of sender.key and receiver.key
#   near, far         names of network namespaces (namespaces.sh)

# The programs' report of work that was due and waited for a processor.
SLOW="too slow to keep time"
processes=()

# start LOG COMMAND…: runs it in the background; its output goes to the log.
start() {
    local log=$folder/$1.log
    shift
    : >"$log"
    "$@" >"$log" 2>&1 </dev/null &
    processes+=($!)
}

# crash PROCESS: kills a program that `start` has started.
crash() {
    kill -KILL "$1"
    wait "$1" 2>/dev/null
}

# Ends a test's programs, and removes its namespaces.
stop_all() {
    local process
    for process in "${processes[@]}"; do
        kill -KILL "$process" 2>/dev/null && wait "$process" 2>/dev/null
    done
    processes=()
    remove_namespaces
}

# seconds_since MICROSECONDS: prints the time since then.
seconds_since() {
    awk -v us=$((${EPOCHREALTIME/[.,]/} - $1)) 'BEGIN {printf "%.1f", us / 1e6}'
}

# compiled CRATE NAME: prints the path of a program of its tests or an example.
compiled() {
    grep "/crates/$1/Cargo.toml\"" "$shared/compiled" |
        sed -n "s/.*\"name\":\"$2\".*\"executable\":\"\([^\"]*\)\".*/\1/p"
}

# await_that SECONDS CONDITION COMMAND…: waits until the command succeeds. While other programs
# want the processors, it waits ten times as long, and says so.
await_that() {
    local began=$SECONDS seconds=$1 limit=$1 condition=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        if [ $((SECONDS - began)) -gt "$limit" ]; then
            if [ "$limit" -gt "$seconds" ] || ! is_busy; then
                echo "within $limit s it did not come to this: $condition"
                return 1
            fi
            echo "        this machine is busy: after $seconds s not yet: $condition"
            limit=$((seconds * 10))
        fi
        sleep 0.1
    done
}

# await LOG SECONDS PATTERN [COUNT]: waits until the log has COUNT lines of the pattern.
await() {
    await_that "$2" "$1 says \"$3\"" says "$1" "$3" "${4:-1}"
}

# says LOG PATTERN COUNT: whether the log has COUNT lines of the pattern.
says() {
    [ "$(count "$1" "$2")" -ge "$3" ]
}

# count LOG PATTERN: prints the number of lines.
count() {
    grep -c -- "$2" "$folder/$1.log"
}

# is_busy: whether programs waited for a processor in more than a quarter of the last ten seconds.
is_busy() {
    sed -n 's/^some avg10=\([0-9]*\).*/\1/p' /proc/pressure/cpu 2>/dev/null |
        awk '$1 > 25 {is_busy = 1} END {exit !is_busy}' || grep -qs "$SLOW" "$folder"/*.log
}

# allows COMMAND…: whether the command succeeds, or its failure says nothing about the program.
allows() {
    "$@" && return
    if ! grep -qs "$SLOW" "$folder"/*.log; then
        return 1
    fi
    not_judged "this machine is $SLOW"
}

# not_judged REASON: counts a check that shows nothing on this machine.
not_judged() {
    echo "        NOT JUDGED: $1"
    echo unjudged >>"$results"
}

# relay_unjudged LOG: counts the checks that a program of tests could not judge.
relay_unjudged() {
    local line
    while read -r line; do
        not_judged "$line"
    done < <(sed -n 's/.*NOT JUDGED: //p' "$folder/$1.log")
}

# skip REASON: a test that cannot run here calls this last.
skip() {
    reason=$1
    return 77
}

# await_port tcp|udp PORT: waits until a program listens there.
await_port() {
    await_that 60 "somebody listens at port $2 ($1)" listens "$1" "$2"
}

listens() {
    local line
    # State, and the port in hexadecimal digits, of proc(5).
    case $1 in tcp) line=0A ;; udp) line=07 ;; esac
    line=$(printf ':%04X [0-9A-F]*:0000 %s ' "$2" "$line")
    grep -qs "$line" "/proc/net/$1" "/proc/net/${1}6"
}

# await_top PORT SECONDS PATTERN…: waits until `top` shows all of them.
await_top() {
    local port=$1 seconds=$2
    shift 2
    await_that "$seconds" "top shows $*" top_shows "$port" "$@"
}

top_shows() {
    local port=$1 pattern
    shift
    "$program" top "$port" --once >"$folder/top.log" 2>&1 || return 1
    for pattern in "$@"; do
        grep -q -- "$pattern" "$folder/top.log" || return 1
    done
}

# await_bytes FILE SECONDS BYTES: waits until it has at least as many.
await_bytes() {
    await_that "$2" "$1 has $3 bytes" has_bytes "$1" "$3"
}

has_bytes() {
    [ "$(wc -c <"$1")" -ge "$2" ]
}

# rests FILE: waits until it has not grown for a second, for three if this machine is busy. The last
# picture of a stream that goes on is only written after a pause, and not at all if its receiver is
# stopped before.
rests() {
    local before=-1 size pause=1
    if is_busy; then pause=3; fi
    while size=$(wc -c <"$1") && [ "$size" -ne "$before" ]; do
        before=$size
        sleep "$pause"
    done
}
