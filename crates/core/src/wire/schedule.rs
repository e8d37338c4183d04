//! The frame by which a sender asks for reports.

use anabranch_units::Duration;

/// When the receiver reports. Sent to it in a control frame; it reports when any of the limits is
/// reached, and in any case before it would have to forget an arrival time (after 128 packets).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedbackSchedule {
    /// Number of tracked packets after which a report is due at the latest; at least 1.
    pub every_packets: u32,
    /// Time after the first unreported packet at which a report is due at the latest.
    pub max_delay: Duration,
    /// Time after the last report at which the next one is due at the latest, if a packet has come
    /// since. Receivers of TFRC and ARC report once a round-trip time. The controller renews it as
    /// its round-trip time changes; changes below an eighth are not announced.
    pub interval: Option<Duration>,
    /// Whether and how a hole in the packet numbers is reported out of turn.
    pub on_hole: Option<HoleReports>,
    /// Whether a Congestion Experienced mark is reported at once.
    pub is_immediate_on_ce: bool,
    /// Whether a pause is reported, too, while a frame is incomplete. The session asks for it, not
    /// a controller, if the time to repair a loss is short.
    pub reports_pauses: bool,
}

/// When a hole in the packet numbers is reported out of turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoleReports {
    /// Number of packets beyond the hole after which it is reported: 1 reports a hole at once, 3
    /// lets two packets be overtaken first, as TCP and TFRC do.
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
    /// Returns a schedule of every 8 packets or 10 ms: about 2 % of the media's bytes at 4 Mbit/s.
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
        reports_pauses: false,
    };

    /// Returns the longest delay of a report about a packet.
    pub(crate) fn longest_delay(&self) -> Duration {
        self.interval
            .map_or(self.max_delay, |interval| interval.min(self.max_delay))
    }
}
