//! Detection of an encoder that sends more than the links carry. Frames are then given up, and only
//! the encoder's operator can correct that.

use core::fmt;
use std::collections::VecDeque;

use anabranch_core::{PathState, PathView};
use anabranch_net::Snapshot;
use anabranch_observe::StreamEvent;
use anabranch_units::{DataRate, Duration, Instant};

use crate::end::End;

const WINDOW: Duration = OverloadWatch::WINDOW;
/// Interval between two looks at the counters.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Minimum time between two reports.
const SILENCE: Duration = Duration::from_secs(10);
/// Minimum share of the window's frames that are given up in an overload, in percent …
const MIN_SHARE_PERCENT: u64 = 5;
/// … and their minimum number.
const MIN_GIVEN_UP: u64 = 3;

/// An overload in the last window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overload {
    end: End,
    /// Whether the encoder is given the target.
    is_encoder_informed: bool,
    /// Rate of the encoder. A receiver estimates it: frames that were given up count as much as
    /// those that have arrived.
    encoder: DataRate,
    /// The part of it that the links carry.
    links: DataRate,
    given_up_count: u64,
    frame_count: u64,
}

impl Overload {
    /// Returns the event, for statistics and commands.
    pub(crate) fn happening(&self) -> StreamEvent {
        StreamEvent::Overload {
            encoder_bps: self.encoder.bits_per_second(),
            links_bps: self.links.bits_per_second(),
            frames_given_up: self.given_up_count,
            frames: self.frame_count,
        }
    }
}

impl fmt::Display for Overload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [encoder, links] = [self.encoder, self.links].map(DataRate::megabits_per_second);
        let Overload {
            given_up_count,
            frame_count,
            ..
        } = self;
        match self.end {
            End::Sender | End::SrtlaSender => write!(
                f,
                "your encoder sends {encoder:.1} Mbit/s, the links carry {links:.1} Mbit/s: \
                 {given_up_count} of {frame_count} frames were given up in {} s; {}",
                WINDOW.as_secs_f64(),
                if self.is_encoder_informed {
                    "it is given the target (--target-to) and does not follow: is it the right \
                     encoder, and can it go as low as --encoder-range says?"
                } else {
                    "lower its bitrate, or pass the target on to it (--target-to)"
                },
            ),
            End::Receiver | End::Tunnel(_) => write!(
                f,
                "the encoder at the other end sends about {encoder:.1} Mbit/s, the links carry \
                 {links:.1} Mbit/s: nothing arrived of {given_up_count} of {frame_count} frames \
                 in {} s",
                WINDOW.as_secs_f64(),
            ),
        }
    }
}

/// Counters at one time.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    at: Instant,
    media_bytes: u64,
    frame_count: u64,
    given_up_count: u64,
    /// Bytes that have arrived by all paths, also those of incomplete frames.
    arrived_bytes: u64,
}

/// Watch over one stream.
#[derive(Clone, Debug)]
pub(crate) struct OverloadWatch {
    end: End,
    is_encoder_informed: bool,
    marks: VecDeque<Mark>,
    reported_at: Option<Instant>,
    /// Number of frames of which a receiver got nothing. While packets arrive all the time, these
    /// are the frames that the sender gave up. Notices about them fill the same gaps as lost
    /// frames.
    missing_count: u64,
}

impl OverloadWatch {
    /// Period over which rates are measured. Chosen: longer than most groups of pictures, so that a
    /// key frame alone is no overload.
    pub(crate) const WINDOW: Duration = Duration::from_secs(3);

    pub(crate) fn new(end: End) -> Self {
        OverloadWatch {
            end,
            is_encoder_informed: false,
            marks: VecDeque::new(),
            reported_at: None,
            missing_count: 0,
        }
    }

    /// Sets whether the encoder is given the target, which changes the advice.
    pub(crate) fn with_informed_encoder(mut self, is_informed: bool) -> Self {
        self.is_encoder_informed = is_informed;
        self
    }

    /// Counts a frame of which nothing has arrived.
    pub(crate) fn on_missing_frame(&mut self) {
        self.missing_count += 1;
    }

    /// Returns whether it is time to look.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let last = self.marks.back();
        last.is_none_or(|mark| now >= mark.at + POLL_INTERVAL)
    }

    /// Returns an overload to report now, if any.
    pub(crate) fn due_report(&mut self, now: Instant, snapshot: &Snapshot) -> Option<Overload> {
        let session = &snapshot.session;
        let of_paths = snapshot
            .paths
            .iter()
            .map(|path| path.counters.received_media_bytes);
        let mark = match self.end {
            End::Sender | End::SrtlaSender => Mark {
                at: now,
                media_bytes: session.media_bytes_sent,
                frame_count: session.frames_sent,
                given_up_count: session.frames_late,
                arrived_bytes: 0,
            },
            End::Receiver | End::Tunnel(_) => Mark {
                at: now,
                media_bytes: session.media_bytes_received,
                frame_count: session.frames_received + session.frames_dropped,
                given_up_count: self.missing_count,
                arrived_bytes: of_paths.sum(),
            },
        };
        let views = snapshot.paths.iter().map(|path| path.view);
        let overload = self.record(mark, carried(views.clone()));
        // Packets that are too long for their paths are no lack of bandwidth. The path watch warns.
        if in_service(views).all(|view| view.is_mtu_too_small) {
            None
        } else {
            overload
        }
    }

    fn record(&mut self, mark: Mark, carried: DataRate) -> Option<Overload> {
        let now = mark.at;
        // The counts of a receiver's next session begin at zero.
        if self
            .marks
            .back()
            .is_some_and(|last| mark.frame_count < last.frame_count)
        {
            self.marks.clear();
        }
        self.marks.push_back(mark);
        while self
            .marks
            .get(1)
            .is_some_and(|next| next.at + WINDOW <= now)
        {
            self.marks.pop_front();
        }
        let first = self.marks[0];
        let span = now.saturating_since(first.at);
        let given_up_count = mark.given_up_count.saturating_sub(first.given_up_count);
        let frame_count = mark.frame_count - first.frame_count;
        let is_little = given_up_count * 100 < frame_count * MIN_SHARE_PERCENT;
        if span < WINDOW || given_up_count < MIN_GIVEN_UP || is_little {
            return None;
        }
        let bytes = mark.media_bytes.saturating_sub(first.media_bytes);
        let media = DataRate::from_bytes_per(bytes, span);
        let (encoder, links) = match self.end {
            End::Sender | End::SrtlaSender => (media, carried),
            End::Receiver | End::Tunnel(_) => {
                let whole = frame_count.saturating_sub(given_up_count).max(1);
                (media.mul_f64(frame_count as f64 / whole as f64), media)
            }
        };
        if self.end != End::Sender && !self.is_steady(frame_count) {
            return None;
        }
        // Links that carry nothing are reported elsewhere. Frames that were late although the links
        // carry the encoder's rate are no lack of bandwidth.
        let is_reported = self.reported_at.is_some_and(|at| now < at + SILENCE);
        if is_reported || links.is_zero() || encoder <= links {
            return None;
        }
        self.reported_at = Some(now);
        Some(Overload {
            end: self.end,
            is_encoder_informed: self.is_encoder_informed,
            encoder,
            links,
            given_up_count,
            frame_count,
        })
    }

    /// Returns whether packets arrived all the time, and frames of the window's `frame_count` came
    /// to an end all the time. Most of them at once are of a time in which the other end, or the
    /// links, stood still: their rate is nobody's.
    fn is_steady(&self, frame_count: u64) -> bool {
        let mut pairs = self.marks.iter().zip(self.marks.iter().skip(1));
        pairs.all(|(before, after)| {
            let at_once = after.frame_count - before.frame_count;
            after.arrived_bytes > before.arrived_bytes && 2 * at_once <= frame_count
        })
    }
}

/// Returns the total forecast rate of the paths in service.
fn carried(views: impl Iterator<Item = PathView>) -> DataRate {
    in_service(views).map(|view| view.forecast.rate).sum()
}

fn in_service(views: impl Iterator<Item = PathView>) -> impl Iterator<Item = PathView> {
    views.filter(|view| view.state == PathState::Active && !view.is_standby)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT: fn(u64) -> DataRate = DataRate::from_megabits_per_second;

    /// Returns the reports in `seconds` of 25 frames a second, of which every third is given up.
    fn reports_of(end: End, seconds: u64, carried: DataRate) -> Vec<Overload> {
        reports_while(end, seconds, u64::MAX, carried)
    }

    /// Does the same, with arrivals in the first `lasts` quarters of a second only.
    fn reports_while(end: End, seconds: u64, lasts: u64, carried: DataRate) -> Vec<Overload> {
        let mut watch = OverloadWatch::new(end);
        let all = (0..seconds * 4).filter_map(|quarter| {
            let mark = Mark {
                at: Instant::from_millis(250 * quarter),
                // 6 Mbit/s at a sender.
                media_bytes: 187_500 * quarter,
                frame_count: 25 * quarter / 4,
                given_up_count: 25 * quarter / 12,
                arrived_bytes: 187_500 * quarter.min(lasts),
            };
            watch.record(mark, carried)
        });
        all.collect()
    }

    #[test]
    fn both_ends_report_sent_and_carried_rates() {
        let at_sender = reports_of(End::Sender, 9, MBIT(4));
        assert_eq!(at_sender.len(), 1, "{at_sender:?}");
        let text = at_sender[0].to_string();
        let expected_rates = "your encoder sends 6.0 Mbit/s, the links carry 4.0 Mbit/s: 25 of 75";
        assert!(text.starts_with(expected_rates), "{text}");
        assert!(text.contains("(--target-to)"), "{text}");
        let informed = Overload {
            is_encoder_informed: true,
            ..at_sender[0]
        };
        let text = informed.to_string();
        assert!(text.contains("does not follow"), "{text}");
        assert!(!text.contains("or pass the target"), "{text}");
        // Two thirds of the frames reach a receiver.
        let text = reports_of(End::Receiver, 9, DataRate::ZERO)[0].to_string();
        let expected_rates = "sends about 9.0 Mbit/s, the links carry 6.0 Mbit/s";
        assert!(text.contains(expected_rates), "{text}");
    }

    #[test]
    fn an_outage_is_no_overload() {
        assert_eq!(reports_while(End::Receiver, 6, 11, DataRate::ZERO), []);
        assert_eq!(reports_of(End::Receiver, 6, DataRate::ZERO).len(), 1);
    }

    #[test]
    fn a_sender_that_stood_still_is_no_overload() {
        let mut watch = OverloadWatch::new(End::Receiver);
        for quarter in 0..40 {
            // It wakes after 20 seconds, and gives up all frames of that time at once.
            let given_up_count = if quarter < 13 { 0 } else { 500 };
            let mark = Mark {
                at: Instant::from_millis(250 * quarter),
                media_bytes: 187_500 * quarter,
                frame_count: 25 * quarter / 4 + given_up_count,
                given_up_count,
                arrived_bytes: 187_500 * quarter,
            };
            assert_eq!(watch.record(mark, DataRate::ZERO), None, "{quarter}");
        }
    }

    #[test]
    fn overload_is_reported_every_ten_seconds() {
        assert_eq!(reports_of(End::Sender, 3, MBIT(4)).len(), 0);
        assert_eq!(reports_of(End::Sender, 4, MBIT(4)).len(), 1);
        assert_eq!(reports_of(End::Sender, 30, MBIT(4)).len(), 3);
    }

    #[test]
    fn frames_lost_to_time_and_not_to_bandwidth_are_no_overload() {
        assert_eq!(reports_of(End::Sender, 9, MBIT(7)), []);
        assert_eq!(reports_of(End::Sender, 9, DataRate::ZERO), []);
    }

    #[test]
    fn a_frame_now_and_then_is_no_overload() {
        let mut watch = OverloadWatch::new(End::Sender);
        for quarter in 0..40 {
            let mark = Mark {
                at: Instant::from_millis(250 * quarter),
                media_bytes: 187_500 * quarter,
                frame_count: 25 * quarter / 4,
                given_up_count: quarter / 4,
                arrived_bytes: 0,
            };
            assert_eq!(watch.record(mark, MBIT(4)), None);
        }
    }
}
