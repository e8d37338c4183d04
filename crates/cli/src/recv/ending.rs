//! The end of `recv`.

use super::ReceivedStreams;

impl ReceivedStreams<'_> {
    /// Waits until all streams have written their frames, and SRT's receivers have delivered them.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        let workers = std::mem::take(&mut self.streams).into_values();
        // All streams end together: a thread ends when its channel is dropped.
        // The outputs end with the last of their owners, the thread.
        let threads: Vec<_> = workers.map(|worker| worker.thread).collect();
        let clock = self.settings.clock;
        for thread in threads {
            thread.join(&clock);
        }
        if !self.others.is_empty() {
            self.settings.stop.stop();
        }
        self.others.iter().for_each(|other| other.stop.stop());
        for other in self.others.drain(..) {
            other.thread.join(&clock);
        }
        self.take_results();
        self.worst.take().map_or(Ok(()), Err)
    }
}
