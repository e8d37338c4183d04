//! MPEG-TS whose packets have their number and time of sending, and whose bytes can be checked.
//!
//! Each packet of 188 bytes ends with a stamp: its number, the time at which it was sent, the
//! picture that it belongs to, the packets of that picture, and a checksum of the whole packet.
//! Digits of seven bits with a high bit above them can imitate no start code. Tables and video are
//! as an encoder writes them, with pictures of H.264 whose types a transport can read.

use anabranch_units::{DataRate, Duration};

/// Size of a packet of MPEG-TS (ISO/IEC 13818-1).
pub(crate) const PACKET_BYTES: usize = 188;
/// Packets in a datagram, as most encoders send them.
pub(crate) const PACKETS_PER_DATAGRAM: usize = 7;
const SYNC_BYTE: u8 = 0x47;
const PMT_PID: u16 = 0x1000;
const VIDEO_PID: u16 = 0x100;
/// Pictures from one pair of tables to the next.
const TABLE_INTERVAL: u64 = 3;
/// Time from a picture's clock reference to its display, in units of 1/90,000 s.
const DISPLAY_DELAY: u64 = 9_000;

/// Places of the stamp's fields, and numbers of their digits.
const SEQUENCE: Field = Field(151, 10);
const SENT_NANOS: Field = Field(161, 10);
const PICTURE: Field = Field(171, 5);
const PICTURE_PACKETS: Field = Field(176, 3);
const IS_KEY: Field = Field(179, 1);
const CHECKSUM: Field = Field(180, 8);

/// A number in digits of seven bits: the place of the first one, and their number.
#[derive(Clone, Copy, Debug)]
struct Field(usize, usize);

impl Field {
    fn write(self, packet: &mut [u8], mut value: u64) {
        let Field(start, length) = self;
        for byte in packet[start..start + length].iter_mut().rev() {
            *byte = 0x80 | (value & 0x7f) as u8;
            value >>= 7;
        }
    }

    fn read(self, packet: &[u8]) -> u64 {
        let Field(start, length) = self;
        let digits = packet[start..start + length].iter();
        digits.fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f))
    }
}

/// The stream's properties.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StreamConfig {
    pub(crate) bitrate: DataRate,
    pub(crate) frames_per_second: u32,
    /// Pictures from one key frame to the next.
    pub(crate) key_interval: u32,
    /// Size of a key frame over that of another picture.
    pub(crate) key_ratio: f64,
}

impl StreamConfig {
    /// Returns the time of a picture.
    pub(crate) fn picture_interval(&self) -> Duration {
        Duration::from_nanos(1_000_000_000 / u64::from(self.frames_per_second))
    }

    /// Returns the time from one key frame to the next, on average.
    pub(crate) fn key_frame_interval(&self) -> Duration {
        self.picture_interval() * u64::from(self.key_interval)
    }
}

/// The fields of a packet's stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Number of the packet, from 0.
    pub(crate) sequence: u64,
    /// Time since the clock's origin.
    pub(crate) sent_at: Duration,
    /// Number of the picture, from 0.
    pub(crate) picture: u64,
    /// Packets of this picture, with the tables before it.
    pub(crate) picture_packets: u64,
    pub(crate) is_key: bool,
}

impl Stamp {
    /// Returns the stamp of a packet; `None` if a byte of it is wrong.
    pub(crate) fn read(packet: &[u8; PACKET_BYTES]) -> Option<Stamp> {
        let mut expected = *packet;
        CHECKSUM.write(&mut expected, checksum(packet));
        let is_whole = packet[0] == SYNC_BYTE && expected == *packet;
        is_whole.then(|| Stamp {
            sequence: SEQUENCE.read(packet),
            sent_at: Duration::from_nanos(SENT_NANOS.read(packet)),
            picture: PICTURE.read(packet),
            picture_packets: PICTURE_PACKETS.read(packet),
            is_key: IS_KEY.read(packet) == 1,
        })
    }

    /// Writes the time of sending, which is known last, and the checksum.
    pub(crate) fn complete(packet: &mut [u8; PACKET_BYTES], sent_at: Duration) {
        SENT_NANOS.write(packet, sent_at.as_nanos());
        let sum = checksum(packet);
        CHECKSUM.write(packet, sum);
    }
}

/// Returns 56 bits of FNV-1a over all bytes before the checksum.
fn checksum(packet: &[u8; PACKET_BYTES]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in &packet[..CHECKSUM.0] {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash >> 8
}

/// The pictures of a stream, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    config: StreamConfig,
    picture: u64,
    sequence: u64,
    /// Packets that the bitrate allows and that no picture has used.
    credit: f64,
    continuity: Continuity,
}

#[derive(Clone, Copy, Debug, Default)]
struct Continuity {
    tables: u8,
    video: u8,
}

impl Stream {
    pub(crate) fn new(config: StreamConfig) -> Stream {
        Stream {
            config,
            picture: 0,
            sequence: 0,
            credit: 0.0,
            continuity: Continuity::default(),
        }
    }

    /// Returns the packets of the next picture, whose time of sending is not written yet.
    pub(crate) fn next_picture(&mut self) -> Vec<[u8; PACKET_BYTES]> {
        let config = self.config;
        let is_key = self.picture.is_multiple_of(u64::from(config.key_interval));
        let has_tables = is_key || self.picture.is_multiple_of(TABLE_INTERVAL);
        let table_count = if has_tables { 2 } else { 0 };
        let count = self.packet_count(is_key).max(table_count + 1);
        self.credit -= count as f64;
        let mut packets = Vec::with_capacity(count);
        if has_tables {
            packets.push(program_association(self.continuity.tables));
            packets.push(program_map(self.continuity.tables));
            self.continuity.tables = self.continuity.tables.wrapping_add(1);
        }
        for index in 0..count - table_count {
            let mut packet = self.video_packet();
            if index == 0 {
                self.begin_picture(&mut packet, is_key);
            }
            packets.push(packet);
        }
        for packet in &mut packets {
            SEQUENCE.write(packet, self.sequence);
            PICTURE.write(packet, self.picture);
            PICTURE_PACKETS.write(packet, count as u64);
            IS_KEY.write(packet, u64::from(is_key));
            self.sequence += 1;
        }
        self.picture += 1;
        packets
    }

    /// Returns the number of packets for the next picture, so that the bitrate holds on average.
    fn packet_count(&mut self, is_key: bool) -> usize {
        let config = self.config;
        let of_picture = config.bitrate.bits_per_second() as f64
            / 8.0
            / PACKET_BYTES as f64
            / f64::from(config.frames_per_second);
        let interval = f64::from(config.key_interval);
        let unit = interval / (interval - 1.0 + config.key_ratio);
        let share = if is_key { config.key_ratio } else { 1.0 };
        self.credit += of_picture * unit * share;
        self.credit.max(0.0) as usize
    }

    /// Returns a packet of video, whose bytes depend on its number.
    fn video_packet(&mut self) -> [u8; PACKET_BYTES] {
        let mut packet = [0; PACKET_BYTES];
        let mut state = self.sequence ^ u64::from(self.continuity.video) << 40;
        for byte in &mut packet[4..] {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            *byte = 0x80 | (state >> 57) as u8;
        }
        let [high, low] = VIDEO_PID.to_be_bytes();
        packet[..4].copy_from_slice(&[SYNC_BYTE, high, low, 0x10 | self.continuity.video & 15]);
        self.continuity.video = self.continuity.video.wrapping_add(1);
        packet
    }

    /// Writes the beginning of a picture: a clock reference, the header of PES, and the start of an
    /// access unit of H.264.
    fn begin_picture(&self, packet: &mut [u8; PACKET_BYTES], is_key: bool) {
        let clock = self.picture * 90_000 / u64::from(self.config.frames_per_second);
        let shown_at = clock + DISPLAY_DELAY;
        packet[1] |= 0x40;
        packet[3] |= 0x20;
        let random_access = if is_key { 0x40 } else { 0 };
        packet[4..12].copy_from_slice(&[
            7,
            0x10 | random_access,
            (clock >> 25) as u8,
            (clock >> 17) as u8,
            (clock >> 9) as u8,
            (clock >> 1) as u8,
            ((clock & 1) << 7) as u8 | 0x7e,
            0,
        ]);
        packet[12..26].copy_from_slice(&[
            0,
            0,
            1,
            0xe0,
            0,
            0,
            0x80,
            0x80,
            5,
            0x21 | (shown_at >> 29 & 0xe) as u8,
            (shown_at >> 22) as u8,
            1 | (shown_at >> 14 & 0xfe) as u8,
            (shown_at >> 7) as u8,
            1 | (shown_at << 1 & 0xfe) as u8,
        ]);
        // An access unit delimiter, then a slice of an IDR picture or of one that refers to others.
        let slice = if is_key { 0x65 } else { 0x41 };
        packet[26..39].copy_from_slice(&[0, 0, 0, 1, 9, 0xf0, 0, 0, 0, 1, slice, 0x88, 0x84]);
    }
}

fn program_association(continuity: u8) -> [u8; PACKET_BYTES] {
    let [high, low] = (0xe000 | PMT_PID).to_be_bytes();
    section(
        0,
        &[0, 0xb0, 13, 0, 1, 0xc1, 0, 0, 0, 1, high, low],
        continuity,
    )
}

fn program_map(continuity: u8) -> [u8; PACKET_BYTES] {
    let [high, low] = (0xe000 | VIDEO_PID).to_be_bytes();
    // One stream of H.264, which has the clock.
    let body = [
        2, 0xb0, 18, 0, 1, 0xc1, 0, 0, high, low, 0xf0, 0, 0x1b, high, low, 0xf0, 0,
    ];
    section(PMT_PID, &body, continuity)
}

/// Returns a packet with a section, to which its checksum is added.
fn section(pid: u16, body: &[u8], continuity: u8) -> [u8; PACKET_BYTES] {
    let mut packet = [0xff; PACKET_BYTES];
    let [high, low] = pid.to_be_bytes();
    packet[..5].copy_from_slice(&[SYNC_BYTE, 0x40 | high, low, 0x10 | continuity & 15, 0]);
    let end = 5 + body.len();
    packet[5..end].copy_from_slice(body);
    packet[end..end + 4].copy_from_slice(&crc32(body).to_be_bytes());
    packet
}

/// Returns the checksum of sections (ISO/IEC 13818-1, annex A).
fn crc32(bytes: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte) << 24;
        for _ in 0..8 {
            let carry = sum & 0x8000_0000 != 0;
            sum <<= 1;
            if carry {
                sum ^= 0x04c1_1db7;
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use anabranch_mpegts_io::{Reading, UnitSplitter};
    use anabranch_units::Importance;
    use anabranch_video::input::InputKind;

    use super::*;

    const CONFIG: StreamConfig = StreamConfig {
        bitrate: DataRate::from_megabits_per_second(4),
        frames_per_second: 25,
        key_interval: 50,
        key_ratio: 5.0,
    };

    #[test]
    fn pictures_have_the_bitrate_and_larger_key_frames() {
        let mut stream = Stream::new(CONFIG);
        let pictures: Vec<usize> = (0..500).map(|_| stream.next_picture().len()).collect();
        let bits = (pictures.iter().sum::<usize>() * PACKET_BYTES * 8) as f64;
        assert!((bits / 20.0 - 4e6).abs() < 4e3, "{bits}");
        let ratio = pictures[50] as f64 / pictures[51] as f64;
        assert!((4.9..5.1).contains(&ratio), "{ratio}");
    }

    #[test]
    fn a_packet_says_which_it_is_unless_a_byte_is_wrong() {
        let mut stream = Stream::new(CONFIG);
        let first = stream.next_picture();
        let mut packet = stream.next_picture()[0];
        let sent_at = Duration::from_nanos(123_456_789_012);
        Stamp::complete(&mut packet, sent_at);
        let stamp = Stamp::read(&packet).unwrap();
        let expected = Stamp {
            sequence: first.len() as u64,
            sent_at,
            picture: 1,
            picture_packets: stamp.picture_packets,
            is_key: false,
        };
        assert_eq!(stamp, expected);
        for place in 0..PACKET_BYTES {
            let mut other = packet;
            other[place] ^= 0x80;
            assert_eq!(Stamp::read(&other), None, "{place}");
        }
    }

    #[test]
    fn a_transport_reads_pictures_and_their_types() {
        let mut stream = Stream::new(CONFIG);
        let mut bytes = Vec::new();
        for _ in 0..52 {
            for mut packet in stream.next_picture() {
                Stamp::complete(&mut packet, Duration::ZERO);
                bytes.extend_from_slice(&packet);
            }
        }
        let mut splitter = UnitSplitter::stored(InputKind::MpegTs);
        splitter.push(&bytes);
        let mut importances = Vec::new();
        while let Some(unit) = splitter.next(Reading::HasEnded) {
            importances.push(unit.importance);
        }
        let mut expected = vec![Importance::Reference; 52];
        for key in [0, 50] {
            expected[key] = Importance::Key;
        }
        assert_eq!(importances, expected);
    }
}
