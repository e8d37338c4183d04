# Programs behind emulated links, in namespaces of `link`.

group link beside
needs link ip=iproute2 ping=iputils-ping python3=python3-minimal setpriv=util-linux nstat=iproute2
tests link a_link_carries_tcp_and_pings_of_both_kinds connections_of_mptcp_use_all_paths \
    the_command_waits_for_the_far_one \
    links_nest a_killed_link_leaves_nothing users_without_root_have_links \
    a_link_ends_with_its_command_and_its_code

open_link() {
    if ! "$program" link --path "1 ms" -- true >"$folder/open.log" 2>&1; then
        reason="no emulated links here: $(tail -n 1 "$folder/open.log")"
        return 1
    fi
}

# Sends BYTES zeros to the first client, and ends: link_server PROTOCOL BYTES.
link_server() {
    cat <<END
import socket
server = socket.socket(socket.AF_INET6 if "$1" == "v6" else socket.AF_INET, socket.SOCK_STREAM,
                       262 if "$1" == "mptcp" else 0)
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("::" if "$1" == "v6" else "0.0.0.0", 8000))
server.listen()
client, _ = server.accept()
client.sendall(bytes($2))
client.close()
END
}

# Receives from the other end: prints the number of bytes, and megabits a second from the first
# megabyte on. link_client PROTOCOL.
link_client() {
    cat <<END
import socket, sys, time
family = socket.AF_INET6 if "$1" == "v6" else socket.AF_INET
while True:
    client = socket.socket(family, socket.SOCK_STREAM, 262 if "$1" == "mptcp" else 0)
    try:
        client.connect(("fd00:27::1" if "$1" == "v6" else "10.27.0.1", 8000))
        break
    except ConnectionRefusedError:
        time.sleep(0.1)
count, began = 0, None
while data := client.recv(1 << 16):
    count += len(data)
    if began is None and count >= 1000000:
        began = (time.monotonic(), count)
seconds = time.monotonic() - began[0]
print(count, round(8e-6 * (count - began[1]) / seconds, 2))
END
}

# transfer LOG PROTOCOL BYTES OPTION…: sends bytes to the command.
transfer() {
    local log=$1 protocol=$2 bytes=$3
    shift 3
    link_server "$protocol" "$bytes" >"$folder/server.py"
    link_client "$protocol" >"$folder/client.py"
    timeout 120 "$program" link "$@" --far "python3 '$folder/server.py'" -- \
        sh -c "python3 '$folder/client.py'; nstat -asz" >"$folder/$log.log" 2>&1
}

# received LOG BYTES LOWEST HIGHEST: whether all bytes came, at a rate in Mbit/s between them.
received() {
    awk -v bytes="$2" -v lowest="$3" -v highest="$4" \
        '$1 == bytes && NF == 2 {found = $2 >= lowest && $2 <= highest} END {exit !found}' \
        "$folder/$1.log" && return
    echo "not $2 bytes at $3 to $4 Mbit/s: $(grep -v Ext "$folder/$1.log" | tail -n 20)"
    return 1
}

# Links of 10 Mbit/s carry 9.65 Mbit/s of payload in packets of 1,500 bytes, and 9.52 with IPv6.
a_link_carries_tcp_and_pings_of_both_kinds() {
    local path='10 Mbit/s, 10 ms, 100 ms of queue'
    transfer v4 v4 6000000 --path "$path" --trace "$folder/trace.csv" --pcap "$folder/v4.pcapng"
    allows received v4 6000000 9.0 9.9 || return 1
    transfer v6 v6 6000000 --path "$path"
    allows received v6 6000000 9.0 9.9 || return 1
    if ! says v4 "path0, back:.* packets in" 1 || ! says v4 "release error" 1; then
        echo "no report"
        return 1
    fi
    grep -q ",path0,back,out,1500," "$folder/trace.csv" || { echo "no trace" && return 1; }
    has_bytes "$folder/v4.pcapng" 6000000 || { echo "no capture" && return 1; }
    "$program" link --path "20 ms, MTU 1400" -- \
        sh -c 'ping -c 2 -W 5 10.27.0.1 && ping -c 2 -W 5 fd00:27::1 &&
            ! ping -c 1 -W 2 -M do -s 1450 10.27.0.1' >"$folder/ping.log" 2>&1
    if ! says ping "time=4[0-9]" 4 || ! says ping "mtu *= *1400" 1; then
        echo "no answers after 40 ms, or none about the MTU: $(cat "$folder/ping.log")"
        return 1
    fi
}

connections_of_mptcp_use_all_paths() {
    transfer mptcp mptcp 8000000 --path '5 Mbit/s, 10 ms' --path '5 Mbit/s, 10 ms' --mptcp
    if ! grep -q "MPTcpExtMPJoinSynAckRx  *[1-9]" "$folder/mptcp.log"; then
        echo "no second subflow: $(grep -v Ext "$folder/mptcp.log")"
        return 1
    fi
    allows received mptcp 8000000 6.0 9.9
}

the_command_waits_for_the_far_one() {
    local connect='import socket; socket.create_connection(("10.27.0.1", 8000)); print("connected")'
    local listen='import socket, time; s = socket.socket(); time.sleep(1); s.bind(("", 8000))
s.listen(); time.sleep(60)'
    echo "$listen" >"$folder/listen.py"
    "$program" link --path "1 ms" --far "python3 '$folder/listen.py'" --far-wait 8000 -- \
        python3 -c "$connect" >"$folder/wait.log" 2>&1
    says wait "^connected" 1 || { cat "$folder/wait.log" && return 1; }
    # A far command that fails at once is an error.
    if "$program" link --path "1 ms" --far "exit 7" -- true >"$folder/fails.log" 2>&1 ||
        ! says fails "has ended at once" 1; then
        echo "no error: $(cat "$folder/fails.log")"
        return 1
    fi
}

# The inner link is the first one of the way, and its far end the outer command's namespace.
links_nest() {
    "$program" link --path "20 ms" --path "20 ms" -- "$program" link --path "30 ms" -- \
        sh -c 'ping -c 1 -W 5 10.28.0.1 && ping -c 1 -W 5 10.27.1.1 && ping -c 1 -W 5 fd00:27::1' \
        >"$folder/nest.log" 2>&1
    if [ "$(grep -c "time=6[0-9]" "$folder/nest.log")" != 1 ] ||
        [ "$(grep -c "time=10[0-9]" "$folder/nest.log")" != 2 ]; then
        echo "not 60 and 100 ms: $(cat "$folder/nest.log")"
        return 1
    fi
}

# link_processes: prints the number of programs that `link` has left.
link_processes() {
    cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' | grep -c "^LINK_TEST=$folder\$"
}

nothing_runs() {
    [ "$(link_processes)" -eq 0 ]
}

# Prints interfaces, rules and namespaces, without those of groups that run beside this one.
network_state() {
    ip -brief link
    ip rule
    ip -6 rule
    ip netns | grep -v "^anabranch-\(near\|far\)-"
}

a_killed_link_leaves_nothing() {
    local before after
    before=$(network_state)
    start killed env "LINK_TEST=$folder" "$program" link --path "1 Mbit/s" --far "sleep 300" -- \
        sh -c 'sleep 301 & sleep 302 & (env -i setsid sleep 303.25 &) ; echo ready; wait'
    await killed 10 "ready" || return 1
    # The program, the shell, its two children, and the far shell, whose child may be itself.
    if [ "$(link_processes)" -lt 5 ]; then
        echo "the programs do not run: $(link_processes)"
        return 1
    fi
    crash "${processes[0]}"
    "$program" link --path "1 ms" -- true >"$folder/next.log" 2>&1 || return 1
    await_that 10 "nothing runs" nothing_runs || return 1
    # This one has cleared its environment and lost its parent.
    if cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ' | grep -q "sleep 303[.]25"; then
        echo "a program outlives a killed link"
        return 1
    fi
    grep -q "that a killed .link. had left" "$folder/next.log" || { echo "no word" && return 1; }
    after=$(network_state)
    [ "$before" = "$after" ] || { echo "before: $before, after: $after" && return 1; }
    # Ctrl-C, which here comes to `link` alone.
    start stopped env "LINK_TEST=$folder" "$program" link --path "1 ms" --far "sleep 300" -- \
        sh -c 'sleep 301 & echo ready; wait'
    await stopped 10 "ready" || return 1
    kill -TERM "${processes[1]}"
    await_that 10 "nothing runs" nothing_runs
}

users_without_root_have_links() {
    local user=()
    if [ "$(id -u)" -eq 0 ]; then
        cp "$program" "$folder/anabranch" && chmod a+rx "$folder" "$folder/anabranch"
        chmod a+x "${folder%/*}"
        user=(setpriv --reuid=65534 --regid=65534 --clear-groups env -u XDG_RUNTIME_DIR)
    else
        ln -s "$program" "$folder/anabranch"
    fi
    if ! "${user[@]}" unshare --user --net true 2>/dev/null; then
        skip "users may make no user namespaces here"
        return
    fi
    link_server v4 2000000 >"$folder/server.py"
    link_client v4 >"$folder/client.py"
    chmod a+r "$folder"/*.py
    "${user[@]}" "$folder/anabranch" link --path '10 Mbit/s, 5 ms' --path '10 Mbit/s, 5 ms' \
        --mptcp --far "python3 '$folder/server.py'" -- \
        sh -c "ping -c 1 -W 5 fd00:27:1::1 && python3 '$folder/client.py'" >"$folder/user.log" 2>&1
    if ! says user "in a user namespace" 1 || ! says user "^2000000 " 1; then
        cat "$folder/user.log"
        return 1
    fi
}

a_link_ends_with_its_command_and_its_code() {
    local code
    "$program" link --path "1 ms" -- sh -c 'exit 42' 2>"$folder/code.log"
    code=$?
    if [ "$code" -ne 42 ] || ! grep -q "the command ended with code 42" "$folder/code.log"; then
        echo "code $code: $(cat "$folder/code.log")"
        return 1
    fi
    # A program in the background does not keep it.
    timeout 30 "$program" link --path "1 ms" -- sh -c 'sleep 300 & exit 0' 2>"$folder/code.log"
}
