//! What the paper does not print.

use crate::sweep::{Dimension, Point, Space, Value};

const fn value(name: &'static str, settings: &'static [(&'static str, &'static str)]) -> Value {
    Value { name, settings }
}

const LOSS_2: Dimension = Dimension {
    name: "loss of flow 2",
    values: &[
        value("0.1 %", &[("links.wifi-g.loss", "0.1 %")]),
        value("0.5 %", &[("links.wifi-g.loss", "0.5 %")]),
        value("2 %", &[("links.wifi-g.loss", "2 %")]),
    ],
};

/// Less than that of flow 2, which the paper says.
const LOSS_1: Dimension = Dimension {
    name: "loss of flow 1",
    values: &[
        value("none", &[]),
        value("0.03 %", &[("links.wifi-a.loss", "0.03 %")]),
        value("0.1 %", &[("links.wifi-a.loss", "0.1 %")]),
    ],
};

/// Whether there is random loss at all: Wi-Fi sends again by itself what it loses, and the queues
/// overflow anyway.
const LOSS: Dimension = Dimension {
    name: "random loss",
    values: &[
        value("as above", &[]),
        value(
            "none",
            &[("links.wifi-a.loss", "0 %"), ("links.wifi-g.loss", "0 %")],
        ),
    ],
};

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
        value("on", &[("flows.0.reinjection", "true")]),
        value("off", &[("flows.0.reinjection", "false")]),
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

/// Its values are [`CCPS`].
const GAIN: Dimension = Dimension {
    name: "CCP's gain",
    values: &[
        value("Kp = 1", &[]),
        value("Kp = 2", &[]),
        value("Kp = 3 without a limiter", &[]),
    ],
};

/// CCP is stable for Kp < 3 (`controllers/src/ccp.rs`, 3 and 4), and beyond that in a cycle of
/// overflow.
const CCPS: [&str; 3] = ["ccp:kp=1", "ccp:kp=2", "ccp:kp=3:limiter=off"];
const GAIN_PLACE: usize = 8;

/// Twenty-seven points.
pub(super) const SPACE: Space = Space(&[
    LOSS_2,
    LOSS_1,
    LOSS,
    QUEUE,
    DELAY,
    WINDOW,
    REINJECTION,
    CACHING,
    GAIN,
]);

/// CCP at a point.
pub(super) fn ccp_at(point: &Point) -> &'static str {
    CCPS[point.value(GAIN_PLACE)]
}
