//! The pictures and the sound inside a transport stream, with their times, for programs that carry
//! them in another container.

use std::collections::VecDeque;

use super::packet::Packet;
use super::pes::PesHeader;
use super::splitter::MAX_UNIT_LEN;
use super::tables::{AudioCodec, ProgramTables, VideoCodec};
use super::{PACKET_LEN, SYNC_BYTE};

/// A track of the first program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Track {
    /// Its first video.
    Video(VideoCodec),
    /// Its first sound.
    Audio(AudioCodec),
}

/// The payload of one PES packet: a picture, or some frames of sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementaryUnit {
    /// Its track.
    pub track: Track,
    /// The elementary stream's bytes, never empty.
    pub bytes: Vec<u8>,
    /// Presentation time: the PTS, 33 bits in units of 1/90,000 s.
    pub presented_at: Option<u64>,
    /// Decoding time in the same units: the DTS, or the PTS without a DTS.
    pub decoded_at: Option<u64>,
}

/// Takes a transport stream in whole packets and leaves the units of its first program's video and
/// sound. Holds at most one unit of each that is not complete, of at most [`MAX_UNIT_LEN`] bytes.
#[derive(Clone, Debug, Default)]
pub struct ElementaryReader {
    tables: ProgramTables,
    video: Assembly,
    audio: Assembly,
    complete: VecDeque<ElementaryUnit>,
}

/// A PES packet that is being assembled.
#[derive(Clone, Debug, Default)]
struct Assembly {
    unit: Option<ElementaryUnit>,
    /// Number of bytes that are missing, if the packet states its length.
    missing: Option<usize>,
}

impl ElementaryReader {
    /// Creates a reader that knows no tables yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the codecs of the first program's first video and sound, once its tables were met.
    pub fn codecs(&self) -> (Option<VideoCodec>, Option<AudioCodec>) {
        let video = self.tables.video().map(|video| video.codec);
        (video, self.tables.audio().map(|audio| audio.codec))
    }

    /// Takes packets. Other bytes in place of a packet are skipped.
    pub fn push(&mut self, packets: &[u8]) {
        for packet in packets.chunks_exact(PACKET_LEN) {
            if let Some(packet) = packet.first_chunk()
                && packet[0] == SYNC_BYTE
            {
                self.push_packet(Packet::new(packet));
            }
        }
    }

    /// Records that the picture is complete: nothing of it follows. Without this call, a picture
    /// of unknown length is complete when the next one starts.
    pub fn end_picture(&mut self) {
        if self.video.missing.is_none() {
            self.complete.extend(self.video.take());
        }
    }

    /// Takes the next complete unit.
    pub fn next_unit(&mut self) -> Option<ElementaryUnit> {
        self.complete.pop_front()
    }

    fn push_packet(&mut self, packet: Packet<'_>) {
        if packet.is_opaque() {
            return;
        }
        self.tables.record(packet);
        let pid = packet.pid();
        let video = self.tables.video().filter(|video| video.pid == pid);
        let audio = self.tables.audio().filter(|audio| audio.pid == pid);
        let (track, assembly) = if let Some(video) = video {
            (Track::Video(video.codec), &mut self.video)
        } else if let Some(audio) = audio {
            (Track::Audio(audio.codec), &mut self.audio)
        } else {
            return;
        };
        let payload = packet.payload();
        if packet.starts_unit() {
            self.complete.extend(assembly.take());
            assembly.begin(track, payload);
        } else {
            assembly.extend(payload);
        }
        if assembly.missing == Some(0) {
            self.complete.extend(assembly.take());
        }
    }
}

impl Assembly {
    fn begin(&mut self, track: Track, payload: &[u8]) {
        let Some(header) = PesHeader::read(payload) else {
            return;
        };
        self.missing = header
            .packet_len
            .map(|len| len.saturating_sub(header.header_len));
        self.unit = Some(ElementaryUnit {
            track,
            bytes: Vec::new(),
            presented_at: header.presented_at,
            decoded_at: header.timestamp,
        });
        // A header longer than the packet hides the payload, as elsewhere.
        self.extend(payload.get(header.header_len..).unwrap_or_default());
    }

    fn extend(&mut self, bytes: &[u8]) {
        let Some(unit) = &mut self.unit else { return };
        let len = self
            .missing
            .map_or(bytes.len(), |missing| missing.min(bytes.len()));
        if unit.bytes.len() + len > MAX_UNIT_LEN {
            *self = Assembly::default();
            return;
        }
        unit.bytes.extend_from_slice(&bytes[..len]);
        self.missing = self.missing.map(|missing| missing - len);
    }

    /// Takes the unit, if there is one with bytes. Of a stated length, some bytes may be missing.
    fn take(&mut self) -> Option<ElementaryUnit> {
        let unit = core::mem::take(self).unit;
        unit.filter(|unit| !unit.bytes.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tables::testing::{association, map, packets};
    use super::*;

    const AUDIO_PID: u16 = 0x101;
    const VIDEO_PID: u16 = 0x102;

    /// Returns packets of a PES packet, stuffed at its end; of unknown length if it is video.
    fn pes(pid: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0, 0, 1, 0xe0, 0, 0, 0x80, 0x80, 5, 0x21, 0, 0x01, 0, 0x15];
        if pid == AUDIO_PID {
            bytes[3] = 0xc0;
            let len = (payload.len() + 8) as u16;
            bytes[4..6].copy_from_slice(&len.to_be_bytes());
        }
        bytes.extend_from_slice(payload);
        let mut all = Vec::new();
        for (index, chunk) in bytes.chunks(170).enumerate() {
            let start = if index == 0 { 0x40 } else { 0 };
            all.extend([0x47, start | (pid >> 8) as u8, pid as u8, 0x30]);
            all.extend([(183 - chunk.len()) as u8, 0]);
            all.resize(all.len() + 182 - chunk.len(), 0xff);
            all.extend_from_slice(chunk);
        }
        all
    }

    fn tables() -> Vec<u8> {
        [packets(0, association(0x100)), packets(0x100, map(0))]
            .concat()
            .concat()
    }

    fn taken(reader: &mut ElementaryReader) -> Vec<(Track, Vec<u8>)> {
        let units = core::iter::from_fn(|| reader.next_unit());
        units.map(|unit| (unit.track, unit.bytes)).collect()
    }

    #[test]
    fn pictures_end_with_the_next_one_or_when_their_end_is_known() {
        let mut reader = ElementaryReader::new();
        assert_eq!(reader.codecs(), (None, None));
        reader.push(&tables());
        let codecs = (Some(VideoCodec::H264), Some(AudioCodec::Aac));
        assert_eq!(reader.codecs(), codecs);
        let (first, second) = (vec![1; 500], vec![2; 10]);
        reader.push(&pes(VIDEO_PID, &first));
        assert_eq!(reader.next_unit(), None);
        reader.push(&pes(VIDEO_PID, &second));
        let video = Track::Video(VideoCodec::H264);
        assert_eq!(taken(&mut reader), [(video, first)]);
        reader.end_picture();
        let unit = reader.next_unit().unwrap();
        assert_eq!(unit.bytes, second);
        assert_eq!((unit.presented_at, unit.decoded_at), (Some(10), Some(10)));
        reader.end_picture();
        assert_eq!(reader.next_unit(), None);
    }

    #[test]
    fn sound_ends_where_its_length_says_so() {
        let mut reader = ElementaryReader::new();
        reader.push(&tables());
        reader.push(&pes(AUDIO_PID, &[7; 400]));
        assert_eq!(
            taken(&mut reader),
            [(Track::Audio(AudioCodec::Aac), vec![7; 400])]
        );
    }

    #[test]
    fn a_unit_without_a_beginning_or_beyond_the_bound_is_left_out() {
        let mut reader = ElementaryReader::new();
        reader.push(&tables());
        reader.push(&pes(VIDEO_PID, &[1; 500])[PACKET_LEN..]);
        reader.end_picture();
        assert_eq!(reader.next_unit(), None);
        reader.push(&pes(VIDEO_PID, &vec![1; MAX_UNIT_LEN + 1]));
        reader.end_picture();
        assert_eq!(reader.next_unit(), None);
    }
}
