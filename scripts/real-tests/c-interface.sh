# The C interface: its examples send a file over two interfaces, of which one fails, and lose
# nothing; valgrind and AddressSanitizer watch them.

group c_interface beside
needs c_interface cc=gcc ld=binutils pkg-config=pkgconf valgrind=valgrind ip=iproute2 \
    python3=python3-minimal
tests c_interface c_examples_lose_nothing_when_an_interface_fails \
    c_examples_are_clean_for_valgrind c_examples_are_clean_for_the_address_sanitizer \
    c_symbols_are_the_headers_and_have_versions python_calls_the_c_library \
    python_sends_to_our_receiver_of_srtla python_receives_srtla

build_c_interface() {
    local library=$shared/c-library example flags
    PROFILE=dev PREFIX=$library scripts/c-library.sh "$library" || return 1
    export PKG_CONFIG_PATH=$library/lib/pkgconfig
    flags=$(pkg-config --cflags --libs anabranch) || return 1
    for example in send_file receive_file; do
        # shellcheck disable=SC2086 # Words of options.
        compile_example "$example" "$example" $flags && compile_example "$example" \
            "$example-asan" -fsanitize=address $flags || return 1
    done
    # shellcheck disable=SC2046 # Words of options.
    compile_example receive_file receive_file-static $(pkg-config --cflags anabranch) \
        "$library/lib/libanabranch.a" -lgcc_s -lm -lpthread -ldl
}

# compile_example EXAMPLE PROGRAM OPTION…
compile_example() {
    cc -std=c11 -Wall -Wextra -Werror -g -o "$shared/c-library/$2" \
        "crates/capi/examples/c/$1.c" "${@:3}"
}

open_c_interface() {
    export LD_LIBRARY_PATH=$shared/c-library/lib
    "$program" keygen --help >/dev/null
}

# The host beyond has an address of its own, to which both links lead.
lay_out_host() {
    has_links || { skip "$reason" && return 77; }
    lay_out && link 0 && link 1 && ip -n "$far" addr add 10.99.9.9/32 dev lo &&
        ip -n "$near" route add 10.99.9.9 via 10.99.0.2 dev near0 metric 1 &&
        ip -n "$near" route add 10.99.9.9 via 10.99.1.2 dev near1 metric 2
}

# c_carry BYTES KBPS RECEIVER SENDER WATCH…: sends a file by the two programs, each run by WATCH, and
# takes the first interface away in the middle.
c_carry() {
    local bytes=$1 rate=$2 receiver=$shared/c-library/$3 sender=$shared/c-library/$4
    shift 4
    head -c "$bytes" /dev/urandom >"$folder/sent"
    lay_out_host || return
    start receive ip netns exec "$far" "$@" "$receiver" "$folder/received" 10.99.9.9:7000 \
        "$folder/receiver.key" "$sender_public"
    await receive 30 "listening at 10.99.9.9:7000" || return 1
    start send ip netns exec "$near" "$@" "$sender" "$folder/sent" 10.99.9.9:7000 \
        "$folder/sender.key" "$receiver_public" "$rate" near0 near1
    await send 30 ^connected || return 1
    await_bytes "$folder/received" 30 $((bytes / 3)) || return 1
    unlink_near 0
    await send 60 "frames sent" && await receive 30 "frames received" || return 1
    await_that 30 "both programs have ended" have_ended || return 1
    if ! wait "${processes[0]}" || ! wait "${processes[1]}"; then
        echo "a program has failed"
        return 1
    fi
    processes=()
    grep -q '"name":"near0".*"state":"out".*"name":"near1"' "$folder/send.log" ||
        { echo "the first interface did not fail" && return 1; }
    grep -q '"event":"session-began"' "$folder/receive.log" &&
        grep -q '"name":"near0","state":"out","session":0' "$folder/receive.log" &&
        grep -q '"event":"session-ended"' "$folder/receive.log" ||
        { echo "the receiver has not reported the session" && return 1; }
    cmp "$folder/sent" "$folder/received"
}

have_ended() {
    local process
    for process in "${processes[@]}"; do
        if kill -0 "$process" 2>/dev/null; then return 1; fi
    done
}

c_examples_lose_nothing_when_an_interface_fails() {
    c_carry 6000000 8000 receive_file-static send_file
}

c_examples_are_clean_for_valgrind() {
    # Each instruction takes 20 to 50 times as long.
    c_carry 600000 1000 receive_file send_file valgrind --quiet --error-exitcode=9 --leak-check=full \
        --show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite,indirect \
        --suppressions=crates/capi/examples/valgrind.supp
}

c_examples_are_clean_for_the_address_sanitizer() {
    c_carry 6000000 8000 receive_file-asan send_file-asan
}

c_symbols_are_the_headers_and_have_versions() {
    local of_header of_library
    of_header=$(grep -oE '\bab_[a-z_]+\(' crates/capi/include/anabranch.h | tr -d '(' |
        grep -v '^ab_on_event$' | sort -u)
    of_library=$(nm -D --defined-only "$shared/c-library/lib/libanabranch.so.0" |
        awk '$2 == "T" {print $3}' | sort)
    if [ "$of_library" != "$(sed 's/$/@@ANABRANCH_0/' <<<"$of_header")" ]; then
        diff <(echo "$of_header") <(echo "$of_library")
        return 1
    fi
    # Nothing else of the static library can meet the symbols of other libraries.
    of_library=$(nm -g --defined-only "$shared/c-library/lib/libanabranch.a" |
        awk '$2 == "T" {print $3} $2 ~ /[DBRVW]/ {print "data", $3}' | sort)
    [ "$of_library" = "$of_header" ] || { echo "the archive has $of_library" && return 1; }
}

python_calls_the_c_library() {
    python3 crates/capi/examples/python/loopback.py libanabranch.so.0
}

# make_film: a film of the built-in camera at $folder/film.ts.
make_film() {
    start recv "$program" recv --listen 127.0.0.1:7000 --key "$folder/receiver.key" \
        --allow "$sender_public" "$folder/film.ts"
    await recv 30 listening || return 1
    "$program" send --to 127.0.0.1:7000 --key "$folder/sender.key" --peer "$receiver_public" \
        --duration "4 s" test: >"$folder/film.log" 2>&1 || return 1
    await recv 30 "session of"
}

# The film reaches `recv` by SRTLA, over two links, as it was.
python_sends_to_our_receiver_of_srtla() {
    make_film || return 1
    start srtla "$program" recv --listen 'srtla://127.0.0.1:5000?streamid=live&latency=1000' \
        "$folder/out.ts"
    await_port udp 5000 || return 1
    start python python3 crates/capi/examples/python/send_ts.py libanabranch.so.0 \
        "$folder/film.ts" 'srtla://127.0.0.1:5000?streamid=live&latency=1000' 127.0.0.2 127.0.0.3
    await python 60 ^sent || return 1
    grep -q '"name":"127.0.0.2".*"state":"active".*"name":"127.0.0.3".*"state":"active"' \
        "$folder/python.log" || { echo "a link was not used" && return 1; }
    await_bytes "$folder/out.ts" 30 "$(($(wc -c <"$folder/film.ts") * 95 / 100))" || return 1
    head -c "$(wc -c <"$folder/out.ts")" "$folder/film.ts" | cmp - "$folder/out.ts"
}

# The film reaches an application by SRTLA and the library, over two links, as it was.
python_receives_srtla() {
    local address='srtla://127.0.0.1:5000?streamid=live&latency=1000&passphrase=correct-horse'
    make_film || return 1
    start receive python3 crates/capi/examples/python/receive_ts.py libanabranch.so.0 \
        "$folder/out.ts" "$address"
    await receive 30 ^listening || return 1
    start send python3 crates/capi/examples/python/send_ts.py libanabranch.so.0 \
        "$folder/film.ts" "$address" 127.0.0.2 127.0.0.3
    await send 60 ^sent && await receive 30 ^received || return 1
    [ "$(grep -c '"event":"path-state".*"state":"active"' "$folder/receive.log")" -ge 2 ] ||
        { echo "the links were not reported" && return 1; }
    cmp "$folder/film.ts" "$folder/out.ts"
}
