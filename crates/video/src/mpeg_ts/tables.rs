//! The first program in the tables PAT and PMT (ITU-T H.222.0 §2.4.4): its clock, its streams and
//! the first video among them.

use super::packet::{NULL_PID, PAT_PID, Packet};

/// A section's greatest length in bytes (§2.4.4.8).
const MAX_SECTION_LEN: usize = 1_024;
/// Bytes of a section that its length field does not count.
const SECTION_START_LEN: usize = 3;
const CRC_LEN: usize = 4;

const PAT_TABLE_ID: u8 = 0x00;
const PMT_TABLE_ID: u8 = 0x02;

/// Codec of a video stream, as far as its key frames are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VideoCodec {
    /// MPEG-1 or MPEG-2 (ITU-T H.262).
    Mpeg2,
    /// ITU-T H.264.
    H264,
    /// ITU-T H.265.
    Hevc,
    /// Video of another kind; its key frames are known by the random access indicator alone.
    Other,
}

impl VideoCodec {
    /// Returns the codec of a stream type (§2.4.4.9, table 2-34); `None` if it is no video.
    const fn from_stream_type(stream_type: u8) -> Option<VideoCodec> {
        match stream_type {
            0x01 | 0x02 => Some(VideoCodec::Mpeg2),
            0x1b => Some(VideoCodec::H264),
            0x24 => Some(VideoCodec::Hevc),
            0x10 | 0x33 => Some(VideoCodec::Other),
            _ => None,
        }
    }
}

/// Codec of an audio stream, as far as browsers are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AudioCodec {
    /// AAC in ADTS frames (ISO/IEC 13818-7 annex B).
    Aac,
    /// Opus, with the control headers of its mapping to MPEG-TS.
    Opus,
    /// Sound of another kind.
    Other,
}

/// Descriptor tag of a registration (§2.6.8), and the identifier of Opus.
const REGISTRATION: u8 = 0x05;
const OPUS: &[u8] = b"Opus";
/// Stream type of private data in PES packets; a descriptor names it.
const PRIVATE_DATA: u8 = 0x06;
/// Descriptor tags of DVB's AC-3, enhanced AC-3, DTS and AAC (ETSI EN 300 468 table 12).
const DVB_SOUNDS: [u8; 4] = [0x6a, 0x7a, 0x7b, 0x7c];

impl AudioCodec {
    /// Returns the codec of a stream type (table 2-34) with its descriptors; `None` if it is no
    /// sound.
    fn from_stream(stream_type: u8, descriptors: &[u8]) -> Option<AudioCodec> {
        match stream_type {
            0x0f => Some(AudioCodec::Aac),
            // MPEG-1, MPEG-2 and LATM; AC-3 and others of ATSC.
            0x03 | 0x04 | 0x11 | 0x80..=0x8a => Some(AudioCodec::Other),
            PRIVATE_DATA => named_sound(descriptors),
            _ => None,
        }
    }
}

/// Returns the sound that descriptors name.
fn named_sound(mut descriptors: &[u8]) -> Option<AudioCodec> {
    while let [tag, len, rest @ ..] = descriptors {
        let (body, others) = rest.split_at_checked(usize::from(*len))?;
        if *tag == REGISTRATION && body.starts_with(OPUS) {
            return Some(AudioCodec::Opus);
        }
        if DVB_SOUNDS.contains(tag) {
            return Some(AudioCodec::Other);
        }
        descriptors = others;
    }
    None
}

/// The sound beside a video.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AudioStream {
    pub(super) pid: u16,
    pub(super) codec: AudioCodec,
}

/// The video that a stream is split by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VideoStream {
    pub(super) pid: u16,
    pub(super) codec: VideoCodec,
}

/// Contents of the first program's map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Program {
    /// PID of the packets with its clock references (PCR); `None` if it has none.
    reference_pid: Option<u16>,
    video: Option<VideoStream>,
    audio: Option<AudioStream>,
    /// PIDs of all of its streams.
    stream_pids: Vec<u16>,
}

/// The tables of a program, read from the packets. Damaged tables change nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct ProgramTables {
    /// Number of the first program, and PID of its PMT.
    first: Option<(u16, u16)>,
    program: Program,
    has_map: bool,
    association: Section,
    map: Section,
}

impl ProgramTables {
    /// Returns the first video stream of the first program, once both tables were met.
    pub(super) const fn video(&self) -> Option<VideoStream> {
        self.program.video
    }

    /// Returns the first sound of the first program, once both tables were met.
    pub(super) const fn audio(&self) -> Option<AudioStream> {
        self.program.audio
    }

    /// Returns whether the first program's map was met.
    pub(super) const fn has_map(&self) -> bool {
        self.has_map
    }

    /// Returns PID of the first program's clock references.
    pub(super) const fn reference_pid(&self) -> Option<u16> {
        self.program.reference_pid
    }

    /// Returns whether a stream of the first program has this PID.
    pub(super) fn has_stream(&self, pid: u16) -> bool {
        self.program.stream_pids.contains(&pid)
    }

    /// Returns whether `packet` carries the PMT.
    pub(super) fn is_map(&self, packet: Packet<'_>) -> bool {
        self.first.is_some_and(|(_, pid)| pid == packet.pid())
    }

    /// Records a packet, if it carries PAT or PMT.
    pub(super) fn record(&mut self, packet: Packet<'_>) {
        if packet.pid() == PAT_PID {
            let first = &mut self.first;
            self.association.push(packet, |section| {
                *first = first_program(*first, section);
            });
        } else if self.is_map(packet) {
            let number = self.first.map(|(number, _)| number);
            let (program, has_map) = (&mut self.program, &mut self.has_map);
            self.map.push(packet, |section| {
                if let Some(read) = read_map(section, number) {
                    *program = read;
                    *has_map = true;
                }
            });
        }
    }
}

/// Returns the first program's number and PMT PID after a PAT section. Programs of later sections
/// of the table follow those of section 0.
fn first_program(before: Option<(u16, u16)>, section: &[u8]) -> Option<(u16, u16)> {
    let is_later = section.get(6).is_some_and(|number| *number > 0);
    let read = read_association(section);
    if is_later {
        before.or(read)
    } else {
        read.or(before)
    }
}

/// Returns whether the section is in force (current_next_indicator).
fn is_current(section: &[u8]) -> bool {
    section.get(5).is_some_and(|flags| flags & 1 != 0)
}

/// Returns the first program's number and PMT PID from a PAT section (§2.4.4.3).
fn read_association(section: &[u8]) -> Option<(u16, u16)> {
    let [PAT_TABLE_ID, _, _, _, _, _, _, _, programs @ ..] = section else {
        return None;
    };
    if !is_current(section) {
        return None;
    }
    // Program 0 is the network's own table.
    let program = programs
        .chunks_exact(4)
        .find(|program| program[..2] != [0, 0])?;
    let number = u16::from_be_bytes([program[0], program[1]]);
    Some((number, pid_of(program[2], program[3])))
}

/// Reads a PMT section of the program `number` (§2.4.4.8); `None` if it is another section, or its
/// header is cut off. Maps of several programs, and other tables, may share a PID.
fn read_map(section: &[u8], number: Option<u16>) -> Option<Program> {
    let [PMT_TABLE_ID, _, _, high, low, ..] = *section else {
        return None;
    };
    if number != Some(u16::from_be_bytes([high, low])) || !is_current(section) {
        return None;
    }
    let reference_pid = pid_of(*section.get(8)?, *section.get(9)?);
    let program_descriptors_len = length_of(*section.get(10)?, *section.get(11)?);
    let mut program = Program {
        reference_pid: Some(reference_pid).filter(|pid| *pid != NULL_PID),
        ..Program::default()
    };
    let mut streams = section
        .get(12 + program_descriptors_len..)
        .unwrap_or_default();
    while let [stream_type, high, low, len_high, len_low, rest @ ..] = streams {
        let pid = pid_of(*high, *low);
        program.stream_pids.push(pid);
        let codec = VideoCodec::from_stream_type(*stream_type);
        let video = codec.map(|codec| VideoStream { pid, codec });
        program.video = program.video.or(video);
        let descriptors_len = length_of(*len_high, *len_low);
        let descriptors = rest.get(..descriptors_len).unwrap_or_default();
        let codec = AudioCodec::from_stream(*stream_type, descriptors);
        let audio = codec.map(|codec| AudioStream { pid, codec });
        program.audio = program.audio.or(audio);
        streams = rest.get(descriptors_len..).unwrap_or_default();
    }
    Some(program)
}

const fn pid_of(high: u8, low: u8) -> u16 {
    u16::from_be_bytes([high & 0x1f, low])
}

fn length_of(high: u8, low: u8) -> usize {
    usize::from(u16::from_be_bytes([high & 0x0f, low]))
}

/// Table ID of the bytes behind a packet's last section.
const STUFFING: u8 = 0xff;

/// A section being assembled from the packets of one PID.
#[derive(Clone, Debug, Default)]
struct Section {
    bytes: Vec<u8>,
    is_open: bool,
}

impl Section {
    /// Adds a packet's payload, and hands each section that is complete to `take`, without its CRC.
    /// Sections whose CRC is wrong are left out. A packet in which a section starts may begin with
    /// the end of another one, and contain several (§2.4.4.1).
    fn push(&mut self, packet: Packet<'_>, mut take: impl FnMut(&[u8])) {
        let payload = packet.payload();
        if !packet.starts_unit() {
            self.extend(payload, &mut take);
            return;
        }
        let [pointer, payload @ ..] = payload else {
            return;
        };
        let Some((end, starts)) = payload.split_at_checked(usize::from(*pointer)) else {
            self.is_open = false;
            return;
        };
        self.extend(end, &mut take);
        self.bytes.clear();
        self.is_open = true;
        self.extend(starts, &mut take);
    }

    /// Adds bytes of the open section, and of those that follow it.
    fn extend(&mut self, bytes: &[u8], take: &mut impl FnMut(&[u8])) {
        if !self.is_open {
            return;
        }
        self.bytes.extend_from_slice(bytes);
        let mut rest = &self.bytes[..];
        while let &[table_id, high, low, ..] = rest {
            let len = SECTION_START_LEN + length_of(high, low);
            if table_id == STUFFING || len > MAX_SECTION_LEN {
                self.is_open = false;
                break;
            }
            let Some((section, others)) = rest.split_at_checked(len) else {
                break;
            };
            // The CRC over a section with its CRC is zero.
            if len >= SECTION_START_LEN + CRC_LEN && crc32(section) == 0 {
                take(&section[..len - CRC_LEN]);
            }
            rest = others;
        }
        let used = self.bytes.len() - rest.len();
        self.bytes.drain(..used);
    }
}

/// Returns the CRC of H.222.0 annex A: polynomial 0x04c11db7, most significant bit first.
fn crc32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte) << 24, |crc, _| {
            if crc >> 31 != 0 {
                crc << 1 ^ 0x04c1_1db7
            } else {
                crc << 1
            }
        })
    })
}

/// Tables for tests.
#[cfg(test)]
pub(super) mod testing {
    use super::*;
    use crate::mpeg_ts::PACKET_LEN;

    /// Returns packets of `pid` that carry `section`, its length and CRC filled in.
    pub(in super::super) fn packets(pid: u16, mut section: Vec<u8>) -> Vec<[u8; PACKET_LEN]> {
        let len = section.len() - SECTION_START_LEN + CRC_LEN;
        section[1] = 0xb0 | (len >> 8) as u8;
        section[2] = len as u8;
        section.extend(crc32(&section).to_be_bytes());
        section.insert(0, 0);
        let chunks = section.chunks(184).enumerate();
        chunks
            .map(|(index, chunk)| {
                let mut packet = [0xff; PACKET_LEN];
                let start = if index == 0 { 0x40 } else { 0 };
                packet[..4].copy_from_slice(&[0x47, start | (pid >> 8) as u8, pid as u8, 0x10]);
                packet[4..4 + chunk.len()].copy_from_slice(chunk);
                packet
            })
            .collect()
    }

    pub(in super::super) fn association(map_pid: u16) -> Vec<u8> {
        let [high, low] = map_pid.to_be_bytes();
        vec![
            PAT_TABLE_ID,
            0,
            0,
            0,
            1,
            0xc1,
            0,
            0,
            0,
            0,
            0xe0,
            0x10,
            0,
            1,
            0xe0 | high,
            low,
        ]
    }

    /// Returns a map with audio and a descriptor of `descriptor_len` bytes on PID 0x101, then H.264
    /// on PID 0x102.
    pub(in super::super) fn map(descriptor_len: u8) -> Vec<u8> {
        let mut section = vec![PMT_TABLE_ID, 0, 0, 0, 1, 0xc1, 0, 0, 0xe1, 0x02, 0xf0, 0];
        section.extend([0x0f, 0xe1, 0x01, 0xf0, descriptor_len]);
        section.extend(vec![0; usize::from(descriptor_len)]);
        section.extend([0x1b, 0xe1, 0x02, 0xf0, 0]);
        section
    }

    /// Returns PAT and PMT of a program of sound on PID 0x101.
    pub(in super::super) fn of_sound(map_pid: u16) -> Vec<[u8; PACKET_LEN]> {
        let mut section = map(0);
        section.truncate(section.len() - 5);
        [
            packets(PAT_PID, association(map_pid)),
            packets(map_pid, section),
        ]
        .concat()
    }

    /// Returns PAT and PMT of a program whose clock references are on `reference_pid`.
    pub(in super::super) fn of_program(map_pid: u16, reference_pid: u16) -> Vec<[u8; PACKET_LEN]> {
        let mut section = map(0);
        section[8..10].copy_from_slice(&(0xe000 | reference_pid).to_be_bytes());
        [
            packets(PAT_PID, association(map_pid)),
            packets(map_pid, section),
        ]
        .concat()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{association, map, packets};
    use super::*;
    use crate::mpeg_ts::PACKET_LEN;

    fn video_after(packets: &[[u8; PACKET_LEN]]) -> Option<VideoStream> {
        let mut tables = ProgramTables::default();
        packets
            .iter()
            .for_each(|packet| tables.record(Packet::new(packet)));
        tables.video()
    }

    #[test]
    fn the_first_video_is_found_also_in_a_map_of_several_packets() {
        for descriptor_len in [0, 10, 200] {
            let mut all = packets(PAT_PID, association(0x100));
            all.extend(packets(0x100, map(descriptor_len)));
            let expected = VideoStream {
                pid: 0x102,
                codec: VideoCodec::H264,
            };
            assert_eq!(video_after(&all), Some(expected), "{descriptor_len}");
        }
    }

    #[test]
    fn the_first_sound_is_found_by_its_type_or_its_descriptors() {
        for (stream_type, descriptors, codec) in [
            (0x0f, [].as_slice(), Some(AudioCodec::Aac)),
            (
                0x06,
                b"\x0a\x01x\x05\x04Opus\x7f\x02\x80\x02",
                Some(AudioCodec::Opus),
            ),
            (0x06, &[0x6a, 1, 0], Some(AudioCodec::Other)),
            (0x06, &[0x05, 4, b'O', b'p'], None),
            (0x06, b"\x05\x04VANC", None),
            (0x81, &[], Some(AudioCodec::Other)),
            (0x1b, &[], None),
        ] {
            let found = AudioCodec::from_stream(stream_type, descriptors);
            assert_eq!(found, codec, "{stream_type:#x} {descriptors:?}");
        }
        let mut tables = ProgramTables::default();
        let all = [packets(PAT_PID, association(0x100)), packets(0x100, map(9))].concat();
        all.iter()
            .for_each(|packet| tables.record(Packet::new(packet)));
        let audio = tables.audio().unwrap();
        assert_eq!((audio.pid, audio.codec), (0x101, AudioCodec::Aac));
    }

    #[test]
    fn map_lists_clock_pid_and_streams() {
        fn record(
            all: Vec<[u8; PACKET_LEN]>,
            tables: &mut ProgramTables,
        ) -> (Option<u16>, [bool; 3]) {
            all.iter()
                .for_each(|packet| tables.record(Packet::new(packet)));
            let streams = [0x100, 0x101, 0x102].map(|pid| tables.has_stream(pid));
            (tables.reference_pid(), streams)
        }

        let mut all = packets(PAT_PID, association(0x100));
        all.extend(packets(0x100, map(0)));
        let mut tables = ProgramTables::default();
        assert_eq!(record(all, &mut tables), (Some(0x102), [false, true, true]));
        let mut without_clock = map(0);
        without_clock[8] = 0xff;
        without_clock[9] = 0xff;
        let all = packets(0x100, without_clock);
        assert_eq!(record(all, &mut tables), (None, [false, true, true]));
    }

    /// Returns packets of `pid` with these bytes of sections, one after another. Each packet with
    /// the start of a section points to the first one.
    fn packed(pid: u16, sections: &[Vec<u8>]) -> Vec<[u8; PACKET_LEN]> {
        let starts: Vec<usize> = sections
            .iter()
            .scan(0, |at, section| {
                let start = *at;
                *at += section.len();
                Some(start)
            })
            .collect();
        let (all, mut at, mut packed) = (sections.concat(), 0, Vec::new());
        while at < all.len() {
            let mut packet = [0xff; PACKET_LEN];
            packet[..4].copy_from_slice(&[0x47, (pid >> 8) as u8, pid as u8, 0x10]);
            let mut header_len = 4;
            let next = starts.iter().find(|start| **start >= at);
            if let Some(pointer) = next.map(|next| next - at).filter(|pointer| *pointer < 183) {
                packet[1] |= 0x40;
                packet[4] = pointer as u8;
                header_len = 5;
            }
            let len = (PACKET_LEN - header_len).min(all.len() - at);
            packet[header_len..header_len + len].copy_from_slice(&all[at..at + len]);
            at += len;
            packed.push(packet);
        }
        packed
    }

    /// Returns a section with its length and CRC filled in.
    fn whole(section: Vec<u8>) -> Vec<u8> {
        let len = section.len() + CRC_LEN;
        let packets = packets(0x100, section);
        let payloads = packets.iter().flat_map(|packet| &packet[4..]);
        payloads.skip(1).take(len).copied().collect()
    }

    #[test]
    fn a_map_behind_another_section_is_read() {
        // A table of another kind, which ends in the packet in which the map starts.
        for other_len in [20, 150, 178, 179, 180, 181, 182, 183, 400] {
            let mut other = vec![0xc0; other_len];
            other[5] = 1;
            let mut all = packets(PAT_PID, association(0x100));
            all.extend(packed(
                0x100,
                &[whole(other), whole(map(0)), whole(map(100))],
            ));
            let video = video_after(&all).map(|video| video.pid);
            assert_eq!(video, Some(0x102), "{other_len}");
        }
    }

    #[test]
    fn a_map_that_ends_before_the_pointer_is_read() {
        for descriptor_len in [180, 200, 250] {
            let mut all = packets(PAT_PID, association(0x100));
            let other = whole(vec![0xc0; 100]);
            all.extend(packed(0x100, &[whole(map(descriptor_len)), other]));
            let end = all[2];
            assert!(end[1] & 0x40 != 0 && end[4] > 0, "it has a pointer");
            let video = video_after(&all).map(|video| video.pid);
            assert_eq!(video, Some(0x102), "{descriptor_len}");
        }
    }

    #[test]
    fn tables_that_are_not_in_force_yet_change_nothing() {
        fn current(map_pid: u16, table: fn(u16) -> Vec<u8>, is_current: bool) -> Vec<u8> {
            let mut section = table(map_pid);
            section[5] = 0xc0 | u8::from(is_current);
            section
        }
        for is_current in [true, false] {
            let mut all = packets(PAT_PID, association(0x100));
            all.extend(packets(PAT_PID, current(0x200, association, is_current)));
            all.extend(packets(0x100, map(0)));
            assert_eq!(video_after(&all).is_none(), is_current);
            let mut all = packets(PAT_PID, association(0x100));
            all.extend(packets(0x100, current(0, |_| map(0), is_current)));
            assert_eq!(video_after(&all).is_some(), is_current);
        }
    }

    #[test]
    fn the_first_program_is_that_of_the_first_section() {
        let mut later = association(0x200);
        later[6] = 1;
        let mut all = packets(PAT_PID, association(0x100));
        all.extend(packets(PAT_PID, later));
        all.extend(packets(0x100, map(0)));
        assert!(video_after(&all).is_some());
    }

    #[test]
    fn a_damaged_table_changes_nothing() {
        let mut all = packets(PAT_PID, association(0x100));
        all.extend(packets(0x100, map(0)));
        all[1][25] ^= 1;
        assert_eq!(video_after(&all), None);
    }
}
