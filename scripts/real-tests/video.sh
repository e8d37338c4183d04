# A camera, and the pictures of files.

# Makes a video of 12 s and 300 pictures.
make_camera() {
    [ -e "$shared/camera.ts" ] || ffmpeg -loglevel error -f lavfi \
        -i testsrc2=size=640x360:rate=25 -f lavfi -i sine -t 12 -c:v libx264 -preset ultrafast \
        -g 25 -b:v 1500k -c:a aac -f mpegts "$shared/camera.ts"
}

# camera SECONDS FORMAT URL: streams for that time.
camera() {
    ffmpeg -nostdin -loglevel error -re -t "$1" -i "$shared/camera.ts" -c copy -f "$2" "$3"
}

# has_pictures FILE LEAST: whether it has at least LEAST pictures, all of which can be decoded.
has_pictures() {
    local count
    count=$(ffprobe -v error -count_frames -select_streams v -of csv=p=0 \
        -show_entries stream=nb_read_frames "$1" 2>"$folder/ffprobe.log" | head -n 1 | tr -d ',\r')
    # The last picture may have been cut off.
    if allows [ "${count:-0}" -ge "$2" ] &&
        allows [ "$(count ffprobe "error while decoding")" -le 1 ]; then
        return
    fi
    echo "$1 has ${count:-no} pictures, of which $2 were expected"
    return 1
}

# pictures FILE: prints the time and the size of each picture, in order.
pictures() {
    ffprobe -v error -select_streams v:0 -show_entries packet=pts_time,size -of csv=p=0 "$1" |
        awk -F, '$1 ~ /^[0-9]/ {print $1, $2}' | sort -nu
}

# video_kbit FILE FROM TO: prints the mean bitrate between two times of its video, in kbit/s.
video_kbit() {
    pictures "$1" | awk -v from="$2" -v to="$3" 'NR == 1 {first = $1}
        $1 - first >= from && $1 - first < to {sum += $2}
        END {print int(sum * 8 / (to - from) / 1000)}'
}

# missing_pictures FILE: prints how many of 40 ms are missing between its first and its last one.
missing_pictures() {
    pictures "$1" |
        awk 'NR == 1 {first = $1} {last = $1} END {print int((last - first) / 0.04 + 1.5) - NR}'
}

# ends PROCESS LOG: whether it ends without an error on request, and its tools with it.
ends() {
    kill -INT "$1"
    await "$2" 10 "of MPEG-TS came" || return 1
    if ! wait "$1"; then
        echo "it has not ended well"
        return 1
    fi
    # Of this group.
    if pgrep -g 0 -f "^[^ ]*ristreceiver .*:172[0-9][0-9]" >/dev/null; then
        echo "a tool has outlived it"
        return 1
    fi
}
