# SRT, with ffmpeg and libsrt at the other end.

group srt beside
needs srt ffmpeg=ffmpeg ffprobe=ffmpeg srt-live-transmit=srt-tools curl=curl
tests srt srt_comes_in_and_goes_out srt_recovers_what_a_link_loses \
    srt_receivers_have_all_before_the_end

build_srt() {
    make_camera
}

# Two cameras call one port, each by its stream ID; a caller with a wrong passphrase or an unknown
# ID is refused. One stream leaves to two callers: another input of the same program, and libsrt.
srt_comes_in_and_goes_out() {
    local url="srt://127.0.0.1:17201?pkt_size=1316"
    echo correcthorse >"$folder/secret"
    start recv "$program" recv \
        --listen "cam=srt://:17201?streamid=cam&passphrase_file=$folder/secret" \
        --listen "roof=srt://:17201?streamid=roof" \
        --listen "far=srt://127.0.0.1:17202?streamid=cam" \
        "$folder/{name}.ts" "cam=srt://:17202?streamid=cam"
    local recv=${processes[0]} cameras=()
    await recv 10 "17202: connected" || return 1
    start player bash -c "exec srt-live-transmit -q 'srt://127.0.0.1:17202?streamid=cam' \
        file://con >'$folder/player.ts'"
    local wrong
    for wrong in "streamid=cam&passphrase=wronghorses" "streamid=roof&passphrase=correcthorse" \
        "streamid=other"; do
        if camera 1 mpegts "$url&$wrong" 2>"$folder/wrong.log"; then
            echo "$wrong was taken"
            return 1
        fi
    done
    camera 4 mpegts "$url&streamid=cam&passphrase=correcthorse" &
    cameras+=($!)
    camera 4 mpegts "$url&streamid=roof" &
    cameras+=($!)
    await recv 10 'stream "cam", is connected, encrypted' || return 1
    wait "${cameras[@]}"
    rests "$folder/player.ts"
    if grep -q correcthorse "/proc/$recv/cmdline" "$folder/recv.log"; then
        echo "the passphrase was shown"
        return 1
    fi
    ends "$recv" recv || return 1
    for name in cam roof far player; do
        has_pictures "$folder/$name.ts" 90 || return 1
    done
}

# Both roles, encrypted, over a link that loses 2 % of all packets both ways: libsrt calls us, and
# we call libsrt's listener. ffmpeg would end the connection with its last packet, before it is
# asked for those that are missing.
srt_recovers_what_a_link_loses() {
    one_link | sed 's/delay = "20 ms"/delay = "20 ms"\nloss = "2 %"/' >"$folder/lossy.toml"
    local secret="latency=400&passphrase=correcthorse"
    start player bash -c "exec srt-live-transmit -q -chunk:1316 \
        'srt://:17206?mode=listener&$secret' file://con >'$folder/player.ts'"
    start emulate-in "$program" emulate "$folder/lossy.toml" --to 127.0.0.1:17204 \
        --listen 127.0.0.1:17203
    start emulate-out "$program" emulate "$folder/lossy.toml" --to 127.0.0.1:17206 \
        --listen 127.0.0.1:17205
    await emulate-in 10 "one: " && await emulate-out 10 "one: " || return 1
    start recv "$program" recv --listen "cam=srt://127.0.0.1:17204?mode=listener&$secret" \
        --metrics 17207 "$folder/cam.ts" "srt://127.0.0.1:17205?$secret"
    await recv 10 "17205: connected, encrypted" || return 1
    # Longer than the latency: time to ask for the last packets.
    { camera 8 mpegts pipe:1; sleep 1; } |
        timeout 11 srt-live-transmit -q -chunk:1316 file://con \
            "srt://127.0.0.1:17203?$secret" &
    local camera=$!
    await recv 10 "is connected, encrypted" || return 1
    await_top 17207 10 "by srt, carries video" || return 1
    curl -s http://127.0.0.1:17207/metrics | grep '^anabranch_path_\(rtt_seconds\|loss_ratio\)' |
        sed 's/^/        /'
    wait "$camera"
    rests "$folder/player.ts"
    ends "${processes[3]}" recv || return 1
    echo "        $(sed -n 's/.* has gone .*; //p' "$folder/recv.log")"
    if ! allows grep -q " [1-9][0-9]* were lost at first, 0 for good" "$folder/recv.log"; then
        echo "packets are missing, or none was lost"
        return 1
    fi
    has_pictures "$folder/cam.ts" 190 && has_pictures "$folder/player.ts" 190
}

# A stream leaves to libsrt, which listens and which calls, with a latency of two seconds. The
# program ends with the last picture; both have all that the file has.
srt_receivers_have_all_before_the_end() {
    local parameters="latency=2000&streamid=cam"
    start listener bash -c "exec srt-live-transmit -q -autoreconnect:no -chunk:1316 \
        'srt://:17208?mode=listener&$parameters' file://con >'$folder/listener.ts'"
    start recv "$program" recv --listen cam=udp://127.0.0.1:17209 --metrics 17207 "$folder/all.ts" \
        "srt://127.0.0.1:17208?$parameters" "srt://:17219?$parameters"
    await recv 10 "17208: connected" || return 1
    start caller bash -c "exec srt-live-transmit -q -autoreconnect:no -chunk:1316 \
        'srt://127.0.0.1:17219?$parameters' file://con >'$folder/caller.ts'"
    await recv 10 'stream "cam", is connected' || return 1
    camera 4 mpegts "udp://127.0.0.1:17209?pkt_size=1316"
    local name
    await_that 2 "top shows both receivers" both_are_active || return 1
    ends "${processes[1]}" recv && wait "${processes[0]}" "${processes[2]}"
    grep -h "sent again" "$folder/recv.log" | sed 's/^/        /'
    for name in listener caller; do
        cmp "$folder/all.ts" "$folder/$name.ts" || return 1
    done
    has_pictures "$folder/all.ts" 95
}

both_are_active() {
    "$program" top 17207 --once >"$folder/top.log" 2>&1
    [ "$(count top "active .* 2000$")" -eq 2 ]
}

# Ends of the library before libsrt, by the crate's own program of tests.
group libsrt beside
needs libsrt srt-live-transmit=srt-tools ffmpeg=ffmpeg
compiles libsrt --test libsrt
tests libsrt libsrt_and_our_ends_understand_each_other

libsrt_and_our_ends_understand_each_other() {
    "$(compiled srt libsrt)" --ignored >"$folder/libsrt.log" 2>&1
}
