# Films that a player and a browser request through a tunnel. A film that stands still has failed:
# these tests run alone.

group film alone
needs film ip=iproute2 nginx=nginx-light ffmpeg=ffmpeg mpv=mpv curl=curl
tests film a_film_from_nginx_plays_on_while_an_interface_goes

open_film() {
    has_links
}

group browser_film alone
needs browser_film ip=iproute2 nginx=nginx-light ffmpeg=ffmpeg chromium=chromium
tests browser_film a_browser_plays_on_while_an_interface_goes

open_browser_film() {
    has_links
}

# A web server of its own, which sends no faster than the film plays.
nginx_configuration() {
    cat <<END
daemon off; master_process off; pid $folder/nginx.pid; error_log $folder/nginx-error.log;
events {}
http {
    access_log $folder/nginx-access.log; types { video/mp2t ts; video/mp4 mp4; text/html html; }
    client_body_temp_path $folder/nginx; proxy_temp_path $folder/nginx;
    fastcgi_temp_path $folder/nginx; uwsgi_temp_path $folder/nginx; scgi_temp_path $folder/nginx;
    server {
        listen 127.0.0.1:8000; root $folder/web;
        location /film { limit_rate 250k; }
    }
}
END
}

a_film_from_nginx_plays_on_while_an_interface_goes() {
    lay_out && link 0 && link 1 && ip -n "$near" link set lo up || return 1
    mkdir -p "$folder/web" "$folder/nginx"
    ffmpeg -loglevel error -f lavfi -i testsrc2=size=640x360:rate=25 -t 9 -c:v libx264 -g 50 \
        -b:v 1500k -f mpegts "$folder/web/film.ts" 2>"$folder/film.log" || return 1
    nginx_configuration >"$folder/nginx.conf"
    start nginx ip netns exec "$far" nginx -c "$folder/nginx.conf" -e "$folder/nginx-error.log"
    start_server --forward 127.0.0.1:8000 --connect 127.0.0.1:8000
    await serve 5 "listening" || return 1
    start_proxy proxy "${two_links[@]}" --listen 127.0.0.1:8080 --socks5 127.0.0.1:1080
    await proxy 5 "path 1 (near1): Active" || return 1
    start mpv ip netns exec "$near" mpv --no-config --vo=null --ao=null --msg-level=all=warn \
        --end=8 http://127.0.0.1:8080/film.ts
    start curl ip netns exec "$near" curl --silent --show-error --max-time 30 \
        --proxy socks5h://127.0.0.1:1080 --output "$folder/got.ts" http://127.0.0.1:8000/film.ts
    local player=${processes[3]} download=${processes[4]}
    await_bytes "$folder/got.ts" 20 500000 || return 1
    unlink_near 0
    await proxy 3 "path 0 (near0): Out" || return 1
    if ! wait "$download" || ! cmp "$folder/got.ts" "$folder/web/film.ts"; then
        echo "the download is not the film"
        return 1
    fi
    if ! wait "$player" || [ -s "$folder/mpv.log" ]; then
        echo "the player is not content"
        return 1
    fi
}

# A page with a film, which requests /begun when the film plays and /seen?… at its eighth second,
# with the number of stalls since it began.
page_with_a_film() {
    cat <<'END'
<!doctype html><title>film</title><video id="film" muted autoplay src="film.mp4"></video>
<script>
const film = document.getElementById('film');
let stalls = 0, isTold = false;
film.addEventListener('playing', () => fetch('begun'), { once: true });
film.addEventListener('waiting', () => { if (film.currentTime > 0) stalls += 1; });
film.addEventListener('error', () => fetch('seen?error=' + film.error.code));
film.addEventListener('timeupdate', () => {
    if (film.currentTime < 8 || isTold) return;
    isTold = true;
    fetch('seen?stalls=' + stalls + '&width=' + film.videoWidth);
});
</script>
END
}

a_browser_plays_on_while_an_interface_goes() {
    lay_out && link 0 && link 1 && ip -n "$near" link set lo up || return 1
    mkdir -p "$folder/web" "$folder/nginx"
    page_with_a_film >"$folder/web/index.html"
    ffmpeg -y -loglevel error -f lavfi -i testsrc2=size=640x360:rate=25 -t 12 -c:v libx264 -g 50 \
        -pix_fmt yuv420p -b:v 1500k -movflags +faststart "$folder/web/film.mp4" \
        2>"$folder/film.log" || return 1
    nginx_configuration >"$folder/nginx.conf"
    start nginx ip netns exec "$far" nginx -c "$folder/nginx.conf" -e "$folder/nginx-error.log"
    start_server --connect 127.0.0.1:8000
    await serve 5 "listening" || return 1
    start_proxy proxy "${two_links[@]}" --socks5 127.0.0.1:1080
    await proxy 5 "path 1 (near1): Active" || return 1
    start browser ip netns exec "$near" chromium --headless --no-sandbox --disable-gpu \
        --user-data-dir="$folder/browser" --autoplay-policy=no-user-gesture-required \
        --proxy-server=socks5://127.0.0.1:1080 --proxy-bypass-list='<-loopback>' \
        --remote-debugging-port=0 http://127.0.0.1:8000/index.html
    await nginx-access 20 "GET /begun" || return 1
    # The film plays over both links.
    sleep 2
    # nginx logs responses that it has served completely.
    if [ "$(count nginx-access "GET /film.mp4")" -gt 0 ]; then
        echo "the film has come before the interface goes: this test shows nothing"
        return 1
    fi
    unlink_near 0
    await proxy 3 "path 0 (near0): Out" || return 1
    await nginx-access 20 "GET /seen" || return 1
    if ! allows grep -q "GET /seen?stalls=0&width=640" "$folder/nginx-access.log"; then
        echo "the film has stood still, or was not shown:" \
            "$(grep "GET /seen" "$folder/nginx-access.log")"
        return 1
    fi
}
