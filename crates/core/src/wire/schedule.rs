//! The frame by which a sender asks for reports.

use anabranch_units::Duration;

/// When the receiver reports. Sent to it in a control frame; it reports when any of the limits is
/// reached, and in any case before it would have to forget an arrival time (after 128 packets).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedbackSchedule {
    /// A report at the latest after so many tracked packets; at least 1.
    pub every_packets: u32,
    /// A report at the latest so long after the first unreported packet.
    pub max_delay: Duration,
    /// A report at the latest so long after the last one, if a packet has come since: what
    /// receivers of TFRC and ARC do once a round-trip time. The controller renews it as its
    /// round-trip time changes; changes below an eighth are not worth telling.
    pub interval: Option<Duration>,
    /// Whether and how a hole in the packet numbers is reported out of turn.
    pub on_hole: Option<HoleReports>,
    /// Whether a Congestion Experienced mark is reported at once.
    pub is_immediate_on_ce: bool,
    /// Whether a pause is reported, too, while a frame is incomplete. The session asks for it, not
    /// a controller, where the time to mend a loss is short.
    pub tells_pauses: bool,
}

/// When a hole in the packet numbers is reported out of turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoleReports {
    /// After so many packets beyond the hole: 1 reports a hole at once, 3 lets two packets be
    /// overtaken first, as TCP and TFRC do.
    pub after_packets: u8,
    /// Holes less than this after the last hole that was reported so are left to the next regular
    /// report. A round-trip time makes it one report a loss event (RFC 5348 §6.1).
    pub min_interval: Duration,
}

impl HoleReports {
    /// Every hole, at once.
    pub const AT_ONCE: HoleReports = HoleReports {
        after_packets: 1,
        min_interval: Duration::ZERO,
    };
}

impl Default for FeedbackSchedule {
    /// Every 8 packets or 10 ms: about 2 % of the media's bytes at 4 Mbit/s.
    fn default() -> Self {
        FeedbackSchedule {
            every_packets: 8,
            max_delay: Duration::from_millis(10),
            ..FeedbackSchedule::EVERY_PACKET
        }
    }
}

impl FeedbackSchedule {
    /// A report for every packet (Zhang & Lei).
    pub const EVERY_PACKET: FeedbackSchedule = FeedbackSchedule {
        every_packets: 1,
        max_delay: Duration::ZERO,
        interval: None,
        on_hole: Some(HoleReports::AT_ONCE),
        is_immediate_on_ce: true,
        tells_pauses: false,
    };

    /// How long a report about a packet may be put off.
    pub(crate) fn longest_delay(&self) -> Duration {
        self.interval
            .map_or(self.max_delay, |interval| interval.min(self.max_delay))
    }
}
