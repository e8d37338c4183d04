# A browser that publishes by WHIP through a tunnel of packets. Pictures per second are judged: this
# runs alone.

group whip alone
needs whip chromium=chromium python:aiortc=python3-aiortc python:aiohttp=python3-aiohttp
tests whip whip_reaches_a_server_through_a_tunnel_of_packets

open_whip() {
    has_links && has_tun
}

# A browser publishes to a WHIP service, which knows nothing of the two links. One vanishes.
whip_reaches_a_server_through_a_tunnel_of_packets() {
    lay_out && link 0 && link 1 && ip -n "$near" link set lo up || return 1
    ip -n "$far" addr add 192.0.2.7/32 dev lo
    start service ip netns exec "$far" /usr/bin/python3 scripts/real-tests/whip-service.py \
        192.0.2.7 8000 10.98.0.2
    await service 10 "listening" || return 1
    start_server --tun ab0 --tun-address 10.98.0.1/24
    await serve 5 "listening" || return 1
    start_proxy proxy "${two_links[@]}" --tun ab0 --tun-address 10.98.0.2/24
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
    # As long as the pictures are counted.
    sleep 5
    echo "        WHIP: $(tail -n 1 "$folder/service.log"), one link gone since picture $before"
    # A browser without a screen draws 15 to 25 a second.
    [ $(($(seen_by_service 1) - before)) -ge 50 ] && [ "$(seen_by_service 5)" -le 1000 ]
}

# seen_by_service WORD: the number at that place of the last report.
seen_by_service() {
    tail -n 1 "$folder/service.log" | cut -d " " -f "$1"
}
