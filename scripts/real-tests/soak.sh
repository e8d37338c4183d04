# Sender and receiver over four paths that break in all ways at once, for a minute, and the
# contest's other transports for some seconds.

group soak alone
needs soak ip=iproute2 setpriv=util-linux chrt=util-linux
tests soak a_minute_of_broken_paths_breaks_no_end

group rivals alone
needs rivals ip=iproute2 setpriv=util-linux chrt=util-linux srt-live-transmit=srt-tools \
    ristsender=rist-tools socat=socat mptcpize=mptcpize
tests rivals each_transport_carries_the_same_stream

open_soak() {
    if ! "$program" link --path "1 ms" -- true >"$folder/open.log" 2>&1; then
        reason="no emulated links here: $(tail -n 1 "$folder/open.log")"
        return 1
    fi
}

open_rivals() {
    open_soak
}

# The minute, with 18 s around it.
a_minute_of_broken_paths_breaks_no_end() {
    local began=$SECONDS
    if ! timeout 300 "$ANABRANCH_LAB" soak --seed 4 --duration '1 min' \
        >"$folder/soak.log" 2>&1; then
        tail -n 40 "$folder/soak.log"
        return 1
    fi
    tail -n 1 "$folder/soak.log" | sed 's/^/        /'
    if [ $((SECONDS - began)) -lt 75 ] || ! says soak "sender killed" 1 ||
        ! says soak "receiver killed" 1 || ! says soak "no wrong byte" 1; then
        echo "it did not run for its time: $(tail -n 3 "$folder/soak.log")"
        return 1
    fi
}

# Two paths of 3 Mbit/s without losses: each transport carries 2.5 Mbit/s over one of them.
each_transport_carries_the_same_stream() {
    local transport
    for transport in anabranch rist srtla mptcp; do
        "$ANABRANCH_LAB" contest --rivals --transport "$transport" --row receiver-restart \
            --seconds 6 --seeds 1 --format csv >"$folder/$transport.csv" 2>"$folder/rivals.log" || {
            cat "$folder/rivals.log"
            return 1
        }
        allows carried "$transport" || return 1
    done
    "$ANABRANCH_LAB" contest --rivals --transport srt --row mtu-1280-only --seconds 6 --seeds 1 \
        --format csv >"$folder/srt.csv" 2>"$folder/rivals.log" || return 1
    allows carried srt
}

# carried TRANSPORT: whether nine tenths of the packets came, if the run is judged.
carried() {
    local reason
    reason=$(tail -n 1 "$folder/$1.csv" | sed 's/.*,"\(.*\)"$/\1/')
    case $reason in
        '') ;;
        *late*) not_judged "$1: $reason" && return ;;
    esac
    tail -n 1 "$folder/$1.csv" | awk -F , '{exit !($4 >= 0.9)}' && return
    echo "$1 carried too little: $(cat "$folder/$1.csv")"
    return 1
}
