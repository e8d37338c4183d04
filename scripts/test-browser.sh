#!/usr/bin/env bash
# Tests pages in a real browser: scripts/test-browser.sh [FILE…]; without files all of web/tests.
# It needs Node 20, npm and Chromium (Debian: nodejs, npm, chromium), and the program `anabranch`
# with all features, at target/debug or where ANABRANCH says. SCREENSHOTS names a folder for
# pictures. If a program is missing, it says so and ends with 77, which automake calls skipped.
# `--install` only installs the packages of the lock file.
set -eu
cd "$(dirname "$0")/.."

for program in node npm "${CHROMIUM:=/usr/bin/chromium}"; do
    if ! command -v "$program" >/dev/null; then
        echo "tests in a browser are skipped: the program $program is missing" >&2
        exit 77
    fi
done
if [ "$(node --print 'parseInt(process.versions.node)')" -lt 20 ]; then
    echo "tests in a browser are skipped: they need Node 20, this is $(node --version)" >&2
    exit 77
fi
export CHROMIUM ANABRANCH="${ANABRANCH:-${CARGO_TARGET_DIR:-target}/debug/anabranch}"
if [ web/tests/package-lock.json -nt web/tests/node_modules ]; then
    # The lock file's packages alone, and none of their scripts.
    npm ci --prefix web/tests --ignore-scripts --no-audit --no-fund --silent
    touch web/tests/node_modules
fi
[ "${1:-}" != --install ] || exit 0
[ $# -gt 0 ] || set -- web/tests/*.test.mjs
node --test --test-concurrency=1 --test-reporter=spec "$@"
