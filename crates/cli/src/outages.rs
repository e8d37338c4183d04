//! Outages of a session's paths while pictures were missing: the cause that a summary shows.

use anabranch_core::PathState;
use anabranch_net::Snapshot;
use anabranch_units::{Duration, Instant};
use jiff::Zoned;

use crate::delivery::failed_frames;
use crate::end::End;

/// Longest time between an outage and a missing picture that it explains. A path is found to be out
/// after its packets are missed, and a frame is given up one latency after its capture.
const NEAR: Duration = Duration::from_secs(3);
/// Number of outages that are shown by name.
const MAX_SHOWN: usize = 3;
/// Number of paths that are out at a time, above which further ones are not watched.
const MAX_OPEN: usize = 64;

/// Outages of a session.
#[derive(Debug)]
pub(crate) struct Outages {
    end: End,
    failed_count: u64,
    failed_at: Option<Instant>,
    open: Vec<Outage>,
    /// Names and times of the first outages that were near missing pictures.
    shown: Vec<String>,
    /// Number of all of them.
    costly_count: usize,
}

/// A path that is out, or was until a moment ago.
#[derive(Debug)]
struct Outage {
    path: usize,
    text: String,
    ended_at: Option<Instant>,
    is_costly: bool,
}

impl Outages {
    /// Creates the record of a new session.
    pub(crate) fn new(end: End) -> Self {
        Outages {
            end,
            failed_count: 0,
            failed_at: None,
            open: Vec::new(),
            shown: Vec::new(),
            costly_count: 0,
        }
    }

    /// Records the state of a path.
    pub(crate) fn on_state(&mut self, path: usize, name: &str, state: PathState, now: Instant) {
        self.record(path, name, state, now, &Zoned::now());
    }

    fn record(&mut self, path: usize, name: &str, state: PathState, now: Instant, time: &Zoned) {
        let same = self
            .open
            .iter_mut()
            .find(|outage| outage.path == path && outage.ended_at.is_none());
        if let Some(outage) = same {
            if state != PathState::Out {
                outage.ended_at = Some(now);
            }
        } else if state == PathState::Out && self.open.len() < MAX_OPEN {
            self.open.push(Outage {
                path,
                text: format!("{name} out at {}", time.strftime("%H:%M:%S")),
                ended_at: None,
                is_costly: false,
            });
            if self.failed_at.is_some_and(|at| now <= at + NEAR) {
                self.charge();
            }
        }
    }

    /// Compares the counters with those of the last call.
    pub(crate) fn see(&mut self, snapshot: &Snapshot, now: Instant) {
        let failed_count = failed_frames(self.end, snapshot);
        self.open.retain(|outage| {
            outage
                .ended_at
                .is_none_or(|ended_at| now <= ended_at + NEAR)
        });
        if failed_count > self.failed_count {
            self.failed_at = Some(now);
            self.charge();
        }
        self.failed_count = failed_count;
    }

    /// Makes all outages of the moment causes.
    fn charge(&mut self) {
        for outage in &mut self.open {
            if outage.is_costly {
                continue;
            }
            outage.is_costly = true;
            self.costly_count += 1;
            if self.shown.len() < MAX_SHOWN {
                self.shown.push(outage.text.clone());
            }
        }
    }

    /// Returns the outages near missing pictures in words.
    pub(crate) fn text(&self) -> Option<String> {
        if self.shown.is_empty() {
            return None;
        }
        let mut text = self.shown.join(", ");
        if self.costly_count > self.shown.len() {
            text += &format!(", and {} more", self.costly_count - self.shown.len());
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outages_of(steps: &[(u64, Step)]) -> Outages {
        let mut outages = Outages::new(End::Receiver);
        let time = "2026-07-01T12:03:07+00:00[UTC]".parse().unwrap();
        let mut snapshot = Snapshot::default();
        for (millis, step) in steps {
            let now = Instant::from_millis(*millis);
            match *step {
                Step::State(path, state) => {
                    outages.record(path, ["wlan0", "wwan0"][path % 2], state, now, &time);
                }
                Step::Missing(count) => {
                    snapshot.session.frames_dropped += count;
                    outages.see(&snapshot, now);
                }
            }
        }
        outages
    }

    enum Step {
        State(usize, PathState),
        Missing(u64),
    }
    use PathState::{Active, Out};
    use Step::{Missing, State};

    #[test]
    fn an_outage_near_a_missing_picture_is_its_cause() {
        let out = "wlan0 out at 12:03:07";
        for (steps, expected) in [
            // Before, during, and after the picture was given up.
            (
                vec![(0, Missing(1)), (2_900, State(0, Out)), (9_000, Missing(0))],
                Some(out),
            ),
            (vec![(0, State(0, Out)), (9_000, Missing(1))], Some(out)),
            (
                vec![
                    (0, State(0, Out)),
                    (500, State(0, Active)),
                    (3_400, Missing(1)),
                ],
                Some(out),
            ),
            // Far from it, and without a missing picture.
            (vec![(0, Missing(1)), (3_100, State(0, Out))], None),
            (
                vec![
                    (0, State(0, Out)),
                    (500, State(0, Active)),
                    (3_600, Missing(1)),
                ],
                None,
            ),
            (vec![(0, State(0, Out)), (500, Missing(0))], None),
        ] {
            assert_eq!(outages_of(&steps).text().as_deref(), expected);
        }
    }

    #[test]
    fn an_outage_counts_once_and_only_the_first_ones_are_named() {
        let once = [
            (0, State(0, Out)),
            (100, Missing(1)),
            (200, State(0, Out)),
            (300, Missing(4)),
        ];
        let text = outages_of(&once).text();
        assert_eq!(text.as_deref(), Some("wlan0 out at 12:03:07"));
        let mut many = Vec::new();
        for round in 0..200 {
            many.push((round * 1_000, State(round as usize, Out)));
            many.push((round * 1_000 + 100, Missing(1)));
        }
        let outages = outages_of(&many);
        assert_eq!(outages.open.len(), MAX_OPEN);
        let text = outages.text().unwrap();
        assert!(
            text.ends_with("wlan0 out at 12:03:07, and 61 more"),
            "{text}"
        );
    }
}
