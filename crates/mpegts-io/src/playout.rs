//! Bytes on their way from the session to the output, kept until they are due.
//!
//! With a constant delay every byte leaves one agreed latency after its arrival at the sender.
//! Neither its stream nor earlier losses change that: a viewer's player is simulated only for the
//! summary. Units of live streams carry the arrival times of their packets. Other frames leave
//! evenly, from the due time of the previous frame until their own. A stream of constant bitrate
//! therefore leaves as it arrived, with its clock references (PCR). Files get whole frames, since
//! no reader sees when they were written.

use std::collections::VecDeque;
use std::sync::LazyLock;

use anabranch_core::{ClockOffset, FrameId, FramePart, ReceivedFrame};
use anabranch_units::{Importance, Instant, MemoryShare, SharedMemory};
use anabranch_video::arrival_times::ArrivalTimes;
use anabranch_video::mpeg_ts::PACKET_LEN;
use anabranch_video::null_packets;
use anabranch_video::player::{JitterBuffer, Player, PlayerFrame};

use super::spread::{by_arrival, evenly};

/// Maximum number of bytes that wait in all playouts of the program, since peers choose both
/// latency and rate. One playout can have half. Chosen: 30 s of 70 Mbit/s. If more wait, the oldest
/// leave before their time.
const MAX_WAITING_BYTES: usize = 512 << 20;

static MEMORY: LazyLock<SharedMemory> = LazyLock::new(|| SharedMemory::new(MAX_WAITING_BYTES));

/// Bytes that leave together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Whole transport packets, if the frame consists of them.
    pub bytes: Vec<u8>,
    /// Whether it is the beginning of a key frame.
    pub begins_key_frame: bool,
    /// Number of pictures before these bytes that did not arrive in time.
    pub missing_pictures: u32,
}

/// Holds frames until they are due, and simulates a viewer's player. All frames are output, also
/// those that cannot be decoded, because players handle these differently.
#[derive(Debug)]
pub struct Playout {
    buffer: JitterBuffer,
    is_spread: bool,
    player: Player,
    /// Latest offset of the sender's clock.
    offset: ClockOffset,
    /// Waiting frames, in the order of their times.
    waiting: VecDeque<Waiting>,
    waiting_bytes: MemoryShare,
    /// Capture time of the last frame, by the sender's clock.
    last_captured_at: Option<Instant>,
    /// Whether a key frame has arrived; a stream without video has none.
    has_pictures: bool,
    /// Frames before the first key frame, if none was lost: the stream ran before this session.
    joined_count: u64,
    /// Whether a frame was lost before the first key frame.
    has_lost_first: bool,
    parted: Parted,
    /// Whether the last bytes that left were the end of their frame.
    has_ended_frame: bool,
    /// Whether bytes have left early for lack of room.
    has_overflowed: bool,
    is_overflow_reported: bool,
    /// Number of pictures that were given up behind the last one that waits.
    missing_pictures: u32,
    /// Number of null packets that were inserted again.
    null_count: u64,
}

/// A frame with waiting bytes.
#[derive(Debug)]
struct Waiting {
    bytes: Vec<u8>,
    is_key: bool,
    missing_pictures: u32,
    /// Number of bytes that have left.
    gone: usize,
    /// Lengths of the groups that leave together, and their time by the sender's clock.
    groups: VecDeque<(usize, Instant)>,
}

/// The frame that arrives in parts.
#[derive(Debug, Default)]
struct Parted {
    /// Its number; `None` before the first part.
    id: Option<FrameId>,
    /// Bytes behind the last whole packet.
    rest: Vec<u8>,
    /// Number of bytes that were passed on.
    passed: usize,
}

impl Playout {
    /// Creates the playout of a new session. `is_spread`: whether the output shows when the bytes
    /// of a frame leave.
    pub fn new(buffer: JitterBuffer, is_spread: bool, now: Instant) -> Self {
        Playout::within(MEMORY.share(), buffer, is_spread, now)
    }

    fn within(
        waiting_bytes: MemoryShare,
        buffer: JitterBuffer,
        is_spread: bool,
        now: Instant,
    ) -> Self {
        Playout {
            buffer,
            is_spread,
            player: Player::new(buffer, now),
            offset: ClockOffset::default(),
            waiting: VecDeque::new(),
            waiting_bytes,
            last_captured_at: None,
            has_pictures: false,
            joined_count: 0,
            has_lost_first: false,
            parted: Parted::default(),
            has_ended_frame: true,
            has_overflowed: false,
            is_overflow_reported: false,
            missing_pictures: 0,
            null_count: 0,
        }
    }

    /// Changes the delay of frames from now on. The picture halts or jumps by the difference.
    pub fn set_buffer(&mut self, buffer: JitterBuffer) {
        self.buffer = buffer;
        self.player.set_buffer(buffer);
    }

    /// Sets whether the output shows when the bytes of a frame leave, for later frames.
    pub fn set_spread(&mut self, is_spread: bool) {
        self.is_spread = is_spread;
    }

    /// Takes the next frame in order.
    pub fn push(&mut self, now: Instant, frame: ReceivedFrame) {
        let ReceivedFrame {
            id,
            importance,
            captured_at,
            offset,
            mut bytes,
            ..
        } = frame;
        self.offset = offset;
        self.has_pictures |= importance.is_key();
        self.joined_count += u64::from(!self.has_pictures && !self.has_lost_first);
        self.player.on_frame(
            now,
            PlayerFrame {
                importance,
                captured_at: offset.to_local(captured_at).min(now),
                is_complete: true,
            },
        );
        // Without a constant delay the bitrate is not constant either, and parts of the frame have
        // left without null packets.
        match self.buffer {
            JitterBuffer::Off => null_packets::discard(&mut bytes),
            _ => self.null_count += null_packets::insert(&mut bytes),
        }
        let times = ArrivalTimes::split_off(&mut bytes);
        let before = self.last_captured_at.replace(captured_at);
        let parted = core::mem::take(&mut self.parted);
        let is_begun = parted.id == Some(id) && parted.passed > 0;
        if is_begun {
            bytes.drain(..parted.passed.min(bytes.len()));
        }
        let groups = match times {
            Some(times) if self.is_spread && !is_begun => by_arrival(&times, captured_at),
            _ => {
                let gap = match before {
                    Some(before) if self.is_spread => Some(captured_at.saturating_since(before)),
                    _ => None,
                };
                evenly(bytes.len(), gap, captured_at)
            }
        };
        self.wait(Waiting {
            is_key: importance.is_key() && !is_begun,
            missing_pictures: 0,
            bytes,
            gone: 0,
            groups,
        });
    }

    /// Takes bytes of the next frame in order, if frames are not held. Behind a part that was lost,
    /// because this end is too slow, bytes come with their whole frame.
    pub fn push_part(&mut self, part: FramePart) {
        if self.buffer != JitterBuffer::Off {
            return;
        }
        if part.begin == 0 {
            self.parted = Parted {
                id: Some(part.id),
                ..Parted::default()
            };
        }
        let Parted { id, rest, passed } = &mut self.parted;
        if *id != Some(part.id) || *passed + rest.len() != part.begin {
            return;
        }
        rest.extend(part.bytes);
        let whole = rest.len() / PACKET_LEN * PACKET_LEN;
        if whole == 0 {
            return;
        }
        let bytes: Vec<u8> = rest.drain(..whole).collect();
        let is_key = part.importance.is_key() && *passed == 0;
        *passed += whole;
        self.wait(Waiting {
            groups: [(bytes.len(), part.captured_at)].into(),
            bytes,
            is_key,
            missing_pictures: 0,
            gone: 0,
        });
    }

    fn wait(&mut self, mut waiting: Waiting) {
        if !waiting.bytes.is_empty() {
            waiting.missing_pictures = core::mem::take(&mut self.missing_pictures);
            let bytes = waiting.bytes.len();
            self.waiting_bytes.add(bytes);
            self.waiting.push_back(waiting);
        }
    }

    /// Records that a frame was given up. Its importance is unknown, so it counts as a reference.
    pub fn on_dropped(&mut self, now: Instant) {
        self.parted = Parted::default();
        self.missing_pictures = self.missing_pictures.saturating_add(1);
        let lost = PlayerFrame {
            importance: Importance::Reference,
            captured_at: now,
            is_complete: false,
        };
        self.player.on_frame(now, lost);
        if !self.has_pictures {
            // It may have been the key frame.
            (self.has_lost_first, self.joined_count) = (true, 0);
        }
    }

    /// Returns when bytes leave that arrived at `at` by the sender's clock. Uses the latest offset,
    /// so that waiting frames follow the clock, too.
    fn due_at(&self, at: Instant) -> Instant {
        match self.player.delay() {
            // In this order: the receiver's clock may begin between the two.
            Some(delay) => self.offset.to_local(at + delay),
            None => Instant::ZERO,
        }
    }

    /// Returns when the next bytes are due.
    pub fn next_at(&self) -> Option<Instant> {
        let (_, at) = self.waiting.front()?.groups.front()?;
        if self.waiting_bytes.is_exceeded() {
            Some(Instant::ZERO)
        } else {
            Some(self.due_at(*at))
        }
    }

    /// Takes the next bytes, if they are due.
    pub fn pop(&mut self, now: Instant) -> Option<Piece> {
        let mut len = 0;
        let mut is_over = self.waiting_bytes.is_exceeded();
        self.has_overflowed |= is_over;
        let groups = &self.waiting.front()?.groups;
        let mut count = 0;
        for (group_len, at) in groups {
            if self.due_at(*at) > now && !is_over {
                break;
            }
            is_over = false;
            len += group_len;
            count += 1;
        }
        if count == 0 {
            return None;
        }
        let front = self.waiting.front_mut()?;
        front.groups.drain(..count);
        let begin = front.gone;
        front.gone = (begin + len).min(front.bytes.len());
        let piece = Piece {
            begins_key_frame: begin == 0 && front.is_key,
            missing_pictures: if begin == 0 {
                front.missing_pictures
            } else {
                0
            },
            bytes: front.bytes[begin..front.gone].to_vec(),
        };
        let bytes = piece.bytes.len();
        self.waiting_bytes.remove(bytes);
        self.has_ended_frame = front.groups.is_empty();
        if self.has_ended_frame {
            self.waiting.pop_front();
        }
        Some(piece)
    }

    /// Returns whether the last bytes that [`Playout::pop`] returned were the end of their frame.
    /// Without delay, frames have no known end.
    pub fn has_ended_frame(&self) -> bool {
        self.has_ended_frame && self.buffer != JitterBuffer::Off
    }

    /// Returns a warning, once, if bytes left before their time for lack of room.
    pub fn overflow(&mut self) -> Option<String> {
        let is_new = self.has_overflowed && !self.is_overflow_reported;
        self.is_overflow_reported |= is_new;
        is_new.then(|| {
            format!(
                "a latency of {} at this rate takes more than {} MiB, half of the memory for all \
                 senders, or more than is left: bytes leave early. Ask for a shorter --latency at \
                 both ends",
                self.buffer,
                MAX_WAITING_BYTES >> 21,
            )
        })
    }

    /// Sums up the viewer's experience in a line.
    pub fn summary(&self) -> String {
        let nulls = match self.null_count {
            0 => String::new(),
            count => format!("; {count} null packets inserted again"),
        };
        if !self.has_pictures {
            return format!("playout {}: no key frame arrived{nulls}", self.buffer);
        }
        // Silence after the last picture is no freeze: the encoder has stopped.
        let counts = self.player.counts();
        let delay = self.player.delay().map_or(String::new(), |delay| {
            format!(", {:.0} ms at the end", delay.as_millis_f64())
        });
        let joined = match self.joined_count {
            0 => String::new(),
            count => format!("; the stream ran already, {count} pictures before a key frame"),
        };
        format!(
            "playout {}{delay}: {} pictures in time, {} late, {} of these left out by a viewer's \
             player; {} undecodable, {} lost; {} freezes, {:.2} s in all{joined}{nulls}",
            self.buffer,
            counts.displayed + counts.skipped - counts.late,
            counts.late,
            counts.skipped,
            counts.undecodable.saturating_sub(self.joined_count),
            counts.lost,
            counts.freezes,
            counts.freeze_time.as_secs_f64(),
        )
    }
}

#[cfg(test)]
mod tests;
