# Floods of first messages. Their rate is measured: this runs alone.

group floods alone
compiles floods --test tests
tests floods floods_of_first_messages_stop_no_stream

# 100,000 bogus first messages a second. They and the defence want a processor each.
floods_of_first_messages_stop_no_stream() {
    local is_idle=
    if comes_to_rest; then is_idle=yes; fi
    if ! "$(compiled net tests)" attackers --ignored --test-threads 1 --nocapture \
        >"$folder/floods.log" 2>&1; then
        [ -z "$is_idle" ] || return 1
        not_judged "floods beside other programs: $(grep -m 1 "panicked at" "$folder/floods.log")"
    fi
    relay_unjudged floods
}

# comes_to_rest: whether no other program wants the processors within 20 s.
comes_to_rest() {
    local second
    for second in {1..20}; do
        if ! is_busy; then return; fi
        sleep 1
    done
    return 1
}
