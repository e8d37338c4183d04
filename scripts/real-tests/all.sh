# Reads all files of tests, in the order in which their groups run. The longest one is the first.
. scripts/real-tests/plan.sh
. scripts/real-tests/lib.sh
. scripts/real-tests/namespaces.sh
. scripts/real-tests/video.sh
for of_tests in pages pause srt srtla phones elements mobile rtmp-rist services release \
    interfaces names tunnel leaks floods encoder srtla-out srtla-libsrt films whip whep link \
    kernel control soak recordings relay windows c-interface; do
    # shellcheck source=/dev/null
    . "scripts/real-tests/$of_tests.sh"
done
