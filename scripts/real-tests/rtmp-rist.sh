# RTMP and RIST, with ffmpeg and the tools of librist at the other end.

group rtmp beside
needs rtmp ffmpeg=ffmpeg ffprobe=ffmpeg
tests rtmp rtmp_publishers_come_one_after_the_other

build_rtmp() {
    make_camera
}

group rist beside
needs rist ffmpeg=ffmpeg ffprobe=ffmpeg ristsender=rist-tools
tests rist rist_comes_in_and_goes_out

build_rist() {
    make_camera
}

rtmp_publishers_come_one_after_the_other() {
    local url=rtmp://127.0.0.1:17220/live/key
    start recv "$program" recv --listen "obs=$url" "$folder/{name}.ts"
    await recv 5 "obs: listening" && await_port tcp 17220 || return 1
    camera 4 flv "$url" 2>"$folder/first.log" || return 1
    await_port tcp 17220 || return 1
    camera 4 flv "$url" 2>"$folder/second.log" || return 1
    rests "$folder/obs.ts"
    ends "${processes[0]}" recv && has_pictures "$folder/obs.ts" 190
}

rist_comes_in_and_goes_out() {
    start recv "$program" recv --listen rist://@127.0.0.1:17230 \
        --listen far=rist://@127.0.0.1:17240 "$folder/{name}.ts" rist=rist://127.0.0.1:17240
    await recv 5 "far: listening" || return 1
    await_port udp 17230 && await_port udp 17240 || return 1
    start sender ristsender -S 0 -v 3 -i udp://127.0.0.1:17232 -o rist://127.0.0.1:17230
    await_port udp 17232 || return 1
    # The ends shake hands, which neither says.
    sleep 2
    camera 5 mpegts "udp://127.0.0.1:17232?pkt_size=1316" || return 1
    rests "$folder/far.ts"
    ends "${processes[0]}" recv || return 1
    has_pictures "$folder/rist.ts" 115 && has_pictures "$folder/far.ts" 115
}
