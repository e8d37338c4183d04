//! Datagrams in a session of media over several paths: the load of a session of datagrams.
//!
//! Each is a frame of its own: worthless when late, retransmitted while it can arrive in time.
//! Those of a group are handed out in the order of sending, and a lost one delays the next of its
//! group by at most the deadline. Others are handed out as they arrive.
//!
//! ```text
//!  application's tasks             this lock              the session's thread
//!  DatagramChannel ─ send, recv ─▶ ┌─────────────┐ ◀─ exchange ─ MediaSession ─▶ paths
//!                                  │ two queues  │
//!                                  └─────────────┘
//! ```

mod client;
mod order;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::session_parameters::SessionKind;
use anabranch_controllers::default_controller;
use anabranch_core::media::{FrameId, SendFrameError};
use anabranch_core::{
    Config, Event as CoreEvent, Frame, HandOut, Media, MediaSession, MtuDiscovery,
};
use anabranch_schedulers::default_scheduler;
use anabranch_secure::PublicKey;
use anabranch_units::{DataRate, Duration, Importance, Instant};
use bytes::Bytes;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;

use crate::event_queue::EventSender;
use crate::load::Load;
use crate::waker::Waker;

pub use client::DatagramClient;
pub use order::DatagramOptions;
use order::{Arrival, Numbering, Order};

/// Maximum payload of a packet: with all headers 1,500 bytes at IPv6. On paths with a smaller MTU,
/// fragments are shorter.
const FRAGMENT_BYTES: u16 = 1_380;
/// Maximum size of a datagram in one packet, whatever its options.
pub const MAX_UNDIVIDED_BYTES: u16 = FRAGMENT_BYTES - order::MAX_HEADER_BYTES;
/// Time after which datagrams are worthless, unless the builder of an end sets another: that of
/// frames.
pub const DEFAULT_DATAGRAM_DEADLINE: Duration = Duration::from_millis(500);
/// Least time for which a receiver waits for the rest of a datagram. The ends need not agree on a
/// deadline: datagrams of a group state theirs, and others hold up nothing.
const MIN_REASSEMBLY_WAIT: Duration = Duration::from_secs(2);
/// Maximum number of bytes in a queue; datagrams beyond it are dropped, as a socket does. About 0.3
/// s of 200 Mbit/s: a late datagram releases all datagrams sent after it at once.
const MAX_QUEUED_BYTES: usize = 8 << 20;
/// Approximate memory of a datagram beyond its bytes.
const OVERHEAD_BYTES: usize = 64;

/// Returns the transport's set-up for datagrams that are worthless later than `deadline` after they
/// were sent.
pub fn datagram_transport(deadline: Duration) -> Config {
    let mut config = Config::new(default_controller(), default_scheduler());
    config.fragment_bytes = FRAGMENT_BYTES;
    config.media.deadline = deadline;
    config.media.reassembly_wait = deadline.max(MIN_REASSEMBLY_WAIT);
    config.media.hand_out = HandOut::WhenWhole;
    config
}

#[derive(Debug, Default)]
struct Queue {
    datagrams: VecDeque<(Bytes, DatagramOptions)>,
    /// Memory of the queued datagrams.
    bytes: usize,
    dropped_count: u64,
}

impl Queue {
    /// Returns whether there was room.
    fn push(&mut self, datagram: Bytes, options: DatagramOptions) -> bool {
        let taken = datagram.len() + OVERHEAD_BYTES;
        let has_room = self.bytes + taken <= MAX_QUEUED_BYTES;
        if has_room {
            self.bytes += taken;
            self.datagrams.push_back((datagram, options));
        } else {
            self.dropped_count += 1;
        }
        has_room
    }

    fn pop(&mut self) -> Option<Bytes> {
        let (datagram, _) = self.datagrams.pop_front()?;
        self.bytes -= datagram.len() + OVERHEAD_BYTES;
        Some(datagram)
    }

    fn take_all(&mut self) -> VecDeque<(Bytes, DatagramOptions)> {
        self.bytes = 0;
        std::mem::take(&mut self.datagrams)
    }
}

#[derive(Debug, Default)]
struct State {
    /// Number of the session that carries them, from 1; 0: none.
    session: u64,
    session_count: u64,
    /// Whether no session will follow.
    is_over: bool,
    to_peer: Queue,
    from_peer: Queue,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    waker: Arc<Waker>,
    has_arrived: Notify,
}

impl Shared {
    fn new(waker: Arc<Waker>) -> Arc<Shared> {
        Arc::new(Shared {
            state: Mutex::default(),
            waker,
            has_arrived: Notify::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        self.lock().is_over = true;
        self.has_arrived.notify_one();
    }
}

/// Datagrams to a peer and from it, carried by all paths of a session. Clones use the same session;
/// each datagram is received by one of them.
#[derive(Clone, Debug)]
pub struct DatagramChannel {
    shared: Arc<Shared>,
}

impl DatagramChannel {
    /// Sends a datagram without an order, 1 byte to some 100 kB. Returns false if it is dropped at
    /// once, since there is no session or the queue is full.
    pub fn send(&self, datagram: Bytes) -> bool {
        self.send_with(datagram, DatagramOptions::default())
    }

    /// Does the same with these options.
    pub fn send_with(&self, datagram: Bytes, options: DatagramOptions) -> bool {
        let (is_taken, is_first) = {
            let mut state = self.shared.lock();
            let is_first = state.to_peer.datagrams.is_empty();
            (
                state.session != 0 && state.to_peer.push(datagram, options),
                is_first,
            )
        };
        if is_taken && is_first {
            self.shared.waker.wake();
        }
        is_taken
    }

    /// Waits for the peer's next datagram; returns `None` once the session is over, or the client.
    pub async fn recv(&self) -> Option<Bytes> {
        loop {
            {
                let mut state = self.shared.lock();
                if let Some(datagram) = state.from_peer.pop() {
                    return Some(datagram);
                }
                if state.is_over {
                    return None;
                }
            }
            self.shared.has_arrived.notified().await;
        }
    }

    /// Returns the numbers of datagrams dropped at a full queue, to the peer and from it.
    pub fn dropped_counts(&self) -> [u64; 2] {
        let state = self.shared.lock();
        [state.to_peer.dropped_count, state.from_peer.dropped_count]
    }
}

/// A session of datagrams that a client has opened.
#[derive(Debug)]
pub struct AcceptedDatagrams {
    /// Public key of the peer.
    pub peer: PublicKey,
    /// Its datagrams.
    pub channel: DatagramChannel,
}

/// A session's datagrams.
#[derive(Debug)]
pub(crate) struct Datagrams {
    shared: Arc<Shared>,
    session: u64,
    /// Whether other sessions may follow this one, for the same channel.
    is_only: bool,
    numbering: Numbering,
    order: Order,
    /// Frames that have arrived since the last exchange.
    arrived: Vec<Arrival>,
}

impl Datagrams {
    fn begin(shared: Arc<Shared>, is_only: bool) -> Self {
        let session = {
            let mut state = shared.lock();
            state.session_count += 1;
            state.session = state.session_count;
            state.session
        };
        Datagrams {
            shared,
            session,
            is_only,
            numbering: Numbering::default(),
            order: Order::default(),
            arrived: Vec::new(),
        }
    }

    /// Sends the datagrams that the owner has handed in. Returns whether there were any.
    fn send_all(&mut self, now: Instant, session: &mut MediaSession) -> bool {
        let mut is_any = false;
        // Not under the lock: tasks need not wait while datagrams are cut and scheduled.
        let waiting = self.shared.lock().to_peer.take_all();
        for (datagram, options) in waiting {
            let frame = Frame {
                bytes: self.numbering.write(options, session.deadline(), &datagram),
                importance: Importance::Reference,
                captured_at: now,
                lifetime: options.lifetime,
            };
            match session.send_frame(now, &frame) {
                Ok(id) => {
                    self.numbering.on_sent(options, id);
                    is_any = true;
                }
                // It is closing.
                Err(SendFrameError::Closed) => break,
                // Dropped, as by a full router or socket.
                Err(_) => self.shared.lock().to_peer.dropped_count += 1,
            }
        }
        is_any
    }

    /// Hands out the datagrams that have arrived, each in its turn.
    fn hand_out(&mut self, now: Instant, settled: FrameId) {
        let mut out = Vec::new();
        for arrival in self.arrived.drain(..) {
            self.order.insert(now, settled, arrival, &mut out);
        }
        self.order.release(now, settled, &mut out);
        if out.is_empty() {
            return;
        }
        let mut state = self.shared.lock();
        for datagram in out {
            state.from_peer.push(datagram, DatagramOptions::default());
        }
        drop(state);
        self.shared.has_arrived.notify_one();
    }

    /// Begins a session that `peer` has opened, and reports it by the queue.
    pub(crate) fn accept(
        peer: PublicKey,
        waker: Arc<Waker>,
        accepts: &UnboundedSender<AcceptedDatagrams>,
    ) -> Self {
        let shared = Shared::new(waker);
        let datagrams = Datagrams::begin(Arc::clone(&shared), true);
        let channel = DatagramChannel { shared };
        // Without a taker, its datagrams are dropped when the queue is full.
        let _ = accepts.send(AcceptedDatagrams { peer, channel });
        datagrams
    }
}

impl Load for Datagrams {
    type Content = Media;

    const SESSION_KIND: SessionKind = SessionKind::Datagrams;

    /// Same as for frames: data in flight is soon worthless.
    const OLD_SESSION_GRACE: Duration = Duration::from_millis(250);

    /// A server that leaves does not end the session at its client: the transport continues.
    const OUTLIVES_SERVER: bool = false;

    fn prepare(config: &mut Config, header_bytes: u32) {
        config.mtu = Some(MtuDiscovery {
            unit_bytes: 1,
            ..MtuDiscovery::of_internet(header_bytes)
        });
    }

    fn prepare_server(config: &mut Config, header_bytes: u32) {
        Datagrams::prepare(config, header_bytes);
        config.media.ends_with_peer = true;
    }

    fn keep_alive(session: &mut MediaSession) {
        session.keep_alive();
    }

    fn target_bitrate(session: &MediaSession) -> DataRate {
        session.target_bitrate()
    }

    fn exchange(&mut self, now: Instant, session: &mut MediaSession) -> bool {
        self.hand_out(now, session.first_unsettled());
        self.send_all(now, session)
    }

    fn due_at(&self) -> Option<Instant> {
        self.order.due_at()
    }

    fn on_event(&mut self, event: CoreEvent, _: &EventSender) {
        if let CoreEvent::FrameReceived(frame) = event {
            self.arrived.push(Arrival {
                frame: frame.id,
                sent_at: frame.offset.to_local(frame.captured_at),
                bytes: frame.bytes.into(),
            });
        }
    }

    fn end(&mut self) {
        let mut state = self.shared.lock();
        if state.session == self.session {
            state.session = 0;
            state.to_peer.take_all();
        }
        drop(state);
        if self.is_only {
            self.shared.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_bounded_by_what_its_datagrams_take() {
        let mut queue = Queue::default();
        for length in [0, 1_380] {
            let datagram = Bytes::from(vec![0; length]);
            let room = MAX_QUEUED_BYTES / (length + OVERHEAD_BYTES);
            let mut taken = 0;
            for _ in 0..room + 3 {
                let is_taken = queue.push(datagram.clone(), DatagramOptions::default());
                taken += usize::from(is_taken);
            }
            assert_eq!((taken, queue.dropped_count), (room, 3));
            for _ in 0..room - 1 {
                assert!(queue.pop().is_some());
            }
            assert_eq!(queue.take_all().len(), 1);
            assert_eq!((queue.bytes, queue.pop()), (0, None));
            queue.dropped_count = 0;
        }
    }
}
