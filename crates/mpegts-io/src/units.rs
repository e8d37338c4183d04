//! Films cut into the units that a session carries.

use anabranch_units::{Duration, Importance};
use anabranch_video::annex_b::AccessUnitSplitter;
use anabranch_video::input::InputKind;
use anabranch_video::mpeg_ts::{PictureProgress, TransportUnit, TransportUnitSplitter};

/// A piece of a film, as a rule one picture with its tables and sound; or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilmUnit {
    /// Bytes as in the film, without those of earlier parts.
    pub bytes: Vec<u8>,
    /// Whether the unit ends with these bytes.
    pub is_last: bool,
    /// Importance for other units.
    pub importance: Importance,
    /// Decoding time of its picture, after the first one's; `None` if equal to the previous unit's.
    pub clock: Option<Duration>,
    /// Position of its end in a transport stream, from which [`UnitSplitter::due_at`] calculates
    /// its time; `None` if that is `clock`.
    pub end: Option<u64>,
}

impl FilmUnit {
    fn of(unit: TransportUnit, is_last: bool) -> Self {
        FilmUnit {
            bytes: unit.bytes,
            is_last,
            importance: unit.importance,
            clock: unit.clock,
            end: Some(unit.end),
        }
    }
}

/// Whether more of a film is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// More bytes follow at once.
    GoesOn,
    /// Not at once: complete units leave, even if their times are unknown.
    Waits,
    /// Not soon, and nothing of the current picture: its available part leaves.
    Pauses,
    /// The film is complete.
    HasEnded,
}

impl Reading {
    /// Returns the state of a film that is not waited for.
    pub fn has_ended(has_ended: bool) -> Self {
        if has_ended {
            Reading::HasEnded
        } else {
            Reading::GoesOn
        }
    }
}

/// Splitter of a film's bytes into units.
#[derive(Debug)]
pub enum UnitSplitter {
    /// Splitter of a transport stream.
    MpegTs(Box<TransportUnitSplitter>),
    /// Splitter of an H.264 byte stream into access units, at its frame rate.
    AnnexB {
        /// Splitter into access units.
        splitter: AccessUnitSplitter,
        /// Decoding time of the next access unit.
        next_clock: Duration,
    },
}

impl UnitSplitter {
    /// Creates a splitter. Any other format has been converted to MPEG-TS before.
    pub fn new(kind: InputKind) -> Self {
        match kind {
            InputKind::AnnexB => UnitSplitter::AnnexB {
                splitter: AccessUnitSplitter::new(),
                next_clock: Duration::ZERO,
            },
            InputKind::MpegTs | InputKind::Elementary | InputKind::Other => {
                UnitSplitter::MpegTs(Box::default())
            }
        }
    }

    /// Creates a splitter for a stored film that is sent: sound does not wait for a distant
    /// picture.
    pub fn stored(kind: InputKind) -> Self {
        Self::new(kind).with(TransportUnitSplitter::stored)
    }

    /// Creates a splitter for a stream that may be live and is sent: a picture does not wait for
    /// the next one either.
    pub fn live(kind: InputKind) -> Self {
        Self::new(kind).with(TransportUnitSplitter::live)
    }

    fn with(self, transport: impl FnOnce() -> TransportUnitSplitter) -> Self {
        match self {
            UnitSplitter::MpegTs(_) => UnitSplitter::MpegTs(Box::new(transport())),
            other @ UnitSplitter::AnnexB { .. } => other,
        }
    }

    /// Returns when a unit that ends at `end` is due, by the clock of the transport stream; `None`
    /// until more bytes determine it. Ends must not decrease from call to call.
    pub fn due_at(&mut self, end: u64) -> Option<Duration> {
        match self {
            UnitSplitter::MpegTs(splitter) => splitter.due_at(end),
            UnitSplitter::AnnexB { .. } => None,
        }
    }

    /// Estimates the time of the last packet, if no later clock value has arrived.
    pub fn estimated_due(&self) -> Option<Duration> {
        match self {
            UnitSplitter::MpegTs(splitter) => splitter.estimated_due(),
            UnitSplitter::AnnexB { .. } => None,
        }
    }

    /// Returns the stream's progress in pictures, if their ends can be guessed.
    pub fn progress(&self) -> PictureProgress {
        match self {
            UnitSplitter::MpegTs(splitter) => splitter.progress(),
            UnitSplitter::AnnexB { .. } => PictureProgress::default(),
        }
    }

    /// Returns the number of bytes that were left out because they were in no packet.
    pub fn skipped_bytes(&self) -> u64 {
        match self {
            UnitSplitter::MpegTs(splitter) => splitter.skipped_bytes(),
            UnitSplitter::AnnexB { .. } => 0,
        }
    }

    /// Takes more bytes of the film.
    pub fn push(&mut self, bytes: &[u8]) {
        match self {
            UnitSplitter::MpegTs(splitter) => splitter.push(bytes),
            UnitSplitter::AnnexB { splitter, .. } => splitter.push(bytes),
        }
    }

    /// Returns the bytes of the incomplete unit that can leave before it is complete, after
    /// [`next`](Self::next) returned `None`. The importance of a unit is known with its first part.
    /// An H.264 byte stream has no parts: MPEG-TS is made of whole pictures.
    pub fn next_part(&mut self) -> Option<FilmUnit> {
        match self {
            UnitSplitter::MpegTs(splitter) => {
                let part = splitter.next_part()?;
                Some(FilmUnit::of(part, false))
            }
            UnitSplitter::AnnexB { .. } => None,
        }
    }

    /// Returns whether there is a part to return.
    pub fn has_part(&self) -> bool {
        match self {
            UnitSplitter::MpegTs(splitter) => splitter.has_part(),
            UnitSplitter::AnnexB { .. } => false,
        }
    }

    /// Returns the next unit. If the film has ended, or a transport stream pauses, the incomplete
    /// unit is returned too.
    pub fn next(&mut self, state: Reading) -> Option<FilmUnit> {
        match self {
            UnitSplitter::MpegTs(splitter) => {
                let unit = match state {
                    Reading::GoesOn | Reading::Waits => splitter.next_unit(),
                    Reading::Pauses => splitter.next_unit().or_else(|| splitter.flush()),
                    Reading::HasEnded => splitter.finish(),
                }?;
                Some(FilmUnit::of(unit, true))
            }
            UnitSplitter::AnnexB {
                splitter,
                next_clock,
            } => {
                let unit = match splitter.next_unit() {
                    // A picture cut in two would be taken for two, so a pause does not end one.
                    None if state == Reading::HasEnded => splitter.finish(),
                    unit => unit,
                }?;
                let clock = *next_clock;
                *next_clock += splitter.frame_interval();
                Some(FilmUnit {
                    bytes: unit.annex_b,
                    is_last: true,
                    importance: unit.importance,
                    clock: Some(clock),
                    end: None,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_units_come_at_frame_intervals_and_the_last_at_the_end() {
        let mut splitter = UnitSplitter::new(InputKind::AnnexB);
        splitter.push(&[0, 0, 0, 1, 0x65, 0x80, 7, 0, 0, 0, 1, 0x41, 0x80, 9]);
        let first = splitter
            .next(Reading::GoesOn)
            .expect("the next one has started");
        assert_eq!(
            (first.importance, first.clock),
            (Importance::Key, Some(Duration::ZERO))
        );
        assert!(splitter.next(Reading::GoesOn).is_none());
        assert!(splitter.next(Reading::Pauses).is_none());
        let last = splitter
            .next(Reading::HasEnded)
            .expect("the stream has ended");
        assert_eq!(last.bytes, [0, 0, 0, 1, 0x41, 0x80, 9]);
        assert_eq!(last.importance, Importance::Reference);
        assert_eq!(last.clock, Some(Duration::from_millis(40)));
    }
}
