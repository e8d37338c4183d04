use anabranch_units::Duration;
use proptest::prelude::*;

use super::super::packet::Packet;
use super::*;

const VIDEO: u16 = 0x100;
const AUDIO: u16 = 0x101;
const OTHER: u16 = 0x200;

type Bytes = [u8; PACKET_LEN];

fn packet(pid: u16) -> Bytes {
    let mut bytes = [0xff; PACKET_LEN];
    bytes[..4].copy_from_slice(&[0x47, (pid >> 8) as u8, pid as u8, 0x10]);
    bytes
}

/// Returns a packet with a clock reference, with or without a discontinuity indicator.
fn reference_with(pid: u16, ticks: u64, is_discontinuous: bool) -> Bytes {
    let mut bytes = packet(pid);
    let flags = if is_discontinuous { 0x90 } else { 0x10 };
    let base = ticks % (1 << 33);
    let [a, b, c, d] = ((base >> 1) as u32).to_be_bytes();
    let last = ((base & 1) as u8) << 7 | 0x7e;
    bytes[3] = 0x30;
    bytes[4..12].copy_from_slice(&[7, flags, a, b, c, d, last, 0]);
    bytes
}

fn reference(pid: u16, millis: u64) -> Bytes {
    reference_with(pid, millis * 90, false)
}

/// Returns a packet in which a PES packet with a timestamp begins.
fn timestamp(pid: u16, millis: u64) -> Bytes {
    let mut bytes = packet(pid);
    bytes[1] |= 0x40;
    let ticks = millis * 90;
    let stamp = [
        (0x21 | ticks >> 29 & 14) as u8,
        (ticks >> 22) as u8,
        (ticks >> 14) as u8 | 1,
        (ticks >> 7) as u8,
        (ticks << 1) as u8 | 1,
    ];
    bytes[4..13].copy_from_slice(&[0, 0, 1, 0xc0, 0, 0, 0x80, 0x80, 5]);
    bytes[13..18].copy_from_slice(&stamp);
    bytes
}

/// Returns the milliseconds at which each packet begins, and at which the last one ends.
fn times_with(packets: &[Bytes], tables: &ProgramTables) -> Vec<u64> {
    let mut timeline = Timeline::default();
    for bytes in packets {
        timeline.push(Packet::new(bytes), tables);
    }
    timeline.finish();
    let start = timeline.time_at(0).unwrap();
    let ends = (0..=packets.len()).map(|index| (index * PACKET_LEN) as u64);
    let times: Vec<_> = ends
        .map(|at| timeline.time_at(at).unwrap().saturating_sub(start))
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    // Ticks are not whole nanoseconds.
    times
        .into_iter()
        .map(|time| (time + Duration::from_micros(1)).as_millis())
        .collect()
}

fn times(packets: &[Bytes]) -> Vec<u64> {
    times_with(packets, &ProgramTables::default())
}

/// Returns `count` seconds of a program: a reference every 40 ms, in front of three packets.
fn program(from_millis: u64, seconds: u64) -> Vec<Bytes> {
    let periods = 0..seconds * 25;
    periods
        .flat_map(|number| {
            let reference = reference(VIDEO, from_millis + 40 * number);
            [reference, packet(VIDEO), packet(AUDIO), packet(VIDEO)]
        })
        .collect()
}

fn duration(packets: &[Bytes]) -> u64 {
    *times(packets).last().unwrap()
}

#[test]
fn bytes_between_two_references_are_spread_evenly() {
    let packets = [
        reference(VIDEO, 500),
        packet(AUDIO),
        packet(AUDIO),
        packet(AUDIO),
        reference(VIDEO, 540),
        packet(AUDIO),
        reference(VIDEO, 640),
    ];
    assert_eq!(times(&packets)[..7], [0, 10, 20, 30, 40, 90, 140]);
}

#[test]
fn bytes_before_the_first_reference_have_their_time_too() {
    let packets = [&[packet(AUDIO); 8][..], &program(0, 1)].concat();
    assert_eq!(
        times(&packets)[..13],
        [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120]
    );
    assert_eq!(duration(&packets), 1_080);
}

#[test]
fn a_slide_in_front_of_the_first_reference_holds_up_nothing() {
    // A slide of 50 kB, then sound of 100 kbit/s with a reference in each packet.
    let round: Vec<_> = [packet(VIDEO); 266]
        .into_iter()
        .chain((0..400).map(|number| reference(AUDIO, 15 * number)))
        .collect();
    let times = times(&[round.clone(), round].concat());
    assert_eq!(times[266], 100);
    let length = *times.last().unwrap();
    assert!((12_000..=12_300).contains(&length), "{length}");
}

#[test]
fn a_counter_that_wraps_goes_on() {
    let packets: Vec<_> = (0..50)
        .flat_map(|number| {
            let base = (1 << 33) - 25 * 3_600 + number * 3_600;
            [reference_with(VIDEO, base, false), packet(VIDEO)]
        })
        .collect();
    assert_eq!(duration(&packets), 2_000);
}

#[test]
fn a_looped_film_takes_as_long_as_all_of_its_rounds() {
    let packets = [program(900, 5), program(900, 5), program(900, 5)].concat();
    assert_eq!(duration(&packets), 15_000);
}

#[test]
fn a_jump_of_an_hour_takes_the_time_of_its_bytes() {
    let packets = [program(0, 5), program(3_600_000, 5)].concat();
    assert_eq!(duration(&packets), 10_000);
}

#[test]
fn references_far_apart_are_time_that_passes() {
    let packets: Vec<_> = (0..3)
        .flat_map(|number| [&[reference(VIDEO, 12_000 * number)][..], &[packet(0); 11]].concat())
        .collect();
    let times = times(&packets);
    assert_eq!([times[12], times[24]], [12_000, 24_000]);
}

#[test]
fn an_announced_new_time_base_takes_the_time_of_its_bytes() {
    let mut second = program(5_000 + 700, 5);
    second[0] = reference_with(VIDEO, (5_000 + 700) * 90, true);
    assert_eq!(duration(&[program(0, 5), second].concat()), 10_000);
    // The indicator may precede the reference.
    let mut second = program(5_000 + 700, 5);
    second.insert(0, {
        let mut bytes = packet(VIDEO);
        bytes[3..6].copy_from_slice(&[0x20, 183, 0x80]);
        bytes
    });
    assert_eq!(duration(&[program(0, 5), second].concat()), 10_000);
}

#[test]
fn a_clock_that_is_no_time_base_any_more_is_replaced_by_timestamps() {
    fn sound(number: u64) -> [[u8; 188]; 2] {
        [timestamp(AUDIO, 77_000 + 20 * number), packet(AUDIO)]
    }

    // References end after 2 s, and audio continues.
    let packets: Vec<_> = (0..100)
        .flat_map(|number| {
            let film = [reference(VIDEO, 20 * number), packet(VIDEO)];
            [film, sound(number)].concat()
        })
        .chain((100..500).flat_map(sound))
        .collect();
    let length = duration(&packets);
    assert!((9_960..=10_040).contains(&length), "{length}");
    // A reference that stands still is not a clock either.
    let packets: Vec<_> = (0..500)
        .flat_map(|number| [&[reference(VIDEO, 5)][..], &sound(number)].concat())
        .collect();
    let length = duration(&packets);
    assert!((9_900..=10_040).contains(&length), "{length}");
}

#[test]
fn timestamps_lead_while_references_are_seconds_apart() {
    fn audio(number: usize, times: &[u64]) -> u64 {
        times[2 * number + 2 * number.div_ceil(600)]
    }

    let packets: Vec<_> = (0..1_500)
        .flat_map(|number| {
            let slide = [reference(VIDEO, 20 * number), packet(VIDEO)];
            let slide = number.is_multiple_of(600).then_some(slide);
            let sound = [timestamp(AUDIO, 300 + 20 * number), packet(AUDIO)];
            slide.into_iter().flatten().chain(sound)
        })
        .collect();
    let times = times(&packets);
    let length = *times.last().unwrap();
    assert!((29_960..=30_040).contains(&length), "{length}");
    // A second of sound takes a second, also next to a slide.
    for number in (0..1_450).step_by(50) {
        let second = audio(number + 50, &times) - audio(number, &times);
        assert!((900..=1_100).contains(&second), "{number}: {second}");
    }
}

#[test]
fn sparse_timestamps_do_not_replace_references() {
    // Subtitles 2 s apart, ten seconds ahead, together with references 40 ms apart.
    let mut packets = program(0, 20);
    for number in (0..10).rev() {
        packets.insert(
            200 * number,
            timestamp(OTHER, 10_000 + 2_000 * number as u64),
        );
    }
    let length = duration(&packets);
    assert!((19_990..=20_060).contains(&length), "{length}");
}

#[test]
fn streams_without_references_go_by_timestamps_in_any_order() {
    let order = [0, 3, 1, 2];
    let packets: Vec<_> = (0..100)
        .flat_map(|number| {
            let shown = number / 4 * 4 + order[number as usize % 4];
            [timestamp(VIDEO, 1_000 + 40 * shown), packet(VIDEO)]
        })
        .collect();
    let length = duration(&packets);
    assert!((3_920..=4_120).contains(&length), "{length}");
}

#[test]
fn the_first_programs_reference_is_preferred() {
    let tables = tables(0x1000, AUDIO);
    let packets: Vec<_> = (0..100)
        .flat_map(|number| {
            // Another program's clock is first, and runs twice as fast.
            [reference(OTHER, 80 * number), reference(AUDIO, 40 * number)]
        })
        .collect();
    let length = *times_with(&packets, &tables).last().unwrap();
    assert!((3_980..=4_100).contains(&length), "{length}");
}

/// Returns tables that name the first program's clock.
fn tables(map_pid: u16, reference_pid: u16) -> ProgramTables {
    let mut tables = ProgramTables::default();
    for bytes in super::super::tables::testing::of_program(map_pid, reference_pid) {
        tables.record(Packet::new(&bytes));
    }
    tables
}

#[test]
fn scrambled_packets_have_readable_references() {
    let mut packets = program(0, 4);
    packets.iter_mut().for_each(|bytes| bytes[3] |= 0x80);
    assert_eq!(duration(&packets), 4_000);
}

#[test]
fn a_stream_without_any_time_has_a_rate_of_4_mbit_per_s() {
    // Fewer and more bytes without a clock value than are held back.
    for seconds in [1_u64, 8, 40] {
        let packets = vec![packet(VIDEO); seconds as usize * 500_000 / PACKET_LEN];
        let length = duration(&packets);
        assert!((seconds * 1_000).abs_diff(length) < 2, "{length}");
    }
}

#[test]
fn memory_is_bounded_whatever_the_clocks() {
    let mut timeline = Timeline::default();
    for number in 0..200_000_u64 {
        let bytes = reference((number % 8_000) as u16 + 32, number);
        timeline.push(Packet::new(&bytes), &ProgramTables::default());
    }
    assert!(timeline.clocks.len() <= MAX_CLOCKS);
    assert!(timeline.anchors.len() <= MAX_ANCHORS);
}

proptest! {
    #[test]
    fn time_never_steps_back_and_is_always_known(
        packets in prop::collection::vec(
            (0_u16..6, any::<u64>(), 0..5_u8, any::<bool>()), 1..300,
        ),
    ) {
        let packets: Vec<_> = packets
            .into_iter()
            .map(|(pid, value, kind, flag)| match kind {
                0 => reference_with(pid + 0x100, value, flag),
                1 => reference_with(pid + 0x100, value % 900_000, flag),
                2 => timestamp(pid + 0x100, value % 95_000_000),
                3 => timestamp(pid + 0x100, value % 10_000),
                _ => packet(pid + 0x100),
            })
            .collect();
        prop_assert_eq!(times(&packets).len(), packets.len() + 1);
    }
}
