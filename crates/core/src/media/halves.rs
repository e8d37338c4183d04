//! Fragments that are too large for the path that they are sent on: they travel as two halves.
//!
//! A frame is cut for what all paths carry when it is handed in. A path may turn out to carry less
//! while fragments of it wait or are lost; then the two halves of one take its place.

use std::collections::VecDeque;

use crate::fragment::{FrameId, Half};

/// Maximum number of halves that wait for the other one, and of their bytes; the oldest makes way.
const MAX_HALVES: usize = 1_024;
const MAX_BYTES: usize = 1 << 20;

/// Halves that have arrived without the other one.
#[derive(Debug, Default)]
pub(crate) struct Halves {
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

#[derive(Debug)]
struct Waiting {
    frame: FrameId,
    fragment: u16,
    half: Half,
    bytes: Vec<u8>,
}

impl Halves {
    /// Adds a half that has arrived. Returns the whole payload if the other half has, too.
    pub(crate) fn join(
        &mut self,
        (frame, fragment): (FrameId, u16),
        half: Half,
        payload: &[u8],
    ) -> Option<Vec<u8>> {
        let is_of_it = |one: &Waiting| one.frame == frame && one.fragment == fragment;
        // In the usual case the other half came just before.
        let index = self.waiting.iter().rposition(is_of_it);
        match index.filter(|&index| self.waiting[index].half == half.other()) {
            Some(index) => {
                let other = self.waiting.remove(index)?.bytes;
                self.bytes -= other.len();
                Some(match half {
                    Half::First => [payload, &other].concat(),
                    Half::Second => [&other, payload].concat(),
                })
            }
            None if index.is_some() => None,
            None => {
                self.keep(Waiting {
                    frame,
                    fragment,
                    half,
                    bytes: payload.to_vec(),
                });
                None
            }
        }
    }

    fn keep(&mut self, half: Waiting) {
        self.bytes += half.bytes.len();
        self.waiting.push_back(half);
        while (self.waiting.len() > MAX_HALVES || self.bytes > MAX_BYTES)
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.bytes -= oldest.bytes.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_halves_make_the_fragment_in_either_order() {
        let payload: Vec<u8> = (0..9).collect();
        let id = (FrameId(3), 2);
        for first in [Half::First, Half::Second] {
            let mut halves = Halves::default();
            assert_eq!(halves.join(id, first, first.of(&payload)), None);
            assert_eq!(halves.join(id, first, first.of(&payload)), None, "twice");
            let stranger = halves.join((FrameId(3), 1), first.other(), &[1]);
            assert_eq!(stranger, None, "of another fragment");
            let whole = halves.join(id, first.other(), first.other().of(&payload));
            assert_eq!(whole.as_deref(), Some(&payload[..]));
        }
    }

    #[test]
    fn halves_that_stay_alone_are_forgotten() {
        let mut halves = Halves::default();
        for frame in 0..5_000 {
            halves.join((FrameId(frame), 0), Half::First, &[1]);
        }
        assert_eq!(
            (halves.waiting.len(), halves.bytes),
            (MAX_HALVES, MAX_HALVES)
        );
        for frame in 0..100 {
            halves.join((FrameId(frame), 0), Half::Second, &[1; 60_000]);
            assert!(halves.bytes <= MAX_BYTES);
        }
        assert_eq!(halves.waiting.len(), MAX_BYTES / 60_000);
    }
}
