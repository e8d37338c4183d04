#![no_main]

libfuzzer_sys::fuzz_target!(init: anabranch_fuzz::begin("handshake_limiter"), |input: &[u8]| {
    anabranch_fuzz::run(input);
});
