# Sessions with long pauses, and with clocks that are wrong.

group pause beside
tests pause a_pause_of_the_input_does_not_end_the_session

a_pause_of_the_input_does_not_end_the_session() {
    start recv "$program" recv --listen 127.0.0.1:17100 --key "$folder/receiver.key" \
        --allow "$sender_public" --timeout "17 s" "$folder/out.ts"
    await recv 5 "listening" || return 1
    start send "$program" send --to 127.0.0.1:17100 --key "$folder/sender.key" \
        --peer "$receiver_public" udp://127.0.0.1:17101
    await send 5 "connected" || return 1
    packets >"$folder/packets.ts"
    cat "$folder/packets.ts" >/dev/udp/127.0.0.1/17101
    await recv 10 "connected" || return 1
    # Longer than the receiver's patience; the first sign of life comes after 15 s.
    sleep 20
    cat "$folder/packets.ts" >/dev/udp/127.0.0.1/17101
    await_bytes "$folder/out.ts" 10 $((2 * 4 * 188)) || return 1
    kill -TERM "${processes[1]}"
    await send 10 "session of" || return 1
    await recv 10 "session of" || return 1
    if [ "$(count recv "nothing came")" -gt 0 ] || [ "$(count send "opened again")" -gt 0 ]; then
        echo "the session ended in the pause"
        return 1
    fi
}

# Four null packets of MPEG-TS: only their arrival matters.
packets() {
    local number
    for number in 1 2 3 4; do
        printf '\x47\x1f\xff\x10'
        head -c 184 /dev/zero | tr '\0' '\377'
    done
}

group clock beside
needs clock faketime=faketime
tests clock a_sender_whose_clock_was_set_back_connects_at_once

# First with the true time, then a day and 50 years earlier, as without a battery-backed clock.
a_sender_whose_clock_was_set_back_connects_at_once() {
    start recv "$program" recv --listen 127.0.0.1:17110 --key "$folder/receiver.key" \
        --allow "$sender_public" --keep-listening "$folder/out.ts"
    await recv 5 "listening" || return 1
    local back
    for back in -0 -1d -50y; do
        start "send$back" env FAKETIME_DONT_FAKE_MONOTONIC=1 faketime -f "$back" "$program" send \
            --to 127.0.0.1:17110 --key "$folder/sender.key" --peer "$receiver_public" \
            --timeout "2 s" --duration "1 s" test:
        await "send$back" 3 "connected" && await "send$back" 5 "session of" || return 1
    done
    # The last one's lines have the time of its own clock.
    await send-50y 1 "^19[0-9][0-9]-"
}
