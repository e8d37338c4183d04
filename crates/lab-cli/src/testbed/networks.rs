//! Networks of the papers, as links of this program and as scenarios of the simulator.

use anabranch_lab::{EmulatedRoute, Scenario};

/// Testbed of a paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Testbed {
    /// Kondo et al.: BBR over paths of variable delay.
    Kondo,
    /// Matsufuji et al.: schedulers of MPTCP.
    Matsufuji,
}

/// Network of a paper.
#[derive(Clone, Copy, Debug)]
pub(super) struct Network {
    /// The paper's name.
    pub(super) name: &'static str,
    file: &'static str,
    text: &'static str,
    /// Settings that put links in a row into one.
    joined: &'static [&'static str],
}

/// The emulator's delay belongs to the link of the Wi-Fi.
const NEAR_NEAR: &[&str] = &[
    "routes.flow-1.forward=[\"wifi-a\"]",
    "routes.flow-2.forward=[\"wifi-g\"]",
    "links.wifi-a.delay=50 ms",
    "links.wifi-g.delay=50 ms",
];
const NEAR_FAR: &[&str] = &[
    NEAR_NEAR[0],
    NEAR_NEAR[1],
    NEAR_NEAR[2],
    "links.wifi-g.delay=100 ms",
];
const FAR_NEAR: &[&str] = &[
    NEAR_NEAR[0],
    NEAR_NEAR[1],
    "links.wifi-a.delay=100 ms",
    NEAR_NEAR[3],
];

macro_rules! network {
    ($name:literal, $file:literal, $joined:expr) => {
        Network {
            name: $name,
            file: $file,
            text: include_str!(concat!("../../../../scenarios/", $file)),
            joined: $joined,
        }
    };
}

const KONDO: [Network; 3] = [
    network!("A", "kondo-mptcp/a.toml", &[]),
    network!("B", "kondo-mptcp/b.toml", &[]),
    network!("C", "kondo-mptcp/c.toml", &[]),
];

const MATSUFUJI: [Network; 3] = [
    network!("100/100", "matsufuji-mptcp/equal.toml", NEAR_NEAR),
    network!("100/200", "matsufuji-mptcp/far-second.toml", NEAR_FAR),
    network!("200/100", "matsufuji-mptcp/far-first.toml", FAR_NEAR),
];

impl Testbed {
    /// Returns the key of the paper among the claims.
    pub(super) fn paper(self) -> &'static str {
        match self {
            Testbed::Kondo => "kondo",
            Testbed::Matsufuji => "matsufuji",
        }
    }

    /// Returns the authors.
    pub(super) fn title(self) -> &'static str {
        match self {
            Testbed::Kondo => "Kondo et al.",
            Testbed::Matsufuji => "Matsufuji et al.",
        }
    }

    pub(super) fn networks(self) -> Vec<Network> {
        match self {
            Testbed::Kondo => KONDO.to_vec(),
            Testbed::Matsufuji => MATSUFUJI.to_vec(),
        }
    }

    /// Returns the length of the paper's film.
    pub(super) fn film_seconds(self) -> u64 {
        match self {
            Testbed::Kondo => 180,
            Testbed::Matsufuji => 624,
        }
    }
}

impl Network {
    /// Returns the links between server and viewer.
    ///
    /// # Errors
    /// The scenario has no such links.
    pub(super) fn routes(&self) -> anyhow::Result<Vec<EmulatedRoute>> {
        let settings: Vec<String> = self.joined.iter().map(|text| (*text).to_owned()).collect();
        let scenario = Scenario::parse(self.file, self.text, &settings)?;
        Ok(scenario.emulated_routes()?)
    }

    /// Returns the scenario of a film of this length with a controller of the simulator.
    ///
    /// # Errors
    /// The simulator does not know the controller.
    pub(super) fn scenario(&self, controller: &str, seconds: u64) -> anyhow::Result<Scenario> {
        let settings = [
            format!("flows.0.controller={controller}"),
            format!("flows.0.length={seconds} s"),
            format!("duration={} s", seconds * 3 / 2 + 30),
            "expect={}".to_owned(),
        ];
        Ok(Scenario::parse(self.file, self.text, &settings)?)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Duration;

    use super::*;

    #[test]
    fn links_have_the_delays_of_their_names() {
        for network in Testbed::Matsufuji.networks() {
            let routes = network.routes().unwrap();
            let round_trips: Vec<String> = routes
                .iter()
                .map(|route| {
                    let both = route.forward.delay + route.reverse.delay;
                    (both.as_nanos() / Duration::from_millis(1).as_nanos()).to_string()
                })
                .collect();
            assert_eq!(round_trips.join("/"), network.name);
        }
        for network in Testbed::Kondo.networks() {
            assert_eq!(network.routes().unwrap().len(), 2);
        }
    }

    #[test]
    fn each_network_can_be_simulated() {
        for paper in [Testbed::Kondo, Testbed::Matsufuji] {
            for network in paper.networks() {
                let scenario = network.scenario("olia", 20).unwrap();
                assert_eq!(scenario.duration, Duration::from_secs(60));
            }
        }
    }
}
