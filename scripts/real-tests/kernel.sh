# Congestion controllers in the kernel. The kernel has one list of them: this group runs alone.

group kernel alone
needs kernel ip=iproute2 python3=python3-minimal nstat=iproute2 clang=clang bpftool=bpftool \
    pkg-config=pkg-config pkg-config:libbpf=libbpf-dev
tests kernel the_kernels_arithmetic_has_our_windows \
    coupled_subflows_take_a_share_of_one_connection unloaded_controllers_are_gone

open_kernel() {
    "$ANABRANCH_LAB" kernel status >"$folder/open.log" 2>&1
    if grep -q "^missing" "$folder/open.log"; then
        reason=$(grep "^missing" "$folder/open.log" | head -n 1)
        return 1
    fi
    if ! "$program" link --path "1 ms" --mptcp -- true >"$folder/open.log" 2>&1; then
        reason="no emulated links here: $(tail -n 1 "$folder/open.log")"
        return 1
    fi
}

the_kernels_arithmetic_has_our_windows() {
    if ! "$ANABRANCH_LAB" kernel check >"$folder/check.log" 2>&1 || ! says check " equal$" 20; then
        cat "$folder/check.log"
        return 1
    fi
}

# Prints the Mbit/s of a connection of MPTCP and of one of TCP, from the tenth second on.
shares_server() {
    cat <<'END'
import socket, sys, threading, time

def receive(port, protocol, name):
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("0.0.0.0", port))
    server.listen()
    client, _ = server.accept()
    began, count, first = time.monotonic(), 0, None
    while data := client.recv(1 << 18):
        count += len(data)
        at = time.monotonic() - began
        if first is None and at >= 10:
            first = (at, count)
    print(name, 8e-6 * (count - first[1]) / (at - first[0]), flush=True)

ends = [threading.Thread(target=receive, args=end)
        for end in ((8000, 262, "mptcp"), (8001, 0, "tcp"))]
[end.start() for end in ends]
[end.join() for end in ends]
END
}

# Sends by both for some seconds: shares_client CONTROLLER SECONDS.
shares_client() {
    cat <<END
import socket, threading, time

def send(port, protocol, controller):
    end = time.monotonic() + $2
    while True:
        # A socket whose connection was refused has lost its controller.
        client = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, controller)
        try:
            client.connect(("10.27.0.1", port))
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    while time.monotonic() < end:
        client.sendall(bytes(1 << 16))
    client.close()

ends = [threading.Thread(target=send, args=end)
        for end in ((8000, 262, b"$1"), (8001, 0, b"reno"))]
[end.start() for end in ends]
[end.join() for end in ends]
time.sleep(2)
END
}

# A link with one queue for all, whose losses hit packets at random (PIE). At the end of a full
# queue all connections lose at once, and their shares are chance.
shares_link() {
    cat <<'END'
title = "one link"
duration = "60 s"
[links.link]
rate = "20 Mbit/s"
delay = "20 ms"
queue = "200 ms"
discipline = { kind = "pie", target = "20 ms" }
[links.back]
delay = "20 ms"
[routes.only]
forward = ["link"]
reverse = ["back"]
[[flows]]
kind = "bulk"
controller = "cubic"
paths = ["only"]
END
}

# measure_shares CONTROLLER RUN: two subflows of one connection beside one of TCP, over one link.
measure_shares() {
    shares_client "$1" 60 >"$folder/client-$1.py"
    # Each in a session of its own: a session has a share of the processor.
    start "$1-$2" setsid timeout 240 "$program" link "$folder/link.toml" --mptcp --seed "$2" \
        --far "python3 '$folder/server.py'" -- sh -c "
            ip addr add 10.27.0.12/24 dev path0
            ip mptcp endpoint add 10.27.0.12 dev path0 subflow
            (sleep 40; '$ANABRANCH_LAB' kernel status) &
            python3 '$folder/client-$1.py'"
}

# ratio_of CONTROLLER: prints the rate of its connections over that of TCP's.
ratio_of() {
    awk '$1 == "mptcp" {own += $2} $1 == "tcp" {other += $2}
        END {if (own && other) printf "%.2f", own / other}' "$folder/$1"-?.log
}

# RFC 6356's goal is 1: together they take as much as one connection of TCP. The share of one run
# differs from that of the next by a fifth: two runs count together, all at the same time.
coupled_subflows_take_a_share_of_one_connection() {
    local controller ratio failed=0
    # Those of another version may be registered.
    "$ANABRANCH_LAB" kernel unload >"$folder/load.log" 2>&1 &&
        "$ANABRANCH_LAB" kernel load >"$folder/load.log" 2>&1 || return 1
    shares_server >"$folder/server.py"
    shares_link >"$folder/link.toml"
    for controller in bpf_lia bpf_olia bpf_balia; do
        measure_shares "$controller" 1
        measure_shares "$controller" 2
    done
    wait "${processes[@]}"
    for controller in bpf_lia bpf_olia bpf_balia; do
        ratio=$(ratio_of "$controller")
        echo "        $controller takes ${ratio:-nothing} of one TCP's rate"
        if ! says "$controller-1" "connection of 2 subflows: [0-9.]* packets" 1; then
            echo "$controller: the subflows share no state: $(cat "$folder/$controller-1.log")"
            failed=1
        elif says "$controller-1" "not to be trusted" 1 || says "$controller-2" "trusted" 1; then
            not_judged "the links of $controller were late"
        elif awk -v ratio="${ratio:-0}" 'BEGIN {exit !(ratio >= 0.7 && ratio <= 1.2)}'; then
            continue
        elif is_busy; then
            not_judged "$controller takes ${ratio:-nothing} on a busy machine, not 0.7 to 1.2"
        else
            echo "$controller: not between 0.7 and 1.2"
            failed=1
        fi
    done
    return "$failed"
}

unloaded_controllers_are_gone() {
    "$ANABRANCH_LAB" kernel load >"$folder/load.log" 2>&1 &&
        "$ANABRANCH_LAB" kernel unload >"$folder/unload.log" 2>&1 || return 1
    if grep -q bpf_ /proc/sys/net/ipv4/tcp_available_congestion_control; then
        echo "they are registered: $(cat /proc/sys/net/ipv4/tcp_available_congestion_control)"
        return 1
    fi
    # Maps and programs are freed a moment after the last connection.
    await_that 20 "no map is left" no_map_is_left
}

no_map_is_left() {
    ! bpftool map list | grep -q -e anabranch_conns -e 'name bpf_lia'
}
