# Recipes of docs/operations/services.md: other people's services, unchanged, behind a tunnel over
# two emulated links. One link is dead for two seconds.

group service_srt beside
needs service_srt ffmpeg=ffmpeg ffprobe=ffmpeg srt-live-transmit=srt-tools
tests service_srt srt_reaches_a_listener_that_knows_nothing_of_two_links
build_service_srt() { make_camera; }

group service_rtmp beside
needs service_rtmp ffmpeg=ffmpeg ffprobe=ffmpeg
tests service_rtmp rtmp_reaches_a_server_that_knows_nothing_of_two_links
build_service_rtmp() { make_camera; }

group service_rist beside
needs service_rist ffmpeg=ffmpeg ffprobe=ffmpeg ristsender=rist-tools
tests service_rist rist_reaches_a_receiver_that_knows_nothing_of_two_links
build_service_rist() { make_camera; }

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
    # The moments are those of the stream.
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
        "--udp 17411=127.0.0.1:17410,unordered,deadline=500ms,name=srt --udp-deadline 500ms" ||
        return 1
    local url="srt://127.0.0.1:17411?pkt_size=1316&latency=1000000&passphrase=correcthorse"
    camera_over_an_outage mpegts "$url" || return 1
    rests "$folder/srt-out.ts"
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
    rests "$folder/rtmp.ts"
    has_pictures "$folder/rtmp.ts" 240
}

rist_reaches_a_receiver_that_knows_nothing_of_two_links() {
    start service ristreceiver -v 3 -i "rist://@127.0.0.1:17430?buffer=1000" \
        -o udp://127.0.0.1:17431
    start output ffmpeg -loglevel error -t 14 -i udp://127.0.0.1:17431 -c copy \
        -flush_packets 1 -y "$folder/rist-out.ts"
    await_port udp 17430 && await_port udp 17431 || return 1
    tunnel_to "--connect 127.0.0.1:17430" \
        "--udp 17432=127.0.0.1:17430,unordered,deadline=500ms,name=rist --udp-deadline 500ms" ||
        return 1
    start sender ristsender -S 0 -v 3 -i udp://127.0.0.1:17433 \
        -o "rist://127.0.0.1:17432?buffer=1000"
    await_port udp 17433 || return 1
    # The ends shake hands, which neither says.
    sleep 1
    camera_over_an_outage mpegts "udp://127.0.0.1:17433?pkt_size=1316" || return 1
    rests "$folder/rist-out.ts"
    ends_with_overhead && has_pictures "$folder/rist-out.ts" 225
}
