# The archive for Windows, made here and unpacked in a new folder. Wine runs its programs.

group windows beside
needs windows x86_64-w64-mingw32-g++=g++-mingw-w64-x86-64 wine=wine curl=curl ffmpeg=ffmpeg \
    srt-live-transmit=srt-tools python3=python3-minimal ip=iproute2
tests windows windows_starts_and_says_what_it_lacks windows_streams_over_two_paths \
    windows_leaves_by_two_adapters \
    windows_pairs_takes_srt_and_shows_it windows_carries_connections_over_a_bad_network \
    windows_shows_its_demo windows_simulates_the_same windows_plots_and_lists \
    windows_begins_by_its_start_file

# The archive of `make dist` with less optimisation. Two programs still take minutes, so they are
# compiled only on request, as by the nightly workflow.
build_windows() {
    if [ -z "${WINDOWS:-}" ]; then
        echo "WINDOWS=1 compiles the programs for it, for some minutes" >"$shared/windows.skipped"
        return 1
    fi
    OUTPUT=$shared/windows.dist PROFILE=release scripts/dist.sh windows || return 1
    python3 -m zipfile -e "$shared/windows.dist"/*.zip "$shared/unpacked" || return 1
    # A space in the name, as folders of Windows have it.
    mv "$shared/unpacked"/* "$shared/my windows" && rm -r "$shared/windows.dist"* || return 1
    x86_64-w64-mingw32-gcc -shared -O1 -o "$shared/my windows/bin/bcryptprimitives.dll" \
        scripts/real-tests/bcryptprimitives.c -ladvapi32 || return 1
    make_camera
}

# Makes a folder for Wine, which takes longer than any program.
open_windows() {
    export WINEPREFIX=$folder/wine WINEDEBUG=-all WINEDLLOVERRIDES="mscoree=;mshtml=" DISPLAY=
    mkdir "$WINEPREFIX"
    # Its server stays between programs, so that no program starts it.
    if ! wineserver --persistent=60 >"$folder/wineboot.log" 2>&1 ||
        ! timeout 120 wineboot --init >"$folder/wineboot.log" 2>&1; then
        reason="Wine cannot make its folder: $(tail -n 1 "$folder/wineboot.log")"
        return 1
    fi
}

# windows ARGUMENT…: runs the program.
windows() {
    wine "$shared/my windows/bin/anabranch.exe" "$@"
}

# in_windows LOG ARGUMENT…: runs the program in the background.
in_windows() {
    local log=$1
    shift
    start "$log" wine "$shared/my windows/bin/anabranch.exe" "$@"
}

# ends_with CODE ARGUMENT…: whether the program ends so.
ends_with() {
    local expected=$1 code=0
    shift
    windows "$@" >"$folder/ended.log" 2>&1 </dev/null || code=$?
    if [ "$code" -ne "$expected" ]; then
        echo "anabranch $* has ended with the code $code instead of $expected"
        return 1
    fi
}

# lacks NAME CODE ARGUMENT…: whether the program refuses at once, and names the request.
lacks() {
    local name=$1
    shift
    ends_with "$@" || return 1
    if ! grep -q -- "$name does not work on Windows: " "$folder/ended.log"; then
        echo "anabranch $* does not say that $name does not work"
        return 1
    fi
}

# stops_well PROCESS LOG: whether Ctrl-C ends it in order.
stops_well() {
    local code=0
    kill -INT "$1"
    await_that 10 "$2 has ended" has_ended "$1" || return 1
    wait "$1" || code=$?
    if [ "$code" -ne 0 ]; then
        echo "$2 has ended with the code $code after Ctrl-C"
        return 1
    fi
}

has_ended() {
    ! kill -0 "$1" 2>/dev/null || grep -q "^State:.*Z" "/proc/$1/status"
}

windows_starts_and_says_what_it_lacks() {
    local began
    windows --version >"$folder/version.log" || return 1
    began=${EPOCHREALTIME/[.,]/}
    windows --version >"$folder/version.log" || return 1
    echo "        --version takes $(seconds_since "$began") s"
    if ! allows awk -v s="$(seconds_since "$began")" 'BEGIN {exit s > 2}'; then
        echo "that is more than 2 s"
        return 1
    fi
    ends_with 0 --help && ends_with 2 --no-such-option && ends_with 2 sned || return 1
    ends_with 1 keygen --output 'Z:\no\such\folder\a.key' || return 1
    local call=(--key "$folder/sender.key" --peer "$receiver_public" --to 127.0.0.1:7300)
    ends_with 1 send "${call[@]}" "$folder/no-such-film.ts" || return 1
    ends_with 3 send "${call[@]}" --give-up-after "2 s" "$shared/camera.ts" || return 1
    lacks --tun 2 proxy "${call[@]}" --tun ab0 || return 1
    lacks unix:target 2 send "${call[@]}" --target-to unix:target - || return 1
    lacks '`link`' 1 link scenarios/two-paths.toml || return 1
}

# A film over two paths, by the interface's name and by an address. Its bytes arrive as they are.
windows_streams_over_two_paths() {
    local sent=$folder/film.ts
    cp "$shared/camera.ts" "$sent"
    (cd "$folder" && windows keygen --output win-send.key >win-send.pub &&
        windows keygen --output win-recv.key >win-recv.pub) || return 1
    local from to
    from=$(tr -d '\r' <"$folder/win-send.pub") to=$(tr -d '\r' <"$folder/win-recv.pub")
    in_windows recv recv --listen 127.0.0.1:7300 --key "$folder/win-recv.key" --allow "$from" \
        "$folder/got.ts"
    await recv 20 "listening" || return 1
    in_windows send send --key "$folder/win-send.key" --peer "$to" --to 127.0.0.1:7300 \
        --via 127.0.0.1 --via 127.0.0.2 "$sent"
    await send 20 "path 0 .*: Active" && await send 20 "path 1 .*: Active" || return 1
    wait "${processes[1]}" || return 1
    wait "${processes[0]}" || return 1
    cmp "$sent" "$folder/got.ts" || return 1
}

# Two adapters lead to one address. The routing table prefers the first one, so all that leaves by
# the second one does so by IP_UNICAST_IF, which Wine hands to Linux.
windows_leaves_by_two_adapters() {
    local adapter sent
    if [ -z "${HAS_NAMESPACE:-}" ] || ! make_adapters 2>"$folder/namespaces.log"; then
        skip "no network namespaces or veth here: $(head -n 1 "$folder/namespaces.log")"
        return
    fi
    start recv ip netns exec "$far" "$program" recv --listen 10.98.9.2:7000 \
        --key "$folder/receiver.key" --allow "$sender_public" "$folder/got.ts"
    await recv 10 "listening" || return 1
    in_windows send send --key "$folder/sender.key" --peer "$receiver_public" \
        --to 10.98.9.2:7000 --via adapter0 --via adapter1 "$shared/camera.ts"
    await send 20 "path 0 .*: Active" && await send 20 "path 1 .*: Active" || return 1
    wait "${processes[1]}" && wait "${processes[0]}" || return 1
    cmp "$shared/camera.ts" "$folder/got.ts" || return 1
    for adapter in adapter0 adapter1; do
        sent=$(awk -v name="$adapter:" '$1 == name {print $11}' /proc/net/dev)
        echo "        $sent packets have left by $adapter"
        [ "$sent" -ge 200 ] || return 1
    done
}

# make_adapters: two links from this group's namespace to the far one, which has one address.
make_adapters() {
    local index
    ip netns add "$far" && ip -n "$far" link set lo up &&
        ip -n "$far" addr add 10.98.9.2/32 dev lo || return 1
    for index in 0 1; do
        ip link add "adapter$index" type veth peer name "far$index" netns "$far" &&
            ip addr add "10.98.$index.1/24" dev "adapter$index" &&
            ip -n "$far" addr add "10.98.$index.2/24" dev "far$index" &&
            ip -n "$far" link set "far$index" up && ip link set "adapter$index" up &&
            ip route add 10.98.9.2 via "10.98.$index.2" metric $((index + 1)) || return 1
    done
}

# A receiver without keys takes a sender by its link, and an encoder by SRT, and shows both.
windows_pairs_takes_srt_and_shows_it() {
    local link
    in_windows recv recv --pair --listen 127.0.0.1:7301 --keep-listening \
        --dashboard 127.0.0.1:9301 "$folder/paired.ts"
    await recv 20 "anabranch://" || return 1
    link=$(tr -d '\r' <"$folder/recv.log" | grep -o 'anabranch://[^ ]*' | head -n 1)
    in_windows send send --key "$folder/paired.key" --via lo "$shared/camera.ts" "$link"
    await recv 20 "connected" && wait "${processes[1]}" || return 1
    await_that 10 "the dashboard answers" curl --silent --fail --output /dev/null \
        http://127.0.0.1:9301/ || return 1
    rests "$folder/paired.ts"
    stops_well "${processes[0]}" recv || return 1
    cmp "$shared/camera.ts" "$folder/paired.ts" || return 1
    in_windows srt recv --listen "cam=srt://127.0.0.1:17301?mode=listener" "$folder/cam.ts"
    await srt 20 "listening" || return 1
    { camera 6 mpegts pipe:1; sleep 1; } |
        timeout 20 srt-live-transmit -q -chunk:1316 file://con "srt://127.0.0.1:17301" || true
    rests "$folder/cam.ts"
    stops_well "${processes[2]}" srt && has_pictures "$folder/cam.ts" 130
}

# A server and a proxy, whose two paths cross emulated links, and `top` beside them. A file arrives
# as it is, and a datagram is answered.
windows_carries_connections_over_a_bad_network() {
    local from to name
    for name in tunnel-server tunnel-proxy; do
        windows keygen --output "$folder/$name.key" >"$folder/$name.pub" || return 1
    done
    from=$(tr -d '\r' <"$folder/tunnel-proxy.pub") to=$(tr -d '\r' <"$folder/tunnel-server.pub")
    mkdir -p "$folder/web"
    head -c 3000000 /dev/urandom >"$folder/web/file"
    start web python3 -u -m http.server --bind 127.0.0.1 --directory "$folder/web" 17312
    start echo python3 -u -c "$(echo_server)"
    in_windows serve serve --listen 127.0.0.1:17310 --key "$folder/tunnel-server.key" \
        --allow "$from" --connect 127.0.0.1:17312 --connect 127.0.0.1:17313
    await serve 20 "listening" && await_port tcp 17312 || return 1
    in_windows emulate emulate scenarios/two-paths.toml --to 127.0.0.1:17310 \
        --listen 127.0.0.1:17320 --control 17322
    await emulate 20 "changes at" || return 1
    in_windows proxy proxy --key "$folder/tunnel-proxy.key" --peer "$to" \
        --to 127.0.0.1:17320 --via 127.0.0.1 --to 127.0.0.1:17321 --via lo \
        --socks5 127.0.0.1:17330 --udp "17331=127.0.0.1:17313" --metrics 17332
    await proxy 20 "path 0 .*: Active" && await proxy 20 "path 1 .*: Active" || return 1
    curl --silent --show-error --max-time 60 --socks5-hostname 127.0.0.1:17330 \
        --output "$folder/fetched" http://127.0.0.1:17312/file &&
        cmp "$folder/web/file" "$folder/fetched" || return 1
    await_that 10 "a datagram is answered" is_echoed || return 1
    windows top 17332 --once >"$folder/top.log" 2>&1 </dev/null &&
        says top "127.0.0.1" 1 || return 1
    stops_well "${processes[4]}" proxy && stops_well "${processes[3]}" emulate &&
        stops_well "${processes[2]}" serve && says emulate "there: [1-9][0-9]* packets in" 2
}

# A server that answers datagrams with themselves.
echo_server() {
    cat <<'END'
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 17313))
while True:
    server.sendto(*server.recvfrom(2048))
END
}

is_echoed() {
    python3 -c '
import socket
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.settimeout(1)
client.sendto(b"over there", ("127.0.0.1", 17331))
raise SystemExit(client.recv(2048) != b"over there")'
}

# The camera, the codec and two emulated links in one program. Its promises about time are not
# judged here: Wine shares the machine with other groups.
windows_shows_its_demo() {
    local code=0
    (cd "$folder" && windows demo --duration "12 s" --output shown.ts --plot shown.svg) \
        >"$folder/demo.log" 2>&1 </dev/null || code=$?
    if [ "$code" -ne 0 ] && [ "$code" -ne 4 ]; then
        echo "the demo has ended with the code $code"
        return 1
    fi
    grep -q "</svg>" "$folder/shown.svg" && has_pictures "$folder/shown.ts" 200
}

# Twenty runs have the hashes of this system's program.
windows_simulates_the_same() {
    local scenario count=0 lab=${program%/*}/anabranch-lab options=(--seeds 4)
    for scenario in two-paths three-paths cellular shared-bottleneck multipath/outage; do
        "$lab" run "scenarios/$scenario.toml" "${options[@]}" >"$folder/here.log" 2>&1
        windows_lab run "scenarios/$scenario.toml" "${options[@]}" 2>&1 |
            tr -d '\r' >"$folder/there.log"
        hashes here >"$folder/here"
        if ! hashes there | cmp - "$folder/here"; then
            echo "$scenario differs"
            return 1
        fi
        count=$((count + $(wc -l <"$folder/here")))
    done
    echo "        $count runs have the same hashes"
    [ "$count" -eq 20 ]
}

# hashes LOG: prints the hashes of a report.
hashes() {
    grep "^trace hash " "$folder/$1.log"
}

# A list, traces as files and their picture are as those of this system.
windows_plots_and_lists() {
    local lab=${program%/*}/anabranch-lab run=(run scenarios/two-paths.toml --set "duration=3 s")
    "$lab" list controllers >"$folder/here.log"
    windows_lab list controllers 2>&1 | tr -d '\r' | cmp - "$folder/here.log" || return 1
    "$lab" "${run[@]}" --trace "$folder/own" >"$folder/run.log" 2>&1
    windows_lab "${run[@]}" --trace "$folder/other" >"$folder/run.log" 2>&1 || return 1
    "$lab" plot "$folder/own" >"$folder/plot.log" 2>&1
    windows_lab plot "$folder/other" >"$folder/plot.log" 2>&1 || return 1
    diff --recursive --brief "$folder/own" "$folder/other"
}

# windows_lab ARGUMENT…: runs the laboratory.
windows_lab() {
    wine "$shared/my windows/bin/anabranch-lab.exe" "$@" </dev/null
}

# As a double click does. A script takes the browser's place, and keeps the address.
windows_begins_by_its_start_file() {
    printf '#!/bin/sh\necho "$1" >"%s/opened.log"\n' "$folder" >"$folder/browser"
    chmod 755 "$folder/browser"
    wine reg add 'HKCU\Software\Wine\WineBrowser' /v Browsers /d "$folder/browser" /f \
        >"$folder/reg.log" 2>&1 || return 1
    # Wine takes a bare `start.cmd` for its command `start`.
    (cd "$shared/my windows" && exec wine cmd /c '.\start.cmd') \
        >"$folder/begun.log" 2>&1 </dev/null &
    processes+=($!)
    await begun 20 "anabranch://" && await_that 10 "the dashboard answers" \
        curl --silent --fail --output /dev/null http://127.0.0.1:9100/ || return 1
    await_that 10 "the browser has the address" \
        grep -q http://127.0.0.1:9100/ "$folder/opened.log" || return 1
    wine taskkill /f /im anabranch.exe >"$folder/killed.log" 2>&1
    await_that 10 "the start file has ended" has_ended "${processes[0]}"
}
