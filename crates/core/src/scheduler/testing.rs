//! A bed for schedulers under test.

use anabranch_units::{DataRate, Duration, Importance, Instant};

use super::{Assignment, PacketKind, PacketView, Scheduler, SendQueue};
use crate::media::FrameId;
use crate::path_view::{PathId, PathSet, PathView};
use crate::session_view::SessionView;

/// An active path of this round-trip time and rate that takes whatever it is given.
pub(super) fn path(id: u8, rtt_millis: u64, megabits_per_second: u64) -> PathView {
    let rtt = Some(Duration::from_millis(rtt_millis));
    let rate = DataRate::from_megabits_per_second(megabits_per_second);
    PathView {
        id: PathId(id),
        smoothed_rtt: rtt,
        latest_rtt: rtt,
        min_rtt: rtt,
        pacing_rate: Some(rate),
        bandwidth: rate,
        sendable_bytes: u64::MAX,
        weight: 1.0,
        ..PathView::default()
    }
}

/// A scheduler, and paths whose queues grow by what it binds.
pub(super) struct Bed {
    pub(super) scheduler: Box<dyn Scheduler>,
    pub(super) paths: Vec<PathView>,
    next_frame: u64,
}

impl Bed {
    pub(super) fn new(scheduler: Box<dyn Scheduler>, paths: Vec<PathView>) -> Self {
        Bed {
            scheduler,
            paths,
            next_frame: 0,
        }
    }

    pub(super) fn source(fragment: u16, bytes: u32) -> PacketView {
        PacketView {
            frame: FrameId(0),
            fragment,
            fragment_count: 1,
            kind: PacketKind::Source,
            importance: Importance::Reference,
            bytes,
            deadline: None,
            in_flight_on: PathSet::EMPTY,
            avoid: PathSet::EMPTY,
        }
    }

    /// The packets of a frame.
    pub(super) fn frame(fragment_count: u16, bytes: u32) -> Vec<PacketView> {
        (0..fragment_count)
            .map(|fragment| PacketView {
                fragment_count,
                ..Self::source(fragment, bytes)
            })
            .collect()
    }

    /// Offers packets as the next frame and returns what was bound where.
    pub(super) fn schedule(&mut self, packets: &[PacketView]) -> Vec<(PacketView, PathSet)> {
        let frame = FrameId(self.next_frame);
        self.next_frame += 1;
        let packets: Vec<PacketView> = packets
            .iter()
            .map(|packet| PacketView { frame, ..*packet })
            .collect();
        let mut out: Vec<Assignment> = Vec::new();
        let queue = SendQueue::new(&packets);
        let session = SessionView::default();
        self.scheduler
            .schedule(Instant::ZERO, &queue, &session, &self.paths, &mut out);
        out.iter()
            .map(|assignment| {
                let packet = packets[assignment.index];
                for id in assignment.paths.iter() {
                    self.paths[id.index()].queued_bytes += u64::from(packet.bytes);
                }
                (packet, assignment.paths)
            })
            .collect()
    }
}
