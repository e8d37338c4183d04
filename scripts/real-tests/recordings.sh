# Recordings of a receiver: their modes, gaps, list and downloads.

group recordings beside
needs recordings curl=curl
tests recordings recordings_are_readable_listed_and_downloaded

# A stream of two sessions with a pause between them, in one file.
recordings_are_readable_listed_and_downloaded() {
    local token=0123456789abcdef0123 at=http://127.0.0.1:9133 film=$folder/film.ts
    (umask 077 && echo "$token" >"$folder/token")
    start recv "$program" recv --listen 127.0.0.1:7133 --key "$folder/receiver.key" \
        --allow "$sender_public" --keep-listening --group-readable \
        --dashboard 127.0.0.1:9133 --dashboard-token-file "$folder/token" "$film"
    await recv 5 "listening" && play 1 && sleep 2 && play 3 || return 1
    await_that 10 "the gap is noted" grep -q ",no sender$" "$film.gaps.csv" || return 1
    rests "$film"
    for of in "$film" "$film.gaps.csv"; do
        if [ "$(stat -c %a "$of")" != 640 ]; then
            echo "$of has the mode $(stat -c %a "$of")"
            return 1
        fi
    done
    if [ "$(stat -c %a "$folder/receiver.key")" != 600 ]; then
        echo "the key is readable"
        return 1
    fi
    # Without the token there is neither list nor file.
    wants_token "$at/recordings.json" && wants_token "$at/recordings/film.ts" || return 1
    local with=(--silent --fail --header "Authorization: Bearer $token")
    curl "${with[@]}" "$at/recordings.json" >"$folder/list.log" || return 1
    if ! grep -q '"name":"film.ts".*"gaps":1' "$folder/list.log"; then
        echo "the list lacks the film and its gap"
        return 1
    fi
    # A download that goes on.
    head -c 100000 "$film" >"$folder/copy.ts"
    curl "${with[@]}" --continue-at - --output "$folder/copy.ts" "$at/recordings/film.ts" &&
        curl "${with[@]}" --output "$folder/copy.csv" "$at/recordings/film.ts.gaps.csv" &&
        cmp "$film" "$folder/copy.ts" && cmp "$film.gaps.csv" "$folder/copy.csv" || return 1
    if curl "${with[@]}" "$at/recordings/receiver.key"; then
        echo "a key was downloaded"
        return 1
    fi
}

# play SECONDS: sends the built-in camera.
play() {
    "$program" send --key "$folder/sender.key" --peer "$receiver_public" --to 127.0.0.1:7133 \
        test: --duration "$1 s" >>"$folder/send.log" 2>&1
}

# wants_token ADDRESS: whether it is refused without one.
wants_token() {
    [ "$(curl --silent --output /dev/null --write-out '%{http_code}' "$1")" = 401 ]
}
