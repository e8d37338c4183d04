# Names of receivers, which move.

group names beside
needs names ip=iproute2 nft=nftables
tests names a_name_that_moves_is_followed \
    a_name_is_waited_for_and_each_interface_takes_its_family a_name_that_moves_is_followed_by_tcp

open_names() {
    has_links && has_names
}

# hosts LINE…: sets the names of the near namespace.
hosts() {
    mkdir -p "/etc/netns/$near" && printf '%s\n' "$@" >"/etc/netns/$near/hosts"
}

# Gives the far end another address, and the name with it.
studio_moves() {
    ip -n "$far" addr del 10.99.0.2/24 dev far0 && ip -n "$far" addr add 10.99.0.9/24 dev far0 &&
        hosts "10.99.0.9 studio.example"
}

a_name_that_moves_is_followed() {
    hosts "10.99.0.2 studio.example" && lay_out && start_receiver && link 0 || return 1
    start_sender --to studio.example:7000 --via near0
    await recv 10 "connected" && frames_come || return 1
    crash "${processes[0]}"
    studio_moves && start_receiver recv2 || return 1
    await send 10 "studio.example:7000 is at 10.99.0.9:7000" || return 1
    await recv2 10 "connected" || return 1
    await send 5 "connected again" || return 1
}

a_name_that_moves_is_followed_by_tcp() {
    hosts "10.99.0.2 studio.example" && lay_out && link 0 && block_udp || return 1
    start_tcp_receiver recv || return 1
    start_sender --to studio.example:7000 --via near0
    await send 8 "path 0 (near0) goes by TCP" || return 1
    crash "${processes[0]}"
    studio_moves && start_tcp_receiver recv2 || return 1
    await send 10 "studio.example:7000 is at 10.99.0.9:7000" || return 1
    await recv2 10 "connected" || return 1
    await send 5 "connected again" || return 1
}

# The second interface has IPv6 alone.
a_name_is_waited_for_and_each_interface_takes_its_family() {
    hosts "127.0.0.1 localhost" && lay_out && link 0 || return 1
    ip -n "$near" link add near1 type veth peer name far1 netns "$far" &&
        ip -n "$near" addr add fd99::1/64 dev near1 nodad &&
        ip -n "$far" addr add fd99::2/64 dev far1 nodad &&
        ip -n "$far" link set far1 up && ip -n "$near" link set near1 up || return 1
    start recv ip netns exec "$far" "$program" recv --listen '[::]:7000' \
        --key "$folder/receiver.key" --allow "$sender_public" "$folder/out.ts"
    await recv 5 "listening" || return 1
    start_sender --to studio.example:7000 --via near0 --via near1
    await send 10 "studio.example:7000 cannot be resolved now" || return 1
    hosts "fd99::2 studio.example" "10.99.0.2 studio.example"
    await recv 15 "connected" || return 1
    await send 5 "path 0 (near0): Active" || return 1
    await send 5 "path 1 (near1): Active" || return 1
    frames_come && finish || return 1
    if ! grep -q "path 1 (near1): .* rtt [0-9]" "$folder/send.log"; then
        echo "the path over IPv6 has carried nothing"
        return 1
    fi
}
