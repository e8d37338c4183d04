# Changes of programs while a session runs over two emulated links: every control is tried, and so
# are wrong tokens and requests as hostile pages can make them.

group control beside
needs control curl=curl python3=python3-minimal
tests control a_sender_is_changed_while_it_sends a_receiver_is_changed_and_asks_its_sender \
    a_file_of_options_is_read_again a_server_ends_sessions_and_reads_its_file \
    strangers_and_hostile_pages_change_nothing

# start_session SENDER_OPTIONS: a camera over two links to a receiver with both tokens.
start_session() {
    two_links >"$folder/links.toml"
    mkdir -p "$folder/recordings"
    start recv "$program" recv --listen 127.0.0.1:17500 --key "$folder/receiver.key" \
        --allow "$sender_public=camera" --keep-listening --dashboard 17510 \
        --dashboard-token-file "$folder/reading.token" --control-token "$folder/control.token" \
        --recordings "$folder/recordings" --stats "$folder/recv.stats" \
        --on-event "echo \$ANABRANCH_EVENT >>'$folder/recv.events'" "$folder/out.ts"
    await recv 10 "listening" || return 1
    start emulate "$program" emulate "$folder/links.toml" --to 127.0.0.1:17500 \
        --listen 127.0.0.1:17501
    await emulate 10 "b: " || return 1
    # shellcheck disable=SC2086 # Words of options.
    start send "$program" send --key "$folder/sender.key" --peer "$receiver_public" \
        --to 127.0.0.1:17501 --via 127.0.0.1 --to 127.0.0.1:17502 --via lo --state "$folder" \
        --dashboard 17511 --control-token "$folder/sender.token" \
        --stats "$folder/send.stats" $1 test:
    await send 10 "path 1 (lo): Active"
}

# ctl PORT TOKEN WORDS…: prints the answer, and keeps it in a log.
ctl() {
    local port=$1 token=$2
    shift 2
    "$program" ctl --at "$port" --token-file "$folder/$token.token" "$@" >"$folder/ctl.log" 2>&1
    local status=$?
    cat "$folder/ctl.log"
    return "$status"
}

# changes PATTERN PORT TOKEN WORDS…: whether the change is made, in these words.
changes() {
    local pattern=$1
    shift
    ctl "$@" && says ctl "$pattern" 1
}

# refuses PATTERN PORT TOKEN WORDS…: whether it is refused, with exit code 1 and these words.
refuses() {
    local pattern=$1 status
    shift
    ctl "$@"
    status=$?
    [ "$status" -eq 1 ] && says ctl "$pattern" 1
}

# path_is NUMBER STATE: whether the newest line of the sender's statistics has the path so.
path_is() {
    grep '"event":"stats"' "$folder/send.stats" | tail -n 1 | python3 -c '
import json, sys
paths = json.loads(sys.stdin.read())["streams"][0]["paths"]
sys.exit(paths[int(sys.argv[1])]["state"] != sys.argv[2])' "$@"
}

# stream_value send|recv NAME: prints a field of the newest statistics.
stream_value() {
    grep '"event":"stats"' "$folder/$1.stats" | tail -n 1 | python3 -c '
import json, sys
print(json.loads(sys.stdin.read())["streams"][0][sys.argv[1]])' "$2"
}

# is_value PROGRAM NAME EXPRESSION: whether the expression about `x` holds.
is_value() {
    python3 -c "x = $(stream_value "$1" "$2"); raise SystemExit(not ($3))"
}

a_sender_is_changed_while_it_sends() {
    start_session "" || return 1
    changes "path 1 (lo): off" 17511 sender path lo off &&
        await_that 10 "path 1 is out" path_is 1 out || return 1
    refuses "the last path that is on" 17511 sender path 0 off || return 1
    changes "path 1 (lo): on" 17511 sender path 1 on &&
        await_that 20 "path 1 is active" path_is 1 active || return 1
    changes "metered, cap 1 GB, at most 800 kbit/s" 17511 sender path lo --metered yes \
        --cap 1GB --max 800kbit/s || return 1
    ctl 17511 sender status && says ctl "path 1 (lo): on, metered, cap 1 GB, at most 800" 1 ||
        return 1
    # A cap that is used up at once.
    changes "cap 1 B" 17511 sender path 1 --metered no --cap 1B || return 1
    changes "not metered, no cap, no limit" 17511 sender path 1 --metered no --cap none --max none ||
        return 1
    changes "target from 200 kbit/s to 300 kbit/s" 17511 sender target 200kbit/s..300kbit/s &&
        await_that 10 "the target follows" is_value send target_rate_bps "x <= 300000" || return 1
    refuses "restart the sender with a wider range" 17511 sender target ..1Gbit/s || return 1
    refuses "no path nowhere: known are 127.0.0.1, lo" 17511 sender path nowhere off || return 1
    refuses "a sender has no latency" 17511 sender latency "1 s" || return 1
    refuses "without --config FILE" 17511 sender reload || return 1
    grep -q '"event":"control","by":"127.0.0.1","change":"path","done":true' "$folder/send.stats"
}

a_receiver_is_changed_and_asks_its_sender() {
    start_session "--remote-control" || return 1
    await_bytes "$folder/out.ts" 20 100000 || return 1
    changes "the sender: path 1 (lo): off" 17510 control path lo off --stream camera &&
        await_that 10 "path 1 is out" path_is 1 out &&
        await send 5 "control by the receiver: path 1" || return 1
    changes "the sender: path 1 (lo): on" 17510 control path 1 on || return 1
    changes "the sender: target from" 17510 control target ..400kbit/s || return 1
    refuses "the sender refuses: there is no path nowhere" 17510 control path nowhere off ||
        return 1
    changes "latency 900 ms; the sender: latency 900 ms" 17510 control latency "900 ms" &&
        await_that 10 "the receiver keeps it" is_value recv latency_s "x == 0.9" &&
        await_that 10 "the sender keeps it" is_value send latency_s "x == 0.9" || return 1
    start player python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 17520))
while True: print(len(s.recv(2000)), flush=True)'
    await_port udp 17520 &&
        changes "joins" 17510 control output add udp://127.0.0.1:17520 &&
        await player 10 "1316" 20 || return 1
    refuses "already" 17510 control output add udp://127.0.0.1:17520 || return 1
    refuses "files are made by a recording" 17510 control output add /etc/passwd || return 1
    changes "has left" 17510 control output remove udp://127.0.0.1:17520 || return 1
    changes "camera is recorded as" 17510 control record start || return 1
    refuses "recorded already" 17510 control record start --stream camera || return 1
    await_that 20 "a recording grows" recording_has 100000 || return 1
    changes "has ended" 17510 control record stop || return 1
    changes "output $folder/out.ts of camera has left" 17510 control output remove \
        "$folder/out.ts" || return 1
    changes "kept out for 60 s" 17510 control session end camera &&
        await recv 10 "session over" && await send 10 "receiver" || return 1
    refuses "has no session now" 17510 control session end camera || return 1
    changes "let in again" 17510 control session allow camera &&
        await recv 30 "connected to" 2 || return 1
    changes "may return" 17510 control session end camera --keep-out "0 s" &&
        await recv 30 "connected to" 3 || return 1
    grep -q control "$folder/recv.events" && ! grep -q "panicked" "$folder"/*.log
}

recording_has() {
    [ "$(cat "$folder/recordings"/camera-*.ts | wc -c)" -ge "$1" ]
}

# config OUTPUT… : the receiver's file.
config() {
    cat <<END
[recv]
listen = "127.0.0.1:17500"
key = "$folder/receiver.key"
allow = ["$sender_public=camera"]
keep-listening = true
dashboard = "17510"
control-token = "$folder/control.token"
output = [$1]
END
}

a_file_of_options_is_read_again() {
    config "\"camera=$folder/a.ts\"" >"$folder/recv.toml"
    start recv setsid "$program" recv --config "$folder/recv.toml"
    local service=${processes[-1]}
    await recv 10 "listening" || return 1
    start send "$program" send --key "$folder/sender.key" --peer "$receiver_public" \
        --to 127.0.0.1:17500 test:
    await_that 20 "a.ts grows" has_bytes "$folder/a.ts" 50000 || return 1
    config "\"camera=$folder/b.ts\", \"camera=udp://127.0.0.1:17521\"" >"$folder/recv.toml"
    changes "new: output" 17510 control reload &&
        await_that 20 "b.ts grows" has_bytes "$folder/b.ts" 50000 || return 1
    # A file with a mistake changes nothing.
    config "\"camera=/nowhere/c.ts\"" >"$folder/recv.toml"
    refuses "nothing has changed" 17510 control reload || return 1
    echo "[recv" >"$folder/recv.toml"
    refuses "nothing has changed" 17510 control reload || return 1
    local before
    before=$(wc -c <"$folder/b.ts")
    # What only a restart changes is named. SIGHUP does the same as `ctl reload`.
    { config "\"camera=$folder/b.ts\"" && echo 'timeout = "9 s"'; } >"$folder/recv.toml"
    kill -HUP "$service"
    await recv 10 "control by SIGHUP: .*new: output; only a restart changes: timeout" &&
        await_bytes "$folder/b.ts" 20 $((before + 50000)) || return 1
    sed "s/^allow = .*/allow = [\"$receiver_public_of_other=other\"]/" -i "$folder/recv.toml"
    changes "new: allow" 17510 control reload && await recv 10 "session over" || return 1
    [ "$(count recv 'connected to')" -eq 1 ]
}

open_control() {
    receiver_public_of_other=$("$program" keygen --output "$folder/other.key")
}

a_server_ends_sessions_and_reads_its_file() {
    local allow="allow = [\"$sender_public=desk\"]"
    {
        printf '[serve]\nlisten = "127.0.0.1:17530"\nkey = "%s"\n' "$folder/receiver.key"
        printf 'dashboard = "17512"\ncontrol-token = "%s"\n' "$folder/control.token"
        printf '%s\nconnect = ["127.0.0.1:17533"]\n' "$allow"
    } >"$folder/serve.toml"
    start serve "$program" serve --config "$folder/serve.toml"
    await serve 10 "listening" || return 1
    start web python3 -m http.server --bind 127.0.0.1 17534
    start proxy "$program" proxy --key "$folder/sender.key" --peer "$receiver_public" \
        --to 127.0.0.1:17530 --socks5 127.0.0.1:17532
    await serve 10 "connected to" && await_port tcp 17534 && await_port tcp 17532 || return 1
    ! fetches || return 1
    sed 's/17533/17534/' -i "$folder/serve.toml"
    changes "new: connect" 17512 control reload && await_that 10 "the target is reached" fetches ||
        return 1
    changes "desk end; it is kept out" 17512 control session end desk &&
        await serve 10 "a session is over" || return 1
    ctl 17512 control status && says ctl "desk: kept out" 1 || return 1
    changes "let in again" 17512 control session allow desk &&
        await_that 30 "the proxy is back" fetches || return 1
    refuses "has no output-add" 17512 control output add udp://127.0.0.1:9
}

fetches() {
    curl --silent --fail --max-time 3 --socks5 127.0.0.1:17532 http://127.0.0.1:17534/
}

# code CURL_OPTIONS…: prints the status of the answer to a change that would switch a path off.
code() {
    curl --silent --output "$folder/answer" --write-out '%{http_code}' --max-time 10 \
        --data '{"path":"lo","on":false}' "$@"
}

# gives CODE CURL_OPTIONS…
gives() {
    local expected=$1 status
    shift
    status=$(code "$@")
    [ "$status" = "$expected" ] || echo "$* gives $status, not $expected: $(cat "$folder/answer")"
    [ "$status" = "$expected" ]
}

strangers_and_hostile_pages_change_nothing() {
    start_session "--dashboard-token-file $folder/viewer.token" || return 1
    local url=http://127.0.0.1:17511/control/path right reading
    right="Authorization: Bearer $(cat "$folder/sender.token")"
    reading="Authorization: Bearer $(cat "$folder/viewer.token")"
    local json="Content-Type: application/json" cookie
    cookie="Cookie: anabranch-17511=$(cat "$folder/sender.token")"
    gives 401 -H "$json" "$url" &&
        gives 401 -H "$json" -H "Authorization: Bearer 00000000000000000000" "$url" &&
        gives 401 -H "$json" -H "$cookie" "$url" &&
        gives 401 -H "$json" --user "me:$(cat "$folder/sender.token")" "$url" &&
        gives 403 -H "$json" -H "$reading" "$url" &&
        gives 400 -H "$json" -H "$right" "$url?token=$(cat "$folder/sender.token")" &&
        gives 403 -H "$json" -H "$right" -H "Origin: http://evil.example" "$url" &&
        gives 403 -H "$json" -H "$right" -H "Origin: null" "$url" &&
        gives 403 -H "$json" -H "$right" -H "Sec-Fetch-Site: cross-site" "$url" &&
        gives 415 -H "$right" "$url" &&
        gives 415 -H "$right" -H "Content-Type: text/plain" "$url" &&
        gives 421 -H "$json" -H "$right" -H "Host: evil.example" "$url" &&
        gives 405 -H "$json" -H "$right" --request OPTIONS "$url" &&
        gives 400 -H "$json" -H "$right" --data '{"path":"lo","colour":1}' "$url" &&
        gives 404 -H "$json" -H "$right" "${url}s" &&
        gives 413 -H "$json" -H "$right" --data "$(head -c 20000 /dev/zero | tr '\0' x)" "$url" ||
        return 1
    # No permission for pages of other sites is ever given.
    curl --silent --include --request OPTIONS -H "Origin: http://evil.example" "$url" |
        grep -i access-control && return 1
    await_that 10 "path 1 is active" path_is 1 active || return 1
    # Programs without a token for changes have none, and `ctl` says what is wrong.
    ctl 17519 sender status
    [ $? -eq 3 ] || return 1
    cp "$folder/control.token" "$folder/wrong.token"
    refuses "not the token in the file of --control-token" 17511 wrong path lo off || return 1
    refuses "this token only reads" 17511 viewer path lo off || return 1
    await send 5 "control by 127.0.0.1 refused" || return 1
    # The right token still works, and a flood of wrong ones is slowed down.
    changes "off" 17511 sender path lo off || return 1
    local number limited=
    for number in $(seq 200); do
        [ "$(code -H "$json" "$url")" = 429 ] && limited=$number && break
    done
    [ -n "$limited" ] && echo "        the flood is refused from request $limited on"
}
