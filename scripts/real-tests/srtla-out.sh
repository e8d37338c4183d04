# Our sender of SRTLA over emulated links, before our receiver. The shares that are missing or sent
# again depend on the time: these tests run alone.

group srtla_out alone
needs srtla_out ffmpeg=ffmpeg ffprobe=ffmpeg python3=python3-minimal
tests srtla_out srtla_goes_out_by_two_links

# Our sender over links of 4 Mbit/s (20 ms) and 3 Mbit/s (70 ms) to our receiver: 4 Mbit/s, the same
# with 2 % loss, and 3 Mbit/s with the better link dead for 6 s.
srtla_goes_out_by_two_links() {
    bonded_over 4000 1 "" || return 1
    bonded_over 4000 5 'loss = "2 %"' || return 1
    bonded_over 2900 4 'outages = [{ at = "5 s", for = "4 s" }]'
}

build_srtla_out() {
    make_constant 4000 && make_constant 2900
}

# make_constant KBPS: makes a stream of 12 s and of a constant bitrate.
make_constant() {
    [ -e "$shared/$1.ts" ] || ffmpeg -nostdin -loglevel error -f lavfi \
        -i testsrc2=size=640x360:rate=25 -t 12 -c:v libx264 -preset ultrafast -g 25 \
        -b:v "$(($1 - 500))k" -maxrate "$(($1 - 500))k" -bufsize 500k -muxrate "$1k" \
        -f mpegts "$shared/$1.ts"
}

# bonded_over KBPS MAX-AGAIN SETTINGS: sends a stream over two emulated links, of which the better
# one has SETTINGS. Prints which shares were missing and sent again.
bonded_over() {
    links "$3" >"$folder/links.toml"
    start emulate "$program" emulate "$folder/links.toml" --to 127.0.0.1:17260 \
        --listen better=127.0.0.1:17261 --listen other=127.0.0.1:17262
    start recv "$program" recv --listen 'srtla://127.0.0.1:17260?latency=1000' "$folder/out.ts"
    local receiver=${processes[-1]}
    await recv 5 "srtla: listening" || return 1
    start send "$program" send --to 'srtla://127.0.0.1:17261?latency=1000' \
        --to 'srtla://127.0.0.1:17262?latency=1000' --via 127.0.0.2 --via 127.0.0.3 \
        --stats "$folder/stats.json" "$shared/$1.ts"
    await send 40 "session of" && await recv 10 "has gone" || return 1
    rests "$folder/out.ts"
    ends "$receiver" recv || return 1
    # An emulator that wakes late delays packets as no link does.
    allows shares "$1" "$2" "$3" || return 1
    stop_all
    rm -f "$folder"/*.log "$folder/stats.json"
}

# shares KBPS MAX-AGAIN CASE: whether the stream has arrived whole, and how much was sent again.
shares() {
    python3 - "$folder" "$shared/$1.ts" "$@" <<'END'
import json, os, sys
folder, sent, kbps, most, case = sys.argv[1:]
sent, came = os.path.getsize(sent), os.path.getsize(f"{folder}/out.ts")
lines = [json.loads(line) for line in open(f"{folder}/stats.json")]
stream = [line for line in lines if line.get("streams")][-1]["streams"][0]
again = sum(path["counters"]["retransmitted_packets"] for path in stream["paths"])
again = 100 * again / stream["counters"]["frames_sent"]
missing = 100 * (1 - came / sent)
print(f"        {kbps} kbit/s, {case}: {missing:.3f} % missing, {again:.2f} % sent again")
sys.exit(missing > 0.05 or again > float(most))
END
}

# links SETTINGS: a scenario of two links for the emulator.
links() {
    cat <<END
title = "Two links"
duration = "60 s"
[links.better]
rate = "4 Mbit/s"
delay = "10 ms"
queue = "300 ms"
$1
[links.other]
rate = "3 Mbit/s"
delay = "35 ms"
queue = "300 ms"
[links.better-return]
delay = "10 ms"
[links.other-return]
delay = "35 ms"
[routes.better]
forward = ["better"]
reverse = ["better-return"]
[routes.other]
forward = ["other"]
reverse = ["other-return"]
[[flows]]
name = "stream"
paths = ["better", "other"]
source = { kind = "gop", fps = 25, rate = "3 Mbit/s" }
END
}
