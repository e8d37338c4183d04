//! Cutting a transport stream into units of one coded picture each, without changing a byte.

mod parts;

use anabranch_units::{Duration, Importance};

use super::clock::StreamClock;
use super::packet::Packet;
use super::pes::PesHeader;
use super::tables::{ProgramTables, VideoCodec, VideoStream};
use super::timeline::Timeline;
use super::{PACKET_LEN, SYNC_BYTE};
use crate::nal::{self, SeiMessages, Slices, h264, mpeg2};

/// A unit larger than this is handed over in parts, so that memory stays bounded.
pub const MAX_UNIT_LEN: usize = 4 << 20;

/// Span of a unit in the stream's time while no video is known …
const SPAN_WITHOUT_VIDEO: Duration = Duration::from_millis(40);
/// … or this many bytes, if they come first.
const MAX_LEN_WITHOUT_VIDEO: usize = 350 * PACKET_LEN;
/// Duration above which a picture is handed over in parts.
const SPAN_WITH_VIDEO: Duration = Duration::from_millis(500);
/// Length of a start code and the bytes behind it that describe a picture.
const START_LEN: usize = 3 + 3;
/// The four bytes that a picture header of MPEG-2 begins with.
const MPEG2_PICTURE_START: u64 = 1 << 8 | mpeg2::PICTURE as u64;

/// Consecutive packets of a transport stream, in the order of arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportUnit {
    /// Whole packets: a multiple of [`PACKET_LEN`] bytes. Without the parts that
    /// [`TransportUnitSplitter::next_part`] has returned; if these were all, it is empty.
    pub bytes: Vec<u8>,
    /// Importance of the unit. Key: decoding can start here, since a random access point of the
    /// video, one of its IDR (HEVC: IRAP) pictures, or a recovery point is inside. Disposable: its
    /// picture is used for no other, or it holds none though the program has video.
    pub importance: Importance,
    /// The unit's time since the first one with a time: by the video's decoding timestamps, or by
    /// the stream's own clock without video. Never decreases.
    pub clock: Option<Duration>,
    /// Position in the stream of the byte behind the unit, for
    /// [`TransportUnitSplitter::due_at`].
    pub end: u64,
}

/// Position of a stream within its pictures. A reader that waits for bytes learns from it which
/// pauses lie inside of a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PictureProgress {
    /// Pictures that have started.
    pub started_count: u64,
    /// Packets of video that have arrived, of all pictures.
    pub packet_count: u64,
    /// Whether the unit being filled holds a picture that may be whole: its length is unknown.
    pub may_be_whole: bool,
    /// Whether the unit being filled holds a picture, or a part of one.
    pub has_picture: bool,
}

/// Takes a transport stream in pieces of any size and cuts it before each packet in which a picture
/// starts; tables directly before it belong to the same unit. All units together equal the input,
/// except for bytes skipped where packets did not start with the sync byte.
#[derive(Clone, Debug, Default)]
pub struct TransportUnitSplitter {
    /// Bytes that are not a whole packet yet, or not read.
    incoming: Vec<u8>,
    is_synchronized: bool,
    has_ended: bool,
    tables: ProgramTables,
    video_clock: StreamClock,
    timeline: Timeline,
    /// Whether other streams leave without the video while it is silent.
    cuts_silence: bool,
    /// Bytes of all units that were handed over.
    handed_over_len: u64,
    last_clock: Option<Duration>,
    unit: Unit,
    /// Bytes of the current picture's PES packet that are still missing, if its length is known or
    /// its end was seen.
    remaining_pes_len: Option<usize>,
    stuffing: Stuffing,
    /// Slices already handed over of the current picture, if its end was a guess.
    handed_over: Option<Slices>,
    progress: PictureProgress,
    /// The last eight bytes of video, for start codes that span packets.
    video_tail: u64,
    /// State of the SEI messages that the video is in.
    sei: Option<SeiMessages>,
    /// The highest sub-layer of HEVC that was met.
    highest_layer: u8,
    skipped_bytes: u64,
    sync_loss_count: u64,
}

/// Meaning of a stuffed packet for a picture of unknown length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stuffing {
    /// No meaning: the next picture ends this one.
    #[default]
    Ignored,
    /// The last packet of a picture. Muxers stuff no other packets, with few exceptions.
    EndsPictures,
    /// The last packet of a picture, which has ended the current one.
    HasEndedPicture,
}

/// The unit being filled.
#[derive(Clone, Debug, Default)]
struct Unit {
    bytes: Vec<u8>,
    /// Length of the parts that were handed over, which precede `bytes`.
    parted_len: usize,
    /// Importance with which its first part was handed over.
    begun: Option<Importance>,
    /// Whether its packets show no slices, so that the first one decides the importance.
    hides_slices: bool,
    /// Position of the tables at the end; `None` if the unit ends with something else.
    tables_at: Option<usize>,
    has_video: bool,
    slices: Slices,
    /// Slices handed over earlier of the picture that this unit continues.
    continued: Option<Slices>,
    clock: Option<Duration>,
    /// The stream's time at the first clock value in this unit.
    reference: Option<Duration>,
    /// The stream's time at the start, if it is known there.
    started_at: Option<Duration>,
    /// The stream's time at the last packet of video, and the length up to that packet.
    video_at: Option<Duration>,
    video_len: usize,
}

impl TransportUnitSplitter {
    /// Creates a splitter that keeps pictures whole, for readers of pictures.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a splitter for a stored stream that is sent. While the video is silent for more than
    /// 40 ms of the stream's time, other streams make units of their own.
    pub fn stored() -> Self {
        TransportUnitSplitter {
            cuts_silence: true,
            ..Self::default()
        }
    }

    /// Creates a splitter for a live stream that is sent. It does not wait for the next picture if
    /// a packet looks like this one's last. If that packet was not the last, the rest makes a unit
    /// of its own, and such packets are not trusted again.
    pub fn live() -> Self {
        TransportUnitSplitter {
            stuffing: Stuffing::EndsPictures,
            ..Self::stored()
        }
    }

    /// Returns the due time of the byte at `position`, a unit's end, after the stream's first. It
    /// uses the program clock references around it, or the rules for streams without. `None` until
    /// the next of them is known. Positions must not decrease from call to call.
    pub fn due_at(&mut self, position: u64) -> Option<Duration> {
        self.timeline.time_at(position)
    }

    /// Estimates the due time of the last packet, before the next clock reference is known.
    pub fn estimated_due(&self) -> Option<Duration> {
        self.timeline.estimate()
    }

    /// Returns the stream's progress.
    pub fn progress(&self) -> PictureProgress {
        PictureProgress {
            may_be_whole: self.unit.has_video && self.remaining_pes_len.is_none(),
            has_picture: self.unit.has_video,
            ..self.progress
        }
    }

    /// Takes the stream's next bytes. Call [`next_unit`](Self::next_unit) until it is empty before
    /// pushing more, so that only one unit is held.
    pub fn push(&mut self, bytes: &[u8]) {
        self.incoming.extend_from_slice(bytes);
    }

    /// Returns the next complete unit; `None` until more bytes are pushed. A unit is complete with
    /// the last byte of its picture if the stream gives the picture's length, else when the next
    /// picture starts.
    pub fn next_unit(&mut self) -> Option<TransportUnit> {
        let mut at = 0;
        let complete = loop {
            if self.remaining_pes_len == Some(0) {
                self.remaining_pes_len = None;
                break Some(self.hand_over());
            }
            at = self.synchronize(at);
            if !self.is_synchronized {
                break None;
            }
            let packet = self.incoming[at..].first_chunk::<PACKET_LEN>().copied();
            let Some(packet) = packet else {
                break None;
            };
            at += PACKET_LEN;
            if let Some(unit) = self.add(&packet) {
                break Some(unit);
            }
        };
        self.incoming.drain(..at);
        complete.map(|unit| self.finished(unit))
    }

    /// Returns the rest once the stream has ended: call it until it is empty. Bytes after the last
    /// whole packet are dropped. With the last unit all times are known.
    pub fn finish(&mut self) -> Option<TransportUnit> {
        self.has_ended = true;
        let unit = self.next_unit().or_else(|| self.flush());
        if unit.is_none() {
            self.timeline.finish();
        }
        unit
    }

    /// Hands over the unit being filled before it is complete, for a caller whose input pauses. The
    /// rest of its picture, if there is one, will be a unit of its own.
    pub fn flush(&mut self) -> Option<TransportUnit> {
        self.remaining_pes_len.take_if(|len| *len == 0);
        let unit = self.hand_over();
        (unit.len() > 0).then(|| self.finished(unit))
    }

    /// Takes the unit so far, which holds the end of its picture, or may.
    fn hand_over(&mut self) -> Unit {
        if self.unit.has_video {
            let slices = self.unit.continued.unwrap_or(self.unit.slices);
            self.handed_over = Some(slices).filter(|slices| !slices.is_empty());
        }
        self.unit.take()
    }

    /// Returns the number of bytes left out because they were in no packet.
    pub const fn skipped_bytes(&self) -> u64 {
        self.skipped_bytes
    }

    /// Returns the number of packets that did not start at the expected position.
    pub const fn sync_loss_count(&self) -> u64 {
        self.sync_loss_count
    }

    /// Returns the position, from `at` on, of the next packet. While packets follow one another, it
    /// is `at`; else it is the first sync byte with another one at packet distance.
    fn synchronize(&mut self, at: usize) -> usize {
        if self.is_synchronized {
            if self.incoming.get(at).is_none_or(|&byte| byte == SYNC_BYTE) {
                return at;
            }
            self.is_synchronized = false;
            self.sync_loss_count += 1;
        }
        let mut position = at;
        while position < self.incoming.len() {
            let is_sync = self.incoming[position] == SYNC_BYTE;
            match self.incoming.get(position + PACKET_LEN) {
                Some(&SYNC_BYTE) if is_sync => self.is_synchronized = true,
                // The stream's last packet has no successor.
                None if is_sync && self.has_ended => {
                    self.is_synchronized = self.incoming.len() - position == PACKET_LEN;
                }
                None if is_sync => break,
                _ => {}
            }
            if self.is_synchronized {
                break;
            }
            position += 1;
        }
        self.skipped_bytes += (position - at) as u64;
        position
    }

    /// Adds a packet, to a new unit if the one so far ends before it; that one is returned.
    fn add(&mut self, bytes: &[u8; PACKET_LEN]) -> Option<Unit> {
        let packet = Packet::new(bytes);
        let reference = self.timeline.push(packet, &self.tables);
        let now = self.timeline.estimate();
        let complete = self.cut_before(packet, now);
        self.unit.reference = self.unit.reference.or(reference);
        self.unit.started_at = self.unit.started_at.or(now);
        let is_reserved = packet.has_table_pid() && !self.tables.has_stream(packet.pid());
        let is_table = is_reserved || self.tables.is_map(packet);
        let offset = self.unit.bytes.len();
        self.unit.tables_at = is_table.then(|| self.unit.tables_at.unwrap_or(offset));
        self.unit.bytes.extend_from_slice(bytes);
        if !packet.is_opaque() {
            self.tables.record(packet);
        }
        if let Some(video) = self.video_in(packet) {
            self.record_video(packet, video);
            self.unit.video_at = now;
            self.unit.video_len = self.unit.len();
        }
        complete
    }

    /// Cuts the unit if `packet`, which is due at `now`, belongs to the next one.
    fn cut_before(&mut self, packet: Packet<'_>, now: Option<Duration>) -> Option<Unit> {
        let video = self.tables.video();
        let is_video = self.video_in(packet).is_some();
        if is_video && packet.starts_unit() && self.unit.has_video {
            return Some(self.unit.split_off_tables());
        }
        if video.is_some() && !is_video && self.is_video_silent(now) {
            return Some(self.hand_over());
        }
        let (max_span, max_len) = match video {
            Some(_) => (SPAN_WITH_VIDEO, MAX_UNIT_LEN),
            None => (SPAN_WITHOUT_VIDEO, MAX_LEN_WITHOUT_VIDEO),
        };
        let is_full = self.unit.len() + PACKET_LEN > max_len;
        let is_long = span(self.unit.started_at, now).is_some_and(|span| span >= max_span);
        (is_full || is_long).then(|| self.hand_over())
    }

    /// Returns the video stream that the packet belongs to.
    fn video_in(&self, packet: Packet<'_>) -> Option<VideoStream> {
        let video = self.tables.video();
        video.filter(|video| video.pid == packet.pid() && packet.has_payload())
    }

    /// Returns whether the unit leaves without more video: it holds no part of a picture whose rest
    /// is to come, and no packet of video has come for a while.
    fn is_video_silent(&self, now: Option<Duration>) -> bool {
        if !self.cuts_silence || self.unit.len() == 0 || self.remaining_pes_len.is_some() {
            return false;
        }
        match span(self.unit.video_at.or(self.unit.started_at), now) {
            Some(span) => span >= SPAN_WITHOUT_VIDEO,
            None => self.unit.len() - self.unit.video_len >= MAX_LEN_WITHOUT_VIDEO,
        }
    }

    /// Records a packet of the video, already in the unit.
    fn record_video(&mut self, packet: Packet<'_>, video: VideoStream) {
        self.record_progress(packet);
        let unit = &mut self.unit;
        if packet.is_random_access() {
            unit.slices.record_key();
        }
        unit.has_video = true;
        if packet.is_opaque() {
            // Of a scrambled stream, no packet shows more. A damaged one hides only itself.
            unit.hides_slices |= !packet.is_damaged();
            return;
        }
        unit.hides_slices |= video.codec == VideoCodec::Other;
        let mut payload = packet.payload();
        if packet.starts_unit() {
            self.video_tail = u64::MAX;
            self.sei = None;
            self.remaining_pes_len = None;
            let Some(header) = PesHeader::read(payload) else {
                unit.hides_slices = true;
                return;
            };
            if let Some(timestamp) = header.timestamp {
                unit.clock = Some(self.video_clock.advance(timestamp));
            }
            self.remaining_pes_len = header.packet_len;
            let header_len = header.header_len.min(payload.len());
            self.count_pes(header_len);
            payload = &payload[header_len..];
        }
        self.count_pes(payload.len());
        self.record_start_codes(payload, video.codec);
        let is_end = self.stuffing == Stuffing::EndsPictures && packet.is_stuffed();
        if is_end && self.remaining_pes_len.is_none() {
            self.remaining_pes_len = Some(0);
            self.stuffing = Stuffing::HasEndedPicture;
        }
    }

    /// Records a packet of video, which begins a picture or continues one that may have been handed
    /// over.
    fn record_progress(&mut self, packet: Packet<'_>) {
        self.progress.packet_count += 1;
        let has_ended = self.stuffing == Stuffing::HasEndedPicture;
        if packet.starts_unit() {
            self.progress.started_count += 1;
            self.handed_over = None;
            if has_ended {
                self.stuffing = Stuffing::EndsPictures;
            }
            return;
        }
        if has_ended {
            self.stuffing = Stuffing::Ignored;
        }
        if !self.unit.has_video {
            self.unit.continued = self.handed_over;
        }
    }

    fn count_pes(&mut self, len: usize) {
        if let Some(remaining) = &mut self.remaining_pes_len {
            *remaining = remaining.saturating_sub(len);
        }
    }

    /// Searches for start codes of slices, and of points at which decoding can start.
    fn record_start_codes(&mut self, payload: &[u8], codec: VideoCodec) {
        // A start code may start in the packet before.
        let mut at = payload.len().min(8);
        for &byte in &payload[..at] {
            self.record_byte(byte, codec);
        }
        at = self.record_sei(payload, at, codec);
        loop {
            let from = at.saturating_sub(START_LEN - 1);
            let Some(found) = nal::find_start_code(&payload[from..]) else {
                break;
            };
            let header_at = from + found + 3;
            let end = (from + found + START_LEN).min(payload.len());
            for position in at.max(header_at)..end {
                self.video_tail = tail_of(&payload[..position]);
                self.record_byte(payload[position], codec);
            }
            at = self.record_sei(payload, at.max(end), codec);
            if at == payload.len() {
                break;
            }
        }
        if payload.len() > 8 {
            self.video_tail = tail_of(payload);
        }
    }

    /// Records SEI messages that continue at `at`; returns their end.
    fn record_sei(&mut self, payload: &[u8], mut at: usize, codec: VideoCodec) -> usize {
        while self.sei.is_some() && at < payload.len() {
            self.record_byte(payload[at], codec);
            at += 1;
        }
        at
    }

    /// Records a byte of video behind those of `video_tail`.
    fn record_byte(&mut self, byte: u8, codec: VideoCodec) {
        self.record_sei_byte(byte, codec);
        let slices = &mut self.unit.slices;
        let is_header = self.video_tail & 0x00ff_ffff == 1;
        let is_after_header = self.video_tail >> 8 & 0x00ff_ffff == 1;
        match codec {
            VideoCodec::H264 if is_header => slices.record_h264(byte),
            VideoCodec::Hevc if is_after_header => {
                let header = [self.video_tail as u8, byte];
                slices.record_hevc(header, &mut self.highest_layer);
            }
            VideoCodec::Mpeg2 if is_header && byte == mpeg2::SEQUENCE_HEADER => {
                slices.record_key();
            }
            VideoCodec::Mpeg2 if self.video_tail >> 8 & 0xffff_ffff == MPEG2_PICTURE_START => {
                slices.record_mpeg2(mpeg2::coding_type(byte));
            }
            _ => {}
        }
        self.video_tail = self.video_tail << 8 | u64::from(byte);
    }

    /// Records a byte that may belong to SEI messages, or to the header of their NAL unit.
    fn record_sei_byte(&mut self, byte: u8, codec: VideoCodec) {
        if self.video_tail & 0x00ff_ffff == 1 {
            self.sei = None;
        }
        if let Some(sei) = &mut self.sei {
            if sei.push(byte) {
                self.unit.slices.record_key();
                self.sei = None;
            } else if sei.is_over() {
                self.sei = None;
            }
            return;
        }
        let header = self.video_tail as u8;
        let starts = match codec {
            VideoCodec::H264 => {
                self.video_tail & 0x00ff_ffff == 1 && nal::h264_type(byte) == h264::SEI
            }
            VideoCodec::Hevc => {
                self.video_tail >> 8 & 0x00ff_ffff == 1
                    && nal::hevc_type(header) == nal::HEVC_PREFIX_SEI
            }
            VideoCodec::Mpeg2 | VideoCodec::Other => false,
        };
        self.sei = starts.then(SeiMessages::default);
    }

    /// Completes the unit. Its clock is its picture's, else that of the unit before.
    fn finished(&mut self, unit: Unit) -> TransportUnit {
        let clock = match self.tables.video() {
            Some(_) => unit.clock,
            None => unit.reference,
        };
        self.last_clock = self.last_clock.max(clock);
        self.handed_over_len += unit.bytes.len() as u64;
        let importance = match self.tables.video() {
            Some(_) if !unit.has_video => Importance::Disposable,
            _ => unit.importance(),
        };
        TransportUnit {
            importance: unit.begun.unwrap_or(importance),
            bytes: unit.bytes,
            clock: self.last_clock,
            end: self.handed_over_len,
        }
    }
}

/// Returns the time between two instants of the stream, if both are known.
fn span(from: Option<Duration>, to: Option<Duration>) -> Option<Duration> {
    Some(to?.saturating_sub(from?))
}

/// Returns the last eight bytes, or all if there are fewer.
fn tail_of(bytes: &[u8]) -> u64 {
    let last = &bytes[bytes.len().saturating_sub(8)..];
    last.iter()
        .fold(u64::MAX, |tail, &byte| tail << 8 | u64::from(byte))
}

impl Unit {
    /// Returns the importance of the picture, or of its remaining part: the rest of a key frame is
    /// no key frame, since decoding cannot start there.
    fn importance(&self) -> Importance {
        match self.continued.map(|slices| slices.importance()) {
            None => self.slices.importance(),
            Some(Importance::Disposable) => Importance::Disposable,
            Some(Importance::Key | Importance::Reference) => Importance::Reference,
        }
    }

    /// Returns the length with the parts that were handed over.
    fn len(&self) -> usize {
        self.parted_len + self.bytes.len()
    }

    /// Takes the unit, and leaves an empty one with the same room.
    fn take(&mut self) -> Unit {
        let next = Unit {
            bytes: Vec::with_capacity(self.bytes.len()),
            ..Unit::default()
        };
        core::mem::replace(self, next)
    }

    /// Leaves the tables at the end to the next unit and returns the rest.
    fn split_off_tables(&mut self) -> Unit {
        let mut complete = self.take();
        if let Some(tables_at) = complete.tables_at {
            self.bytes.extend(complete.bytes.drain(tables_at..));
            self.tables_at = Some(0);
        }
        complete
    }
}

#[cfg(test)]
mod tests;
