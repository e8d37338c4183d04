//! The client's change to TCP, and back.
//!
//! ```text
//!        UDP unanswered for 3 s        TCP answers, UDP does not within 0.5 s
//!  UDP ────────────────────────▶ both ───────────────────────────────────────▶ fallen back
//!   ▲                             │ UDP answers                                    │
//!   └─────────────────────────────┴──────────── every path is back at UDP ─────────┘
//! ```
//!
//! While both are tried, every datagram leaves by both, and the second copy to arrive is dropped as
//! a replay. After the fallback each path is judged alone. It goes by TCP once TCP has answered on
//! it. It returns to UDP once UDP has answered three questions in a row. A question is asked every
//! 10 s, and sooner after an answer. A path whose UDP fails again within a minute is asked half as
//! often.

use anabranch_units::{Duration, Instant};

use super::TcpFallback;
use super::dial::Carriers;
use crate::carrier::Carrier;

/// Silence on all paths after which TCP is tried: four initiations have been lost by then.
const TRY_AFTER: Duration = Duration::from_secs(3);
/// Time that UDP has to answer after TCP has: a network that is back brings both.
const GRACE: Duration = Duration::from_millis(500);
/// Interval of questions by UDP, …
const ASK_INTERVAL: Duration = Duration::from_secs(10);
/// … after an answer …
const ASK_INTERVAL_AFTER_ANSWER: Duration = Duration::from_millis(1_500);
/// … and at most.
const MAX_ASK_INTERVAL: Duration = Duration::from_secs(320);
/// Number of consecutive answers that prove that UDP works again.
const ENOUGH_ANSWERS: u32 = 3;
/// Time within which a relapse of a path halves the rate of its questions.
const RELAPSE: Duration = Duration::from_secs(60);
/// Time for which a connection that is left stays open: the server still sends by it until it has
/// moved the path's route.
const LINGER: Duration = Duration::from_secs(3);

/// News for the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FallbackEvent {
    /// TCP is tried in addition to UDP.
    Tries,
    /// UDP counts as blocked on all paths.
    Blocked,
    /// A path's datagrams use this carrier from now on.
    Carrier { index: usize, carrier: Carrier },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Udp,
    Trying,
    Fallen,
    /// TCP, by the user's choice.
    TcpOnly,
}

#[derive(Debug)]
pub(crate) struct Fallback {
    phase: Phase,
    is_wanted: bool,
    has_reported_try: bool,
    paths: Vec<Path>,
    events: Vec<FallbackEvent>,
}

#[derive(Clone, Copy, Debug)]
struct Path {
    carriers: Carriers,
    /// Time of TCP's first answer in the present attempt.
    heard_by_tcp_at: Option<Instant>,
    reported: Carrier,
    ask_at: Instant,
    ask_interval: Duration,
    has_asked: bool,
    answer_count: u32,
    went_back_at: Option<Instant>,
}

impl Path {
    fn new(carriers: Carriers) -> Self {
        Path {
            carriers,
            heard_by_tcp_at: None,
            reported: Carrier::Udp,
            ask_at: Instant::ZERO,
            ask_interval: ASK_INTERVAL,
            has_asked: false,
            answer_count: 0,
            went_back_at: None,
        }
    }

    fn try_both(&mut self, now: Instant) {
        self.carriers = Carriers::Both;
        self.heard_by_tcp_at = None;
        let is_relapse = self.went_back_at.is_some_and(|at| now < at + RELAPSE);
        self.ask_interval = if is_relapse {
            (self.ask_interval * 2).min(MAX_ASK_INTERVAL)
        } else {
            ASK_INTERVAL
        };
    }

    fn turn_to_tcp(&mut self, now: Instant) {
        self.carriers = Carriers::Tcp;
        self.heard_by_tcp_at.get_or_insert(now);
        self.ask_at = now + self.ask_interval;
        self.has_asked = false;
        self.answer_count = 0;
    }

    fn go_back(&mut self, now: Instant) {
        self.carriers = Carriers::Udp;
        self.went_back_at = Some(now);
    }

    /// Records an answer to a question. Returns whether UDP works again.
    fn on_answer(&mut self, now: Instant) -> bool {
        if core::mem::take(&mut self.has_asked) {
            self.answer_count += 1;
            self.ask_at = now + ASK_INTERVAL_AFTER_ANSWER;
        }
        self.answer_count >= ENOUGH_ANSWERS
    }
}

impl Fallback {
    pub(crate) fn new(setting: TcpFallback) -> Self {
        Fallback {
            phase: match setting {
                TcpFallback::Only => Phase::TcpOnly,
                TcpFallback::Off | TcpFallback::Port(_) => Phase::Udp,
            },
            is_wanted: matches!(setting, TcpFallback::Port(_)),
            has_reported_try: false,
            paths: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Records that an authentic datagram has arrived by a path.
    pub(crate) fn on_heard(&mut self, now: Instant, index: usize, carrier: Carrier) {
        let Some(path) = self.paths.get_mut(index) else {
            return;
        };
        match (self.phase, path.carriers, carrier) {
            (Phase::Trying, _, Carrier::Udp) => self.return_all(now),
            (Phase::Trying, _, Carrier::Tcp) => {
                path.heard_by_tcp_at.get_or_insert(now);
            }
            (Phase::Fallen, Carriers::Both, Carrier::Tcp) => path.turn_to_tcp(now),
            (Phase::Fallen, Carriers::Both, Carrier::Udp) => path.go_back(now),
            (Phase::Fallen, Carriers::Tcp, Carrier::Udp) if path.on_answer(now) => {
                path.go_back(now)
            }
            _ => {}
        }
    }

    /// Resets a path whose number another path takes.
    pub(crate) fn replace_path(&mut self, index: usize) {
        let new = self.new_path();
        if let Some(path) = self.paths.get_mut(index) {
            *path = new;
        }
    }

    fn new_path(&self) -> Path {
        Path::new(match self.phase {
            Phase::Udp => Carriers::Udp,
            Phase::Trying | Phase::Fallen => Carriers::Both,
            Phase::TcpOnly => Carriers::TcpOnly,
        })
    }

    fn return_all(&mut self, now: Instant) {
        self.phase = Phase::Udp;
        for path in &mut self.paths {
            path.go_back(now);
        }
    }

    /// Makes a path try both, as its connection is gone or its UDP fails.
    pub(crate) fn on_failure(&mut self, now: Instant, index: usize, carrier: Carrier) {
        let carriers = match carrier {
            Carrier::Udp => Carriers::Udp,
            Carrier::Tcp => Carriers::Tcp,
        };
        if self.phase == Phase::Fallen
            && let Some(path) = self
                .paths
                .get_mut(index)
                .filter(|path| path.carriers == carriers)
        {
            path.try_both(now);
        }
    }

    /// Decides for `path_count` paths. `silent_since` is the start of the wait for an answer on any
    /// path, if packets were sent.
    pub(crate) fn advance(
        &mut self,
        now: Instant,
        silent_since: Option<Instant>,
        path_count: usize,
    ) {
        let known = self.paths.len().max(path_count);
        self.paths.resize(known, self.new_path());
        match self.phase {
            Phase::Udp
                if self.is_wanted && silent_since.is_some_and(|at| now >= at + TRY_AFTER) =>
            {
                self.phase = Phase::Trying;
                for path in &mut self.paths {
                    path.try_both(now);
                }
                if !core::mem::replace(&mut self.has_reported_try, true) {
                    self.events.push(FallbackEvent::Tries);
                }
            }
            Phase::Trying if self.first_answer_at().is_some_and(|at| now >= at + GRACE) => {
                self.phase = Phase::Fallen;
                self.events.push(FallbackEvent::Blocked);
                for path in &mut self.paths {
                    if path.heard_by_tcp_at.is_some() {
                        path.turn_to_tcp(now);
                    }
                }
            }
            Phase::Fallen if self.paths.iter().all(|path| path.carriers == Carriers::Udp) => {
                self.phase = Phase::Udp;
            }
            _ => {}
        }
        self.update_carriers();
    }

    fn first_answer_at(&self) -> Option<Instant> {
        self.paths
            .iter()
            .filter_map(|path| path.heard_by_tcp_at)
            .min()
    }

    fn update_carriers(&mut self) {
        for (index, path) in self.paths.iter_mut().enumerate() {
            let carrier = match path.carriers {
                Carriers::Udp => Carrier::Udp,
                Carriers::Tcp | Carriers::TcpOnly => Carrier::Tcp,
                Carriers::Both => continue,
            };
            if core::mem::replace(&mut path.reported, carrier) != carrier
                && self.phase != Phase::TcpOnly
            {
                self.events.push(FallbackEvent::Carrier { index, carrier });
            }
        }
    }

    /// Takes the news so far, the oldest first.
    pub(crate) fn take_events(&mut self) -> Vec<FallbackEvent> {
        core::mem::take(&mut self.events)
    }

    pub(crate) fn carriers(&self, index: usize) -> Carriers {
        self.paths
            .get(index)
            .map_or(Carriers::Udp, |path| path.carriers)
    }

    /// Returns whether a path needs a connection.
    pub(crate) fn wants_connection(&self, now: Instant, index: usize) -> bool {
        self.paths.get(index).is_some_and(|path| {
            let lingers = path.heard_by_tcp_at.is_some()
                && path.went_back_at.is_some_and(|at| now < at + LINGER);
            path.carriers != Carriers::Udp || lingers
        })
    }

    /// Returns whether the path is to be asked by UDP now; if so, it counts as asked.
    pub(crate) fn asks(&mut self, now: Instant, index: usize) -> bool {
        let Some(path) = self.paths.get_mut(index) else {
            return false;
        };
        let is_due = path.carriers == Carriers::Tcp && now >= path.ask_at;
        if is_due {
            if path.has_asked {
                // The question before was not answered.
                path.answer_count = 0;
            }
            path.has_asked = true;
            path.ask_at = now + path.ask_interval;
        }
        is_due
    }

    /// Returns the time of the next decision.
    pub(crate) fn next_at(&self, silent_since: Option<Instant>) -> Option<Instant> {
        match self.phase {
            Phase::Udp if self.is_wanted => silent_since.map(|at| at + TRY_AFTER),
            Phase::Udp => None,
            Phase::Trying => self.first_answer_at().map(|at| at + GRACE),
            Phase::Fallen => self
                .paths
                .iter()
                .filter_map(|path| match path.carriers {
                    Carriers::Tcp => Some(path.ask_at),
                    _ => None,
                })
                .min(),
            Phase::TcpOnly => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    const START: Option<Instant> = Some(Instant::ZERO);

    /// Returns a fallback of two paths, of which the first has been answered by TCP.
    fn fallen() -> Fallback {
        let mut fallback = Fallback::new(TcpFallback::Port(443));
        fallback.advance(at(0), START, 2);
        fallback.advance(at(3_000), START, 2);
        fallback.on_heard(at(3_100), 0, Carrier::Tcp);
        fallback.advance(at(3_600), None, 2);
        let blocked = [FallbackEvent::Blocked, carrier(0, Carrier::Tcp)];
        assert_eq!(fallback.take_events()[1..], blocked);
        fallback
    }

    fn carrier(index: usize, carrier: Carrier) -> FallbackEvent {
        FallbackEvent::Carrier { index, carrier }
    }

    /// Sends a question on the first path at `millis`, which is answered 50 ms later.
    fn ask_and_answer(fallback: &mut Fallback, millis: u64) {
        assert!(fallback.asks(at(millis), 0), "{millis}");
        fallback.on_heard(at(millis + 50), 0, Carrier::Udp);
        fallback.advance(at(millis + 50), None, 2);
    }

    #[test]
    fn tcp_is_tried_after_three_seconds_of_silence_on_all_paths() {
        let mut fallback = Fallback::new(TcpFallback::Port(443));
        fallback.advance(at(2_999), START, 2);
        assert_eq!(fallback.carriers(0), Carriers::Udp);
        assert_eq!(fallback.next_at(START), Some(at(3_000)));
        fallback.advance(at(3_000), START, 2);
        assert_eq!(
            (fallback.carriers(0), fallback.carriers(1)),
            (Carriers::Both, Carriers::Both)
        );
        assert!(fallback.wants_connection(at(3_000), 1));
        assert_eq!(fallback.take_events(), [FallbackEvent::Tries]);
    }

    #[test]
    fn udp_that_answers_in_time_ends_the_trial() {
        let mut fallback = Fallback::new(TcpFallback::Port(443));
        fallback.advance(at(3_000), START, 2);
        fallback.on_heard(at(3_100), 0, Carrier::Tcp);
        assert_eq!(fallback.next_at(START), Some(at(3_600)));
        fallback.on_heard(at(3_500), 1, Carrier::Udp);
        fallback.advance(at(3_700), None, 2);
        assert_eq!(fallback.carriers(0), Carriers::Udp);
        assert_eq!(fallback.take_events(), [FallbackEvent::Tries]);
    }

    #[test]
    fn a_path_goes_by_tcp_once_tcp_has_answered_on_it() {
        let mut fallback = fallen();
        assert_eq!(
            (fallback.carriers(0), fallback.carriers(1)),
            (Carriers::Tcp, Carriers::Both)
        );
        fallback.on_heard(at(4_000), 1, Carrier::Tcp);
        fallback.advance(at(4_000), None, 2);
        assert_eq!(fallback.take_events(), [carrier(1, Carrier::Tcp)]);
    }

    #[test]
    fn three_answers_in_a_row_bring_a_path_back_and_one_does_not() {
        let mut fallback = fallen();
        assert_eq!(fallback.next_at(None), Some(at(13_600)));
        assert!(!fallback.asks(at(13_599), 0));
        ask_and_answer(&mut fallback, 13_600);
        // Without a question it is not an answer.
        fallback.on_heard(at(13_700), 0, Carrier::Udp);
        assert!(fallback.asks(at(15_150), 0), "1.5 s after an answer");
        // That one is lost: the count starts again.
        ask_and_answer(&mut fallback, 25_150);
        ask_and_answer(&mut fallback, 26_700);
        assert_eq!(fallback.carriers(0), Carriers::Tcp);
        ask_and_answer(&mut fallback, 28_250);
        assert_eq!(fallback.carriers(0), Carriers::Udp);
        assert_eq!(fallback.take_events(), [carrier(0, Carrier::Udp)]);
        assert!(
            fallback.wants_connection(at(31_000), 0),
            "the server still sends by it"
        );
        assert!(!fallback.wants_connection(at(31_300), 0));
        // The other path has had no answer by either.
        assert_eq!(fallback.carriers(1), Carriers::Both);
        fallback.on_heard(at(40_000), 1, Carrier::Udp);
        fallback.advance(at(40_000), None, 2);
        assert_eq!(fallback.phase, Phase::Udp);
    }

    #[test]
    fn a_path_that_relapses_is_asked_half_as_often() {
        let mut fallback = fallen();
        for (millis, interval) in [(20_000, 20), (100_000, 40), (200_000, 80)] {
            fallback.paths[0].go_back(at(millis));
            fallback.on_failure(at(millis + 5_000), 0, Carrier::Udp);
            assert_eq!(fallback.carriers(0), Carriers::Both);
            fallback.on_heard(at(millis + 6_000), 0, Carrier::Tcp);
            let interval = Duration::from_secs(interval);
            assert_eq!(fallback.paths[0].ask_at, at(millis + 6_000) + interval);
        }
        fallback.paths[0].go_back(at(300_000));
        fallback.on_failure(at(361_000), 0, Carrier::Udp);
        assert_eq!(fallback.paths[0].ask_interval, ASK_INTERVAL);
    }

    #[test]
    fn a_lost_connection_has_both_tried_and_is_no_news() {
        let mut fallback = fallen();
        fallback.on_failure(at(5_000), 0, Carrier::Tcp);
        fallback.advance(at(5_000), None, 2);
        assert_eq!(fallback.carriers(0), Carriers::Both);
        fallback.on_heard(at(6_000), 0, Carrier::Tcp);
        fallback.advance(at(6_000), None, 2);
        assert_eq!(
            (fallback.carriers(0), fallback.take_events()),
            (Carriers::Tcp, vec![])
        );
    }

    #[test]
    fn paths_that_join_are_as_the_others() {
        let mut fallback = fallen();
        fallback.advance(at(5_000), None, 3);
        assert_eq!(fallback.carriers(2), Carriers::Both);
        let mut only = Fallback::new(TcpFallback::Only);
        only.advance(at(0), START, 1);
        assert_eq!(
            (only.carriers(0), only.take_events()),
            (Carriers::TcpOnly, vec![])
        );
        assert!(only.wants_connection(at(0), 0));
    }

    #[test]
    fn a_path_that_takes_a_number_begins_with_no_carrier_of_the_one_before() {
        let mut fallback = fallen();
        fallback.replace_path(0);
        assert_eq!(fallback.carriers(0), Carriers::Both);
        fallback.on_heard(at(5_000), 0, Carrier::Tcp);
        fallback.advance(at(5_000), None, 2);
        assert_eq!(fallback.take_events(), [carrier(0, Carrier::Tcp)]);
        fallback.paths[0].go_back(at(6_000));
        fallback.replace_path(0);
        fallback.on_failure(at(7_000), 0, Carrier::Udp);
        assert_eq!(fallback.paths[0].ask_interval, ASK_INTERVAL, "no relapse");
    }

    #[test]
    fn without_a_port_nothing_is_tried() {
        let mut fallback = Fallback::new(TcpFallback::Off);
        fallback.advance(at(60_000), START, 1);
        assert_eq!(
            (fallback.carriers(0), fallback.next_at(START)),
            (Carriers::Udp, None)
        );
    }
}
