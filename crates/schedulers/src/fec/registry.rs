//! Every policy of forward error correction by its name.

use core::fmt::Debug;

use anabranch_core::fec::{FecPolicy, FecPolicyFactory};
use anabranch_units::options::{AlgorithmOption, AlgorithmOptions, find};

use super::{adaptive, fixed, frame, webrtc, window};

pub use anabranch_units::options::UnknownAlgorithm as UnknownFecPolicy;

type Build = fn(&AlgorithmOptions) -> Box<dyn FecPolicy>;

/// An entry of the registry.
#[derive(Clone, Copy)]
pub struct FecPolicyEntry {
    /// The name used in scenario files and on the command line.
    pub name: &'static str,
    /// Description in one line.
    pub summary: &'static str,
    /// Options of the policy, as in `fixed:overhead=0.25`.
    pub options: &'static [AlgorithmOption],
    /// `None` for no repairs.
    build: Option<Build>,
}

impl Debug for FecPolicyEntry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name)
    }
}

/// Every policy there is, by name.
pub const FEC_POLICIES: &[FecPolicyEntry] = &[
    FecPolicyEntry {
        name: "adaptive",
        summary: "retransmission where there is time for it, else blocks or a sliding window",
        options: adaptive::OPTIONS,
        build: Some(adaptive::build),
    },
    FecPolicyEntry {
        name: "fixed",
        summary: "a constant share of repairs, whatever the losses",
        options: fixed::OPTIONS,
        build: Some(fixed::build),
    },
    FecPolicyEntry {
        name: "frame",
        summary: "each frame a block of its own, with what recent losses ask for",
        options: &[],
        build: Some(frame::build),
    },
    FecPolicyEntry {
        name: "off",
        summary: "no repairs: lost packets are sent again, or missing (the default)",
        options: &[],
        build: None,
    },
    FecPolicyEntry {
        name: "webrtc",
        summary: "a share that follows the loss ratio, by round-trip time, as in WebRTC",
        options: &[],
        build: Some(webrtc::build),
    },
    FecPolicyEntry {
        name: "window",
        summary: "a window that slides over many small frames",
        options: &[],
        build: Some(window::build),
    },
];

/// Name of the default policy.
pub const FEC_DEFAULT: &str = "off";

/// Returns a policy by its name in [`FEC_POLICIES`], with any options behind it; `None` for `off`.
///
/// ```
/// use anabranch_schedulers::fec_policy;
///
/// assert_eq!(fec_policy("fixed:overhead=0.25")?.expect("repairs").name(), "fixed:overhead=0.25");
/// assert_eq!(fec_policy("off")?, None);
/// let message = fec_policy("adaptiv").unwrap_err().to_string();
/// assert!(message.contains("did you mean \"adaptive\"?"), "{message}");
/// # Ok::<(), anabranch_schedulers::UnknownFecPolicy>(())
/// ```
///
/// # Errors
/// [`UnknownFecPolicy`], which lists the known names or the policy's options.
pub fn fec_policy(text: &str) -> Result<Option<FecPolicyFactory>, UnknownFecPolicy> {
    let (entry, options) = find("FEC policy", text, FEC_POLICIES, |entry| {
        (entry.name, entry.options)
    })?;
    let Some(build) = entry.build else {
        return Ok(None);
    };
    Ok(Some(FecPolicyFactory::new(text, move || build(&options))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_list_known_names() {
        fn error(text: &str) -> String {
            fec_policy(text).unwrap_err().to_string()
        }
        assert!(error("fec").contains("adaptive, fixed, frame, off, webrtc, window"));
        assert!(error("fixed:rate=1").contains("overhead, window"));
        assert!(error("off:window=3").starts_with("off: "));
        assert!(
            fec_policy("fixed:overhead=0.25,window=20")
                .unwrap()
                .is_some()
        );
        assert!(fec_policy(FEC_DEFAULT).unwrap().is_none());
    }
}
