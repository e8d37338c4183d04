# Recipes of docs/services.md for scripts/test-real.sh, which sources this: other people's services,
# unchanged, behind a tunnel over two emulated links. One link is dead for two seconds.

# Two links for `emulate`.
two_links() {
    cat <<END
title = "Two modems, one of which drops everything for 2 s"
duration = "60 s"
[links.a]
rate = "4 Mbit/s"
delay = "20 ms"
[links.a-back]
delay = "20 ms"
[links.b]
rate = "3 Mbit/s"
delay = "35 ms"
[links.b-back]
delay = "35 ms"
[routes.a]
forward = ["a"]
reverse = ["a-back"]
[routes.b]
forward = ["b"]
reverse = ["b-back"]
[[flows]]
name = "camera"
paths = ["a", "b"]
source = { kind = "cbr", rate = "1 Mbit/s" }
END
}

# tunnel_to SERVE_OPTIONS PROXY_OPTIONS: each a string of words.
tunnel_to() {
    two_links >"$folder/links.toml"
    rm -f "$folder/changes"
    mkfifo "$folder/changes"
    # shellcheck disable=SC2086 # Words of options.
    start serve "$program" serve --listen 127.0.0.1:17400 --key "$folder/receiver.key" \
        --allow "$sender_public" $1
    "$program" emulate "$folder/links.toml" --to 127.0.0.1:17400 --listen 127.0.0.1:17401 \
        <"$folder/changes" >"$folder/emulate.log" 2>&1 &
    processes+=($!)
    exec 3>"$folder/changes"
    await serve 10 "listening" && await emulate 10 "b: " || return 1
    # shellcheck disable=SC2086 # Words of options.
    start proxy "$program" proxy --key "$folder/sender.key" --peer "$receiver_public" \
        --to 127.0.0.1:17401 --via lo --to 127.0.0.1:17402 --via lo $2
    tunnel=${processes[-1]}
    await proxy 10 "path 1 (lo): Active"
}

# The camera streams for 10 s; the faster link is dead from the fourth second to the sixth.
camera_over_an_outage() {
    camera 10 "$@" 2>"$folder/camera.log" &
    local camera=$!
    processes+=("$camera")
    sleep 3
    echo "a down" >&3
    sleep 2
    echo "a up" >&3
    exec 3>&-
    wait "$camera"
}

# ends_with_overhead: whether the proxy ends well and prints its overhead.
ends_with_overhead() {
    kill -INT "$tunnel"
    await proxy 10 "overhead: " || return 1
    echo "       $(grep -o 'overhead: [0-9.]* %' "$folder/proxy.log")"
}

srt_reaches_a_listener_that_knows_nothing_of_two_links() {
    local service="srt://127.0.0.1:17410?mode=listener&passphrase=correcthorse"
    start service bash -c "exec srt-live-transmit -q '$service' file://con >'$folder/srt-out.ts'"
    await_port udp 17410 || return 1
    tunnel_to "--connect 127.0.0.1:17410" \
        "--udp 17411=127.0.0.1:17410,unordered,deadline=500ms,name=srt --udp-deadline 500ms" || return 1
    local url="srt://127.0.0.1:17411?pkt_size=1316&latency=1000000&passphrase=correcthorse"
    camera_over_an_outage mpegts "$url" || return 1
    sleep 2
    # A caller that leaves ends its listener's last second.
    ends_with_overhead && has_pictures "$folder/srt-out.ts" 220
}

rtmp_reaches_a_server_that_knows_nothing_of_two_links() {
    local url=rtmp://127.0.0.1:17420/live/key
    tunnel_to "--forward 127.0.0.1:17420" "--listen 127.0.0.1:17421" || return 1
    # `serve` has tried the target: the service takes only one connection in its life.
    await serve 5 "nothing listens there" || return 1
    start service ffmpeg -loglevel error -listen 1 -i "$url" -c copy -y "$folder/rtmp.ts"
    await_port tcp 17420 || return 1
    camera_over_an_outage flv rtmp://127.0.0.1:17421/live/key || return 1
    sleep 3
    has_pictures "$folder/rtmp.ts" 240
}

rist_reaches_a_receiver_that_knows_nothing_of_two_links() {
    start service ristreceiver -v 3 -i "rist://@127.0.0.1:17430?buffer=1000" \
        -o udp://127.0.0.1:17431
    start output ffmpeg -loglevel error -t 14 -i udp://127.0.0.1:17431 -c copy -y "$folder/rist-out.ts"
    local output=${processes[-1]}
    await_port udp 17430 && await_port udp 17431 || return 1
    tunnel_to "--connect 127.0.0.1:17430" \
        "--udp 17432=127.0.0.1:17430,unordered,deadline=500ms,name=rist --udp-deadline 500ms" || return 1
    start sender ristsender -S 0 -v 3 -i udp://127.0.0.1:17433 -o "rist://127.0.0.1:17432?buffer=1000"
    await_port udp 17433 || return 1
    # The ends shake hands.
    sleep 1
    camera_over_an_outage mpegts "udp://127.0.0.1:17433?pkt_size=1316" || return 1
    sleep 2
    kill -INT "$output"
    sleep 1
    ends_with_overhead && has_pictures "$folder/rist-out.ts" 225
}

prepare_whip() {
    prepare_browser >/dev/null || { skip 1 "WHIP's publisher, chromium, is missing"; return 1; }
    if ! /usr/bin/python3 -c "import aiortc" 2>/dev/null && [ "$(id -u)" -eq 0 ] &&
        command -v apt-get >/dev/null; then
        apt-get install --yes --quiet --no-install-recommends python3-aiortc python3-aiohttp \
            >/dev/null 2>&1
    fi
    if ! /usr/bin/python3 -c "import aiortc, aiohttp" 2>/dev/null; then
        skip 1 "WHIP's service needs Python's aiortc (Debian: python3-aiortc, python3-aiohttp)"
        return 1
    fi
}

# A browser publishes to a WHIP service, which knows nothing of the two links. One vanishes.
whip_reaches_a_server_through_a_tunnel_of_packets() {
    lay_out && link 0 && link 1 && ip -n "$near" link set lo up || return 1
    ip -n "$far" addr add 192.0.2.7/32 dev lo
    start service ip netns exec "$far" /usr/bin/python3 scripts/whip-service.py 192.0.2.7 8000 \
        10.98.0.2
    await service 10 "listening" || return 1
    start serve ip netns exec "$far" "$program" serve --listen 0.0.0.0:7000 \
        --key "$folder/receiver.key" --allow "$sender_public" \
        --tun ab0 --tun-address 10.98.0.1/24
    await serve 5 "listening" || return 1
    start proxy ip netns exec "$near" "$program" proxy --key "$folder/sender.key" \
        --peer "$receiver_public" --to 10.99.0.2:7000 --via near0 --to 10.99.1.2:7000 --via near1 \
        --tun ab0 --tun-address 10.98.0.2/24
    await proxy 10 "the server routes 10.98.0.2 here" || return 1
    await proxy 5 "path 1 (near1): Active" || return 1
    ip -n "$near" route add default dev ab0
    start browser ip netns exec "$near" chromium --headless --no-sandbox --disable-gpu \
        --user-data-dir="$folder/browser" --remote-debugging-port=0 \
        --disable-features=WebRtcHideLocalIpsWithMdns http://192.0.2.7:8000/
    await service 20 "^[1-9][0-9]* pictures" 3 || return 1
    unlink_near 0
    await proxy 3 "path 0 (near0): Out" || return 1
    local before
    before=$(seen_by_service 1)
    sleep 5
    echo "        WHIP: $(tail -n 1 "$folder/service.log"), one link gone since picture $before"
    # A browser without a screen draws 15 to 25 a second.
    [ $(($(seen_by_service 1) - before)) -ge 50 ] && [ "$(seen_by_service 5)" -le 1000 ]
}

# seen_by_service WORD: the number at that place of the last report.
seen_by_service() {
    tail -n 1 "$folder/service.log" | cut -d " " -f "$1"
}
