//! Sessions whose outputs cannot be opened. Each is held for a pause before it ends. Otherwise its
//! sender would be back at once, and fail again.

use std::collections::BTreeMap;

use anabranch_units::{Duration, Instant};

use crate::allowed::StreamName;

/// First pause of a stream. Each failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause (chosen): an output that can be opened again is noticed in half a minute.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Held sessions, and the pauses of streams.
#[derive(Debug)]
pub(super) struct Held<S> {
    pauses: BTreeMap<StreamName, Duration>,
    waiting: Vec<(Instant, StreamName, S)>,
}

impl<S> Default for Held<S> {
    fn default() -> Self {
        Held {
            pauses: BTreeMap::new(),
            waiting: Vec::new(),
        }
    }
}

impl<S> Held<S> {
    /// Holds a session of a stream whose outputs have failed. Returns the pause.
    pub(super) fn hold(&mut self, now: Instant, stream: &StreamName, session: S) -> Duration {
        let pause = match self.pauses.get(stream) {
            Some(before) => (*before * 2).min(LONGEST_PAUSE),
            None => FIRST_PAUSE,
        };
        self.pauses.insert(stream.clone(), pause);
        self.waiting.push((now + pause, stream.clone(), session));
        pause
    }

    /// Records that the outputs of a stream have opened.
    pub(super) fn on_opened(&mut self, stream: &StreamName) {
        self.pauses.remove(stream);
    }

    /// Returns the sessions whose pause is over.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<(StreamName, S)> {
        let due = self.waiting.extract_if(.., |(until, ..)| *until <= now);
        due.map(|(_, stream, session)| (stream, session)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_whose_outputs_fail_has_longer_and_longer_pauses() {
        let (front, roof): (StreamName, StreamName) =
            ("front".parse().unwrap(), "roof".parse().unwrap());
        let mut held = Held::default();
        let mut now = Instant::ZERO;
        let mut pauses = Vec::new();
        for number in 0..7 {
            let pause = held.hold(now, &front, number);
            let moment = Duration::from_nanos(1);
            now += pause - moment;
            assert!(held.take_due(now).is_empty());
            now += moment;
            assert_eq!(held.take_due(now), [(front.clone(), number)]);
            pauses.push(pause.as_secs_f64());
        }
        assert_eq!(pauses, [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]);
        assert_eq!(held.hold(now, &roof, 0), FIRST_PAUSE, "each has its own");
        held.on_opened(&front);
        assert_eq!(held.hold(now, &front, 0), FIRST_PAUSE);
    }
}
