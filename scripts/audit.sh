#!/bin/sh
# Checks dependencies by deny.toml. Without RustSec's database, only facts of the registry are
# checked: licences, sources, banned crates, and versions that were withdrawn ("yanked").
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}

# The Python package and the bindings have lock files of their own. check CONFIG CHECK…
check() {
    config=$1
    shift
    for manifest in Cargo.toml crates/python/Cargo.toml crates/mobile/Cargo.toml; do
        $cargo deny $offline --manifest-path $manifest --config "$config" check "$@"
    done
}

offline=
check deny.toml bans licenses sources
if $cargo deny --config deny.toml fetch db; then
    check deny.toml advisories
    exit
fi
echo "RustSec's database cannot be reached: known holes are NOT checked; withdrawn versions are." >&2
# cargo-deny looks for them only with a database: this one lists no real crate.
folder=target/audit/advisory-db-3157b0e258782691
rm -rf target/audit
mkdir -p $folder/crates/none-such
cat > $folder/crates/none-such/RUSTSEC-2000-0001.md <<'END'
```toml
[advisory]
id = "RUSTSEC-2000-0001"
package = "none-such"
date = "2000-01-01"

[versions]
patched = []
```

# Nothing

There is no such crate.
END
git -C $folder init --quiet
git -C $folder add .
git -C $folder -c user.name=audit -c user.email=audit@invalid commit --quiet --message Nothing
touch $folder/.git/FETCH_HEAD
sed "s|^\[advisories\]|&\ndb-path = \"$PWD/target/audit\"|" deny.toml > target/audit/deny.toml
offline=--offline
check "$PWD/target/audit/deny.toml" advisories
