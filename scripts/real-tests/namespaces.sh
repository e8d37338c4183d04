# Two network namespaces, near and far, and links between them that come and go.

# Options of a sender or a proxy over near0 and near1.
two_links=(--to 10.99.0.2:7000 --via near0 --to 10.99.1.2:7000 --via near1)

# has_links: whether this group may make namespaces with links; without, `reason` has the reason.
has_links() {
    if [ -z "${HAS_NAMESPACE:-}" ]; then
        reason="no network namespaces here"
        return 1
    fi
    if ! lay_out 2>"$folder/namespaces.log"; then
        reason="no network namespaces or veth here: $(head -n 1 "$folder/namespaces.log")"
        return 1
    fi
    stop_all
}

# has_names: whether a namespace may have names of its own.
has_names() {
    if ! mkdir -p "/etc/netns/$near" 2>/dev/null; then
        reason="/etc/netns, where a namespace has names of its own, cannot be written"
        return 1
    fi
}

has_tun() {
    if [ ! -c /dev/net/tun ]; then
        reason="there is no /dev/net/tun"
        return 1
    fi
}

remove_namespaces() {
    [ -n "${HAS_NAMESPACE:-}" ] || return 0
    local name
    for name in "$near" "$far" "$near-router" "$near-beyond"; do
        [ ! -e "/run/netns/$name" ] || ip netns del "$name" 2>/dev/null
    done
    rm -rf "/etc/netns/$near" 2>/dev/null
}

# Two namespaces without links between them.
lay_out() {
    ip netns add "$near" && ip netns add "$far" && ip -n "$far" link set lo up && link 0 &&
        unlink_near 0
}

# link INDEX: joins the two by near$INDEX and far$INDEX.
link() {
    join "$near" "near$1" "10.99.$1.1/24" "$far" "far$1" "10.99.$1.2/24"
}

# join A NAME_A ADDRESS_A B NAME_B ADDRESS_B: makes a link between two namespaces.
join() {
    ip -n "$1" link add "$2" type veth peer name "$5" netns "$4" &&
        ip -n "$1" addr add "$3" dev "$2" && ip -n "$4" addr add "$6" dev "$5" &&
        ip -n "$4" link set "$5" up && ip -n "$1" link set "$2" up
}

unlink_near() {
    ip -n "$near" link del "near$1"
}

# start_receiver [LOG [OPTION…]]: in the far namespace.
start_receiver() {
    local log=${1:-recv}
    start "$log" ip netns exec "$far" "$program" recv --listen 0.0.0.0:7000 \
        --key "$folder/receiver.key" --allow "$sender_public" "${@:2}" "$folder/out.ts"
    await "$log" 5 "listening"
}

# start_tcp_receiver LOG: as well at TCP's port 443.
start_tcp_receiver() {
    start_receiver "$1" --listen-tcp 0.0.0.0:443
}

# start_sender OPTION…: in the near namespace.
start_sender() {
    start send ip netns exec "$near" "$program" send --key "$folder/sender.key" \
        --peer "$receiver_public" "$@" test:
}

# start_server OPTION…: `serve` in the far namespace.
start_server() {
    start serve ip netns exec "$far" "$program" serve --listen 0.0.0.0:7000 \
        --key "$folder/receiver.key" --allow "$sender_public" "$@"
}

# start_proxy LOG OPTION…: `proxy` in the near namespace.
start_proxy() {
    start "$1" ip netns exec "$near" "$program" proxy --key "$folder/sender.key" \
        --peer "$receiver_public" "${@:2}"
}

# frames_come: waits until the recording has grown by some frames.
frames_come() {
    local size=0
    [ ! -e "$folder/out.ts" ] || size=$(wc -c <"$folder/out.ts")
    if ! allows await_bytes "$folder/out.ts" 5 $((size + 20000)); then
        # For the statistics in the logs.
        finish
        return 1
    fi
}

# Ends the sender and checks that both ended without an error.
finish() {
    kill -TERM "${processes[1]}"
    await send 10 "session of" && await recv 10 "session of"
}

# no_frame_dropped: whether the receiver dropped none, since a path carried all the time.
no_frame_dropped() {
    if ! allows grep -q " pictures .* in time, 0 late or lost" "$folder/recv.log"; then
        echo "frames were dropped although a path was there all the time"
        return 1
    fi
}

# Makes the far end drop UDP, as a venue's router does, or pass it: block_udp, pass_udp.
block_udp() {
    ip netns exec "$far" nft 'table ip block {
        chain in { type filter hook input priority 0; ip protocol udp drop; }
    }'
}

pass_udp() {
    ip netns exec "$far" nft delete table ip block
}
