//! The loop of the threads that supervise something, such as a session or a child thread. They
//! handle an event when it comes. Between two waits they check states that no event announces.

use core::ops::ControlFlow;
use core::time::Duration as StdDuration;
use std::sync::mpsc::RecvTimeoutError;

use anabranch_net::Clock;
use anabranch_units::{Duration, Instant};

use crate::stop::Stop;

/// Longest time between two turns. A thread notices the stop signal and the state of other threads
/// after this time at the latest.
pub const LONGEST_WAIT: StdDuration = StdDuration::from_millis(50);

/// Reason for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake<T> {
    /// An event has come.
    Event(T),
    /// The longest wait is over.
    Timeout,
    /// No event can come any more.
    Closed,
}

impl<T> From<Result<T, RecvTimeoutError>> for Wake<T> {
    fn from(received: Result<T, RecvTimeoutError>) -> Self {
        match received {
            Ok(event) => Wake::Event(event),
            Err(RecvTimeoutError::Timeout) => Wake::Timeout,
            Err(RecvTimeoutError::Disconnected) => Wake::Closed,
        }
    }
}

/// Work that a thread does in turns, until one of them ends it.
pub trait Turns {
    /// Event that the thread waits for.
    type Event;
    /// Result of the last turn.
    type Outcome;

    /// Waits for the next event, for `patience` at most.
    fn wait(&mut self, patience: StdDuration) -> Wake<Self::Event>;

    /// Returns the longest wait for the next event. Work that is due earlier shortens it.
    fn patience(&self) -> StdDuration {
        LONGEST_WAIT
    }

    /// Handles an event or its absence. Returns [`ControlFlow::Break`] if the work is over.
    fn turn(&mut self, wake: Wake<Self::Event>) -> ControlFlow<Self::Outcome>;

    /// Takes turns until the work is over.
    fn run_turns(&mut self) -> Self::Outcome {
        loop {
            let wake = self.wait(self.patience());
            if let ControlFlow::Break(outcome) = self.turn(wake) {
                return outcome;
            }
        }
    }
}

/// Waits for the stop signal alone. Once stopped, each further wait is [`Wake::Closed`].
pub fn wait_for_stop<T>(stop: &Stop, clock: &Clock, patience: StdDuration) -> Wake<T> {
    if stop.is_stopped() {
        return Wake::Closed;
    }
    stop.wait_until(clock, clock.now() + Duration::from_std(patience));
    Wake::Timeout
}

/// Returns the time from now to `at`, or zero if it has passed.
pub fn time_to(at: Instant, clock: &Clock) -> StdDuration {
    at.saturating_since(clock.now()).to_std()
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Adds numbers until the channel closes.
    #[derive(Default)]
    struct Sum {
        script: VecDeque<Wake<u32>>,
        waits: Vec<StdDuration>,
        due_in: Option<StdDuration>,
        sum: u32,
        timeouts: usize,
    }

    impl Turns for Sum {
        type Event = u32;
        type Outcome = u32;

        fn wait(&mut self, patience: StdDuration) -> Wake<u32> {
            self.waits.push(patience);
            self.script.pop_front().unwrap_or(Wake::Closed)
        }

        fn patience(&self) -> StdDuration {
            self.due_in.unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT)
        }

        fn turn(&mut self, wake: Wake<u32>) -> ControlFlow<u32> {
            match wake {
                Wake::Event(number) => self.sum += number,
                Wake::Timeout => self.timeouts += 1,
                Wake::Closed => return ControlFlow::Break(self.sum),
            }
            self.due_in = Some(StdDuration::from_millis(u64::from(self.sum)));
            ControlFlow::Continue(())
        }
    }

    #[test]
    fn turns_follow_each_wake_until_one_ends_the_work() {
        let script = [Wake::Event(3), Wake::Timeout, Wake::Event(70)];
        let mut work = Sum {
            script: script.into(),
            ..Sum::default()
        };
        assert_eq!(work.run_turns(), 73);
        assert_eq!(work.timeouts, 1);
        let due = StdDuration::from_millis(3);
        assert_eq!(work.waits, [LONGEST_WAIT, due, due, LONGEST_WAIT]);
    }

    #[test]
    fn channels_wake_with_their_events_and_their_end() {
        assert_eq!(Wake::from(Ok(7)), Wake::Event(7));
        let [timeout, end] = [RecvTimeoutError::Timeout, RecvTimeoutError::Disconnected];
        assert_eq!(Wake::<u32>::from(Err(timeout)), Wake::Timeout);
        assert_eq!(Wake::<u32>::from(Err(end)), Wake::Closed);
    }

    #[test]
    fn a_stopped_program_does_not_wait() {
        let (stop, clock) = (Stop::new().unwrap(), Clock::start());
        let short = wait_for_stop::<()>(&stop, &clock, StdDuration::ZERO);
        assert_eq!(short, Wake::Timeout);
        stop.stop();
        // It would last for years.
        let long = wait_for_stop::<()>(&stop, &clock, StdDuration::from_secs(u32::MAX.into()));
        assert_eq!(long, Wake::Closed);
    }
}
