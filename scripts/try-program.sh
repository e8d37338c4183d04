#!/usr/bin/env bash
# Sends the built-in camera and a file over loopback with one program, and compares the files.
#
# scripts/try-program.sh PROGRAM [EMULATOR…]
#
#   VIA  the interface or address of the path; lo by default
set -euo pipefail

program=$1
shift
runner=("$@")
# An emulator encodes more slowly than the camera films.
latency="2 s"
[ $# -eq 0 ] || latency="15 s"
folder=$(mktemp -d)
receiver=
trap '[ -z "$receiver" ] || kill "$receiver" 2>/dev/null; rm -rf "$folder"' EXIT

anabranch() {
    # An empty array is an unset one for the shell of macOS.
    ${runner[@]+"${runner[@]}"} "$program" "$@"
}

fail() {
    echo "try-program: $1" >&2
    tail -n 20 "$folder"/*.log >&2
    exit 1
}

# transfer INPUT OUTPUT OPTION…: from a sender to a receiver.
transfer() {
    local input=$1 output=$2 address=
    shift 2
    # The address of an earlier receiver would be read before a redirection empties the log.
    : >"$folder/recv.log"
    anabranch recv --listen 127.0.0.1:0 --key "$folder/receiver.key" --allow "$sender_public" \
        "$output" >>"$folder/recv.log" 2>&1 &
    receiver=$!
    for _ in $(seq 200); do
        address=$(sed -n 's/.*listening at \([0-9.]*:[0-9]*\).*/\1/p' "$folder/recv.log" | head -n 1)
        [ -z "$address" ] || break
        sleep 0.1
    done
    [ -n "$address" ] || fail "the receiver does not listen"
    anabranch send --to "$address" --via "${VIA:-lo}" --key "$folder/sender.key" --peer "$receiver_public" \
        --latency "$latency" "$@" "$input" >"$folder/send.log" 2>&1 || fail "the sender failed"
    wait "$receiver" || fail "the receiver failed"
    receiver=
}

sender_public=$(anabranch keygen --output "$folder/sender.key")
receiver_public=$(anabranch keygen --output "$folder/receiver.key")
transfer test: "$folder/camera.ts" --duration "3 s"
size=$(($(wc -c <"$folder/camera.ts")))
[ "$size" -gt 100000 ] || fail "the camera sent $size bytes"
transfer "$folder/camera.ts" "$folder/copy.ts"
cmp "$folder/camera.ts" "$folder/copy.ts" || fail "the copy differs"
echo "$(anabranch --version)${runner[*]:+ (${runner[*]})}: a camera and a file of $size bytes arrived"
