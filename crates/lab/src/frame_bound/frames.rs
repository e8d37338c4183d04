//! Record of a flow's frames in a run.

use anabranch_core::PathId;
use anabranch_sim::{Direction, FlowId, FrameEvent, FrameOutcome, Observer, PacketEvent};
use anabranch_units::{Duration, Instant};

/// A frame, in the order of capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FrameRecord {
    pub(super) captured_at: Instant,
    size_bytes: u32,
    /// By fragment: its least size on the wire with all headers; zero: not sent.
    wire_bytes: Vec<u32>,
    /// Its outcome and the time of it; `None`: unknown.
    outcome: Option<(Instant, FrameOutcome)>,
    /// Last arrival of a fragment's first copy.
    last: Option<Arrival>,
    /// By fragment: whether a copy has arrived.
    has_arrived: Vec<bool>,
}

/// Arrival of a fragment's first copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) path: PathId,
    pub(super) sent_at: Instant,
    pub(super) at: Instant,
}

/// Records all frames of one flow.
#[derive(Debug)]
pub(super) struct FrameLog {
    flow: FlowId,
    pub(super) frames: Vec<FrameRecord>,
}

impl FrameLog {
    pub(super) fn of(flow: usize) -> FrameLog {
        FrameLog {
            flow: FlowId(flow as u32),
            frames: Vec::new(),
        }
    }

    /// Returns the frame of which a packet from sender to receiver carries a fragment, and the
    /// fragment's index.
    fn fragment(&mut self, packet: &PacketEvent) -> Option<(&mut FrameRecord, usize)> {
        let is_ours = packet.flow == self.flow && packet.direction == Direction::Forward;
        if !is_ours {
            return None;
        }
        let id = packet.fragment?;
        let frame = self.frames.get_mut(id.frame as usize)?;
        Some((frame, usize::from(id.fragment)))
    }
}

/// Returns the element at `place` of a list, which grows to hold it.
fn grown<T: Clone + Default>(list: &mut Vec<T>, place: usize) -> &mut T {
    if list.len() <= place {
        list.resize(place + 1, T::default());
    }
    &mut list[place]
}

impl Observer for FrameLog {
    fn on_sent(&mut self, _now: Instant, packet: &PacketEvent) {
        let Some((frame, fragment)) = self.fragment(packet) else {
            return;
        };
        let least = grown(&mut frame.wire_bytes, fragment);
        if *least == 0 || packet.size_bytes < *least {
            *least = packet.size_bytes;
        }
    }

    fn on_delivered(&mut self, now: Instant, packet: &PacketEvent, delay: Duration) {
        let path = packet.path;
        let Some((frame, fragment)) = self.fragment(packet) else {
            return;
        };
        if std::mem::replace(grown(&mut frame.has_arrived, fragment), true) {
            return;
        }
        frame.last = Some(Arrival {
            path,
            sent_at: now.saturating_sub(delay),
            at: now,
        });
    }

    fn on_frame_captured(&mut self, frame: &FrameEvent) {
        if frame.flow != self.flow {
            return;
        }
        debug_assert_eq!(frame.index, self.frames.len() as u64);
        self.frames.push(FrameRecord {
            captured_at: frame.captured_at,
            size_bytes: frame.size_bytes,
            wire_bytes: Vec::new(),
            outcome: None,
            last: None,
            has_arrived: Vec::new(),
        });
    }

    fn on_frame_outcome(&mut self, now: Instant, frame: &FrameEvent, outcome: FrameOutcome) {
        if frame.flow != self.flow {
            return;
        }
        if let Some(record) = self.frames.get_mut(frame.index as usize) {
            record.outcome = Some((now, outcome));
        }
    }
}

impl FrameRecord {
    fn completed_at(&self) -> Option<Instant> {
        match self.outcome {
            Some((_, FrameOutcome::Complete { completed_at })) => Some(completed_at),
            _ => None,
        }
    }

    /// Returns the time from capture to completion. For an incomplete frame it is the time until it
    /// was given up, and at least `deadline`.
    pub(super) fn delay(&self, deadline: Duration) -> Duration {
        match (self.completed_at(), self.outcome) {
            (Some(at), _) => at - self.captured_at,
            (None, Some((at, _))) => deadline.max(at - self.captured_at),
            (None, None) => deadline,
        }
    }

    /// Returns the packet whose arrival completed it; `None`: it is not complete, or a repair
    /// completed it.
    pub(super) fn completing(&self) -> Option<Arrival> {
        self.last
            .filter(|last| Some(last.at) == self.completed_at())
    }

    /// Returns the bytes on the wire of all its fragments, in fragments of `fragment_bytes`. A
    /// fragment that was not sent has `extra_bytes` beside its media.
    pub(super) fn all_wire_bytes(&self, fragment_bytes: u32, extra_bytes: u32) -> u64 {
        let fragments = 0..self.size_bytes.div_ceil(fragment_bytes.max(1));
        let bytes = fragments.map(|fragment| {
            let sent = self.wire_bytes.get(fragment as usize).copied();
            let media = self.media_bytes(fragment, fragment_bytes);
            u64::from(sent.filter(|sent| *sent > 0).unwrap_or(media + extra_bytes))
        });
        bytes.sum()
    }

    /// Returns the bytes of packets beside a fragment's media, by fragment that was sent.
    pub(super) fn extra_bytes(&self, fragment_bytes: u32) -> impl Iterator<Item = u32> {
        let sent = (0..).zip(&self.wire_bytes).filter(|(_, sent)| **sent > 0);
        sent.map(move |(fragment, sent)| {
            sent.saturating_sub(self.media_bytes(fragment, fragment_bytes))
        })
    }

    fn media_bytes(&self, fragment: u32, fragment_bytes: u32) -> u32 {
        let before = fragment.saturating_mul(fragment_bytes);
        self.size_bytes.saturating_sub(before).min(fragment_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_core::SendReason;
    use anabranch_sim::FragmentId;
    use anabranch_units::Importance;

    const MS: Duration = Duration::from_millis(1);

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn packet(path: u8, fragment: u16, size_bytes: u32) -> PacketEvent {
        PacketEvent {
            flow: FlowId(3),
            path: PathId(path),
            direction: Direction::Forward,
            size_bytes,
            fragment: Some(FragmentId { frame: 0, fragment }),
            reason: Some(SendReason::New),
        }
    }

    /// Returns a frame of 2,500 bytes, two of whose three fragments of 1,000 have been sent.
    fn begun() -> (FrameLog, FrameEvent) {
        let mut frame_log = FrameLog::of(3);
        let frame = FrameEvent {
            flow: FlowId(3),
            index: 0,
            captured_at: ms(100),
            size_bytes: 2_500,
            importance: Importance::Key,
        };
        frame_log.on_frame_captured(&frame);
        frame_log.on_sent(ms(100), &packet(0, 0, 1_060));
        frame_log.on_sent(ms(100), &packet(1, 2, 540));
        frame_log.on_sent(ms(105), &packet(1, 0, 1_045));
        (frame_log, frame)
    }

    #[test]
    fn unsent_fragments_count_with_usual_overhead() {
        let (frame_log, _) = begun();
        let frame = &frame_log.frames[0];
        let extra: Vec<u32> = frame.extra_bytes(1_000).collect();
        assert_eq!(extra, [45, 40]);
        assert_eq!(frame.all_wire_bytes(1_000, 40), 1_045 + 1_040 + 540);
    }

    #[test]
    fn the_packet_that_completes_a_frame_is_the_last_first_copy() {
        let (mut frame_log, frame) = begun();
        frame_log.on_delivered(ms(120), &packet(0, 0, 1_060), MS * 20);
        frame_log.on_delivered(ms(140), &packet(1, 2, 540), MS * 40);
        frame_log.on_delivered(ms(145), &packet(1, 0, 1_045), MS * 40);
        let completed_at = ms(140);
        let mut complete =
            |at| frame_log.on_frame_outcome(at, &frame, FrameOutcome::Complete { completed_at });
        complete(ms(150));
        let last = Arrival {
            path: PathId(1),
            sent_at: ms(100),
            at: ms(140),
        };
        assert_eq!(frame_log.frames[0].completing(), Some(last));
        assert_eq!(frame_log.frames[0].delay(MS * 500), MS * 40);
    }

    #[test]
    fn a_frame_that_is_not_complete_takes_the_deadline_at_least() {
        let (mut frame_log, frame) = begun();
        frame_log.on_delivered(ms(120), &packet(0, 0, 1_060), MS * 20);
        assert_eq!(frame_log.frames[0].delay(MS * 500), MS * 500);
        frame_log.on_frame_outcome(ms(800), &frame, FrameOutcome::Incomplete);
        assert_eq!(frame_log.frames[0].delay(MS * 500), MS * 700);
        assert_eq!(frame_log.frames[0].delay(MS * 900), MS * 900);
        assert_eq!(frame_log.frames[0].completing(), None);
    }

    #[test]
    fn a_frame_that_a_repair_completes_has_no_last_packet() {
        let (mut frame_log, frame) = begun();
        frame_log.on_delivered(ms(120), &packet(0, 0, 1_060), MS * 20);
        let completed_at = ms(130);
        frame_log.on_frame_outcome(ms(130), &frame, FrameOutcome::Complete { completed_at });
        assert_eq!(frame_log.frames[0].completing(), None);
    }
}
