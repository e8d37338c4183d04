# Pages in a real browser for scripts/test-real.sh, which sources this: the dashboard and the
# playground. Their programs have no log in the folder: the tests print what failed.

prepare_pages() {
    install node nodejs && install npm npm && prepare_browser || return 1
    if [ "$(node --print 'parseInt(process.versions.node)')" -lt 20 ]; then
        skip 2 "node is too old ($(node --version)): the tests in a browser need 20"
        return 1
    fi
    if ! npm ci --prefix web/tests --ignore-scripts --no-audit --no-fund --silent; then
        skip 2 "npm cannot install the packages of web/tests/package-lock.json"
        return 1
    fi
}

pages_work_in_a_browser() {
    if ! ANABRANCH=$(realpath "$program") scripts/test-browser.sh \
        web/tests/dashboard.test.mjs >"$folder/pages.log" 2>&1; then
        return 1
    fi
    grep "is shown after" "$folder/pages.log"
}

# The laboratory's program is the native one that its hashes are compared with.
prepare_playground() {
    laboratory=$(dirname "$program")/anabranch-lab
    if ! [ -x "$laboratory" ]; then
        skip 1 "$laboratory is missing: build it too"
        return 1
    fi
    command -v rustup >/dev/null && rustup --quiet target add wasm32-unknown-unknown \
        >"$folder/rustup.log" 2>&1
    scripts/playground.sh "$folder/site/playground" >"$folder/playground-build.log" 2>&1
    local status=$?
    if [ "$status" -eq 3 ]; then
        skip 1 "$(grep "^playground: not built" "$folder/playground-build.log")"
        return 1
    fi
    # A failed build fails the test.
    playground_is_built=$((status == 0))
}

the_playground_works_in_a_browser() {
    [ "$playground_is_built" -eq 1 ] || return 1
    if ! PLAYGROUND=$folder/site/playground ANABRANCH_LAB=$(realpath "$laboratory") \
        node --test web/playground >"$folder/engine.log" 2>&1; then
        return 1
    fi
    SITE=$folder/site ANABRANCH=$(realpath "$program") scripts/test-browser.sh \
        web/tests/playground.test.mjs >"$folder/playground.log" 2>&1
}
