//! Settings that the paper does not print.

use crate::case::Case;
use crate::sweep::{Dimension, Point, Space, Value};

const fn value(name: &'static str, settings: &'static [(&'static str, &'static str)]) -> Value {
    Value { name, settings }
}

/// Loss of flow 2. It may be none: Wi-Fi retransmits lost frames by itself, and the queues overflow
/// anyway.
const LOSS_2: Dimension = Dimension {
    name: "loss of flow 2",
    values: &[value("none", &[]), value("0.3 %", &[]), value("2 %", &[])],
};

/// Loss of flow 1, which is less than that of flow 2 by the paper's text.
const LOSS_1: Dimension = Dimension {
    name: "loss of flow 1",
    values: &[
        value("none", &[]),
        value("a 30th of flow 2's", &[]),
        value("a 10th of flow 2's", &[]),
    ],
};

/// Losses by the values of [`LOSS_1`] and of [`LOSS_2`].
const LOSSES: [[&str; 3]; 3] = [
    ["0 %", "0 %", "0 %"],
    ["0 %", "0.01 %", "0.07 %"],
    ["0 %", "0.03 %", "0.2 %"],
];

const QUEUE: Dimension = Dimension {
    name: "queues",
    values: &[
        value(
            "of 30 packets",
            &[
                ("links.wifi-a.queue", "30 packets"),
                ("links.wifi-g.queue", "30 packets"),
            ],
        ),
        value(
            "of 100 packets",
            &[
                ("links.wifi-a.queue", "100 packets"),
                ("links.wifi-g.queue", "100 packets"),
            ],
        ),
        value(
            "of 400 packets",
            &[
                ("links.wifi-a.queue", "400 packets"),
                ("links.wifi-g.queue", "400 packets"),
            ],
        ),
    ],
};

const DELAY: Dimension = Dimension {
    name: "Wi-Fi's own delay",
    values: &[
        value("none", &[]),
        value(
            "5 ms",
            &[
                ("links.wifi-a.delay", "5 ms"),
                ("links.wifi-g.delay", "5 ms"),
            ],
        ),
        value(
            "20 ms",
            &[
                ("links.wifi-a.delay", "20 ms"),
                ("links.wifi-g.delay", "20 ms"),
            ],
        ),
    ],
};

const WINDOW: Dimension = Dimension {
    name: "receive window",
    values: &[
        value("256 KiB", &[("flows.0.receive-window", "256 KiB")]),
        value("1 MiB", &[("flows.0.receive-window", "1 MiB")]),
        value("4 MiB", &[("flows.0.receive-window", "4 MiB")]),
    ],
};

const REINJECTION: Dimension = Dimension {
    name: "reinjection",
    values: &[
        value("on", &[("flows.0.reinjection", "linux")]),
        value("off", &[("flows.0.reinjection", "off")]),
    ],
};

/// Play time of the film that the player buffers.
const READ_AHEAD: Dimension = Dimension {
    name: "read-ahead",
    values: &[
        value("of the cache", &[("flows.0.read-ahead", "1 s")]),
        value("10 s", &[("flows.0.read-ahead", "10 s")]),
        value("60 s", &[("flows.0.read-ahead", "60 s")]),
    ],
};

const CACHING: Dimension = Dimension {
    name: "player's cache",
    values: &[
        value("0.3 s", &[("flows.0.caching", "300 ms")]),
        value("1 s", &[("flows.0.caching", "1 s")]),
        value("3 s", &[("flows.0.caching", "3 s")]),
    ],
};

/// Whether acknowledgements share the air. With 802.11a's least rate of 6 Mbit/s and 0.355 ms
/// beside its bytes, a packet of 1,498 B takes 2.352 ms: 5 Mbit/s of its 1,470 B of payload.
const AIR: Dimension = Dimension {
    name: "Wi-Fi's air",
    values: &[
        value("for each direction", &[]),
        value(
            "for both directions",
            &[
                ("links.wifi-a.rate", "6 Mbit/s"),
                ("links.wifi-g.rate", "6 Mbit/s"),
                ("links.wifi-a.frame-time", "355 us"),
                ("links.wifi-g.frame-time", "355 us"),
                ("links.wifi-a.discipline", "half-duplex"),
                ("links.wifi-g.discipline", "half-duplex"),
                ("routes.flow-1.reverse", "[\"wifi-a\", \"back-1\"]"),
                ("routes.flow-2.reverse", "[\"wifi-g\", \"back-2\"]"),
            ],
        ),
    ],
};

/// Gain of CCP; the values are [`CCPS`].
const GAIN: Dimension = Dimension {
    name: "CCP's gain",
    values: &[
        value("Kp = 1", &[]),
        value("Kp = 2", &[]),
        value("Kp = 3 without a limiter", &[]),
    ],
};

/// CCP is stable for Kp < 3 (`controllers/src/ccp.rs`, 3 and 4), and overflows in cycles beyond
/// that.
const CCPS: [&str; 3] = ["ccp:kp=1", "ccp:kp=2", "ccp:kp=3:limiter=off"];

/// Space of all settings. The first three dimensions occur in all combinations.
pub(super) const SPACE: Space = Space(&[
    LOSS_2,
    GAIN,
    QUEUE,
    LOSS_1,
    DELAY,
    WINDOW,
    READ_AHEAD,
    CACHING,
    REINJECTION,
    AIR,
]);

/// Returns a case at a point; with `is_ccp` it has the gain of the point.
pub(super) fn at(case: &Case, point: &Point, is_ccp: bool) -> Case {
    let [loss_2, gain, loss_1] = [0, 1, 3].map(|dimension| point.value(dimension));
    let case = SPACE
        .at(case, point)
        .set("links.wifi-a.loss", LOSSES[loss_1][loss_2])
        .set("links.wifi-g.loss", ["0 %", "0.3 %", "2 %"][loss_2]);
    if is_ccp {
        case.set("flows.0.controller", CCPS[gain])
    } else {
        case
    }
}
