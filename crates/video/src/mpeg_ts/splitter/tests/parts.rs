//! Tests of the parts of units.

use super::*;
use crate::mpeg_ts::tables;

/// Returns the units of a live splitter, made of the parts that were taken after every packet of
/// `taken_after`, and the number of parts.
fn split_in_parts(
    stream: &[u8],
    flushed_after: &[usize],
    taken_after: impl Fn(usize) -> bool,
) -> (Vec<TransportUnit>, usize) {
    fn add(begun: &mut Option<TransportUnit>, unit: TransportUnit, units: &mut Vec<TransportUnit>) {
        if let Some(begun) = begun.take() {
            assert_eq!(begun.importance, unit.importance);
            let bytes = [begun.bytes, unit.bytes].concat();
            units.push(TransportUnit { bytes, ..unit });
        } else {
            units.push(unit);
        }
    }

    let mut splitter = TransportUnitSplitter::live();
    let (mut units, mut part_count) = (Vec::new(), 0);
    let mut begun: Option<TransportUnit> = None;
    for (index, packet) in stream.chunks(PACKET_LEN).enumerate() {
        splitter.push(packet);
        while let Some(unit) = splitter.next_unit() {
            add(&mut begun, unit, &mut units);
        }
        if flushed_after.contains(&index)
            && let Some(unit) = splitter.flush()
        {
            add(&mut begun, unit, &mut units);
        }
        let has_part = splitter.has_part();
        if taken_after(index) {
            let part = splitter.next_part();
            assert_eq!(part.is_some(), has_part);
            let Some(part) = part else {
                continue;
            };
            part_count += 1;
            assert!(!part.bytes.is_empty() && !splitter.has_part());
            begun = Some(match begun.take() {
                None => part,
                Some(before) => {
                    assert_eq!(before.importance, part.importance);
                    let bytes = [before.bytes, part.bytes].concat();
                    TransportUnit { bytes, ..part }
                }
            });
        }
    }
    while let Some(unit) = splitter.finish() {
        add(&mut begun, unit, &mut units);
    }
    assert_eq!(begun, None);
    (units, part_count)
}

#[test]
fn a_part_leaves_with_the_first_slice_and_tables_stay() {
    let stream = written(&pictures(&[9_000, 100, 100, 100, 100, 9_000]));
    let mut splitter = TransportUnitSplitter::live();
    let mut parts = Vec::new();
    for packet in stream[..20 * PACKET_LEN].chunks(PACKET_LEN) {
        splitter.push(packet);
        assert_eq!(splitter.next_unit(), None);
        parts.push(
            splitter
                .next_part()
                .map(|part| part.bytes.len() / PACKET_LEN),
        );
    }
    // Tables and the first packet of the picture, which is marked as a key frame.
    assert_eq!(parts[..4], [None, None, Some(3), Some(1)]);
    // The tables of the next key frame.
    splitter.push(&stream[..2 * PACKET_LEN]);
    assert_eq!((splitter.next_unit(), splitter.next_part()), (None, None));
}

#[test]
fn sound_waits_for_the_picture_that_decides_its_importance() {
    let picture = written(&pictures(&[5_000]));
    let stream = slide_with_sound(&picture, 3);
    let mut splitter = TransportUnitSplitter::live();
    splitter.push(&stream);
    assert_eq!(
        splitter.next_unit().map(|unit| unit.bytes.len()),
        Some(picture.len())
    );
    assert_eq!((splitter.next_unit(), splitter.next_part()), (None, None));
    splitter.push(&picture);
    let unit = splitter.next_unit().unwrap();
    assert!(unit.importance.is_key());
    assert_eq!(unit.bytes, [&stream[picture.len()..], &picture].concat());
}

#[test]
fn a_program_without_video_has_parts_at_once() {
    let mut sound = [0xff; PACKET_LEN];
    sound[..4].copy_from_slice(&[SYNC_BYTE, 0x01, 0x01, 0x10]);
    // Without tables, video may follow.
    let mut splitter = TransportUnitSplitter::live();
    splitter.push(&sound.repeat(3));
    assert_eq!((splitter.next_unit(), splitter.next_part()), (None, None));
    splitter.push(&tables::testing::of_sound(0x100).concat());
    splitter.push(&sound.repeat(2));
    assert_eq!(splitter.next_unit(), None);
    let part = splitter.next_part().expect("no video follows");
    assert_eq!(part.bytes.len(), 7 * PACKET_LEN);
}

proptest! {
    #[test]
    fn parts_make_the_same_units_wherever_they_are_taken(
        sizes in prop::collection::vec(12_usize..3_000, 1..12),
        flushed_after in prop::collection::vec(0_usize..150, 0..12),
        taken_after in prop::collection::vec(any::<bool>(), 1..40),
        has_lengths in any::<bool>(),
    ) {
        let known = written(&pictures(&sizes));
        let stream = if has_lengths { known } else { of_unknown_lengths(known) };
        let whole = split_live(&stream, &flushed_after);
        let (units, _) = split_in_parts(&stream, &flushed_after, |index| {
            taken_after[index % taken_after.len()]
        });
        prop_assert_eq!(units, whole);
    }

    #[test]
    fn parts_of_sound_and_pictures_make_the_same_units(
        head in 1_usize..40,
        count in 0_u64..60,
        flushed_after in prop::collection::vec(0_usize..200, 0..6),
    ) {
        let picture = of_unknown_lengths(written(&pictures(&[6_000])));
        let head = picture[..(head * PACKET_LEN).min(picture.len())].to_vec();
        let stream = [slide_with_sound(&head, count), picture].concat();
        let whole = split_live(&stream, &flushed_after);
        let (units, part_count) = split_in_parts(&stream, &flushed_after, |_| true);
        prop_assert_eq!(units, whole);
        prop_assert!(part_count > 0);
    }
}
