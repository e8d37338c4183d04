//! The end of `recv`.

use std::thread::JoinHandle;

use anabranch_net::Clock;
use anabranch_observe::service;

use super::{POLL_INTERVAL, ReceivedStreams};

impl ReceivedStreams<'_> {
    /// Waits until all streams have written their frames, and SRT's receivers have delivered them.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        let workers = std::mem::take(&mut self.streams).into_values();
        // All streams end together: a thread ends when its channel is dropped.
        // The outputs end with the last of their owners, the thread.
        let threads: Vec<_> = workers.map(|worker| worker.thread).collect();
        let clock = self.settings.clock;
        threads.into_iter().for_each(|thread| join(thread, &clock));
        if !self.others.is_empty() {
            self.settings.stop.stop();
        }
        self.others.iter().for_each(|other| other.stop.stop());
        for other in self.others.drain(..) {
            join(other.thread, &clock);
        }
        self.take_results();
        self.worst.take().map_or(Ok(()), Err)
    }
}

/// Waits for a thread, as a main thread that is alive.
fn join(thread: JoinHandle<()>, clock: &Clock) {
    while !thread.is_finished() {
        std::thread::park_timeout(POLL_INTERVAL);
        service::turn(clock.now(), true);
    }
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}
