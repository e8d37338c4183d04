//! The datagram codec: pure functions between bytes and frames. `docs/protocol.md` shows the
//! layouts.
//!
//! A datagram is *tracked* (it has a packet number and is acknowledged: media, stream, padding,
//! challenges) or *untracked* (feedback and answers). Then follow frames. Encryption is outside, in
//! `secure`.

mod feedback;
mod repair;
mod schedule;
mod stream;
mod truncated;
mod varint;

use anabranch_units::{Duration, Importance, Instant};

use crate::fragment::{FragmentHeader, FrameId};
use crate::path_view::PathId;
use varint::{read, write};

pub use feedback::FeedbackReport;
pub(crate) use feedback::{MAX_ARRIVALS, MAX_RANGES, OutgoingReport};
pub(crate) use repair::{
    MAX_RECOVERED, RecoveredSymbols, RepairHead, write_repair, write_symbols_recovered,
};
pub use schedule::{FeedbackSchedule, HoleReports};
pub(crate) use stream::{
    SEGMENT_HEADER_BYTES, SegmentHeader, write_segment, write_stream_ack, write_stream_blocked,
};
pub(crate) use truncated::expand;

const UNTRACKED: u8 = 0x40;
const TRACKED: u8 = 0x41;

const PADDING: u8 = PADDING_BYTE;
/// A byte that means nothing behind the frames of a datagram that has no fragment and no segment.
pub const PADDING_BYTE: u8 = 0x00;
const FEEDBACK: u8 = 0x02;
const FEEDBACK_SCHEDULE: u8 = 0x03;
const PATH_CHALLENGE: u8 = 0x04;
const PATH_RESPONSE: u8 = 0x05;
const PATH_STATUS: u8 = 0x06;
const CLOSE: u8 = 0x07;
/// The first of eight types: a frame that is a single fragment, with its flags in the type.
const WHOLE_FRAME: u8 = 0x08;
const LAST_WHOLE_FRAME: u8 = WHOLE_FRAME | KEY_FRAME_FLAG | DISPOSABLE_FLAG | SYMBOL_FLAG;
/// The first of sixteen types: a byte range of a frame, with its flags in the type.
const FRAGMENT: u8 = 0x50;
const LAST_FRAGMENT: u8 = FRAGMENT | KEY_FRAME_FLAG | DISPOSABLE_FLAG | SYMBOL_FLAG | END_FLAG;
const FRAMES_GIVEN_UP: u8 = 0x30;
const REPAIR: u8 = 0x20;
const SYMBOLS_RECOVERED: u8 = 0x21;
const REPLACED: u8 = 0x31;
const SEND_TIME: u8 = 0x32;

/// The plaintext with which a receiver notifies a sender that another's session has replaced its
/// own. It needs no state but the session's protection.
pub const REPLACED_NOTICE: &[u8] = &[UNTRACKED, REPLACED];

const KEY_FRAME_FLAG: u8 = 0x01;
const DISPOSABLE_FLAG: u8 = 0x02;
const SYMBOL_FLAG: u8 = 0x04;
/// The frame ends with this fragment.
pub(crate) const END_FLAG: u8 = 0x08;
const IMMEDIATE_ON_CE_FLAG: u8 = 0x01;
const PAUSES_FLAG: u8 = 0x02;

/// Kind byte and truncated packet number.
pub(crate) const TRACKED_HEADER_BYTES: usize = 5;
/// Bytes of an offset in a frame, whose largest has 8 MiB.
const OFFSET_BYTES: usize = 3;
/// The most bytes that a fragment adds to its payload: tracked header, type, frame, offset, capture
/// time; a send time; and a byte for a later version.
const MAX_FRAGMENT_HEADER_BYTES: usize =
    TRACKED_HEADER_BYTES + 1 + 8 + OFFSET_BYTES + 4 + SEND_TIME_BYTES as usize + 1;
/// Additional bytes of a symbol number.
const SYMBOL_NUMBER_BYTES: usize = 4;

/// Returns the maximum overhead of a fragment, with a symbol number if it has one. A repair symbol
/// adds no more to the longest fragment in it.
pub(crate) const fn max_fragment_header_bytes(has_symbol_number: bool) -> u32 {
    let symbol_number = if has_symbol_number {
        SYMBOL_NUMBER_BYTES
    } else {
        0
    };
    (MAX_FRAGMENT_HEADER_BYTES + symbol_number) as u32
}

/// The most bytes of a feedback schedule: type, packets, delay, interval, holes, their interval,
/// flags.
pub(crate) const MAX_SCHEDULE_BYTES: u32 = 1 + 4 + 4 + 4 + 1 + 4 + 1;

/// Bytes of a send time: type and microseconds.
pub(crate) const SEND_TIME_BYTES: u32 = 1 + 4;

/// Whether the datagram has a packet number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tracking {
    Untracked,
    /// The low 32 bits of the packet number.
    Tracked(u32),
}

/// Element of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireFrame<'a> {
    /// The rest of the datagram is useless.
    Padding,
    /// The rest of the datagram is this fragment. The capture time is truncated to 32 bits of
    /// microseconds.
    Fragment {
        header: FragmentHeader,
        captured_at_micros: u32,
        /// The low 32 bits of its symbol number, if the session uses FEC.
        symbol: Option<u32>,
        payload: &'a [u8],
    },
    /// The rest of the datagram is this repair symbol.
    Repair { head: RepairHead, bytes: &'a [u8] },
    /// These fragments were lost, and repairs have recovered them.
    SymbolsRecovered(RecoveredSymbols<'a>),
    /// A report about `path`, in the [`FeedbackReport`] given to [`Frames::next`].
    Feedback { path: PathId },
    /// Schedule of the receiver's reports about the path of this frame.
    FeedbackSchedule(FeedbackSchedule),
    /// "Answer with this token on the path that this came on."
    PathChallenge(u64),
    /// The answer.
    PathResponse(u64),
    /// Whether the sender of this frame trusts `path`.
    PathStatus { path: PathId, is_suspect: bool },
    /// The sender of this frame will not complete these.
    FramesGivenUp { first: FrameId, count: u64 },
    /// Departure of this datagram by its sender's clock: the low 32 bits of microseconds.
    SendTime(u32),
    /// The session is over.
    Close,
    /// Another session has taken this one's place.
    Replaced,
    /// The rest of the datagram is this segment of the stream.
    Segment {
        header: SegmentHeader,
        payload: &'a [u8],
    },
    /// All bytes before the offset have arrived, and `window` bytes after it may be sent.
    StreamAck {
        /// The low 32 bits of the offset.
        offset: u32,
        window: u64,
        /// Whether a segment's arrival prompted it; if not, it only announces the window.
        is_prompted: bool,
    },
    /// The stream's sender has bytes that the receive window keeps back.
    StreamBlocked,
}

/// Why a datagram, or the rest of it, means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Reads the frames of a datagram one by one.
#[derive(Debug)]
pub(crate) struct Frames<'a> {
    rest: &'a [u8],
}

/// Reads a datagram's header.
pub(crate) fn decode(datagram: &[u8]) -> Result<(Tracking, Frames<'_>), Malformed> {
    let mut rest = datagram;
    let tracking = match read_u8(&mut rest).ok_or(Malformed)? {
        UNTRACKED => Tracking::Untracked,
        TRACKED => Tracking::Tracked(read_u32(&mut rest).ok_or(Malformed)?),
        _ => return Err(Malformed),
    };
    Ok((tracking, Frames { rest }))
}

impl<'a> Frames<'a> {
    /// Returns the next frame; `None` at the end. A report's body goes into `report`.
    #[inline]
    pub(crate) fn next(
        &mut self,
        report: &mut FeedbackReport,
    ) -> Option<Result<WireFrame<'a>, Malformed>> {
        if self.rest.is_empty() {
            return None;
        }
        let frame = self.read(report).ok_or(Malformed);
        if frame.is_err() {
            self.rest = &[];
        }
        Some(frame)
    }

    fn read(&mut self, report: &mut FeedbackReport) -> Option<WireFrame<'a>> {
        let rest = &mut self.rest;
        Some(match read_u8(rest)? {
            PADDING => {
                *rest = &[];
                WireFrame::Padding
            }
            flags @ FRAGMENT..=LAST_FRAGMENT => {
                let frame = FrameId(read(rest)?);
                let (offset, behind) = rest.split_first_chunk::<OFFSET_BYTES>()?;
                *rest = behind;
                let [a, b, c] = *offset;
                let offset = u32::from_le_bytes([a, b, c, 0]);
                read_fragment(frame, offset, flags - FRAGMENT, rest)?
            }
            flags @ WHOLE_FRAME..=LAST_WHOLE_FRAME => {
                let frame = FrameId(read(rest)?);
                read_fragment(frame, 0, (flags - WHOLE_FRAME) | END_FLAG, rest)?
            }
            REPAIR => repair::read_repair(rest)?,
            SYMBOLS_RECOVERED => WireFrame::SymbolsRecovered(RecoveredSymbols::read(rest)?),
            FEEDBACK => WireFrame::Feedback {
                path: report.read(rest)?,
            },
            FEEDBACK_SCHEDULE => WireFrame::FeedbackSchedule(FeedbackSchedule {
                every_packets: u32::try_from(read(rest)?).ok().filter(|every| *every > 0)?,
                max_delay: read_span(rest)?,
                interval: Some(read_span(rest)?).filter(|span| !span.is_zero()),
                on_hole: match read_u8(rest)? {
                    0 => None,
                    after_packets => Some(HoleReports {
                        after_packets,
                        min_interval: read_span(rest)?,
                    }),
                },
                ..read_schedule_flags(read_u8(rest)?)
            }),
            PATH_CHALLENGE => WireFrame::PathChallenge(read_u64(rest)?),
            PATH_RESPONSE => WireFrame::PathResponse(read_u64(rest)?),
            PATH_STATUS => WireFrame::PathStatus {
                path: read_path(rest)?,
                is_suspect: match read_u8(rest)? {
                    0 => false,
                    1 => true,
                    _ => return None,
                },
            },
            FRAMES_GIVEN_UP => WireFrame::FramesGivenUp {
                first: FrameId(read(rest)?),
                count: read(rest)?,
            },
            SEND_TIME => WireFrame::SendTime(read_u32(rest)?),
            CLOSE => WireFrame::Close,
            REPLACED => WireFrame::Replaced,
            other => return stream::read(other, rest),
        })
    }
}

/// Reads the rest of a fragment, behind its place in the frame.
fn read_fragment<'a>(
    frame: FrameId,
    offset: u32,
    flags: u8,
    rest: &mut &'a [u8],
) -> Option<WireFrame<'a>> {
    let header = FragmentHeader {
        frame,
        offset,
        ends_frame: flags & END_FLAG != 0,
        importance: importance_of(flags)?,
    };
    let captured_at_micros = read_u32(rest)?;
    let symbol = match flags & SYMBOL_FLAG {
        0 => None,
        _ => Some(read_u32(rest)?),
    };
    header.admits(rest).then(|| WireFrame::Fragment {
        header,
        captured_at_micros,
        symbol,
        payload: core::mem::take(rest),
    })
}

pub(crate) fn write_tracked_header(packet_number: u64, out: &mut Vec<u8>) {
    let [a, b, c, d] = (packet_number as u32).to_le_bytes();
    out.extend_from_slice(&[TRACKED, a, b, c, d]);
}

pub(crate) fn write_untracked_header(out: &mut Vec<u8>) {
    out.push(UNTRACKED);
}

/// Appends a fragment, which must be the datagram's last frame.
pub(crate) fn write_fragment(
    header: FragmentHeader,
    captured_at: Instant,
    symbol: Option<u64>,
    payload: &[u8],
    out: &mut Vec<u8>,
) {
    let symbol_flag = if symbol.is_some() { SYMBOL_FLAG } else { 0 };
    let flags = importance_flags(header.importance) | symbol_flag;
    if header.offset == 0 && header.ends_frame {
        out.push(WHOLE_FRAME | flags);
        write(header.frame.0, out);
    } else {
        out.push(FRAGMENT | flags | end_flag(header.ends_frame));
        write(header.frame.0, out);
        out.extend_from_slice(&header.offset.to_le_bytes()[..OFFSET_BYTES]);
    }
    out.extend_from_slice(&(captured_at.as_micros() as u32).to_le_bytes());
    if let Some(symbol) = symbol {
        out.extend_from_slice(&(symbol as u32).to_le_bytes());
    }
    out.extend_from_slice(payload);
}

/// Appends padding of `length` bytes, which must be the datagram's last frame.
pub(crate) fn write_padding(length: usize, out: &mut Vec<u8>) {
    out.resize(out.len() + length, PADDING);
}

pub(crate) fn write_feedback(
    report: OutgoingReport<'_, impl ExactSizeIterator<Item = Instant>>,
    out: &mut Vec<u8>,
) {
    report.write(out);
}

pub(crate) fn write_feedback_schedule(schedule: &FeedbackSchedule, out: &mut Vec<u8>) {
    out.push(FEEDBACK_SCHEDULE);
    write(u64::from(schedule.every_packets), out);
    write(schedule.max_delay.as_micros(), out);
    write(schedule.interval.map_or(0, Duration::as_micros), out);
    match schedule.on_hole {
        None => out.push(0),
        Some(holes) => {
            out.push(holes.after_packets);
            write(holes.min_interval.as_micros(), out);
        }
    }
    let of_ce = u8::from(schedule.is_immediate_on_ce) * IMMEDIATE_ON_CE_FLAG;
    let of_pauses = u8::from(schedule.reports_pauses) * PAUSES_FLAG;
    out.push(of_ce | of_pauses);
}

fn read_schedule_flags(flags: u8) -> FeedbackSchedule {
    FeedbackSchedule {
        is_immediate_on_ce: flags & IMMEDIATE_ON_CE_FLAG != 0,
        reports_pauses: flags & PAUSES_FLAG != 0,
        ..FeedbackSchedule::default()
    }
}

pub(crate) fn write_path_challenge(token: u64, out: &mut Vec<u8>) {
    out.push(PATH_CHALLENGE);
    out.extend_from_slice(&token.to_le_bytes());
}

pub(crate) fn write_path_response(token: u64, out: &mut Vec<u8>) {
    out.push(PATH_RESPONSE);
    out.extend_from_slice(&token.to_le_bytes());
}

pub(crate) fn write_path_status(path: PathId, is_suspect: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(&[PATH_STATUS, path.0, u8::from(is_suspect)]);
}

pub(crate) fn write_send_time(now: Instant, out: &mut Vec<u8>) {
    out.push(SEND_TIME);
    out.extend_from_slice(&(now.as_micros() as u32).to_le_bytes());
}

pub(crate) fn write_frames_given_up(first: FrameId, count: u64, out: &mut Vec<u8>) {
    out.push(FRAMES_GIVEN_UP);
    write(first.0, out);
    write(count, out);
}

pub(crate) fn write_close(out: &mut Vec<u8>) {
    out.push(CLOSE);
}

fn read_u8(bytes: &mut &[u8]) -> Option<u8> {
    let (&first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(first)
}

fn read_u32(bytes: &mut &[u8]) -> Option<u32> {
    let (head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u32::from_le_bytes(*head))
}

fn read_u64(bytes: &mut &[u8]) -> Option<u64> {
    let (head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*head))
}

/// Reads a span of a schedule. A longer one than ten seconds counts as ten.
fn read_span(bytes: &mut &[u8]) -> Option<Duration> {
    Some(Duration::from_micros(read(bytes)?.min(10_000_000)))
}

/// Returns the importance that flags of a fragment or of a symbol state; `None` if they contradict
/// each other.
pub(crate) fn importance_of(flags: u8) -> Option<Importance> {
    match flags & (KEY_FRAME_FLAG | DISPOSABLE_FLAG) {
        0 => Some(Importance::Reference),
        KEY_FRAME_FLAG => Some(Importance::Key),
        DISPOSABLE_FLAG => Some(Importance::Disposable),
        _ => None,
    }
}

pub(crate) fn importance_flags(importance: Importance) -> u8 {
    match importance {
        Importance::Key => KEY_FRAME_FLAG,
        Importance::Reference => 0,
        Importance::Disposable => DISPOSABLE_FLAG,
    }
}

pub(crate) fn end_flag(ends_frame: bool) -> u8 {
    if ends_frame { END_FLAG } else { 0 }
}

fn read_path(bytes: &mut &[u8]) -> Option<PathId> {
    read_u8(bytes)
        .map(PathId)
        .filter(|path| path.index() < PathId::LIMIT)
}

#[cfg(test)]
mod control_frames;

#[cfg(test)]
mod tests {
    use super::*;

    const IMPORTANCES: [Importance; 3] = [
        Importance::Key,
        Importance::Reference,
        Importance::Disposable,
    ];

    fn written(header: FragmentHeader, symbol: Option<u64>, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write_untracked_header(&mut out);
        write_fragment(header, Instant::from_micros(77), symbol, payload, &mut out);
        out
    }

    fn first_frame(datagram: &[u8]) -> Option<Result<WireFrame<'_>, Malformed>> {
        let (_, mut frames) = decode(datagram).unwrap();
        frames.next(&mut FeedbackReport::default())
    }

    #[test]
    fn a_fragment_is_read_as_it_was_written_whatever_its_flags() {
        let places = [(0, true), (0, false), (258, true), ((1 << 24) - 1, false)];
        for ((offset, ends_frame), importance) in places
            .into_iter()
            .flat_map(|place| IMPORTANCES.map(|importance| (place, importance)))
        {
            let header = FragmentHeader {
                frame: FrameId(5_000),
                offset,
                ends_frame,
                importance,
            };
            for symbol in [None, Some(9)] {
                let read = WireFrame::Fragment {
                    header,
                    captured_at_micros: 77,
                    symbol: symbol.map(|number| number as u32),
                    payload: b"media",
                };
                let datagram = written(header, symbol, b"media");
                assert_eq!(first_frame(&datagram), Some(Ok(read)));
            }
        }
    }

    #[test]
    fn a_fragment_without_bytes_only_ends_a_frame_that_has_some() {
        for (offset, ends_frame, is_read) in [(0, true, false), (9, false, false), (9, true, true)]
        {
            let header = FragmentHeader {
                frame: FrameId(1),
                offset,
                ends_frame,
                importance: Importance::Reference,
            };
            let datagram = written(header, None, b"");
            let frame = first_frame(&datagram);
            assert_eq!(
                matches!(frame, Some(Ok(_))),
                is_read,
                "{offset} {ends_frame}"
            );
        }
    }

    #[test]
    fn the_only_fragment_of_a_frame_saves_three_bytes() {
        fn header(ends_frame: bool) -> FragmentHeader {
            FragmentHeader {
                frame: FrameId(5_000),
                offset: 0,
                ends_frame,
                importance: Importance::Reference,
            }
        }
        let one = written(header(true), None, b"media");
        let two = written(header(false), None, b"media");
        // Kind, type, frame number, capture time, payload.
        assert_eq!(one.len(), 1 + 1 + 2 + 4 + 5);
        assert_eq!(two.len(), one.len() + 3);
        for datagram in [&one, &two] {
            for length in 1..=datagram.len() - 5 {
                let cut = first_frame(&datagram[..length]);
                assert!(matches!(cut, None | Some(Err(Malformed))), "{length} bytes");
            }
        }
        // A key frame that no other needs.
        assert_eq!(
            first_frame(&[UNTRACKED, WHOLE_FRAME | 3, 1, 0, 0, 0, 0, 1]),
            Some(Err(Malformed))
        );
    }

    #[test]
    fn the_notice_of_a_replaced_session_needs_no_state() {
        let (tracking, mut frames) = decode(REPLACED_NOTICE).unwrap();
        assert_eq!(tracking, Tracking::Untracked);
        let mut report = FeedbackReport::default();
        assert_eq!(frames.next(&mut report), Some(Ok(WireFrame::Replaced)));
        assert_eq!(frames.next(&mut report), None);
    }
}
