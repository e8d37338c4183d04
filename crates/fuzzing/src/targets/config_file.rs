//! A file of `--config` with any text is read, or refused with a reason that repeats no secret.

use anabranch_cli::fuzzing::{config_file, prepare};

use crate::{Bound, Meter, Target};

/// The four commands with all options and their help take a megabyte.
const BOUND: Bound = Bound {
    fixed_bytes: 4 << 20,
    bytes_per_byte: 512,
};

fn seeds() -> Vec<Vec<u8>> {
    let key = "absec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABA";
    let both = r#"
        [send]
        to = "192.0.2.1:7000"
        key = "camera.key"
        via = ["wlan0", "wwan0,metered"]
        latency = "800 ms"
        metrics = 9797
        ecn = true
        log-time = false
        input = "-"
        [recv]
        listen = "0.0.0.0:7000"
        output = ["a.ts", "udp://127.0.0.1:6000"]
    "#;
    let tunnel = r#"
        [serve]
        listen = "0.0.0.0:7000"
        connect = ["*:443", "10.0.0.0/8:*"]
        forward = "127.0.0.1:80"
        [proxy]
        to = "192.0.2.1:7000"
        socks5 = "127.0.0.1:1080"
        http = "127.0.0.1:8080"
        tcp = ["127.0.0.1:2222=a.b:22"]
    "#;
    let files = [
        both.to_owned(),
        tunnel.to_owned(),
        "latency = \"1 s\"\nto = 7\n".to_owned(),
        format!("[send]\nkey = \"{key}\"\npeer = [\"{key}\"]\n{key}\n"),
    ];
    files.map(String::into_bytes).into()
}

/// The target.
pub const TARGET: Target = Target {
    name: "config_file",
    bound: BOUND,
    prepare: prepare_shared,
    seeds,
    run,
};

fn prepare_shared() {
    prepare();
    // Parts of the parser that are made once.
    config_file("[send]\nlatency = \"1 s\"");
}

fn run(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    let meter = Meter::begin(BOUND);
    config_file(text);
    meter.check(input.len());
}
