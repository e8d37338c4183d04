# SRTLA between our ends, and with a small sender of Python.

group srtla beside
needs srtla ffmpeg=ffmpeg ffprobe=ffmpeg python3=python3-minimal
tests srtla srtla_comes_in_by_two_links srtla_goes_on_when_its_receiver_is_back \
    srtla_carries_the_connection_of_a_caller

build_srtla() {
    make_camera
}

srtla_comes_in_by_two_links() {
    start recv "$program" recv --listen 'srtla://0.0.0.0:17210?latency=300' --metrics 17212 \
        "$folder/srtla.ts"
    await recv 5 "srtla: listening" || return 1
    # Its links accept answers only from the address that they call.
    start sender scripts/real-tests/srtla-sender.py 17211 127.0.0.4:17210 127.0.0.2 127.0.0.3
    await sender 5 "2 links have registered" || return 1
    # Longer than the outage of a link.
    camera 8 mpegts "srt://127.0.0.1:17211?pkt_size=1316&latency=300000" || return 1
    await recv 2 "link 127.0.0.3:.* is present" || return 1
    await sender 1 "each link is acknowledged" || return 1
    await_top 17212 2 "by srtla, carries video" "from 127.0.0.2:" "from 127.0.0.3:" "heard last" ||
        return 1
    rests "$folder/srtla.ts"
    ends "${processes[0]}" recv && has_pictures "$folder/srtla.ts" 193
}

# The receiver is killed, and another one comes after a second: its recording begins within six.
srtla_goes_on_when_its_receiver_is_back() {
    local listen='srtla://127.0.0.1:17250?latency=500'
    start first "$program" recv --listen "$listen" "$folder/first.ts"
    await first 5 "srtla: listening" || return 1
    start send "$program" send --to "$listen" --via 127.0.0.2 --via 127.0.0.3 --metrics 17252 \
        "$shared/camera.ts"
    await send 10 "SRT is connected" || return 1
    await_top 17252 5 127.0.0.2 127.0.0.3 video || return 1
    crash "${processes[0]}"
    # A restart takes as long.
    sleep 1
    start second "$program" recv --listen "$listen" "$folder/second.ts"
    await send 5 "does not know this sender any more" || return 1
    await second 6 "link 127.0.0.[23]:.* is present" || return 1
    await send 20 "session of" || return 1
    rests "$folder/second.ts"
    ends "${processes[2]}" second && has_pictures "$folder/second.ts" 80
}

# ffmpeg calls, with a passphrase that `send` never learns.
srtla_carries_the_connection_of_a_caller() {
    local secret=passphrase=correcthorse
    start recv "$program" recv --listen "srtla://127.0.0.1:17255?latency=500&$secret" \
        "$folder/called.ts"
    await recv 5 "srtla: listening" || return 1
    start send "$program" send --to srtla://127.0.0.1:17255 --via 127.0.0.2 --via 127.0.0.3 \
        "srt://127.0.0.1:17256?mode=listener"
    await send 5 "waiting for an SRT sender" || return 1
    camera 6 mpegts "srt://127.0.0.1:17256?pkt_size=1316&latency=500000&$secret" || return 1
    await send 1 "SRT is connected" || return 1
    rests "$folder/called.ts"
    kill -INT "${processes[1]}"
    await send 5 "session of" || return 1
    # ffmpeg ends without its last half second.
    ends "${processes[0]}" recv && has_pictures "$folder/called.ts" 130
}
