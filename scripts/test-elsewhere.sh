#!/usr/bin/env bash
# Tests on Windows and macOS themselves, in bash: crates without an operating system, the system's
# own part, simulations, and a camera and a film that one program sends to another over loopback.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo=${CARGO:-cargo}
pure=(units fec core controllers schedulers link mux srt srtla secure sim)
options=()
for crate in "${pure[@]}"; do
    options+=(--package "anabranch-$crate")
done
"$cargo" test --locked "${options[@]}" --lib
"$cargo" test --locked --package anabranch-net --lib -- system::
"$cargo" run --locked --package anabranch-lab-cli -- run scenarios/two-paths.toml --seeds 2
"$cargo" build --locked --package anabranch-cli --no-default-features --features demo,emulate,top
VIA=127.0.0.1 scripts/try-program.sh target/debug/anabranch
