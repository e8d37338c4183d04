//! The shipped scenarios over which controllers are compared by default.

/// Scenarios that belong together.
pub(super) struct Shipped {
    /// Name on the command line.
    pub(super) name: &'static str,
    /// Title of its panel.
    pub(super) title: &'static str,
    /// Files in `scenarios`, without their ending.
    pub(super) files: &'static [&'static str],
    /// Settings of all its scenarios.
    pub(super) settings: &'static [&'static str],
}

pub(super) const FAMILIES: [Shipped; 8] = [
    Shipped {
        name: "rmcat",
        title: "RFC 8867 without TCP",
        files: &[
            "rmcat/5.1-variable-capacity",
            "rmcat/5.1-variable-capacity-udp",
            "rmcat/5.2-multiple-flows",
            "rmcat/5.2-multiple-flows-udp",
            "rmcat/5.3-congested-feedback",
            "rmcat/5.3-congested-feedback-udp",
            "rmcat/5.4-competing-media",
            "rmcat/5.5-round-trip-time-fairness",
            "rmcat/5.8-pause-and-resume",
            "rmcat/6.3-multiple-bottlenecks",
        ],
        settings: &[],
    },
    Shipped {
        name: "tcp",
        title: "Beside TCP",
        files: &[
            "rmcat/5.6-long-tcp",
            "rmcat/5.7-short-tcp",
            "zhang-delay-bbr/reno",
            "zhang-delay-bbr/rival",
            "rmcat-wireless/3.1-wired-tcp",
            "rmcat-wireless/3.2-wifi-tcp",
        ],
        settings: &[],
    },
    Shipped {
        name: "cell",
        title: "RFC 8869, cellular",
        files: &[
            "rmcat-wireless/2.1-varying-load-down",
            "rmcat-wireless/2.1-varying-load-up",
            "rmcat-wireless/2.2-bad-coverage-down",
            "rmcat-wireless/2.2-bad-coverage-up",
        ],
        settings: &[],
    },
    Shipped {
        name: "wifi",
        title: "RFC 8869, Wi-Fi without TCP",
        files: &[
            "rmcat-wireless/3.1-wired-uplink",
            "rmcat-wireless/3.1-wired-both",
            "rmcat-wireless/3.1-wired-udp",
            "rmcat-wireless/3.2-wifi-down",
            "rmcat-wireless/3.2-wifi-up",
            "rmcat-wireless/3.2-wifi-both",
            "rmcat-wireless/3.2-wifi-udp",
            "rmcat-wireless/3.2-wifi-stations",
        ],
        settings: &[],
    },
    Shipped {
        name: "table1",
        title: "Table 1 of Zhang & Lei, from 20 s on",
        files: &[
            "zhang-delay-bbr/case-1",
            "zhang-delay-bbr/case-2",
            "zhang-delay-bbr/case-3",
            "zhang-delay-bbr/case-4",
            "zhang-delay-bbr/case-5",
            "zhang-delay-bbr/case-6",
            "zhang-delay-bbr/case-7",
            "zhang-delay-bbr/case-8",
            "zhang-delay-bbr/case-9",
        ],
        settings: &["statistics={from=\"20 s\"}"],
    },
    Shipped {
        name: "jitter",
        title: "Jitter of 0 to 80 ms",
        files: &["weather/jitter-adaptive"],
        settings: &[],
    },
    Shipped {
        name: "moving",
        title: "Delay steps, hand-over, cellular traces",
        files: &[
            "weather/delay-steps-adaptive",
            "encoder/hand-over",
            "encoder/cellular",
            "cellular",
        ],
        settings: &[],
    },
    Shipped {
        name: "starlink",
        title: "Starlink, with an encoder that follows",
        files: &["weather/starlink"],
        settings: &[
            "flows.0.source={kind=\"gop\", fps=25, min=\"300 kbit/s\", max=\"14 Mbit/s\", \
             key-interval=\"2 s\", key-ratio=5}",
            "flows.0.deadline=400 ms",
            "flows.0.reassembly-wait=400 ms",
        ],
    },
];
