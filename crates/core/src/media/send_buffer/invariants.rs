//! The check of the sender's frames and of what waits of them.

use super::waiting::queue_order;
use super::{Fragment, OutgoingFrame, SendBuffer};
use crate::invariants::{Checker, Invariant, Place, Places};
use crate::media::FrameId;
use crate::scheduler::{PacketKind, PacketView};

impl SendBuffer {
    /// `places` has what is bound and in flight.
    pub(crate) fn check(&self, places: &mut Places, is_redundant: bool, checker: &mut Checker) {
        self.check_lists(checker);
        for packet in &self.waiting {
            places.at(packet.frame, packet.fragment).waiting += 1;
        }
        if let Some(repairs) = &self.repairs {
            for (copy, _) in &repairs.waiting {
                places.at(copy.frame, copy.fragment).awaiting_repairs += 1;
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
                next_symbol += frame.fragments.len() as u64;
            }
            if frame.is_given_up {
                continue;
            }
            for (fragment, state) in (0..).zip(&frame.fragments) {
                let place = places.of(id, fragment);
                if !state.is_acked {
                    let details =
                        || format!("frame {id} fragment {fragment}: {state:?}, {place:?}");
                    check_fragment(frame, state, &place, is_redundant, details, checker);
                }
            }
        }
    }

    fn check_lists(&self, checker: &mut Checker) {
        let is_sorted = self.waiting.is_sorted_by_key(queue_order);
        let is_repair = |packet: &PacketView| packet.kind() == PacketKind::Repair;
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

fn check_counts(id: FrameId, frame: &OutgoingFrame, checker: &mut Checker) {
    let count = |is_meant: fn(&Fragment) -> bool| {
        let fragments = frame.fragments.iter();
        fragments.filter(|fragment| is_meant(fragment)).count() as u64
    };
    let unacked = count(|fragment| !fragment.is_acked);
    let of = format!("unacknowledged fragments of frame {id}");
    checker.sum(&of, u64::from(frame.unacked_count), unacked);
    let never_sent = count(|fragment| fragment.send_count == 0);
    let of = format!("fragments of frame {id} never sent");
    checker.sum(&of, u64::from(frame.never_sent_count), never_sent);
}

/// Checks a fragment that has not arrived, of a frame that has not been given up.
fn check_fragment(
    frame: &OutgoingFrame,
    state: &Fragment,
    place: &Place,
    is_redundant: bool,
    details: impl Fn() -> String,
    checker: &mut Checker,
) {
    // Of several copies that the scheduler asked for, the first to leave is the original.
    let is_bound = match state.send_count {
        0 => !place.copies_bound_to.is_empty() || !place.bound_to.is_empty(),
        _ => !place.bound_to.is_empty(),
    };
    let place_count = place.waiting + place.awaiting_repairs + u32::from(is_bound);
    let is_in_one_place = place_count == u32::from(state.is_queued);
    // A redundant scheduler binds several copies of a retransmission. Nothing tells them apart, so
    // that one may leave, be lost and wait again while another is still bound.
    let holds = is_in_one_place || is_redundant;
    checker.require(Invariant::OnePlace, holds, &details);
    let mut halves_on = place.halves_on;
    place
        .outstanding_on
        .iter()
        .for_each(|path| halves_on.insert(path));
    // Halves: one may be in flight before the other has left, or after it was lost.
    let all_on = halves_on;
    let mut in_flight = state.in_flight_on.iter();
    let is_flight_true = in_flight.all(|path| all_on.contains(path))
        && place
            .outstanding_on
            .iter()
            .all(|path| state.in_flight_on.contains(path));
    checker.require(Invariant::InFlight, is_flight_true, &details);
    let is_under_way = state.is_queued
        || !all_on.is_empty()
        || !place.copies_bound_to.is_empty()
        || frame.is_protected;
    checker.require(Invariant::NotForgotten, is_under_way, &details);
}
