# Pairing of programs that run, a relay for ends behind a NAT that lets nobody in, and ports that a
# router opens.

group pairing beside
tests pairing a_running_receiver_gets_a_sender_by_name_and_loses_it_again \
    a_proxy_needs_the_link_of_a_server_alone

# link_of LOG: prints the link in a log.
link_of() {
    grep -o 'anabranch://[^ ]*' "$folder/$1.log" | head -n 1
}

# as MACHINE COMMAND…: runs it with the keys and lists of a machine of its own.
as() {
    local machine=$1
    shift
    env XDG_STATE_HOME="$folder/$machine" "$@"
}

a_running_receiver_gets_a_sender_by_name_and_loses_it_again() {
    rm -rf "$folder"/{studio,front,roof}
    start recv env XDG_STATE_HOME="$folder/studio" "$program" recv --pair --name front \
        --listen 127.0.0.1:17600 --keep-listening "$folder/out.ts"
    await recv 5 "anabranch://" || return 1
    as front "$program" send --duration '1 s' test: "$(link_of recv)" >"$folder/front.log" 2>&1 ||
        return 1
    await recv 5 "paired with front" || return 1
    start pair env XDG_STATE_HOME="$folder/studio" "$program" pair --name roof
    await pair 5 "anabranch://" || return 1
    as roof "$program" send --duration '1 s' test: "$(link_of pair)" >"$folder/roof.log" 2>&1 ||
        return 1
    await pair 5 "paired with roof" && await recv 5 "roof: connected to" || return 1
    as studio "$program" pair --list >"$folder/list.log" 2>&1
    if [ "$(count list '^front abpub_')$(count list '^roof abpub_')" != 11 ]; then
        cat "$folder/list.log"
        return 1
    fi
    as studio "$program" pair --remove roof 2>/dev/null && await recv 5 "1 senders are let in" ||
        return 1
    local link
    link=$(link_of pair)
    if as roof "$program" send --timeout '2 s' --duration '1 s' test: "${link%%&*}" 2>/dev/null; then
        echo "a sender that was removed is let in"
        return 1
    fi
}

a_proxy_needs_the_link_of_a_server_alone() {
    rm -rf "$folder"/{origin,van}
    start serve env XDG_STATE_HOME="$folder/origin" "$program" serve --pair --name van \
        --listen 127.0.0.1:17610 --connect 127.0.0.1:17611
    await serve 5 "anabranch://" || return 1
    start proxy env XDG_STATE_HOME="$folder/van" "$program" proxy "$(link_of serve)" \
        --listen 127.0.0.1:17612
    await serve 10 "paired with van" && await serve 10 "connected to van" || return 1
    grep -q ' van$' "$folder/origin/anabranch/proxies"
}

group relay beside
needs relay ip=iproute2 nft=nftables
tests relay two_ends_behind_a_nat_meet_at_a_relay

# The sender has two links and the receiver one to a router, which translates what leaves by `outer`
# and passes nothing else on. The relay is beyond.
behind_a_nat() {
    router=$near-router beyond=$near-beyond
    lay_out && ip netns add "$router" && ip netns add "$beyond" &&
        join "$near" lan0 10.98.0.2/24 "$router" in0 10.98.0.1/24 &&
        join "$near" lan1 10.98.1.2/24 "$router" in1 10.98.1.1/24 &&
        join "$far" lan2 10.98.2.2/24 "$router" in2 10.98.2.1/24 &&
        join "$router" outer 198.51.100.1/24 "$beyond" wan 198.51.100.2/24 || return 1
    ip -n "$near" route add default via 10.98.0.1
    ip -n "$near" route add default via 10.98.1.1 dev lan1 metric 10
    ip -n "$far" route add default via 10.98.2.1
    ip netns exec "$router" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward' || return 1
    ip netns exec "$router" nft -f - <<END
table ip nat {
    chain out {
        type nat hook postrouting priority 100
        oifname "outer" masquerade
    }
    chain pass {
        type filter hook forward priority 0; policy drop
        ct state established,related accept
        oifname "outer" accept
    }
}
END
}

two_ends_behind_a_nat_meet_at_a_relay() {
    has_links || skip "$reason" || return
    rm -rf "$folder"/{relay,studio,camera}
    if ! behind_a_nat 2>"$folder/nat.log"; then
        skip "no translation of addresses here: $(head -n 1 "$folder/nat.log")"
        return
    fi
    start relay ip netns exec "$beyond" env XDG_STATE_HOME="$folder/relay" "$program" serve \
        --relay --pair=198.51.100.2 --name home
    await relay 5 "anabranch://198.51.100.2" || return 1
    start recv ip netns exec "$far" env XDG_STATE_HOME="$folder/studio" "$program" recv --pair \
        --name roof --keep-listening --via-relay "$(link_of relay)" "$folder/out.ts"
    await recv 5 "registered at the relay" && await relay 5 "paired with home" || return 1
    start send ip netns exec "$near" env XDG_STATE_HOME="$folder/camera" "$program" send \
        --via lan0 --via lan1 --duration '20 s' test: "$(link_of recv)"
    await recv 5 "roof: connected to" && await recv 5 "path 1 (lan1): Active" || return 1
    # The router forgets everything, as after a restart: the receiver's and the sender's ports
    # change. Then one link of the sender is gone.
    sleep 3
    ip netns exec "$router" sh -c 'nft flush ruleset' && sleep 1 && ip -n "$near" link set lan0 down
    ip netns exec "$router" nft -f - <<END
table ip nat {
    chain out {
        type nat hook postrouting priority 100
        oifname "outer" masquerade random
    }
}
END
    await send 60 "session of" && await recv 10 "session of" || return 1
    allows mostly_complete
}

# At most 2.5 of 20 s are missing.
mostly_complete() {
    local complete
    complete=$(sed -n 's/.*of [0-9]* pictures \([0-9]*\) in time.*/\1/p' "$folder/recv.log" |
        awk '{sum += $1} END {print sum + 0}')
    echo "        $complete of 500 frames by the relay"
    [ "$complete" -ge 435 ]
}

group router beside
needs router ip=iproute2 python3=python3
tests router a_router_opens_a_port_by_each_protocol_and_closes_it_again \
    a_router_that_opens_none_is_described

# router_beyond: joins near to a router with the address 10.99.9.1.
router_beyond() {
    has_links || return
    lay_out 2>/dev/null && join "$near" lan 10.99.9.2/24 "$far" lan 10.99.9.1/24 &&
        ip -n "$near" link set lo up && ip -n "$near" route add default via 10.99.9.1
}

a_router_opens_a_port_by_each_protocol_and_closes_it_again() {
    router_beyond || skip "$reason" || return
    local kind
    for kind in pcp natpmp upnp; do
        start "router-$kind" ip netns exec "$far" python3 scripts/real-tests/router.py "$kind" \
            10.99.9.1
        await "router-$kind" 5 "listening" || return 1
        sleep 0.5
        start "recv-$kind" ip netns exec "$near" env XDG_STATE_HOME="$folder/$kind" "$program" \
            recv --pair --open-port "$folder/out.ts"
        await "recv-$kind" 15 "anabranch://203.0.113.9:7000?" || return 1
        await "router-$kind" 1 "open 7000 for 3600" || return 1
        kill -INT "${processes[-1]}"
        await "router-$kind" 5 "close 7000" || return 1
        kill -KILL "${processes[-2]}" "${processes[-1]}" 2>/dev/null
        await_that 5 "the receiver has ended" not_alive "${processes[-1]}" || return 1
    done
}

not_alive() {
    ! kill -0 "$1" 2>/dev/null
}

a_router_that_opens_none_is_described() {
    router_beyond || skip "$reason" || return
    start recv ip netns exec "$near" env XDG_STATE_HOME="$folder/none" "$program" recv --pair \
        --open-port "$folder/out.ts"
    await recv 20 "forward UDP port 7000 to 10.99.9.2, port 7000" || return 1
    await recv 5 "anabranch://10.99.9.2:7000?"
}
