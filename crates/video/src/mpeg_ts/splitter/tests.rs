mod parts;

use anabranch_units::{Duration, Seed};
use mpeg2ts::es::StreamType;
use mpeg2ts::ts::{ReadTsPacket, TsPacketReader, TsPacketWriter, TsPayload, WriteTsPacket};
use proptest::prelude::*;

use super::*;
use crate::mpeg_ts::TransportStreamWriter;
use crate::mpeg_ts::packet::PAT_PID;
use crate::mpeg_ts::tables::testing::{association, map, packets};

const IDR: &[u8] = &[0, 0, 0, 1, 0x09, 0xf0, 0, 0, 0, 1, 0x65, 0x88];
const P_SLICE: &[u8] = &[0, 0, 0, 1, 0x09, 0xf0, 0, 0, 0, 1, 0x41, 0x9a];
const KEY_FRAME_INTERVAL: usize = 5;

/// Access units of the given sizes in bytes, every fifth a key frame, whose content holds no start
/// codes.
fn pictures(sizes: &[usize]) -> Vec<Vec<u8>> {
    let mut rng = Seed(1).rng();
    sizes
        .iter()
        .enumerate()
        .map(|(index, &size)| {
            let start = if index % KEY_FRAME_INTERVAL == 0 {
                IDR
            } else {
                P_SLICE
            };
            let rest = (start.len()..size).map(|_| rng.below(254) as u8 + 2);
            start.iter().copied().chain(rest).collect()
        })
        .collect()
}

fn written(pictures: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = TransportStreamWriter::new(Vec::new());
    for (index, picture) in pictures.iter().enumerate() {
        let at = Duration::from_millis(40) * index as u64;
        writer
            .write(picture, at, index % KEY_FRAME_INTERVAL == 0)
            .unwrap();
    }
    writer.into_inner()
}

fn split(stream: &[u8], chunk_len: usize) -> Vec<TransportUnit> {
    let mut splitter = TransportUnitSplitter::new();
    let mut units = Vec::new();
    for chunk in stream.chunks(chunk_len) {
        splitter.push(chunk);
        while let Some(unit) = splitter.next_unit() {
            units.push(unit);
        }
    }
    while let Some(unit) = splitter.finish() {
        units.push(unit);
    }
    units
}

fn joined(units: &[TransportUnit]) -> Vec<u8> {
    units.iter().flat_map(|unit| unit.bytes.clone()).collect()
}

/// Returns the video's elementary stream in whole packets of the writer.
fn video_of(bytes: &[u8]) -> Vec<u8> {
    let mut video = Vec::new();
    for packet in bytes.chunks(PACKET_LEN) {
        let packet = Packet::new(packet.try_into().unwrap());
        if packet.pid() == 0x100 {
            let payload = packet.payload();
            let header = if packet.starts_unit() {
                PesHeader::read(payload)
            } else {
                None
            };
            video.extend(&payload[header.map_or(0, |header| header.header_len)..]);
        }
    }
    video
}

#[test]
fn splitter_reads_back_the_written_pictures() {
    let pictures = pictures(&[
        9_000, 12, 161, 162, 163, 345, 346, 347, 70_000, 1_000, 200_000, 500,
    ]);
    let stream = written(&pictures);
    let units = split(&stream, 1_316);
    assert_eq!(joined(&units), stream);
    assert_eq!(units.len(), pictures.len());
    for (index, (unit, picture)) in units.iter().zip(&pictures).enumerate() {
        assert!(video_of(&unit.bytes) == *picture, "picture {index}");
        assert_eq!(
            unit.importance.is_key(),
            index % KEY_FRAME_INTERVAL == 0,
            "{index}"
        );
        let at = unit.clock.unwrap();
        assert!(at.abs_diff(Duration::from_millis(40) * index as u64) < Duration::from_micros(20));
        if unit.importance.is_key() {
            let first: [u8; PACKET_LEN] = unit.bytes[..PACKET_LEN].try_into().unwrap();
            assert_eq!(
                Packet::new(&first).pid(),
                0,
                "tables come with the key frame"
            );
        }
    }
}

/// Returns the stream with the video on `pid`, behind tables that say so.
fn with_video_on(pid: u16, stream: &[u8]) -> Vec<u8> {
    let [high, low] = pid.to_be_bytes();
    let mut section = map(0);
    let stream_at = section.len() - 5;
    section[stream_at + 1..stream_at + 3].copy_from_slice(&[0xe0 | high, low]);
    let tables = packets(PAT_PID, association(0x1000));
    let tables = [tables, packets(0x1000, section)].concat().concat();
    let packets = stream.chunks(PACKET_LEN).map(|packet| {
        let mut packet = packet.to_vec();
        if Packet::new(packet[..].try_into().unwrap()).pid() == 0x100 {
            packet[1] = packet[1] & 0xe0 | high;
            packet[2] = low;
            return packet;
        }
        Vec::new()
    });
    [tables, packets.flatten().collect()].concat()
}

#[test]
fn video_on_a_pid_of_tables_is_cut_like_any_other() {
    fn cuts(pid: u16, stream: &[u8]) -> Vec<usize> {
        let units = split(&with_video_on(pid, stream), 1_316);
        let lens = units.iter().map(|unit| unit.bytes.len());
        lens.collect::<Vec<_>>()
    }

    let stream = written(&pictures(&[9_000, 12, 161, 345, 70_000, 500]));
    let usual = cuts(0x100, &stream);
    assert_eq!(usual.len(), 6);
    for pid in [0x10, 0x11, 0x1f] {
        assert_eq!(cuts(pid, &stream), usual, "{pid:#x}");
    }
}

#[test]
fn a_picture_of_known_length_is_handed_over_with_its_last_byte() {
    let stream = written(&pictures(&[5_000]));
    let mut splitter = TransportUnitSplitter::new();
    splitter.push(&stream);
    assert_eq!(splitter.next_unit().map(|unit| unit.bytes), Some(stream));
    assert_eq!(splitter.finish(), None);
}

#[test]
fn a_picture_flushed_amid_is_continued_in_a_unit_of_its_own() {
    let stream = written(&pictures(&[100_000, 500]));
    let (first, rest) = stream.split_at(100 * PACKET_LEN);
    let mut splitter = TransportUnitSplitter::new();
    splitter.push(first);
    assert_eq!(splitter.next_unit(), None);
    assert_eq!(
        splitter.flush().map(|unit| unit.bytes).as_deref(),
        Some(first)
    );
    splitter.push(rest);
    let units: Vec<_> = core::iter::from_fn(|| splitter.next_unit()).collect();
    assert_eq!(units.len(), 2);
    assert_eq!(joined(&units), rest);
}

/// Returns the stream with pictures of unknown length, as ffmpeg writes them.
fn of_unknown_lengths(mut stream: Vec<u8>) -> Vec<u8> {
    for packet in stream.chunks_mut(PACKET_LEN) {
        let start = if packet[3] & 0x20 == 0 {
            4
        } else {
            5 + usize::from(packet[4])
        };
        if packet[1] & 0x40 != 0 && packet.get(start..start + 3) == Some(&[0, 0, 1]) {
            packet[start + 4..start + 6].fill(0);
        }
    }
    stream
}

/// Returns the units of a live splitter while the stream is pushed, packet by packet, and flushed
/// after the given packets.
fn split_live(stream: &[u8], flushed_after: &[usize]) -> Vec<TransportUnit> {
    let mut splitter = TransportUnitSplitter::live();
    let mut units = Vec::new();
    for (index, packet) in stream.chunks(PACKET_LEN).enumerate() {
        splitter.push(packet);
        units.extend(core::iter::from_fn(|| splitter.next_unit()));
        if flushed_after.contains(&index) {
            units.extend(splitter.flush());
        }
    }
    units.extend(core::iter::from_fn(|| splitter.finish()));
    units
}

#[test]
fn a_live_picture_of_unknown_length_is_handed_over_with_its_stuffed_packet() {
    let stream = of_unknown_lengths(written(&pictures(&[5_000, 100])));
    let mut splitter = TransportUnitSplitter::live();
    splitter.push(&stream);
    let units: Vec<_> = core::iter::from_fn(|| splitter.next_unit()).collect();
    assert_eq!((units.len(), joined(&units)), (2, stream.clone()));
    // A splitter that is not live may get all of a film.
    let mut splitter = TransportUnitSplitter::new();
    splitter.push(&stream);
    assert!(splitter.next_unit().is_some());
    assert!(splitter.progress().may_be_whole);
    assert_eq!(splitter.next_unit(), None);
}

#[test]
fn a_stream_that_stuffs_amid_a_picture_is_trusted_once() {
    let mut stream = of_unknown_lengths(written(&pictures(&[9_000; 7])));
    // Two bytes less of video in the tenth packet of each picture.
    let mut since_start = 0;
    for packet in stream.chunks_mut(PACKET_LEN) {
        let is_start = packet[1..3] == [0x41, 0];
        since_start = if is_start { 0 } else { since_start + 1 };
        if since_start == 10 {
            packet[3] |= 0x20;
            packet[4..6].copy_from_slice(&[1, 0]);
        }
    }
    let units = split_live(&stream, &[]);
    assert_eq!(joined(&units), stream);
    let found: Vec<_> = units.iter().map(|unit| unit.importance).collect();
    use Importance::{Key, Reference};
    let (rest, after) = (Reference, [Reference; 4]);
    assert_eq!(
        found,
        [&[Key, rest], &after[..], &[Key, Reference]].concat()
    );
}

#[test]
fn the_rest_of_a_picture_is_as_important_as_it_and_no_key_frame() {
    let mut stream = of_unknown_lengths(written(&pictures(&[9_000; 7])));
    // From the second key frame on, no picture is used by others.
    for start in (0..stream.len() - 6).rev() {
        if stream[start..].starts_with(&[0, 0, 1, 0x41]) {
            stream[start + 3] = 0x01;
        }
    }
    let starts: Vec<_> = stream
        .chunks(PACKET_LEN)
        .enumerate()
        .filter(|(_, packet)| packet[1..3] == [0x41, 0])
        .map(|(index, _)| index)
        .collect();
    let units = split_live(&stream, &[starts[0] + 20, starts[1] + 20]);
    assert_eq!(joined(&units), stream);
    let found: Vec<_> = units.iter().map(|unit| unit.importance).collect();
    use Importance::{Disposable, Key, Reference};
    assert_eq!(
        found[..5],
        [Key, Reference, Disposable, Disposable, Disposable]
    );
    assert_eq!(found.iter().filter(|found| **found == Key).count(), 2);
}

#[test]
fn flushing_never_makes_an_empty_unit() {
    let stream = written(&pictures(&[500, 500]));
    let mut splitter = TransportUnitSplitter::new();
    splitter.push(&stream);
    let first = splitter.next_unit().unwrap();
    assert_eq!(splitter.flush(), None);
    let second = splitter.next_unit().unwrap();
    assert_eq!((splitter.flush(), splitter.next_unit()), (None, None));
    assert_eq!(joined(&[first, second]), stream);
}

fn without_random_access(mut stream: Vec<u8>) -> Vec<u8> {
    for packet in stream.chunks_mut(PACKET_LEN) {
        if packet[3] & 0x20 != 0 && packet[4] > 0 {
            packet[5] &= !0x40;
        }
    }
    stream
}

#[test]
fn key_frames_are_known_without_the_random_access_indicator() {
    let stream = without_random_access(written(&pictures(&[9_000; 6])));
    let keys: Vec<_> = split(&stream, 1_000)
        .iter()
        .map(|unit| unit.importance.is_key())
        .collect();
    assert_eq!(keys, [true, false, false, false, false, true]);
}

/// Returns the stream with a map that declares its video as MPEG-2.
fn as_mpeg2(stream: &[u8]) -> Vec<u8> {
    let mut reader = TsPacketReader::new(stream);
    let mut writer = TsPacketWriter::new(Vec::new());
    while let Some(mut packet) = reader.read_ts_packet().unwrap() {
        if let Some(TsPayload::Pmt(map)) = &mut packet.payload {
            map.es_info[0].stream_type = StreamType::Mpeg2Video;
        }
        writer.write_ts_packet(&packet).unwrap();
    }
    writer.into_stream()
}

#[test]
fn mpeg2s_b_pictures_are_disposable_wherever_packets_cut_their_headers() {
    // IBBP in coding order: picture_coding_type behind ten bits of temporal reference. User data of
    // different lengths precedes the headers, so that packets cut them anywhere.
    let coding_types = [1, 2, 3, 3];
    let mut pictures = Vec::new();
    for stuffing_len in 100..300 {
        for (index, coding_type) in coding_types.iter().enumerate() {
            let mut picture = Vec::new();
            if index == 0 {
                picture.extend([0, 0, 1, 0xb3, 20, 0, 240, 0x15]);
            }
            picture.extend([0, 0, 1, 0xb2]);
            picture.extend(vec![7; stuffing_len]);
            picture.extend([0, 0, 1, 0, index as u8, 0x40 | coding_type << 3, 0xff, 0xf8]);
            // A slice with bytes that look like a P picture, but without a start code.
            picture.extend([0, 0, 1, 1, 0x0a, 0, 1, 0, 0, 2 << 3, 0xff]);
            pictures.push(picture);
        }
    }
    let stream = without_random_access(as_mpeg2(&written(&pictures)));
    let units = split(&stream, 1_316);
    assert_eq!(joined(&units), stream);
    let found: Vec<_> = units.iter().map(|unit| unit.importance).collect();
    use Importance::{Disposable, Key, Reference};
    let expected = [Key, Reference, Disposable, Disposable].repeat(pictures.len() / 4);
    assert_eq!(found, expected);
}

#[test]
fn garbage_between_packets_is_skipped_and_counted() {
    let stream = written(&pictures(&[9_000; 6]));
    let (head, tail) = stream.split_at(10 * PACKET_LEN);
    let garbage = [0x47, 1, 2, 3, 0x47];
    let mut splitter = TransportUnitSplitter::new();
    splitter.push(&[&garbage[1..], head, &garbage[1..], tail].concat());
    let units: Vec<_> = core::iter::from_fn(|| splitter.finish()).collect();
    assert_eq!(joined(&units), stream);
    assert_eq!(
        (splitter.skipped_bytes(), splitter.sync_loss_count()),
        (8, 1)
    );
}

#[test]
fn a_stream_without_tables_is_cut_every_40_ms_of_its_clock() {
    let stream: Vec<u8> = written(&pictures(&[9_000; 10]))
        .chunks(PACKET_LEN)
        .filter(|packet| packet[1] & 0x1f == 1)
        .flatten()
        .copied()
        .collect();
    let units = split(&stream, 1_316);
    assert_eq!(joined(&units), stream);
    let clocks: Vec<_> = units
        .iter()
        .map(|unit| unit.clock.unwrap().as_millis())
        .collect();
    assert_eq!(clocks, [0, 40, 80, 120, 160, 200, 240, 280, 320, 360]);
}

#[test]
fn a_stream_without_clock_or_an_endless_picture_is_cut_at_a_bound() {
    let mut packet = [0xff; PACKET_LEN];
    packet[..4].copy_from_slice(&[SYNC_BYTE, 0x01, 0x00, 0x10]);
    let units = split(&packet.repeat(1_000), 1_316);
    assert!(
        units
            .iter()
            .all(|unit| unit.bytes.len() <= MAX_LEN_WITHOUT_VIDEO)
    );
    let stream = [written(&pictures(&[70_000])), packet.repeat(60_000)].concat();
    let units = split(&stream, 1_316);
    assert!(units.iter().all(|unit| unit.bytes.len() <= MAX_UNIT_LEN));
    assert_eq!(joined(&units), stream);
}

/// Returns a slide, then `count` packets of sound, each 10 ms after the one before and behind a
/// clock reference on the video's PID.
fn slide_with_sound(slide: &[u8], count: u64) -> Vec<u8> {
    fn sound(number: u64) -> [u8; 376] {
        let mut packets = [0xff; 2 * PACKET_LEN];
        let ticks = (3_600 + 900 * number) as u32;
        let [a, b, c, d] = (ticks >> 1).to_be_bytes();
        let reference = [SYNC_BYTE, 0x01, 0x00, 0x20, 183, 0x10, a, b, c, d];
        packets[..10].copy_from_slice(&reference);
        packets[10..12].copy_from_slice(&[(ticks as u8 & 1) << 7 | 0x7e, 0]);
        packets[PACKET_LEN..][..4].copy_from_slice(&[SYNC_BYTE, 0x01, 0x01, 0x10]);
        packets
    }
    let sound = (0..count).flat_map(sound);
    slide.iter().copied().chain(sound).collect()
}

#[test]
fn sound_does_not_wait_for_a_picture_that_is_far_off() {
    let known = written(&pictures(&[20_000]));
    for slide in [of_unknown_lengths(known.clone()), known] {
        let stream = slide_with_sound(&slide, 1_200);
        for mut splitter in [
            TransportUnitSplitter::stored(),
            TransportUnitSplitter::live(),
        ] {
            splitter.push(&stream);
            let units: Vec<_> = core::iter::from_fn(|| splitter.finish()).collect();
            assert_eq!(joined(&units), stream);
            assert!(units[0].importance.is_key());
            assert!(units[0].bytes.starts_with(&slide));
            let due: Option<Vec<_>> = units.iter().map(|unit| splitter.due_at(unit.end)).collect();
            for pair in due.unwrap().windows(2) {
                let span = pair[1].saturating_sub(pair[0]);
                assert!(span <= Duration::from_millis(55), "{span}");
            }
            let first = splitter.due_at(stream.len() as u64);
            assert!(first.is_some(), "the whole stream has a time");
        }
        // A reader of pictures gets whole ones.
        let whole = split(&stream, 1_316);
        assert!(whole.len() < 30, "{}", whole.len());
    }
}

#[test]
fn a_picture_that_trickles_is_kept_whole() {
    // By its length, its rest is to come, however long the video is silent.
    let slide = written(&pictures(&[20_000]));
    let (head, tail) = slide.split_at(50 * PACKET_LEN);
    let stream = [&slide_with_sound(head, 20)[..], tail].concat();
    let mut splitter = TransportUnitSplitter::stored();
    splitter.push(&stream);
    assert_eq!(
        splitter.next_unit().map(|unit| unit.bytes.len()),
        Some(stream.len())
    );
}

proptest! {
    #[test]
    fn units_are_the_input_verbatim_whatever_the_pieces(
        sizes in prop::collection::vec(12_usize..3_000, 1..8),
        chunk_len in 1_usize..2_000,
        cut_len in 0_usize..188,
    ) {
        let mut stream = written(&pictures(&sizes));
        let whole = split(&stream, stream.len());
        prop_assert_eq!(&joined(&whole), &stream);
        prop_assert_eq!(whole.len(), sizes.len());
        prop_assert_eq!(split(&stream, chunk_len), whole);
        let cut = stream.split_off(stream.len() - cut_len);
        let kept_len = stream.len() / PACKET_LEN * PACKET_LEN;
        prop_assert_eq!(joined(&split(&stream, chunk_len)), &stream[..kept_len]);
        drop(cut);
    }

    #[test]
    fn live_units_are_the_input_verbatim_wherever_they_are_flushed(
        sizes in prop::collection::vec(12_usize..3_000, 1..8),
        flushed_after in prop::collection::vec(0_usize..100, 0..20),
    ) {
        let stream = of_unknown_lengths(written(&pictures(&sizes)));
        prop_assert_eq!(joined(&split_live(&stream, &flushed_after)), &stream[..]);
        // Without a flush, only a picture that fills its last packet waits for the next.
        prop_assert_eq!(split_live(&stream, &[]).len(), sizes.len());
    }

    #[test]
    fn damaged_streams_come_out_in_order_and_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..200),
        chunk_len in 1_usize..2_000,
    ) {
        let mut stream = written(&pictures(&[2_000, 100, 1_000, 300, 300, 900]));
        for (at, byte) in changes {
            let len = stream.len();
            stream[at.index(len)] = byte;
        }
        let units = split(&stream, chunk_len);
        prop_assert!(units.iter().all(|unit| unit.bytes.len() % PACKET_LEN == 0));
        prop_assert!(units.is_sorted_by_key(|unit| unit.clock));
        let mut rest = &stream[..];
        for packet in joined(&units).chunks(PACKET_LEN) {
            let found = rest.windows(PACKET_LEN).position(|window| window == packet);
            prop_assert!(found.is_some());
            rest = &rest[found.unwrap() + PACKET_LEN..];
        }
        prop_assert_eq!(split(&stream, stream.len()), units);
    }

    #[test]
    fn random_bytes_never_panic(
        packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 187), 0..40),
        chunk_len in 1_usize..500,
    ) {
        let stream: Vec<u8> =
            packets.iter().flat_map(|packet| [&[SYNC_BYTE], &packet[..]].concat()).collect();
        let units = split(&stream, chunk_len);
        prop_assert_eq!(joined(&units), stream);
    }
}

#[test]
fn a_recovery_point_is_a_key_frame_without_the_muxers_word() {
    // Other messages precede it, so that it lies across packets in some streams.
    for other_len in 0..220_u8 {
        let other = vec![0x55; usize::from(other_len.min(80))];
        let long = vec![0x55; usize::from(other_len.saturating_sub(80))];
        let delimiter = [0, 0, 0, 1, 0x09, 0xf0];
        let user_data = [&[0, 0, 1, 0x06, 5, long.len() as u8][..], &long, &[0x80]].concat();
        let sei = [
            &[0, 0, 1, 0x06, 0, other.len() as u8][..],
            &other,
            &[6, 1, 0xc4, 0x80],
        ];
        let slice = [0, 0, 1, 0x41, 0x9a, 0x21];
        let refreshed = [&delimiter[..], &user_data, &sei.concat(), &slice].concat();
        let pictures = [
            &IDR.to_vec(),
            &P_SLICE.to_vec(),
            &refreshed,
            &P_SLICE.to_vec(),
        ];
        let mut writer = TransportStreamWriter::new(Vec::new());
        for (index, picture) in pictures.into_iter().enumerate() {
            let at = Duration::from_millis(40) * index as u64;
            writer.write(picture, at, index == 0).unwrap();
        }
        let units = split(&writer.into_inner(), 188);
        let keys: Vec<bool> = units.iter().map(|unit| unit.importance.is_key()).collect();
        assert_eq!(keys, [true, false, true, false], "{other_len}");
    }
}
