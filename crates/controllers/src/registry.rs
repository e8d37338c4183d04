//! Every controller by its name.

use anabranch_core::control::{CongestionController, Controller, ControllerConfig, RateKind};
use anabranch_units::options::{AlgorithmOption, AlgorithmOptions, find};

use super::bbr::{linux, quic, v3, webrtc};
// All algorithms: a new one needs only its entry here.
use super::*;

pub use anabranch_units::options::UnknownAlgorithm as UnknownController;

/// An entry of the registry.
#[derive(Clone, Copy)]
pub struct ControllerEntry {
    /// The name used in scenario files and on the command line.
    pub name: &'static str,
    /// Description in one line.
    pub summary: &'static str,
    /// Options, as in `cubic:hystart=classic`.
    pub options: &'static [AlgorithmOption],
    /// Meaning of its rate to an encoder.
    pub rate: RateKind,
    build: fn(&ControllerConfig) -> Box<dyn CongestionController>,
}

impl core::fmt::Debug for ControllerEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name)
    }
}

/// All controllers, by name.
pub const CONTROLLERS: &[ControllerEntry] = &[
    ControllerEntry {
        name: "arc",
        summary: "Adaptive Rate Control of Grieco & Mascolo: a window by the Smith principle",
        options: arc::OPTIONS,
        rate: RateKind::Bandwidth,
        build: arc::build,
    },
    ControllerEntry {
        name: "balia",
        summary: "Balanced Linked Adaptation: New Reno's windows, coupled over a session's paths",
        options: &[],
        rate: RateKind::Bandwidth,
        build: balia::build,
    },
    ControllerEntry {
        name: "bbr-linux",
        summary: "BBR version 1 of today's Linux",
        options: linux::OPTIONS,
        rate: RateKind::Bandwidth,
        build: linux::build,
    },
    ControllerEntry {
        name: "bbr-linux-4.9",
        summary: "BBR as first released in Linux 4.9 (Kondo et al.)",
        options: &[],
        rate: RateKind::Bandwidth,
        build: linux::build_4_9,
    },
    ControllerEntry {
        name: "bbr-quic",
        summary: "BBR version 1 of QUIC",
        options: quic::OPTIONS,
        rate: RateKind::Bandwidth,
        build: quic::build,
    },
    ControllerEntry {
        name: "bbr-webrtc",
        summary: "the WebRTC BBR of Zhang & Lei's comparison",
        options: webrtc::OPTIONS,
        rate: RateKind::Bandwidth,
        build: webrtc::build,
    },
    ControllerEntry {
        name: "bbr3",
        summary: "BBR version 3 (draft-ietf-ccwg-bbr of August 2026)",
        options: &[],
        rate: RateKind::Bandwidth,
        build: v3::build,
    },
    ControllerEntry {
        name: "bic",
        summary: "BIC-TCP, binary search for the window, with Linux's constants",
        options: bic::OPTIONS,
        rate: RateKind::Bandwidth,
        build: bic::build,
    },
    ControllerEntry {
        name: "c-mpbbr",
        summary: "coupled multipath BBR: paths that share a bottleneck divide its rate",
        options: &[],
        rate: RateKind::Bandwidth,
        build: linux::build_coupled,
    },
    ControllerEntry {
        name: "ccp",
        summary: "Capacity and Congestion Probing: a proportional law that ignores losses",
        options: ccp::OPTIONS,
        rate: RateKind::Bandwidth,
        build: ccp::build,
    },
    ControllerEntry {
        name: "ccpd",
        summary: "CCP with a derivative term",
        options: ccpd::OPTIONS,
        rate: RateKind::Bandwidth,
        build: ccpd::build,
    },
    ControllerEntry {
        name: "compound",
        summary: "Compound TCP: Reno's window and one that yields to delay",
        options: compound::OPTIONS,
        rate: RateKind::Bandwidth,
        build: compound::build,
    },
    ControllerEntry {
        name: "copa",
        summary: "Copa: a target rate by queuing delay, competitive where others fill the queue",
        options: copa::OPTIONS,
        rate: RateKind::Bandwidth,
        build: copa::build,
    },
    ControllerEntry {
        name: "cubic",
        summary: "CUBIC (RFC 9438) with HyStart++",
        options: cubic::OPTIONS,
        rate: RateKind::Bandwidth,
        build: cubic::build,
    },
    ControllerEntry {
        name: "delay-bbr",
        summary: "Delay-BBR as in the authors' published code",
        options: delay_bbr::OPTIONS,
        rate: RateKind::Bandwidth,
        build: delay_bbr::build_published,
    },
    ControllerEntry {
        name: "delay-bbr-text",
        summary: "Delay-BBR, Algorithms 1-5 as printed by Zhang & Lei",
        options: &[],
        rate: RateKind::Bandwidth,
        build: delay_bbr::build_text,
    },
    ControllerEntry {
        name: "fixed",
        summary: "a constant rate that ignores the network",
        options: &[],
        rate: RateKind::Bandwidth,
        build: fixed::build,
    },
    ControllerEntry {
        name: "gcc",
        summary: "Google Congestion Control as in WebRTC: the trendline of the delay",
        options: gcc::OPTIONS,
        rate: RateKind::Media,
        build: gcc::build_trendline,
    },
    ControllerEntry {
        name: "gcc-kalman",
        summary: "Google Congestion Control of draft-ietf-rmcat-gcc-02: a Kalman filter",
        options: gcc::OPTIONS,
        rate: RateKind::Media,
        build: gcc::build_kalman,
    },
    ControllerEntry {
        name: "lia",
        summary: "Linked Increases (RFC 6356): all paths together as greedy as one TCP",
        options: &[],
        rate: RateKind::Bandwidth,
        build: lia::build,
    },
    ControllerEntry {
        name: "live-bbr",
        summary: "Delay-BBR adapted to live video over real networks (the default)",
        options: delay_bbr::OPTIONS,
        rate: RateKind::Bandwidth,
        build: delay_bbr::build_live,
    },
    ControllerEntry {
        name: "nada",
        summary: "RFC 8698: delay, loss and marks as one signal",
        options: nada::OPTIONS,
        rate: RateKind::Media,
        build: nada::build,
    },
    ControllerEntry {
        name: "new-reno",
        summary: "the window of RFC 5681 and RFC 9002 §7",
        options: new_reno::OPTIONS,
        rate: RateKind::Bandwidth,
        build: new_reno::build,
    },
    ControllerEntry {
        name: "olia",
        summary: "Opportunistic Linked Increases: windows move to the paths that lose least",
        options: &[],
        rate: RateKind::Bandwidth,
        build: olia::build,
    },
    ControllerEntry {
        name: "poise",
        summary: "a short standing queue, and the arrival rate while one stands",
        options: poise::OPTIONS,
        rate: RateKind::Media,
        build: poise::build,
    },
    ControllerEntry {
        name: "rap",
        summary: "the Rate Adaptation Protocol: gaps between packets by AIMD",
        options: rap::OPTIONS,
        rate: RateKind::Bandwidth,
        build: rap::build,
    },
    ControllerEntry {
        name: "reno",
        summary: "the window of ns-2's Reno: every fast retransmit halves it",
        options: &[],
        rate: RateKind::Bandwidth,
        build: reno::build,
    },
    ControllerEntry {
        name: "scream",
        summary: "SCReAM v2 (draft-johansson-ccwg-rfc8298bis-screamv2), for L4S too",
        options: scream::V2_OPTIONS,
        rate: RateKind::Media,
        build: scream::build_v2,
    },
    ControllerEntry {
        name: "scream-v1",
        summary: "SCReAM of RFC 8298",
        options: scream::V1_OPTIONS,
        rate: RateKind::Media,
        build: scream::build_v1,
    },
    ControllerEntry {
        name: "tfrc",
        summary: "the TCP-friendly rate of RFC 5348",
        options: &[],
        rate: RateKind::Bandwidth,
        build: tfrc::build,
    },
    ControllerEntry {
        name: "tfrc-conservative",
        summary: "TFRC of ns-2.35, self-clocked (Bansal et al. 2001)",
        options: tfrc::CONSERVATIVE_OPTIONS,
        rate: RateKind::Bandwidth,
        build: tfrc::build_conservative,
    },
    ControllerEntry {
        name: "tfrc-ns2",
        summary: "TFRC of ns-2.35 with its defaults",
        options: &[],
        rate: RateKind::Bandwidth,
        build: tfrc::build_ns2,
    },
    ControllerEntry {
        name: "vegas",
        summary: "TCP Vegas: a backlog of 2 to 4 packets",
        options: vegas::OPTIONS,
        rate: RateKind::Bandwidth,
        build: vegas::build,
    },
    ControllerEntry {
        name: "wvegas",
        summary: "weighted Vegas: a backlog of ten packets, shared by a session's paths",
        options: wvegas::OPTIONS,
        rate: RateKind::Bandwidth,
        build: wvegas::build,
    },
    ControllerEntry {
        name: "zhu",
        summary: "rates over all paths at which the video's expected distortion is least",
        options: zhu::OPTIONS,
        rate: RateKind::Media,
        build: zhu::build,
    },
];

/// Name of the default controller.
pub const DEFAULT: &str = "live-bbr";

/// Returns the controller [`DEFAULT`].
pub fn default_controller() -> Controller {
    by_name(DEFAULT).expect("the default is registered")
}

/// Returns a controller by its name in [`CONTROLLERS`], with any options behind it: `cubic`, or
/// `cubic:hystart=classic:fast-convergence=off`.
///
/// # Errors
/// [`UnknownController`], which lists the known names or the controller's options.
pub fn by_name(text: &str) -> Result<Controller, UnknownController> {
    let (entry, options) = parse(text)?;
    Ok(Controller::new(text, entry.rate, move |config| {
        (entry.build)(&ControllerConfig {
            options: options.clone(),
            ..config.clone()
        })
    }))
}

fn parse(text: &str) -> Result<(&'static ControllerEntry, AlgorithmOptions), UnknownController> {
    find("controller", text, CONTROLLERS, |entry| {
        (entry.name, entry.options)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_a_controller_lacks_is_named() {
        let error = by_name("fixed:speed=9").unwrap_err().to_string();
        assert!(
            error.starts_with("fixed: ") && error.contains("speed"),
            "{error}"
        );
        assert_eq!(by_name("fixed").unwrap().name(), "fixed");
    }
}
