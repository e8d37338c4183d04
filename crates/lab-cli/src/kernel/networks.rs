//! Networks whose connections are recorded.

/// Recorded sequence: a controller on a network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    /// Name of our controller.
    pub(super) controller: &'static str,
    pub(super) network: &'static Network,
}

/// Network of one or several paths.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) name: &'static str,
    /// Settings of each path's link; its way back has its delay.
    paths: &'static [Path],
}

/// A path's forward link, and the delay of its way back.
type Path = (&'static str, &'static str);

const EVEN: Network = Network {
    name: "two alike",
    paths: &[
        (
            r#"rate = "4 Mbit/s", delay = "20 ms", queue = "80 ms""#,
            "20 ms",
        ),
        (
            r#"rate = "4 Mbit/s", delay = "20 ms", queue = "80 ms""#,
            "20 ms",
        ),
    ],
};

const UNEVEN: Network = Network {
    name: "fast and slow",
    paths: &[
        (
            r#"rate = "6 Mbit/s", delay = "10 ms", queue = "60 ms""#,
            "10 ms",
        ),
        (
            r#"rate = "2 Mbit/s", delay = "80 ms", queue = "200 ms""#,
            "80 ms",
        ),
    ],
};

const LOSSY: Network = Network {
    name: "one loses 1 %",
    paths: &[
        (
            r#"rate = "8 Mbit/s", delay = "25 ms", queue = "100 ms""#,
            "25 ms",
        ),
        (
            r#"rate = "8 Mbit/s", delay = "15 ms", queue = "100 ms", loss = "1 %""#,
            "15 ms",
        ),
    ],
};

const THREE: Network = Network {
    name: "three, one silent for 3 s",
    paths: &[
        (
            r#"rate = "5 Mbit/s", delay = "15 ms", queue = "80 ms""#,
            "15 ms",
        ),
        (
            "rate = \"3 Mbit/s\", delay = \"40 ms\", queue = \"80 ms\", \
             outages = [{ at = \"6 s\", for = \"3 s\" }]",
            "40 ms",
        ),
        (
            r#"rate = "2 Mbit/s", delay = "60 ms", queue = "150 ms", loss = "0.5 %""#,
            "60 ms",
        ),
    ],
};

const LARGE: Network = Network {
    name: "one of 40 Mbit/s",
    paths: &[(
        r#"rate = "40 Mbit/s", delay = "30 ms", queue = "60 ms""#,
        "30 ms",
    )],
};

/// The recorded sequences.
pub(super) const CASES: [Case; 20] = [
    case("new-reno", &EVEN),
    case("new-reno", &THREE),
    case("lia", &EVEN),
    case("lia", &UNEVEN),
    case("lia", &LOSSY),
    case("lia", &THREE),
    case("olia", &EVEN),
    case("olia", &UNEVEN),
    case("olia", &LOSSY),
    case("olia", &THREE),
    case("balia", &EVEN),
    case("balia", &UNEVEN),
    case("balia", &LOSSY),
    case("balia", &THREE),
    case("compound", &LARGE),
    case("compound", &LOSSY),
    case("compound", &THREE),
    case("ccp", &LARGE),
    case("ccp", &UNEVEN),
    case("ccp", &THREE),
];

const fn case(controller: &'static str, network: &'static Network) -> Case {
    Case {
        controller,
        network,
    }
}

impl Network {
    pub(super) fn path_count(&self) -> usize {
        self.paths.len()
    }

    /// Returns a scenario in which an endless stream of this controller uses all paths.
    pub(super) fn scenario(&self, controller: &str, seconds: u64) -> String {
        let mut text = format!("title = \"{}\"\nduration = \"{seconds} s\"\n", self.name);
        let mut names = Vec::new();
        for (index, (link, back)) in self.paths.iter().enumerate() {
            text += &format!("links.f{index} = {{ {link} }}\n");
            text += &format!("links.b{index} = {{ delay = \"{back}\" }}\n");
            text += &format!(
                "routes.r{index} = {{ forward = [\"f{index}\"], reverse = [\"b{index}\"] }}\n"
            );
            names.push(format!("\"r{index}\""));
        }
        text += &format!(
            "[[flows]]\nkind = \"bulk\"\ncontroller = \"{controller}\"\nscheduler = \"linux\"\n\
             retransmission = \"same path\"\nreinjection = \"linux\"\npaths = [{}]\n",
            names.join(", ")
        );
        text
    }
}
