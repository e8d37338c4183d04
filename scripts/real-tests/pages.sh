# Pages in a real browser: the dashboard and the playground. Their programs have no log in the
# folder: the tests print what failed.

group playground beside
needs playground node=nodejs npm=npm chromium=chromium
tests playground the_playground_works_in_a_browser

# The laboratory's program is the native one that its hashes are compared with.
build_playground() {
    local status
    install_browser_packages playground || return
    if ! [ -x "$(dirname "$program")/anabranch-lab" ]; then
        echo "there is no anabranch-lab beside $program" >"$shared/playground.skipped"
        return 1
    fi
    ! command -v rustup >/dev/null || rustup --quiet target add wasm32-unknown-unknown
    PLAYGROUND_PROFILE=wasm-testing scripts/playground.sh "$shared/site/playground" \
        2> >(tee "$shared/playground.said" >&2)
    status=$?
    if [ "$status" -eq 3 ]; then
        grep "^playground: not built" "$shared/playground.said" >"$shared/playground.skipped"
    fi
    return "$status"
}

# install_browser_packages GROUP: the packages of the tests in a browser.
install_browser_packages() {
    if [ "$(node --print 'parseInt(process.versions.node)')" -lt 20 ]; then
        echo "node is too old ($(node --version)): the tests in a browser need 20" \
            >"$shared/$1.skipped"
        return 1
    fi
    if ! scripts/test-browser.sh --install; then
        echo "npm cannot install the packages of web/tests/package-lock.json" >"$shared/$1.skipped"
        return 1
    fi
}

the_playground_works_in_a_browser() {
    PLAYGROUND=$shared/site/playground node --test web/playground >"$folder/engine.log" 2>&1 &&
        SITE=$shared/site scripts/test-browser.sh web/tests/playground.test.mjs \
            >"$folder/playground.log" 2>&1 || return 1
    relay_unjudged playground
}

group dashboard alone
needs dashboard node=nodejs npm=npm chromium=chromium
tests dashboard pages_work_in_a_browser

build_dashboard() {
    install_browser_packages dashboard
}

# The times until a change is shown are judged: this runs alone.
pages_work_in_a_browser() {
    scripts/test-browser.sh web/tests/dashboard.test.mjs >"$folder/pages.log" 2>&1 || return 1
    grep "is shown after" "$folder/pages.log"
    relay_unjudged pages
}
