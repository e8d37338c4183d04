# Tunnels of packets.

group tunnel beside
needs tunnel ip=iproute2 ping=iputils-ping curl=curl python3=python3-minimal
tests tunnel a_tunnel_of_packets_carries_on_while_an_interface_goes

open_tunnel() {
    has_links && has_tun
}

# near_pings OPTION…: whether an answer arrives.
near_pings() {
    ip netns exec "$near" ping -c 1 -W 2 "$@" >>"$folder/ping.log" 2>&1
}

# Packets of both kinds, one of the interface's maximum length, and a transfer by the default route,
# while the server's own address is reached by the named interfaces.
a_tunnel_of_packets_carries_on_while_an_interface_goes() {
    lay_out && link 0 && link 1 && ip -n "$near" link set lo up || return 1
    # A host behind the server.
    ip -n "$far" addr add 192.0.2.7/32 dev lo
    mkdir -p "$folder/web"
    head -c 20000000 /dev/urandom >"$folder/web/file"
    start web ip netns exec "$far" python3 -u -m http.server --bind 192.0.2.7 \
        --directory "$folder/web" 8000
    start_server --tun ab0 --tun-address 10.98.0.1/24 --tun-address fd98::1/64
    await serve 5 "listening" && await web 10 "Serving HTTP" || return 1
    if ip netns exec "$near" "$program" proxy --key "$folder/sender.key" \
        --peer "$receiver_public" --to 10.99.0.2:7000 --tun near0 2>"$folder/taken.log"; then
        echo "an interface that was there was taken"
        return 1
    fi
    await taken 1 "there is an interface of that name already" || return 1
    start_proxy proxy "${two_links[@]}" --tun ab0 --tun-address 10.98.0.2/24 \
        --tun-address fd98::2/64
    await proxy 10 "the server routes fd98::2 here" || return 1
    await proxy 5 "path 1 (near1): Active" || return 1
    ip -n "$near" route add default dev ab0
    if ! near_pings 10.98.0.1 || ! near_pings -6 fd98::1; then
        echo "no answer by ping"
        return 1
    fi
    # With its headers 1,372 bytes, and one more.
    near_pings -M "do" -s 1344 192.0.2.7 || { echo "the longest packet is lost" && return 1; }
    if near_pings -M "do" -s 1345 192.0.2.7 || ! await ping 1 "mtu.*1372"; then
        echo "a packet above the MTU was not refused"
        return 1
    fi
    start curl ip netns exec "$near" curl --silent --show-error --max-time 60 --limit-rate 4M \
        --output "$folder/got" http://192.0.2.7:8000/file
    local download=${processes[3]}
    await_bytes "$folder/got" 20 2000000 || return 1
    unlink_near 0
    await proxy 3 "path 0 (near0): Out" || return 1
    if ! wait "$download" || ! cmp "$folder/got" "$folder/web/file"; then
        echo "the download is not the file"
        return 1
    fi
    ip -n "$near" addr add 10.98.0.77/24 dev ab0
    if near_pings -I 10.98.0.77 10.98.0.1; then
        echo "an address that is not the proxy's was answered"
        return 1
    fi
    await proxy 1 "dropped a packet from 10.98.0.77" || return 1
    kill -TERM "${processes[2]}"
    await proxy 10 "session of" && wait "${processes[2]}" || return 1
    if ip -n "$near" link show ab0 >/dev/null 2>&1; then
        echo "the interface has outlived the program"
        return 1
    fi
}

group default_route beside
needs default_route ip=iproute2 ping=iputils-ping curl=curl python3=python3-minimal nft=nftables \
    sysctl=procps
tests default_route a_tunnel_carries_all_of_a_machine_and_leaves_it_as_it_was

open_default_route() {
    has_links && has_tun && has_names
}

# Name server for which every name is the web server beyond the tunnel.
name_server() {
    cat <<'END'
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("198.51.100.2", 53))
print("listening", flush=True)
while True:
    query, peer = server.recvfrom(2048)
    end = query.index(b"\0", 12) + 5
    is_ipv4 = query[end - 4:end - 2] == b"\0\1"
    answer = bytes.fromhex("c00c00010001000000010004") + bytes([198, 51, 100, 2])
    head = query[:2] + b"\x81\x80\0\1" + (b"\0\1" if is_ipv4 else b"\0\0") + bytes(4)
    server.sendto(head + query[12:end] + (answer if is_ipv4 else b""), peer)
END
}

# near ═ router ─ far ─ beyond. Only the far end reaches what is beyond, and only its address is
# known there. The second interface of near has a routing table of its own, for its address.
lay_out_internet() {
    local router=$near-router beyond=$near-beyond
    local namespace
    for namespace in "$near" "$far" "$router" "$beyond"; do
        ip netns add "$namespace" && ip -n "$namespace" link set lo up || return 1
    done
    ip netns exec "$near" sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.default.rp_filter=1
    ip netns exec "$router" sysctl -qw net.ipv4.ip_forward=1
    join "$near" near0 10.99.0.1/24 "$router" router0 10.99.0.2/24 &&
        join "$near" near1 10.99.1.1/24 "$router" router1 10.99.1.2/24 &&
        join "$router" router2 203.0.113.1/24 "$far" far0 203.0.113.2/24 &&
        join "$far" far1 198.51.100.1/24 "$beyond" beyond0 198.51.100.2/24 &&
        ip -n "$far" addr add 2001:db8:5::1/64 dev far1 nodad &&
        ip -n "$beyond" addr add 2001:db8:5::2/64 dev beyond0 nodad &&
        ip -n "$far" route add 10.99.0.0/16 via 203.0.113.1 &&
        ip -n "$near" route add default via 10.99.0.2 dev near0 &&
        ip -n "$near" route add default via 10.99.1.2 dev near1 table 101 &&
        ip -n "$near" rule add from 10.99.1.1 lookup 101
}

# Routes, rules and name servers of the near end, and what the far end has changed.
state_of_machines() {
    ip -n "$near" rule show && ip -n "$near" -6 rule show
    ip -n "$near" route show && ip -n "$near" -6 route show
    # Without routes a table does not exist.
    ip -n "$near" route show table 7099 2>/dev/null
    ip -n "$near" -6 route show table 7099 2>/dev/null
    cat "/etc/netns/$near/resolv.conf"
    ip netns exec "$far" nft list ruleset
    ip netns exec "$far" sysctl net.ipv4.ip_forward net.ipv6.conf.all.forwarding \
        net.ipv6.conf.far1.accept_ra
}

# start_default_route LOG OPTION…
start_default_route() {
    local log=$1
    shift
    start_proxy "$log" --to 203.0.113.2:7000 --tun ab0 --tun-address 10.98.0.2/24 \
        --tun-address fd98::2/64 --default-route --dns 198.51.100.2 "$@"
    await "$log" 10 "all traffic goes through ab0, IPv4 and IPv6"
}

# Whether ping, UDP (a name) and TCP (by name) reach what is beyond, and ways of the machine stay.
carries_all() {
    if ! near_pings 198.51.100.2 || ! near_pings -6 2001:db8:5::2; then
        echo "no answer by ping"
        return 1
    fi
    local got
    got=$(ip netns exec "$near" curl --silent --show-error --max-time 10 \
        http://film.example:8000/hello)
    [ "$got" = "hello over there" ] || { echo "no answer by name and TCP: $got" && return 1; }
    if ! ip -n "$near" route get 10.99.0.2 | grep -q "dev near0"; then
        echo "a connected network is reached by the tunnel"
        return 1
    fi
    # The answer of a service to a host that is not a neighbour.
    if ! ip netns exec "$far" ping -c 1 -W 2 10.99.1.1 >>"$folder/ping.log" 2>&1; then
        echo "a call from outside is not answered"
        return 1
    fi
}

a_tunnel_carries_all_of_a_machine_and_leaves_it_as_it_was() {
    lay_out_internet || return 1
    mkdir -p "/etc/netns/$near" "$folder/beyond"
    printf 'search example\nnameserver 10.99.0.77\n' >"/etc/netns/$near/resolv.conf"
    echo "hello over there" >"$folder/beyond/hello"
    name_server >"$folder/names.py"
    state_of_machines >"$folder/before"
    start names ip netns exec "$near-beyond" python3 "$folder/names.py"
    start web ip netns exec "$near-beyond" python3 -u -m http.server --bind 198.51.100.2 \
        --directory "$folder/beyond" 8000
    start_server --tun ab0 --tun-address 10.98.0.1/24 --tun-address fd98::1/64 --nat
    local serve=${processes[2]}
    await serve 5 "listening" && await web 10 "Serving HTTP" && await names 10 "listening" ||
        return 1
    if near_pings 198.51.100.2; then
        echo "the tunnel is not needed: this test shows nothing"
        return 1
    fi
    start_default_route proxy --via near0 --via 10.99.1.1 || return 1
    await proxy 5 "path 1 (10.99.1.1): Active" && carries_all || return 1
    if ip netns exec "$near" "$program" proxy --key "$folder/sender.key" --peer "$receiver_public" \
        --to 203.0.113.2:7000 --tun ab1 --default-route 2>"$folder/second.log"; then
        echo "a second default route was taken"
        return 1
    fi
    await second 1 "a running program has made these changes already" || return 1
    crash "${processes[3]}"
    state_of_machines | grep -q "fwmark" || { echo "nothing is left by a crash" && return 1; }
    # The path has no name: only the mark of its socket keeps it out of the tunnel.
    start_default_route again || return 1
    await again 1 "undid the changes" && carries_all || return 1
    kill -TERM "${processes[4]}"
    await again 10 "session of" && wait "${processes[4]}" || return 1
    start_default_route third --via near0 --via near1 && carries_all || return 1
    crash "${processes[5]}"
    ip netns exec "$near" "$program" proxy --clean-up 2>"$folder/clean.log" || return 1
    kill -TERM "$serve"
    wait "$serve"
    state_of_machines >"$folder/after"
    diff "$folder/before" "$folder/after" || { echo "something is left" && return 1; }
}
