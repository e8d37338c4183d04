# Packets that leave a machine outside of its default route, sent by sockets: `ip route get` does
# not look up as they do.

group leaks beside
needs leaks ip=iproute2 python3=python3-minimal nft=nftables sysctl=procps
tests leaks a_default_route_leaks_nothing_if_the_server_carries_ipv4_only \
    a_default_route_leaks_nothing_if_the_server_carries_both_kinds

open_leaks() {
    has_links && has_tun
}

# Sends by each kind: UDP without and with `connect`, TCP, and raw ICMP.
senders() {
    cat <<'END'
import socket, sys
for family, host in ((socket.AF_INET, "198.51.100."), (socket.AF_INET6, "2001:db8:ffff::")):
    is_ipv4 = family == socket.AF_INET
    icmp = socket.IPPROTO_ICMP if is_ipv4 else socket.IPPROTO_ICMPV6
    ping = bytes([8 if is_ipv4 else 128, 0, 0, 0, 0, 1, 0, 1])
    for number, kind in enumerate((socket.SOCK_DGRAM, socket.SOCK_DGRAM, socket.SOCK_STREAM,
                                   socket.SOCK_RAW)):
        there = (f"{host}{number + 1}", 9)
        with socket.socket(family, kind, icmp if kind == socket.SOCK_RAW else 0) as sender:
            sender.settimeout(0.3)
            try:
                if number in (1, 2):
                    sender.connect(there)
                    sender.send(b"secret")
                else:
                    sender.sendto(ping, there)
            except OSError:
                pass
END
}

# near ═ far by a link with both kinds, which counts what near sends to hosts beyond.
lay_out_counted() {
    local name
    for name in "$near" "$far"; do
        ip netns add "$name" && ip -n "$name" link set lo up || return 1
    done
    join "$near" near0 10.99.0.1/24 "$far" far0 10.99.0.2/24 &&
        ip -n "$near" addr add 2001:db8:99::1/64 dev near0 nodad &&
        ip -n "$far" addr add 2001:db8:99::2/64 dev far0 nodad &&
        ip -n "$near" route add default via 10.99.0.2 &&
        ip -n "$near" -6 route add default via 2001:db8:99::2 &&
        ip netns exec "$far" nft 'table inet count {
            counter ipv4 { }
            counter ipv6 { }
            chain in {
                type filter hook prerouting priority raw;
                iifname far0 ip daddr 198.51.100.0/24 counter name ipv4
                iifname far0 ip6 daddr 2001:db8:ffff::/48 counter name ipv6
            }
        }'
}

# outside: prints the packets of both kinds that have left since the last call.
outside() {
    ip netns exec "$near" python3 "$folder/senders.py"
    ip netns exec "$far" nft reset counters | sed -n 's/.*packets \([0-9]*\).*/\1/p' | paste -sd " "
}

# none_outside STATE: whether no packet leaves outside of the tunnel.
none_outside() {
    local counts
    counts=$(outside)
    [ "$counts" = "0 0" ] || { echo "$1: packets outside of the tunnel: $counts" && return 1; }
}

# all_outside STATE: whether the machine's own routes carry both kinds.
all_outside() {
    local counts
    counts=$(outside)
    [[ $counts != 0\ * && $counts != *\ 0 ]] ||
        { echo "$1: packets by the machine's routes: $counts" && return 1; }
}

# leaks_nothing TEXT ADDRESS…: checks a session that is up, silent, ended by its server, and killed.
leaks_nothing() {
    local text=$1 options=() address
    shift
    for address in "$@"; do options+=(--tun-address "$address"); done
    lay_out_counted || return 1
    senders >"$folder/senders.py"
    start_server --tun ab0 "${options[@]}"
    local serve=${processes[0]}
    await serve 5 "listening" && all_outside "before" || return 1
    start_proxy proxy --to 10.99.0.2:7000 --tun ab0 --tun-address 10.98.0.2/24 \
        --tun-address fd98::2/64 --default-route
    local proxy=${processes[1]}
    await proxy 10 "all traffic goes through ab0, $text" && none_outside "up" || return 1
    kill -STOP "$serve" && sleep 3 && none_outside "silent" || return 1
    kill -CONT "$serve"
    crash "$serve"
    none_outside "gone" || return 1
    start_server --tun ab0 "${options[@]}"
    serve=${processes[2]}
    await serve 5 "listening" && none_outside "a server again" || return 1
    kill -TERM "$serve"
    wait "$serve"
    none_outside "closed by the server" || return 1
    crash "$proxy"
    none_outside "killed" || return 1
    ip netns exec "$near" "$program" proxy --clean-up 2>"$folder/clean.log" || return 1
    all_outside "cleaned up" || return 1
    if ip -n "$near" link show ab0 >/dev/null 2>&1; then
        echo "the interface is left"
        return 1
    fi
}

a_default_route_leaks_nothing_if_the_server_carries_ipv4_only() {
    leaks_nothing "IPv4 (IPv6" 10.98.0.1/24
}

a_default_route_leaks_nothing_if_the_server_carries_both_kinds() {
    leaks_nothing "IPv4 and IPv6" 10.98.0.1/24 fd98::1/64
}
