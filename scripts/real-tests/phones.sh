# The links that `recv --pair --phone` prints, used as the apps of phones would use them.

group phones beside
needs phones ffmpeg=ffmpeg ffprobe=ffmpeg python3=python3-minimal
tests phones phones_send_by_the_links_that_are_printed

build_phones() {
    make_camera
}

# prints_links COUNT: whether the receiver has printed so many links of apps.
prints_links() {
    [ "$(grep -c '://.*?' "$folder/links")" -ge "$1" ]
}

# One phone sends by SRTLA over two links, the other one by SRT. A caller with the secret of
# another phone, or without a stream ID, is refused.
phones_send_by_the_links_that_are_printed() {
    local van roof wrong secret
    start recv env "XDG_STATE_HOME=$folder/state" bash -c \
        'exec "$0" recv --pair=127.0.0.4 --phone van=moblin --phone roof=larix --keep-listening \
        "$1/{name}.ts" >"$1/links"' "$program" "$folder"
    await_that 10 "three links are printed" prints_links 3 || return 1
    van=$(scripts/real-tests/phone-url.py van <"$folder/links") &&
        roof=$(scripts/real-tests/phone-url.py roof <"$folder/links") || return 1
    case "$van $roof" in
        "127.0.0.4:5000?"*"streamid=van"*" 127.0.0.4:5001?"*"streamid=roof"*) ;;
        *) echo "the links have other addresses" && return 1 ;;
    esac
    for wrong in "127.0.0.4:5001?streamid=roof&${van##*&}" "127.0.0.4:5001?${roof##*&}"; do
        if camera 1 mpegts "srt://$wrong&pkt_size=1316" 2>"$folder/wrong.log"; then
            echo "a caller with the wrong secrets was let in"
            return 1
        fi
    done
    await recv 2 "was refused" 2 || return 1
    start sender scripts/real-tests/srtla-sender.py 17341 "${van%%\?*}" 127.0.0.2 127.0.0.3
    await sender 5 "2 links have registered" || return 1
    camera 5 mpegts "srt://127.0.0.1:17341?${van#*\?}&pkt_size=1316" &
    local camera=$!
    camera 4 mpegts "srt://$roof&pkt_size=1316" || return 1
    wait "$camera" || return 1
    await recv 2 'stream "van", is connected, encrypted' &&
        await recv 2 'stream "roof", is connected, encrypted' || return 1
    rests "$folder/van.ts"
    for secret in "${van##*passphrase=}" "${roof##*passphrase=}"; do
        if grep -qe "$secret" "/proc/${processes[0]}/cmdline" "$folder/recv.log"; then
            echo "a passphrase was shown"
            return 1
        fi
    done
    ends "${processes[0]}" recv || return 1
    has_pictures "$folder/van.ts" 110 && has_pictures "$folder/roof.ts" 90
}
