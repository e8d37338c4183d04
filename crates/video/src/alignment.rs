//! The assignment of a received copy's pictures to the pictures of its film.
//!
//! The copy may have begun late, and lost or damaged pictures; its timestamps may have another
//! origin. Transports carry coded pictures unchanged, so a picture is recognised by its bytes.
//! Damaged or recoded pictures are recognised by their time, and without times by their position.

use std::collections::BTreeMap;

/// Timestamps of MPEG-TS count 1/90,000 s, and wrap after 33 bits.
const COUNTER_BITS: u32 = 33;

/// Properties of a coded picture that are known without decoding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Presentation time, in 1/90,000 s, on its film's own clock; `None` if unknown.
    pub presented_at: Option<i64>,
    /// Fingerprint of its bytes: see [`annex_b::fingerprint`](crate::annex_b::fingerprint).
    pub fingerprint: Option<u64>,
}

/// The properties by which pictures were recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Some by the bytes that they have in common with the source's, others by their time or place
    /// among those.
    Content,
    /// Times, for all of them.
    Timestamps,
    /// Counting, for all of them: a lost picture goes unnoticed, and shifts the pictures after it.
    Order,
}

/// The assignment of a copy's pictures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alignment {
    /// Properties on which the alignment is based.
    pub basis: Basis,
    /// For each picture of the copy, in order, the index of the source's picture; `None` if the
    /// source has none. No picture of the source appears twice.
    pub source_of: Vec<Option<usize>>,
    /// Number of pictures with the same bytes as the source's.
    pub same_count: usize,
}

/// Follows a 33-bit counter of timestamps in coding order, which goes back and forth a little, past
/// its wrap.
#[derive(Clone, Debug, Default)]
pub struct PresentationClock {
    last: Option<i64>,
}

impl PresentationClock {
    /// Returns the time for a counter value: the one nearest to the last time.
    pub fn unwrap(&mut self, counter: u64) -> i64 {
        let wrap = 1_i64 << COUNTER_BITS;
        let counter = (counter & (wrap as u64 - 1)) as i64;
        let time = match self.last {
            None => counter,
            Some(last) => {
                let ahead = (counter - last).rem_euclid(wrap);
                last + if ahead < wrap / 2 {
                    ahead
                } else {
                    ahead - wrap
                }
            }
        };
        self.last = Some(time);
        time
    }
}

/// Finds the source's picture of each picture of a copy, both in coding order.
pub fn align(source: &[Mark], copy: &[Mark]) -> Alignment {
    let mut source_of = by_content(source, copy);
    let same_count = source_of.iter().flatten().count();
    let offset = match same_count {
        0 => offset_by_time(source, copy),
        _ => offset_of(source, copy, &source_of),
    };
    let basis = match (same_count, offset) {
        (0, Some(_)) => Basis::Timestamps,
        (0, None) => Basis::Order,
        _ => Basis::Content,
    };
    match offset {
        Some(offset) => add_by_time(source, copy, offset, &mut source_of),
        None => add_by_place(source.len(), &mut source_of),
    }
    Alignment {
        basis,
        source_of,
        same_count,
    }
}

/// Matches pictures with the same bytes, in the same order. Among several equal pictures of the
/// source, it picks the one at the right time, judged by the pictures that are unique.
fn by_content(source: &[Mark], copy: &[Mark]) -> Vec<Option<usize>> {
    let mut positions: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (place, mark) in source.iter().enumerate() {
        if let Some(fingerprint) = mark.fingerprint {
            positions.entry(fingerprint).or_default().push(place);
        }
    }
    let positions_of = |mark: &Mark| -> &[usize] {
        let positions = mark.fingerprint.and_then(|of| positions.get(&of));
        positions.map_or(&[], Vec::as_slice)
    };
    let alone: Vec<Option<usize>> = copy
        .iter()
        .map(|mark| match positions_of(mark) {
            [place] => Some(*place),
            _ => None,
        })
        .collect();
    let offset = offset_of(source, copy, &alone);
    let mut next = 0;
    let found = copy.iter().map(|mark| {
        let ahead = positions_of(mark).iter().filter(|&&place| place >= next);
        let nearest = ahead.min_by_key(|&&place| match (offset, times(&source[place], mark)) {
            (Some(offset), Some((source, copy))) => (source + offset).abs_diff(copy),
            _ => 0,
        });
        let place = *nearest?;
        next = place + 1;
        Some(place)
    });
    found.collect()
}

fn times(source: &Mark, copy: &Mark) -> Option<(i64, i64)> {
    source.presented_at.zip(copy.presented_at)
}

/// Returns the median of the time by which the copy's clock is ahead of the source's; `None`
/// without times.
fn offset_of(source: &[Mark], copy: &[Mark], source_of: &[Option<usize>]) -> Option<i64> {
    let known = copy.iter().zip(source_of);
    let mut offsets: Vec<i64> = known
        .filter_map(|(mark, place)| {
            let (source, copy) = times(&source[(*place)?], mark)?;
            Some(copy - source)
        })
        .collect();
    offsets.sort_unstable();
    offsets.get(offsets.len() / 2).copied()
}

/// Returns the clock offset of a recoded copy. The clocks are the same if most pictures then have a
/// source; otherwise both films begin with the same picture.
fn offset_by_time(source: &[Mark], copy: &[Mark]) -> Option<i64> {
    fn first(film: &[Mark]) -> Option<i64> {
        film.iter().filter_map(|mark| mark.presented_at).min()
    }
    let offset = first(copy)? - first(source)?;
    let mut found = vec![None; copy.len()];
    add_by_time(source, copy, 0, &mut found);
    let is_same_clock = 2 * found.iter().flatten().count() > copy.len();
    Some(if is_same_clock { 0 } else { offset })
}

/// Gives pictures without a source the one shown at their time, unless it is taken.
fn add_by_time(source: &[Mark], copy: &[Mark], offset: i64, source_of: &mut [Option<usize>]) {
    let mut shown: BTreeMap<i64, usize> = BTreeMap::new();
    for (place, mark) in source.iter().enumerate() {
        if let Some(at) = mark.presented_at {
            shown.entry(at).or_insert(place);
        }
    }
    let mut steps: Vec<i64> = shown
        .keys()
        .zip(shown.keys().skip(1))
        .map(|(a, b)| b - a)
        .collect();
    steps.sort_unstable();
    // Half way to the next picture, both are equally near.
    let reach = steps.get(steps.len() / 2).map_or(0, |step| (step - 1) / 2);
    let mut is_taken = vec![false; source.len()];
    for place in source_of.iter().flatten() {
        is_taken[*place] = true;
    }
    for (mark, of) in copy.iter().zip(source_of) {
        if of.is_some() {
            continue;
        }
        let Some(at) = mark.presented_at else {
            continue;
        };
        let near = shown.range(at - offset - reach..=at - offset + reach);
        let free = near.filter(|(_, place)| !is_taken[**place]);
        if let Some((_, &place)) = free.min_by_key(|(time, _)| (**time).abs_diff(at - offset)) {
            is_taken[place] = true;
            *of = Some(place);
        }
    }
}

/// Gives pictures without a source the one after their predecessor's, unless it is taken.
fn add_by_place(source_count: usize, source_of: &mut [Option<usize>]) {
    let mut next = 0;
    for at in 0..source_of.len() {
        let following = source_of[at..].iter().flatten().next();
        let end = following.copied().unwrap_or(source_count);
        if source_of[at].is_none() && next < end {
            source_of[at] = Some(next);
        }
        next = source_of[at].map_or(next, |place| place + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns pictures 40 ms apart with different contents, from a time on.
    fn film(count: usize, from: i64) -> Vec<Mark> {
        (0..count)
            .map(|number| Mark {
                presented_at: Some(from + 3_600 * number as i64),
                fingerprint: Some(number as u64),
            })
            .collect()
    }

    fn without_times(marks: &[Mark]) -> Vec<Mark> {
        marks
            .iter()
            .map(|mark| Mark {
                presented_at: None,
                ..*mark
            })
            .collect()
    }

    fn re_encoded(marks: &[Mark]) -> Vec<Mark> {
        marks
            .iter()
            .map(|mark| Mark {
                fingerprint: mark.fingerprint.map(|of| of + 1_000),
                ..*mark
            })
            .collect()
    }

    #[test]
    fn pictures_are_known_by_their_bytes_whatever_the_clock() {
        let mut copy = film(10, 777_777);
        copy.remove(4);
        copy.remove(0);
        let expected: Vec<_> = [1, 2, 3, 5, 6, 7, 8, 9].map(Some).into();
        for copy in [copy.clone(), without_times(&copy)] {
            let alignment = align(&film(10, 0), &copy);
            assert_eq!(alignment.source_of, expected);
            assert_eq!((alignment.basis, alignment.same_count), (Basis::Content, 8));
        }
    }

    #[test]
    fn a_damaged_picture_is_known_by_its_time_or_its_place() {
        fn place(copy: &[Mark]) -> Option<usize> {
            align(&film(10, 0), copy).source_of[4]
        }

        let mut copy = film(10, 1_000);
        copy[5].fingerprint = Some(99);
        copy.remove(4);
        // By its time it is the sixth; without times the first that is missing.
        assert_eq!(place(&copy), Some(5));
        assert_eq!(place(&without_times(&copy)), Some(4));
        // A picture that does not occur in the source gets no index.
        copy.insert(
            0,
            Mark {
                presented_at: Some(-100_000),
                fingerprint: Some(100),
            },
        );
        let alignment = align(&film(10, 0), &copy);
        assert_eq!(alignment.source_of[..2], [None, Some(0)]);
    }

    #[test]
    fn equal_pictures_are_aligned_by_time() {
        let mut source = film(10, 0);
        source[2].fingerprint = Some(7);
        let copy = [&film(10, 500)[..1], &film(10, 500)[6..]].concat();
        let expected: Vec<_> = [0, 6, 7, 8, 9].map(Some).into();
        assert_eq!(align(&source, &copy).source_of, expected);
    }

    #[test]
    fn reencoded_pictures_align_by_time_or_order() {
        let mut copy = re_encoded(&film(10, 0));
        copy.remove(0);
        let by_time = align(&film(10, 0), &copy);
        assert_eq!(by_time.basis, Basis::Timestamps);
        assert_eq!(by_time.source_of[0], Some(1));
        // A clock of another origin: both begin with the same picture.
        let elsewhere = align(&film(10, 0), &re_encoded(&film(10, 900_000)[3..]));
        assert_eq!(elsewhere.source_of[0], Some(0));
        let by_order = align(&film(10, 0), &without_times(&copy));
        assert_eq!(by_order.basis, Basis::Order);
        assert_eq!(by_order.source_of[0], Some(0));
        assert_eq!((by_order.same_count, by_order.source_of.len()), (0, 9));
    }

    #[test]
    fn counters_wrap() {
        let wrap = 1_u64 << COUNTER_BITS;
        let mut clock = PresentationClock::default();
        let times: Vec<i64> = [wrap - 100, 200, wrap - 50, 400]
            .map(|counter| clock.unwrap(counter))
            .into();
        let ticks = wrap as i64;
        assert_eq!(times, [ticks - 100, ticks + 200, ticks - 50, ticks + 400]);
    }

    #[test]
    fn empty_films_align() {
        for (source, copy) in [(0, 0), (0, 3), (3, 0)] {
            let alignment = align(&film(source, 0), &re_encoded(&film(copy, 0)));
            assert_eq!(alignment.source_of, vec![None; copy]);
        }
    }
}
