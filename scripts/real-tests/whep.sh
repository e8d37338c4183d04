# Live pictures: in a browser, with the time from the camera to the page, and in players of other
# implementations of WebRTC. Times and processor time are judged: this runs alone.

group whep alone
needs whep node=nodejs npm=npm chromium=chromium ffmpeg=ffmpeg
tests whep live_pictures_play_in_a_browser

# WebRTC's ends look for addresses on other interfaces than loopback, and browsers on that of the
# default route. A namespace has none.
open_whep() {
    [ -n "$HAS_NAMESPACE" ] || return 0
    if ! ip link add near0 type veth peer name far0 2>"$folder/open.log"; then
        reason="no veth here: $(head -n 1 "$folder/open.log")"
        return 1
    fi
    ip addr add 10.97.0.1/24 dev near0 && ip link set near0 up && ip link set far0 up &&
        ip route add default via 10.97.0.2
}

open_whep_players() {
    open_whep
}

open_whepsrc() {
    open_whep
}

build_whep() {
    install_browser_packages whep
}

live_pictures_play_in_a_browser() {
    scripts/test-browser.sh web/tests/whep.test.mjs >"$folder/live.log" 2>&1 || return 1
    grep "camera to browser" "$folder/live.log"
    relay_unjudged live
}

group whep_players alone
needs whep_players ffmpeg=ffmpeg python:aiortc=python3-aiortc python:aiohttp=python3-aiohttp
tests whep_players five_players_cost_little_and_hear_opus

# encode_live AUDIO: a picture of noise at 6 Mbit/s, which fills the rate, to the sender.
encode_live() {
    start ffmpeg ffmpeg -loglevel error -re -f lavfi \
        -i "testsrc2=size=1280x720:rate=25,noise=alls=20:allf=t" \
        -f lavfi -i sine=frequency=440:sample_rate=48000 \
        -c:v libx264 -preset ultrafast -tune zerolatency -g 25 -b:v 6M -maxrate 6M -bufsize 6M \
        -c:a "$1" -f mpegts "udp://127.0.0.1:17311?pkt_size=1316"
}

# start_live: a receiver with WHEP, and a sender.
start_live() {
    start recv "$program" recv --listen 127.0.0.1:17310 --key "$folder/receiver.key" \
        --allow "$sender_public=van" --keep-listening --latency "200 ms" --whep 17312 \
        --dashboard-token-file "$folder/token" "$folder/out.ts"
    await recv 5 "WHEP at" && await recv 5 "listening" || return 1
    start send "$program" send --to 127.0.0.1:17310 --key "$folder/sender.key" --peer "$receiver_public" \
        --latency "200 ms" udp://127.0.0.1:17311
}

# ticks_of PROCESS: prints the processor time so far, in hundredths of a second.
ticks_of() {
    awk '{print $14 + $15}' "/proc/$1/stat"
}

five_players_cost_little_and_hear_opus() {
    start_live && encode_live libopus && await recv 10 "connected to" || return 1
    local recv=${processes[0]} before alone watched share
    # A stream that somebody has watched, so that the difference is that of the viewers.
    curl --silent --output /dev/null -H "Authorization: Bearer $(cat "$folder/token")" \
        "http://127.0.0.1:17312/picture.json" || true
    sleep 3
    before=$(ticks_of "$recv")
    sleep 10
    alone=$(($(ticks_of "$recv") - before))
    start players /usr/bin/python3 scripts/real-tests/whep-player.py \
        http://127.0.0.1:17312/whep 5 20 "$(cat "$folder/token")"
    await players 15 "pictures" 5 || return 1
    before=$(ticks_of "$recv")
    sleep 10
    watched=$(($(ticks_of "$recv") - before))
    await players 30 "left: 200" 5 || return 1
    share=$(awk -v more=$((watched - alone)) 'BEGIN {printf "%.1f", more / 10}')
    echo "        five viewers at 6 Mbit/s: $share % of a core more; $(grep pictures \
        "$folder/players.log" | tail -n 1)"
    # Each has seen pictures for ten seconds at least, and heard sound.
    if ! grep pictures "$folder/players.log" | tail -n 1 |
        awk '{for (at = 1; at <= 5; at++) if ($at < 250) exit 1; exit $7 < 400}'; then
        echo "a player has missed pictures or sound"
        return 1
    fi
}

group whepsrc alone
needs whepsrc gst:whepsrc=gstreamer1.0-plugins-rs ffmpeg=ffmpeg gst-launch-1.0=gstreamer1.0-tools
tests whepsrc gstreamer_plays_by_whep

gstreamer_plays_by_whep() {
    start_live && encode_live libopus && await recv 10 "connected to" || return 1
    start gst gst-launch-1.0 whepsrc "whep-endpoint=http://127.0.0.1:17312/whep" \
        "auth-token=$(cat "$folder/token")" \
        video-caps="application/x-rtp,encoding-name=H264,payload=102,clock-rate=90000" ! \
        rtph264depay ! h264parse ! filesink "location=$folder/seen.h264"
    await_bytes "$folder/seen.h264" 20 2000000
}
