//! Packets of a live run, from their sending to their end.

use std::collections::VecDeque;

use anabranch_core::SendReason;
use anabranch_sim::{Direction, LinkId, PacketEvent};
use anabranch_units::{Duration, Instant};

/// Packets that have been sent and that have ended since the last report. A packet's number counts
/// all packets of the run.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    /// By flow, path and direction: packets that have not ended, in the order of sending.
    open: Vec<Vec<[VecDeque<OpenPacket>; 2]>>,
    /// Number of the first packet in `sent`.
    first: u64,
    next: u64,
    sent: Vec<f64>,
    ended: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
struct OpenPacket {
    number: u64,
    sent_at: Instant,
    event: PacketEvent,
    has_ended: bool,
}

/// Mark of an arrival in [`Packets::take`], where losses have their link.
const DELIVERED: f64 = -1.0;

impl Packets {
    /// Returns no packets of flows with these numbers of paths.
    pub(crate) fn new(path_counts: impl Iterator<Item = usize>) -> Packets {
        Packets {
            open: path_counts
                .map(|count| {
                    let mut paths = Vec::new();
                    paths.resize_with(count, Default::default);
                    paths
                })
                .collect(),
            ..Packets::default()
        }
    }

    /// Records a sent packet.
    pub(crate) fn send(&mut self, now: Instant, event: &PacketEvent) {
        let Some(open) = self.open_of(event) else {
            return;
        };
        open.push_back(OpenPacket {
            number: 0,
            sent_at: now,
            event: *event,
            has_ended: false,
        });
        let number = self.next;
        if let Some(last) = self.open_of(event).and_then(VecDeque::back_mut) {
            last.number = number;
        }
        self.next += 1;
        self.sent.extend([
            event.flow.index() as f64,
            event.path.index() as f64,
            f64::from(u8::from(event.direction == Direction::Reverse)),
            kind(event),
            f64::from(event.size_bytes),
            millis(now),
        ]);
    }

    /// Records a delivered packet.
    pub(crate) fn deliver(&mut self, now: Instant, event: &PacketEvent, delay: Duration) {
        let Some(sent_at) = now.as_nanos().checked_sub(delay.as_nanos()) else {
            return;
        };
        let sent_at = Instant::from_nanos(sent_at);
        let found = self.open_of(event).and_then(|open| {
            let from = open.partition_point(|packet| packet.sent_at < sent_at);
            let mut alike = open
                .iter_mut()
                .skip(from)
                .take_while(|packet| packet.sent_at == sent_at);
            end(alike.find(|packet| !packet.has_ended && packet.event == *event))
        });
        self.close(event, found, now, DELIVERED);
    }

    /// Records a packet that `link` has dropped. The oldest one with the same contents is meant.
    pub(crate) fn drop(&mut self, now: Instant, event: &PacketEvent, link: LinkId) {
        let found = self.open_of(event).and_then(|open| {
            let mut open = open.iter_mut();
            end(open.find(|packet| !packet.has_ended && packet.event == *event))
        });
        self.close(event, found, now, link.index() as f64);
    }

    fn close(&mut self, event: &PacketEvent, number: Option<u64>, now: Instant, how: f64) {
        let Some(number) = number else { return };
        self.ended.extend([number as f64, millis(now), how]);
        if let Some(open) = self.open_of(event) {
            while open.front().is_some_and(|packet| packet.has_ended) {
                open.pop_front();
            }
        }
    }

    /// Returns the number of the first sent packet, the sent packets and the ended ones since the
    /// last call. A sent packet has six columns: flow, path, 1 for the way back, kind, bytes, time
    /// in ms. An ended one has three: number, time in ms, and -1 or the link that dropped it.
    pub(crate) fn take(&mut self) -> (u64, Vec<f64>, Vec<f64>) {
        let first = std::mem::replace(&mut self.first, self.next);
        let (sent, ended) = (&mut self.sent, &mut self.ended);
        (first, std::mem::take(sent), std::mem::take(ended))
    }

    fn open_of(&mut self, event: &PacketEvent) -> Option<&mut VecDeque<OpenPacket>> {
        let path = self
            .open
            .get_mut(event.flow.index())?
            .get_mut(event.path.index())?;
        Some(&mut path[usize::from(event.direction == Direction::Reverse)])
    }
}

fn end(packet: Option<&mut OpenPacket>) -> Option<u64> {
    let packet = packet?;
    packet.has_ended = true;
    Some(packet.number)
}

pub(crate) fn millis(at: Instant) -> f64 {
    (at - Instant::ZERO).as_millis_f64()
}

/// Returns 0 for first transmissions and raw packets, 1 for further copies, 2 for repairs, 3 for
/// probes and padding, 4 for reports.
fn kind(event: &PacketEvent) -> f64 {
    match event.reason {
        None | Some(SendReason::New) => 0.0,
        Some(SendReason::Repair) => 2.0,
        Some(
            SendReason::Padding
            | SendReason::PathChallenge
            | SendReason::IdleProbe
            | SendReason::MtuProbe,
        ) => 3.0,
        Some(SendReason::Control) => 4.0,
        Some(_) => 1.0,
    }
}
