//! The fates of packets between interfaces, for a thread that writes them to files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anabranch_link::DropCause;
use anabranch_units::{Duration, Instant};

use crate::config::LinkDirection;

/// Maximum number of events that wait for their reader. Chosen: four seconds of 100 Mbit/s.
const MAX_WAITING_COUNT: usize = 1 << 16;

/// The fate of a packet at a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketFate {
    /// It arrived at the link.
    Entered,
    /// It left the link, with this time since its arrival.
    Left {
        /// Time on the link, with the release error.
        delay: Duration,
    },
    /// The link lost it.
    Dropped(DropCause),
}

/// An event of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketEvent {
    /// Time since the relay's start.
    pub at: Instant,
    /// Index of the link.
    pub link_index: usize,
    /// Direction of the packet.
    pub direction: LinkDirection,
    /// The event.
    pub fate: PacketFate,
    /// Length of the packet in bytes.
    pub size_bytes: u32,
    /// The packet from its IP header on; empty if it was lost, or the recorder keeps none.
    pub packet: Vec<u8>,
}

/// The end at which a relay writes. Clones share the count of lost events.
#[derive(Clone, Debug)]
pub struct Recorder {
    sender: SyncSender<PacketEvent>,
    keeps_packets: bool,
    lost_count: Arc<AtomicU64>,
}

impl Recorder {
    /// Returns a recorder and the end at which another thread reads. Packets' bytes are copied if
    /// `keeps_packets`. A slow reader loses events, and delays none.
    pub fn new(keeps_packets: bool) -> (Recorder, Receiver<PacketEvent>) {
        let (sender, receiver) = sync_channel(MAX_WAITING_COUNT);
        let recorder = Recorder {
            sender,
            keeps_packets,
            lost_count: Arc::default(),
        };
        (recorder, receiver)
    }

    /// Returns the number of events that were lost because the reader was too slow.
    pub fn lost_count(&self) -> u64 {
        self.lost_count.load(Ordering::Relaxed)
    }

    pub(crate) fn of_link(&self, link_index: usize) -> LinkRecorder {
        LinkRecorder {
            recorder: self.clone(),
            link_index,
        }
    }
}

/// The recorder of one link.
#[derive(Debug)]
pub(crate) struct LinkRecorder {
    recorder: Recorder,
    link_index: usize,
}

impl LinkRecorder {
    /// Records an event of a packet of `size_bytes`.
    pub(crate) fn record(
        &self,
        at: Instant,
        direction: LinkDirection,
        fate: PacketFate,
        size_bytes: u32,
        packet: &[u8],
    ) {
        let kept = if self.recorder.keeps_packets {
            packet
        } else {
            &[]
        };
        let event = PacketEvent {
            at,
            link_index: self.link_index,
            direction,
            fate,
            size_bytes,
            packet: kept.to_vec(),
        };
        if self.recorder.sender.try_send(event).is_err() {
            self.recorder.lost_count.fetch_add(1, Ordering::Relaxed);
        }
    }
}
