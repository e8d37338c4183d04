# The bindings for apps of phones: Kotlin on a Java machine, Swift by its text.

group mobile beside
needs mobile java=default-jdk-headless mvn=maven
tests mobile kotlin_sends_over_a_socket_of_its_own_and_loses_nothing swift_has_the_same_methods

build_mobile() {
    scripts/mobile.sh bindings
}

kotlin_sends_over_a_socket_of_its_own_and_loses_nothing() {
    scripts/mobile.sh kotlin >"$folder/kotlin.log" 2>&1 || { cat "$folder/kotlin.log"; return 1; }
    sed -n 's/.*frames arrived/        &/p' "$folder/kotlin.log"
}

swift_has_the_same_methods() {
    scripts/mobile.sh swift
}
