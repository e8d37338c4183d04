//! Check of the sender's frames and of their waiting fragments.

mod copies;

use super::waiting::queue_order;
use super::{Fragment, OutgoingFrame, SendBuffer, State};
use crate::fragment::FrameId;
use crate::invariants::{Checker, Invariant};
use crate::scheduler::{PacketKind, PacketView};

use copies::Place;
pub(crate) use copies::{CopyMap, Exceptions};

impl SendBuffer {
    /// Checks all frames; `places` lists the bound packets and those in flight.
    pub(crate) fn check(
        &self,
        copies: &mut CopyMap,
        exceptions: Exceptions,
        checker: &mut Checker,
    ) {
        self.check_lists(checker);
        for packet in &self.waiting {
            copies.at(packet.frame, packet.fragment).waiting += 1;
        }
        if let Some(repairs) = &self.repairs {
            for (copy, _) in &repairs.waiting {
                copies.at(copy.frame, copy.fragment).awaiting_repairs += 1;
            }
        }
        let bytes = self.frames.iter().map(|frame| frame.bytes.len() as u64);
        checker.sum("buffered bytes", self.buffered_bytes as u64, bytes.sum());
        let mut next_symbol = self.frames.front().map_or(0, |frame| frame.first_symbol);
        for (frame, id) in self.frames.iter().zip(self.first.0..) {
            let id = FrameId(id);
            check_counts(id, frame, checker);
            if self.repairs.is_some() {
                let of = "a frame's first symbol";
                checker.equal(Invariant::Lists, of, frame.first_symbol, next_symbol);
                next_symbol += u64::from(frame.symbol_count);
            }
            if frame.is_given_up {
                continue;
            }
            for (fragment, state) in (0..).zip(&frame.fragments) {
                let mut place = copies.of(id, fragment);
                // Packets that left before the fragment was cut again carry all its pieces.
                let whole = frame.cut_of(fragment);
                for path in copies.of(id, whole).outstanding_on.iter() {
                    place.outstanding_on.insert(path);
                }
                for path in place.pieces_on.iter() {
                    place.outstanding_on.insert(path);
                }
                if state.state != State::Arrived {
                    let details =
                        || format!("frame {id} fragment {fragment}: {state:?}, {place:?}");
                    check_fragment(frame, state, &place, exceptions, details, checker);
                }
            }
        }
    }

    fn check_lists(&self, checker: &mut Checker) {
        let is_sorted = self.waiting.is_sorted_by_key(queue_order);
        let has_repairs = self.waiting.iter().any(is_repair);
        checker.require(Invariant::Lists, is_sorted && !has_repairs, || {
            format!("waiting packets: {:?}", self.waiting)
        });
        let Some(repairs) = &self.repairs else {
            return;
        };
        let is_sorted = repairs
            .unbound
            .is_sorted_by_key(|packet| (packet.frame, packet.fragment));
        let are_repairs = repairs.unbound.iter().all(is_repair);
        checker.require(Invariant::Lists, is_sorted && are_repairs, || {
            format!("waiting repairs: {:?}", repairs.unbound)
        });
    }
}

impl OutgoingFrame {
    /// Returns the number of the fragment that this one was a piece of, or is.
    fn cut_of(&self, fragment: u16) -> u16 {
        let offset = self.fragments[usize::from(fragment)].offset as usize;
        let before = (0..).zip(&self.fragments).take(usize::from(fragment));
        let mut cuts = before.filter(|(_, cut)| cut.cut_bytes().contains(&offset));
        cuts.next().map_or(fragment, |(number, _)| number)
    }
}

fn is_repair(packet: &PacketView) -> bool {
    packet.kind() == PacketKind::Repair
}

/// Returns the number of fragments of this kind.
fn count(frame: &OutgoingFrame, is_meant: fn(&Fragment) -> bool) -> u64 {
    let fragments = frame.fragments.iter();
    fragments.filter(|fragment| is_meant(fragment)).count() as u64
}

fn check_counts(id: FrameId, frame: &OutgoingFrame, checker: &mut Checker) {
    let unacked = count(frame, |fragment| fragment.state != State::Arrived);
    let of = format!("unacknowledged fragments of frame {id}");
    checker.sum(&of, u64::from(frame.unacked_count), unacked);
    let never_sent = count(frame, |fragment| !fragment.has_left);
    let of = format!("fragments of frame {id} never sent");
    checker.sum(&of, u64::from(frame.never_sent_count), never_sent);
    let mut ranges: Vec<_> = frame.fragments.iter().map(Fragment::bytes).collect();
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let end = ranges
        .iter()
        .try_fold(0, |end, range| (range.start == end).then_some(range.end));
    checker.require(Invariant::Lists, end == Some(frame.cut_bytes), || {
        format!("fragments of frame {id}: {ranges:?}")
    });
}

/// Checks a fragment that has not arrived, of a frame that has not been given up.
fn check_fragment(
    frame: &OutgoingFrame,
    state: &Fragment,
    place: &Place,
    exceptions: Exceptions,
    details: impl Fn() -> String,
    checker: &mut Checker,
) {
    // Of several copies that the scheduler asked for, the first to leave is the original.
    let is_bound = if state.has_left {
        !place.bound_to.is_empty()
    } else {
        !place.copies_bound_to.is_empty() || !place.bound_to.is_empty()
    };
    let place_count = place.waiting + place.awaiting_repairs + u32::from(is_bound);
    let is_in_one_place = place_count == u32::from(state.state == State::Waiting);
    let holds = is_in_one_place || exceptions.is_redundant;
    checker.require(Invariant::OnePlace, holds, &details);
    let is_flight_true = state.in_flight_on == place.outstanding_on;
    checker.require(Invariant::InFlight, is_flight_true, &details);
    let is_in_progress = state.state == State::Waiting
        || !place.outstanding_on.is_empty()
        || !place.copies_bound_to.is_empty()
        || frame.is_protected;
    checker.require(Invariant::NotForgotten, is_in_progress, &details);
}

#[cfg(test)]
mod tests {
    use anabranch_units::{Duration, Importance, Instant};

    use super::*;
    use crate::media::Frame;
    use crate::path_view::PathId;
    use crate::send_reason::SendReason;

    const FIRST: FrameId = FrameId(0);

    /// Returns the invariants that `change` violates in a frame of three fragments, of which the
    /// first is in flight and the others wait.
    fn violated(change: impl FnOnce(&mut SendBuffer)) -> Vec<Invariant> {
        let deadline = Duration::from_millis(500);
        let mut buffer = SendBuffer::new(1_000, 60, deadline, false);
        let frame = Frame {
            bytes: vec![0; 2_500].into(),
            importance: Importance::Reference,
            captured_at: Instant::ZERO,
            lifetime: None,
        };
        assert_eq!(buffer.push(&frame), Ok(FIRST));
        buffer.retain_waiting(|index| index == 0);
        buffer.on_sent(FIRST, 0, PathId(0), SendReason::New);
        change(&mut buffer);
        let mut copies = CopyMap::default();
        copies.at(FIRST, 0).outstanding_on.insert(PathId(0));
        let mut checker = Checker::default();
        buffer.check(&mut copies, Exceptions::default(), &mut checker);
        let violations = checker.violations.iter();
        violations.map(|violation| violation.invariant).collect()
    }

    #[test]
    fn intact_buffer_has_no_violation() {
        assert_eq!(violated(|_| {}), []);
    }

    #[test]
    fn sums_that_are_wrong_are_found() {
        assert_eq!(
            violated(|buffer| buffer.buffered_bytes += 1),
            [Invariant::Sums]
        );
        for change in [
            (|frame| frame.unacked_count -= 1) as fn(&mut OutgoingFrame),
            |frame| frame.never_sent_count += 1,
            |frame| frame.fragments[1].has_left = true,
        ] {
            let found = violated(|buffer| change(&mut buffer.frames[0]));
            assert_eq!(found, [Invariant::Sums]);
        }
    }

    #[test]
    fn a_fragment_in_no_place_or_in_two_is_found() {
        let lost_by_queue = violated(|buffer| {
            buffer.waiting.remove(0);
        });
        assert_eq!(lost_by_queue, [Invariant::OnePlace]);
        let twice = violated(|buffer| buffer.waiting.insert(0, buffer.waiting[0]));
        assert_eq!(twice, [Invariant::OnePlace]);
        let forgotten = violated(|buffer| {
            buffer.waiting.remove(0);
            buffer.frames[0].fragments[1].state = State::Sent;
        });
        assert_eq!(forgotten, [Invariant::NotForgotten]);
    }

    #[test]
    fn copies_in_flight_that_recovery_does_not_know_and_the_reverse_are_found() {
        let more = violated(|buffer| {
            let state = &mut buffer.frames[0].fragments[0];
            state.in_flight_on.insert(PathId(1));
        });
        assert_eq!(more, [Invariant::InFlight]);
        let less = violated(|buffer| {
            let state = &mut buffer.frames[0].fragments[0];
            state.in_flight_on.remove(PathId(0));
        });
        assert_eq!(less, [Invariant::InFlight]);
    }

    #[test]
    fn waiting_packets_out_of_order_are_found() {
        let found = violated(|buffer| buffer.waiting.swap(0, 1));
        assert_eq!(found, [Invariant::Lists]);
    }
}
