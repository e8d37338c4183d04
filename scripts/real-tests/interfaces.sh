# Interfaces that come and go.

group interfaces beside
needs interfaces ip=iproute2
tests interfaces an_interface_that_is_made_again_carries_again an_absent_interface_is_waited_for \
    an_interface_that_is_down_is_waited_for interfaces_of_a_name_join_and_are_counted

open_interfaces() {
    has_links
}

group plugs beside
needs plugs ip=iproute2
tests plugs interfaces_with_another_name_at_each_plug_carry

open_plugs() {
    has_links
}

group firewall beside
needs firewall ip=iproute2 nft=nftables
tests firewall blocked_udp_falls_back_to_tcp_and_comes_back

open_firewall() {
    has_links
}

an_interface_that_is_made_again_carries_again() {
    lay_out && start_receiver && link 0 && link 1 || return 1
    start_sender "${two_links[@]}"
    await recv 10 "connected" || return 1
    await send 5 "path 1 (near1): Active" || return 1
    unlink_near 1
    await send 2 "path 1 (near1) is waited for" || return 1
    await send 2 "path 1 (near1): Out" || return 1
    link 1
    await send 3 "path 1 (near1) is present" || return 1
    await send 3 "path 1 (near1): Active" 2 || return 1
    frames_come && finish && no_frame_dropped
}

blocked_udp_falls_back_to_tcp_and_comes_back() {
    lay_out && link 0 && link 1 && block_udp && start_tcp_receiver recv || return 1
    start_sender "${two_links[@]}"
    await send 8 "UDP seems blocked on every path: falls back to TCP at 10.99.0.2:443" || return 1
    await send 3 "path 0 (near0) goes by TCP" && await send 3 "path 1 (near1) goes by TCP" &&
        frames_come || return 1
    pass_udp
    # Three questions in a row, the first within ten seconds.
    await send 20 "path 0 (near0) goes by UDP" &&
        await send 5 "path 1 (near1) goes by UDP" || return 1
    frames_come && finish && no_frame_dropped
}

an_absent_interface_is_waited_for() {
    lay_out && start_receiver || return 1
    start_sender --to 10.99.0.2:7000 --via near0 --timeout "5 s"
    await send 2 "path 0 (near0) is waited for" || return 1
    # Longer than the wait for an answer.
    sleep 6
    link 0
    await send 3 "path 0 (near0) is present" || return 1
    await recv 5 "connected" && frames_come && finish
}

an_interface_that_is_down_is_waited_for() {
    lay_out && start_receiver && link 0 && ip -n "$near" link set near0 down || return 1
    start_sender --to 10.99.0.2:7000 --via near0
    await send 2 "path 0 (near0) is waited for" || return 1
    ip -n "$near" link set near0 up
    await recv 5 "connected" && frames_come && finish
}

# The second interface of the name appears later, and repeatedly: it stays the same path.
interfaces_of_a_name_join_and_are_counted() {
    lay_out && start_receiver || return 1
    start_sender --to 10.99.0.2:7000 --via 'near*,cap=1MB' --state "$folder/state"
    await send 3 "waiting for an interface near" || return 1
    link 0
    await recv 5 "connected" || return 1
    local turn
    for turn in 1 2 3; do
        link 1 && ip -n "$near" route add 10.99.0.2/32 via 10.99.1.2 dev near1 || return 1
        await send 5 "path 1 (near1): Active" "$turn" || return 1
        unlink_near 1
        await send 3 "path 1 (near1): Out" "$turn" || return 1
    done
    await send 10 "path 0 (near0) has carried .* of 1 MB: it stands by" || return 1
    finish && no_frame_dropped || return 1
    if ! grep -q near1 "$folder/state/usage.json"; then
        echo "what near1 carried was not kept"
        return 1
    fi
}

# One interface stays, 35 others appear and vanish: more than a session has path numbers.
interfaces_with_another_name_at_each_plug_carry() {
    lay_out && start_receiver && link 0 || return 1
    ip -n "$far" addr add 192.0.2.1/32 dev lo
    ip -n "$near" route add 192.0.2.1 via 10.99.0.2 dev near0
    start_sender --to 192.0.2.1:7000 --via near0 --via 'near?*,cap=1GB' --state "$folder/plugs"
    await recv 10 "connected" || return 1
    local plug
    for plug in $(seq 1 35); do
        link "$plug" && ip -n "$near" route add 192.0.2.1 via "10.99.$plug.2" dev "near$plug" \
            metric "$plug" || return 1
        await send 5 "(near$plug) joins" || return 1
        await send 5 "(near$plug): Active" || return 1
        unlink_near "$plug"
    done
    await send 1 "(near32) joins in place of near1, which is gone" || return 1
    frames_come && finish && no_frame_dropped || return 1
    await send 1 "4 paths that are gone" || return 1
    if ! grep -q '"near1":' "$folder/plugs/usage.json"; then
        echo "what near1 carried was not kept"
        return 1
    fi
}
