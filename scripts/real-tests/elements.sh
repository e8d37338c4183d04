# The elements of GStreamer together: what one sends, the other receives.

group elements beside
needs elements pkg-config=pkg-config gst-launch-1.0=gstreamer1.0-tools ffprobe=ffmpeg \
    gst:x264enc=gstreamer1.0-plugins-ugly gst:mpegtsmux=gstreamer1.0-plugins-bad \
    gst:videotestsrc=gstreamer1.0-plugins-base gst:filesink=gstreamer1.0-tools \
    pkg-config:gstreamer-1.0=libgstreamer1.0-dev \
    pkg-config:gstreamer-base-1.0=libgstreamer1.0-dev
tests elements the_source_writes_what_the_sink_sends the_source_plays_and_ends_with_its_sender \
    a_sender_that_is_killed_is_an_error_of_the_source

build_elements() {
    (cd gst && ${CARGO:-cargo} build --quiet --lib)
}

# pipeline LOG WORD…: starts a pipeline that has the elements.
pipeline() {
    local log=$1
    shift
    start "$log" env "GST_PLUGIN_PATH=$PWD/gst/target/debug" "GST_REGISTRY=$folder/registry" \
        gst-launch-1.0 --no-position "$@"
}

# source_of PORT [WORD…]: the source's element with its properties.
source_of() {
    local port=$1
    shift
    words=(anabranchsrc "listen=127.0.0.1:$port" "key=$folder/receiver.key"
        "allow=$sender_public" latency=300 "$@")
}

# sends PORT PICTURES: a camera whose stream goes to a file and to the sink, over two paths.
sends() {
    pipeline sink -e videotestsrc is-live=true "num-buffers=$2" ! \
        video/x-raw,width=320,height=180,framerate=25/1 ! \
        x264enc tune=zerolatency speed-preset=ultrafast key-int-max=25 bitrate=800 ! \
        mpegtsmux alignment=7 ! tee name=t ! queue ! filesink "location=$folder/sent.ts" \
        t. ! queue ! anabranchsink "to=127.0.0.1:$1" via=127.0.0.2,127.0.0.3 \
        "key=$folder/sender.key" "peer=$receiver_public" latency=300
}

# over PROCESS SECONDS: waits for a pipeline's end, and returns its exit code.
over() {
    await_that "$2" "the pipeline ends" is_over "$1" || return 1
    wait "$1"
}

is_over() {
    ! kill -0 "$1" 2>/dev/null
}

# The sink leaves out what comes before the session: the rest is the same to the last byte.
the_source_writes_what_the_sink_sends() {
    local words sent received
    source_of 17331
    pipeline source "${words[@]}" ! filesink "location=$folder/received.ts"
    await source 10 "PLAYING" || return 1
    sends 17331 150
    over "${processes[1]}" 20 || { echo "the sink failed" && return 1; }
    over "${processes[0]}" 5 || { echo "the source failed" && return 1; }
    sent=$(stat -c %s "$folder/sent.ts") received=$(stat -c %s "$folder/received.ts")
    echo "        $received of $sent bytes came"
    if ! tail -c "$received" "$folder/sent.ts" | cmp -s - "$folder/received.ts"; then
        echo "the bytes differ"
        return 1
    fi
    has_pictures "$folder/received.ts" 120
}

# A decoder shows the pictures by their time stamps, and the end of the stream arrives there.
the_source_plays_and_ends_with_its_sender() {
    local words
    source_of 17332
    pipeline source -v "${words[@]}" ! tsdemux ! h264parse ! \
        identity silent=false ! fakesink sync=true
    await source 10 "PLAYING" || return 1
    sends 17332 100
    over "${processes[1]}" 20 && over "${processes[0]}" 10 || return 1
    await source 1 "Got EOS from element" || return 1
    [ "$(count source "chain.*pts: 0:00:0")" -ge 75 ] && return
    echo "too few pictures had time stamps"
    return 1
}

a_sender_that_is_killed_is_an_error_of_the_source() {
    local words
    source_of 17333 timeout=2000
    pipeline source "${words[@]}" ! filesink "location=$folder/received.ts"
    await source 10 "PLAYING" || return 1
    sends 17333 2000
    await_that 10 "bytes come" test -s "$folder/received.ts" || return 1
    crash "${processes[1]}"
    if over "${processes[0]}" 20; then
        echo "the source saw no error"
        return 1
    fi
    await source 1 "the session is over: "
}
