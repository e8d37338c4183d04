//! Functions of the C interface take any set-up, path and bytes: they return codes, and do not
//! panic.

use anabranch_c::fuzzing::calls;

use crate::{Bound, Meter, Target};

/// A set-up is parsed four times, and makes two senders and receivers.
const BOUND: Bound = Bound {
    fixed_bytes: 4 << 20,
    bytes_per_byte: 1024,
};

fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "via = ['wlan0', 'wwan0,metered,max=3Mbit/s']\nlatency = '800 ms'\ntcp = 8443\n",
        "via = []\nencoder-range = '500kbit/s..6Mbit/s'\nfec = 'adaptive'\necn = true\n",
        "controller = 'cubic:hystart=classic'\nscheduler = 'min-cost'\nframe-lifetime = '1 s'\n",
        "listen = '127.0.0.1:9'\nallow = []\nlatency = 'min'\nmax-sessions = 3\n",
        "[send]\nto = 'srtla://192.0.2.1:5000?streamid=x&latency=2000'\n",
        "srtla://192.0.2.1:5000?streamid=live&passphrase=correct%20horse",
        "anabranch://studio.example?code=x",
        "wwan0,metered",
        "",
    ];
    texts.map(|text| text.as_bytes().to_vec()).into()
}

/// The target.
pub const TARGET: Target = Target {
    name: "c_interface",
    bound: BOUND,
    prepare: prepare_shared,
    seeds,
    run,
};

fn prepare_shared() {
    // Registries and texts of the thread, which are made once.
    calls(b"via = 7");
    calls(b"controller = 'x'");
}

fn run(input: &[u8]) {
    let meter = Meter::begin(BOUND);
    calls(input);
    meter.check(input.len());
}
