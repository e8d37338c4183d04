//! Units of the input on their way into the session, whole or as their bytes come.

use anabranch_core::media::SendFrameError;
use anabranch_mpegts_io::{GrowingFrame, Part};
use anabranch_net::{FrameWriter, SendError, Sender};
use anabranch_units::{Duration, Instant};
use anabranch_video::mpeg_ts::PACKET_LEN;

use super::outbox::Outbox;

/// Inverse of the part of the latency for which a unit grows. A frame is late one latency after its
/// beginning, so that its last bytes have seven eighths left for retransmissions.
const GROWTH_SHARE: u64 = 8;
/// Least limit of a unit's growth. A unit ends in the last quarter of its limit, so that
/// frames number at most 133 a second.
const LEAST_GROWTH: Duration = Duration::from_millis(10);

/// Returns the longest time for which a unit grows in a session of this latency.
pub(super) fn longest_growth(latency: Duration) -> Duration {
    (latency / GROWTH_SHARE).max(LEAST_GROWTH)
}

/// Counts of an input's units.
#[derive(Debug, Default)]
pub(super) struct Fed {
    /// Units that the session did not take, or not to their end.
    pub(super) refused_count: u64,
    packet_count: u64,
    /// Null packets among these, which were not sent.
    null_count: u64,
}

impl Fed {
    /// Returns the lines for the summary.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> + use<> {
        let refused = (self.refused_count > 0).then(|| {
            let count = self.refused_count;
            format!("{count} frames came faster than all paths together carry and were left out")
        });
        let nulls = (self.null_count > 0).then(|| {
            let (count, total) = (self.null_count, self.packet_count.max(1));
            format!(
                "{count} null packets ({:.1} MB, {:.1} % of the input) were not sent; the receiver \
                 inserts them again",
                (count as usize * PACKET_LEN) as f64 / 1e6,
                count as f64 / total as f64 * 100.0
            )
        });
        refused.into_iter().chain(nulls)
    }
}

/// Feeder of a session with an input's units.
#[derive(Debug)]
pub(super) struct Feeder<'a> {
    sender: &'a Sender,
    outbox: &'a Outbox,
    fed: Fed,
    open: Option<OpenUnit<'a>>,
}

/// A unit of which not all parts have come.
#[derive(Debug)]
struct OpenUnit<'a> {
    frame: GrowingFrame,
    /// Writer of the frame; `None` if the session refused the unit, whose rest is left out.
    writer: Option<FrameWriter<'a>>,
}

impl<'a> Feeder<'a> {
    pub(super) fn new(sender: &'a Sender, outbox: &'a Outbox) -> Self {
        Feeder {
            sender,
            outbox,
            fed: Fed::default(),
            open: None,
        }
    }

    /// Returns whether the next part begins a unit.
    pub(super) fn is_between_units(&self) -> bool {
        self.open.is_none()
    }

    /// Hands a part that came at `at` to the session. Returns whether the session takes more.
    pub(super) fn take(&mut self, part: Part, at: Instant) -> bool {
        self.fed.packet_count += (part.bytes.len() / PACKET_LEN) as u64;
        let is_last = part.is_last;
        let goes_on = match self.open.take() {
            None if is_last => self.send_whole(part, at),
            open => self.grow(open, &part, at),
        };
        if is_last {
            self.outbox.send(self.sender);
        }
        goes_on
    }

    fn send_whole(&mut self, part: Part, at: Instant) -> bool {
        let (frame, null_count) = part.into_unit().into_frame(at);
        self.fed.null_count += null_count;
        let sent = self.sender.send_frame(&frame).map(drop);
        self.is_taken(sent).is_some()
    }

    fn grow(&mut self, open: Option<OpenUnit<'a>>, part: &Part, at: Instant) -> bool {
        let mut open = open.unwrap_or_else(|| OpenUnit {
            frame: GrowingFrame::new(at),
            writer: Some(self.sender.begin_captured(part.importance, at)),
        });
        let bytes = open.frame.push(part, at);
        if let Some(mut writer) = open.writer.take() {
            let written = writer.write(&bytes);
            match self.is_taken(written) {
                Some(true) => open.writer = Some(writer),
                Some(false) => {}
                None => return false,
            }
        }
        if !part.is_last {
            self.open = Some(open);
            return true;
        }
        self.fed.null_count += open.frame.null_count();
        let finished = open
            .writer
            .map_or(Ok(()), |writer| writer.finish().map(drop));
        self.is_taken(finished).is_some()
    }

    /// Ends the unit of which the last part has not come, because the input is over.
    pub(super) fn finish(mut self) -> Fed {
        if let Some(writer) = self.open.take().and_then(|open| open.writer) {
            let finished = writer.finish().map(drop);
            self.is_taken(finished);
        }
        self.outbox.send(self.sender);
        self.fed
    }

    /// Returns whether the session took a unit's bytes, and counts a unit that it refused. `None`:
    /// the session takes no more.
    fn is_taken(&mut self, result: Result<(), SendError>) -> Option<bool> {
        match result {
            Ok(()) => Some(true),
            Err(SendError::Transport(refused)) if refused != SendFrameError::Closed => {
                self.fed.refused_count += 1;
                Some(false)
            }
            Err(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_grows_for_an_eighth_of_the_latency() {
        assert_eq!(
            [500, 100, 20]
                .map(|latency| longest_growth(Duration::from_millis(latency)).as_millis()),
            [62, 12, 10]
        );
    }
}
