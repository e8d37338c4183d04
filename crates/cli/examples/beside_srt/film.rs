//! An MPEG-TS stream whose packets carry the time at which they were sent.

use anabranch_net::Clock;
use anabranch_units::{DataRate, Duration, Instant};
use anabranch_video::mpeg_ts::{PACKET_LEN, SYNC_BYTE, TransportStreamWriter};

/// Size of the datagrams that every transport gets: seven packets.
pub const DATAGRAM_BYTES: usize = 7 * PACKET_LEN;
const PICTURES_PER_SECOND: u64 = 25;
const KEY_INTERVAL: u64 = 50;
const VIDEO_PID: [u8; 2] = [0x01, 0x00];
const NULL_PID: [u8; 2] = [0x1f, 0xff];
/// Length of the first packet's headers: a clock reference, and a PES header of unknown length with
/// a PTS.
const FIRST_HEADER_BYTES: usize = 8 + 14;

/// Distribution of a picture's packets in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// All packets at once, as ffmpeg sends them.
    Burst,
    /// A constant rate; null packets fill the rest of the interval.
    Constant,
}

/// Properties of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Film {
    pub rate: DataRate,
    pub shape: Shape,
    /// Whether pictures end in a stuffed packet, as those of ffmpeg do.
    pub is_stuffed: bool,
}

/// Number and send time of a packet, in its last bytes. Each byte carries seven bits, so that the
/// stamp contains no start code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub number: u64,
    pub sent_at: Instant,
    pub is_last_of_picture: bool,
}

impl Stamp {
    const BYTES: usize = 16;

    fn write(self, packet: &mut [u8]) {
        let start = packet.len() - Self::BYTES;
        let (number, rest) = packet[start..].split_at_mut(5);
        put(number, self.number);
        let (sent_at, last) = rest.split_at_mut(10);
        put(sent_at, (self.sent_at - Instant::ZERO).as_nanos());
        last[0] = 0x80 | u8::from(self.is_last_of_picture);
    }

    /// Returns the stamp of a packet, unless the packet is a table.
    pub fn read(packet: &[u8]) -> Option<Stamp> {
        let pid = [packet[1] & 0x1f, packet[2]];
        if packet[0] != SYNC_BYTE || (pid != VIDEO_PID && pid != NULL_PID) {
            return None;
        }
        let bytes = packet.last_chunk::<{ Self::BYTES }>()?;
        Some(Stamp {
            number: get(&bytes[..5]),
            sent_at: Instant::ZERO + Duration::from_nanos(get(&bytes[5..15])),
            is_last_of_picture: bytes[15] == 0x81,
        })
    }
}

fn put(bytes: &mut [u8], mut value: u64) {
    for byte in bytes.iter_mut().rev() {
        *byte = 0x80 | (value & 0x7f) as u8;
        value >>= 7;
    }
}

fn get(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f))
}

/// Writer of a film's packets, one picture interval after the other.
#[derive(Debug)]
pub struct Writer {
    film: Film,
    tables: Vec<u8>,
    counter: u8,
    next_number: u64,
    pictures: u64,
}

impl Writer {
    pub fn new(film: Film) -> Self {
        let mut writer = TransportStreamWriter::new(Vec::new());
        let picture = [0, 0, 0, 1, 0x65, 0x88];
        writer
            .write(&picture, Duration::ZERO, true)
            .expect("a Vec takes everything");
        let mut tables = writer.into_inner();
        tables.truncate(2 * PACKET_LEN);
        Writer {
            film,
            tables,
            counter: 0,
            next_number: 0,
            pictures: 0,
        }
    }

    /// Returns the number of stamped packets that were written.
    pub fn packet_count(&self) -> u64 {
        self.next_number
    }

    /// Returns the time of the next picture, counted from the start.
    pub fn next_clock(&self) -> Duration {
        Duration::from_secs(1) * self.pictures / PICTURES_PER_SECOND
    }

    /// Returns the packets of the next picture interval.
    pub fn write(&mut self) -> Vec<u8> {
        let interval = Duration::from_secs(1) / PICTURES_PER_SECOND;
        let packet_count = self.film.rate.bytes_in(interval) as usize / PACKET_LEN;
        // The picture takes between 80 and 98 % of the interval.
        let video_count = match self.film.shape {
            Shape::Burst => packet_count,
            Shape::Constant => packet_count * (80 + (self.pictures * 7 % 19) as usize) / 100,
        };
        let mut bytes = Vec::with_capacity((packet_count + 2) * PACKET_LEN);
        let is_key = self.pictures.is_multiple_of(KEY_INTERVAL);
        if is_key {
            bytes.extend_from_slice(&self.tables);
        }
        for index in 0..video_count.max(2) {
            let is_last = index + 1 == video_count.max(2);
            let stuffing = if is_last && self.film.is_stuffed {
                1 + (self.pictures * 37 % 120) as usize
            } else {
                0
            };
            self.write_video(index == 0, is_key, stuffing, &mut bytes);
            self.stamp(&mut bytes, is_last);
        }
        while bytes.len() < packet_count * PACKET_LEN && self.film.shape == Shape::Constant {
            let start = bytes.len();
            bytes.resize(start + PACKET_LEN, 0xff);
            bytes[start..start + 4].copy_from_slice(&[SYNC_BYTE, NULL_PID[0], NULL_PID[1], 0x10]);
            self.stamp(&mut bytes, false);
        }
        self.pictures += 1;
        bytes
    }

    fn stamp(&mut self, bytes: &mut [u8], is_last_of_picture: bool) {
        let stamp = Stamp {
            number: self.next_number,
            sent_at: Instant::ZERO,
            is_last_of_picture,
        };
        stamp.write(bytes);
        self.next_number += 1;
    }

    fn write_video(&mut self, is_first: bool, is_key: bool, stuffing: usize, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        let counter = self.counter;
        self.counter = (counter + 1) & 0x0f;
        let flags = u8::from(is_first) << 6 | VIDEO_PID[0];
        let has_field = is_first || stuffing > 0;
        let control = 0x10 | u8::from(has_field) << 5 | counter;
        bytes.extend([SYNC_BYTE, flags, VIDEO_PID[1], control]);
        if is_first {
            let reference = self.next_clock().as_micros() * 9 / 100;
            bytes.extend([7, 0x10 | u8::from(is_key) << 6]);
            bytes.extend_from_slice(&(reference << 15 | 0x7e00).to_be_bytes()[2..]);
            let shown = reference + 9_000;
            bytes.extend([0, 0, 1, 0xe0, 0, 0, 0x80, 0x80, 5]);
            bytes.push(0x21 | (shown >> 29 & 0x0e) as u8);
            bytes.extend([(shown >> 22) as u8, 1 | (shown >> 14 & 0xfe) as u8]);
            bytes.extend([(shown >> 7) as u8, 1 | (shown << 1 & 0xfe) as u8]);
            debug_assert_eq!(bytes.len() - start, 4 + FIRST_HEADER_BYTES);
            let slice = if is_key { 0x65 } else { 0x41 };
            bytes.extend([0, 0, 0, 1, 9, 0xf0, 0, 0, 0, 1, slice, 0x88, 0x84]);
        } else if stuffing > 0 {
            bytes.push(stuffing as u8 - 1);
            bytes.extend((stuffing > 1).then_some(0));
            bytes.resize(start + 4 + stuffing, 0xff);
        }
        bytes.resize(start + PACKET_LEN, 0xaa);
    }
}

/// Writes the send time into all packets of a datagram.
pub fn stamp_time(datagram: &mut [u8], clock: &Clock) {
    let sent_at = clock.now();
    for packet in datagram.chunks_exact_mut(PACKET_LEN) {
        if let Some(stamp) = Stamp::read(packet) {
            Stamp { sent_at, ..stamp }.write(packet);
        }
    }
}
