#!/usr/bin/env bash
# Writes the Kotlin and Swift bindings of crates/mobile, and tests them.
#
#     scripts/mobile.sh bindings   the library, and bindings/kotlin and bindings/swift beside it
#     scripts/mobile.sh kotlin     compiles the Kotlin binding, and runs its test on a Java machine
#     scripts/mobile.sh swift      compares the Swift binding's methods with the Kotlin ones
#
# Everything is in target/mobile. Kotlin's compiler and JNA come by Maven.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo=${CARGO:-cargo}
folder=$PWD/target/mobile
bindings=$folder/bindings
export CARGO_TARGET_DIR=$folder

manifest=(--manifest-path crates/mobile/Cargo.toml)

bindings() {
    # One by one: the generator's features would have the library's dependencies built again.
    "$cargo" build --quiet --locked "${manifest[@]}" --package anabranch-mobile
    "$cargo" build --quiet --locked "${manifest[@]}" --package anabranch-mobile-bindgen
    local language
    rm -rf "$bindings"
    for language in kotlin swift; do
        # It reads the crate's uniffi.toml by cargo, so it runs there.
        (cd crates/mobile && "$folder/debug/uniffi-bindgen" generate --no-format \
            --language $language --out-dir "$bindings/$language" \
            "$folder/debug/libanabranch_mobile.so")
    done
    echo "mobile: bindings are in target/mobile/bindings"
}

# Compiles by the classes of Kotlin's compiler, which need no installation.
kotlin() {
    local libraries=$folder/libraries classes=$folder/classes
    [ -d "$bindings/kotlin" ] || bindings
    mvn --quiet --batch-mode --file crates/mobile/kotlin/pom.xml \
        dependency:copy-dependencies -DoutputDirectory="$libraries"
    rm -rf "$classes"
    java -cp "$libraries/*" org.jetbrains.kotlin.cli.jvm.K2JVMCompiler -no-stdlib -no-reflect \
        -nowarn -cp "$(printf '%s:' "$libraries"/*.jar)" -d "$classes" \
        "$bindings/kotlin" crates/mobile/kotlin/TwoPaths.kt
    java "-Djna.library.path=$folder/debug" -cp "$classes:$libraries/*" TwoPathsKt
}

# names PATTERN: the names of methods in order, without quotes.
names() {
    grep -oE "$1" | sed -E 's/.*[ `]([a-zA-Z]+)`?$/\1/' | sort -u
}

# No Swift compiler is at hand: both languages must have the same methods.
swift() {
    [ -d "$bindings/swift" ] || bindings
    local kotlin swift
    kotlin=$(sed -n '/^public interface .*Interface/,/^}/p; /^ *\(\*\/\|@Throws.*)\) fun `/p' \
        "$bindings"/kotlin/anabranch/*.kt | names 'fun `[a-zA-Z]+`')
    swift=$(sed -n '/^public protocol /,/^}/p; /^public func /p' "$bindings"/swift/*.swift |
        names 'func [a-zA-Z]+')
    local missing
    missing=$(comm -23 <(echo "$kotlin") <(echo "$swift"))
    if [ -n "$missing" ]; then
        echo "mobile: Swift lacks" "$missing" >&2
        return 1
    fi
    echo "mobile: Swift has all $(echo "$kotlin" | wc -l) functions and methods of Kotlin"
}

case ${1:-} in
    bindings | kotlin | swift) "$1" ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
