//! Every policy of forward error correction by its name.

use core::fmt::Debug;

use super::policies::{adaptive, fixed, frame, webrtc, window};
use super::policy::FecPolicy;
use crate::options::{AlgorithmOption, AlgorithmOptions, find};

pub use crate::options::UnknownAlgorithm as UnknownFecPolicy;

/// An entry of the registry.
#[derive(Clone, Copy)]
pub struct FecPolicyEntry {
    /// The name used in scenario files and on the command line.
    pub name: &'static str,
    /// Description in one line.
    pub summary: &'static str,
    /// Options of the policy, as in `fixed:overhead=0.25`.
    pub options: &'static [AlgorithmOption],
    build: fn(&AlgorithmOptions) -> Option<Box<dyn FecPolicy>>,
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
        build: |options| Some(adaptive::build(options)),
    },
    FecPolicyEntry {
        name: "fixed",
        summary: "a constant share of repairs, whatever the losses",
        options: fixed::OPTIONS,
        build: |options| Some(fixed::build(options)),
    },
    FecPolicyEntry {
        name: "frame",
        summary: "each frame a block of its own, with what recent losses ask for",
        options: &[],
        build: |options| Some(frame::build(options)),
    },
    FecPolicyEntry {
        name: "off",
        summary: "no repairs: lost packets are sent again, or missing (the default)",
        options: &[],
        build: |_| None,
    },
    FecPolicyEntry {
        name: "webrtc",
        summary: "a share that follows the loss ratio, by round-trip time, as in WebRTC",
        options: &[],
        build: |options| Some(webrtc::build(options)),
    },
    FecPolicyEntry {
        name: "window",
        summary: "a window that slides over many small frames",
        options: &[],
        build: |options| Some(window::build(options)),
    },
];

/// Builds a policy by its name in [`FEC_POLICIES`], with any options behind it; `None` for `off`.
pub(crate) fn build(text: &str) -> Result<Option<Box<dyn FecPolicy>>, UnknownFecPolicy> {
    parse(text).map(|(entry, options)| (entry.build)(&options))
}

/// Checks that a session can be configured with this policy: a name, with any options behind it.
///
/// ```
/// use anabranch_core::fec::check;
///
/// assert_eq!(check("fixed:overhead=0.25")?.name, "fixed");
/// let message = check("adaptiv").unwrap_err().to_string();
/// assert!(message.contains("did you mean \"adaptive\"?"), "{message}");
/// # Ok::<(), anabranch_core::fec::UnknownFecPolicy>(())
/// ```
///
/// # Errors
/// [`UnknownFecPolicy`], which lists the known names or the policy's options.
pub fn check(text: &str) -> Result<&'static FecPolicyEntry, UnknownFecPolicy> {
    parse(text).map(|(entry, _)| entry)
}

fn parse(text: &str) -> Result<(&'static FecPolicyEntry, AlgorithmOptions), UnknownFecPolicy> {
    let known = |entry: &FecPolicyEntry| (entry.name, entry.options);
    find("FEC policy", text, FEC_POLICIES, known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_list_known_names() {
        fn error(text: &str) -> String {
            check(text).unwrap_err().to_string()
        }
        assert!(error("fec").contains("adaptive, fixed, frame, off, webrtc, window"));
        assert!(error("fixed:rate=1").contains("overhead, window"));
        assert!(error("off:window=3").starts_with("off: "));
        assert!(build("fixed:overhead=0.25,window=20").unwrap().is_some());
        assert!(build("off").unwrap().is_none());
    }
}
