//! Detection of outages, and of the side of the sender that causes them.
//!
//! A sender knows its paths' states, and reports them to its receiver. Without reports, a receiver
//! hears a sender with several idle paths every two seconds (the transport's `PROBE_INTERVAL`). If
//! packets arrive but no frames, the source has failed. A single idle path is heard only every
//! fifteen seconds, so the receiver at first assumes dead links.

use anabranch_net::SessionKind;
use anabranch_net::{PathSnapshot, Snapshot};
use anabranch_units::{Duration, Instant};

use super::outage_cause::OutageCause;
use super::stream_event::StreamEvent;

/// Time without a frame before an outage is reported.
const NO_FRAME_FOR: Duration = Duration::from_secs(3);
/// Maximum age of the last received packet if the links work.
const HEARD_WITHIN: Duration = Duration::from_millis(2_500);

/// Current outage of a stream, if there is one.
#[derive(Debug, Default)]
pub(super) struct Outage {
    current: Option<(OutageCause, Instant)>,
    heard: Last,
    framed: Last,
}

/// A counter, and the time of its last growth.
#[derive(Debug, Default)]
struct Last {
    count: u64,
    at: Instant,
}

impl Last {
    fn see(&mut self, count: u64, now: Instant) -> bool {
        let has_grown = count != self.count;
        if has_grown {
            *self = Last { count, at: now };
        }
        has_grown
    }
}

impl Outage {
    /// Adds a sample. Returns an event if the state changes.
    pub(super) fn see(&mut self, seen: &Snapshot) -> Option<StreamEvent> {
        let now = seen.at;
        let received = seen.paths.iter().map(|path| path.counters.received_bytes);
        self.heard.see(received.sum(), now);
        let frames = seen.session.frames_sent + seen.session.frames_received;
        let has_frame = self.framed.see(frames, now);
        let cause = self.cause(seen);
        match (self.current, cause) {
            (None, Some(cause)) => {
                self.current = Some((cause, now));
                Some(cause.stream_event())
            }
            (Some((was, since)), None) => {
                // Links recover before the next frame, but a source recovers only with a frame.
                if was == OutageCause::SourceGone && !has_frame {
                    return None;
                }
                self.current = None;
                self.framed.at = now;
                Some(StreamEvent::Recovered {
                    from: was,
                    lasted_s: now.saturating_since(since).as_secs_f64(),
                })
            }
            // All links may fail while the source is silent, and recover before it.
            (Some((OutageCause::SourceGone, since)), Some(OutageCause::AllLinksDown)) => {
                self.current = Some((OutageCause::AllLinksDown, since));
                Some(OutageCause::AllLinksDown.stream_event())
            }
            _ => None,
        }
    }

    /// Returns the cause of the present outage.
    pub(super) fn present(&self) -> Option<OutageCause> {
        self.current.map(|(cause, _)| cause)
    }

    fn cause(&self, seen: &Snapshot) -> Option<OutageCause> {
        let mut states = seen.paths.iter().map(PathSnapshot::state);
        if !seen.paths.is_empty() && states.all(|state| !state.is_usable()) {
            return Some(OutageCause::AllLinksDown);
        }
        let is_silent = seen.at.saturating_since(self.framed.at) >= NO_FRAME_FOR;
        if seen.session_kind != Some(SessionKind::Frames) || self.framed.count == 0 || !is_silent {
            return None;
        }
        let is_sender = seen.session.frames_sent > 0;
        // Some link works, as checked above: the sender has reported it, or has been heard.
        let is_reported = seen.paths.iter().any(|path| path.link.is_some());
        let is_heard = is_reported || seen.at.saturating_since(self.heard.at) <= HEARD_WITHIN;
        Some(if is_sender || is_heard {
            OutageCause::SourceGone
        } else {
            OutageCause::AllLinksDown
        })
    }
}

#[cfg(test)]
mod tests {
    use anabranch_core::PathState;
    use anabranch_net::LinkReport;

    use super::*;

    /// Samples of two paths, ten per second.
    struct Bed {
        outage: Outage,
        seen: Snapshot,
    }

    impl Bed {
        fn new() -> Self {
            Bed {
                outage: Outage::default(),
                seen: Snapshot {
                    session_kind: Some(SessionKind::Frames),
                    paths: vec![PathSnapshot::default(); 2],
                    ..Snapshot::default()
                },
            }
        }

        fn run(&mut self, seconds: u64, change: impl Fn(&mut Snapshot)) -> Vec<String> {
            let mut words = Vec::new();
            for _ in 0..10 * seconds {
                self.seen.at += Duration::from_millis(100);
                change(&mut self.seen);
                let stream_event = self.outage.see(&self.seen);
                words.extend(stream_event.map(|stream_event| stream_event.word().to_owned()));
            }
            words
        }
    }

    fn hear(seen: &mut Snapshot) {
        seen.paths[1].counters.received_bytes += 100;
    }

    #[test]
    fn sender_distinguishes_source_and_links() {
        let mut bed = Bed::new();
        fn send(seen: &mut Snapshot) {
            seen.session.frames_sent += 1;
        }
        assert!(bed.run(2, |_| {}).is_empty(), "the source has not started");
        assert!(bed.run(2, send).is_empty());
        assert_eq!(bed.run(5, |_| {}), ["source-gone"]);
        assert_eq!(bed.run(1, send), ["recovered"]);
        bed.seen.paths[0].view.state = PathState::Out;
        assert!(bed.run(1, send).is_empty(), "the other goes on");
        bed.seen.paths[1].view.state = PathState::Out;
        assert_eq!(bed.run(5, send), ["all-links-down"]);
        bed.seen.paths[1].view.state = PathState::Active;
        assert_eq!(bed.run(1, send), ["recovered"]);
    }

    #[test]
    fn receiver_uses_the_states_of_its_sender() {
        let mut bed = Bed::new();
        fn report(seen: &mut Snapshot, state: PathState) {
            for path in &mut seen.paths {
                path.link = Some(LinkReport {
                    state,
                    ..LinkReport::default()
                });
            }
        }
        fn flow(seen: &mut Snapshot) {
            report(seen, PathState::Active);
            seen.session.frames_received += 1;
        }
        assert!(bed.run(2, flow).is_empty());
        assert_eq!(
            bed.run(5, |seen| report(seen, PathState::Active)),
            ["source-gone"]
        );
        assert_eq!(bed.run(1, flow), ["recovered"]);
        assert_eq!(
            bed.run(1, |seen| report(seen, PathState::Out)),
            ["all-links-down"]
        );
        assert_eq!(bed.run(1, flow), ["recovered"]);
    }

    #[test]
    fn receiver_distinguishes_by_silence() {
        let mut bed = Bed::new();
        fn flow(seen: &mut Snapshot) {
            hear(seen);
            seen.session.frames_received += 1;
        }
        assert!(bed.run(2, flow).is_empty());
        assert_eq!(bed.run(5, hear), ["source-gone"]);
        assert_eq!(bed.run(1, flow), ["recovered"]);
        assert_eq!(bed.run(5, |_| {}), ["all-links-down"]);
        assert_eq!(bed.run(1, flow), ["recovered"]);
    }
}
