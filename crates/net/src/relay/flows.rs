//! The flows of senders: one for each address from which a sender's path comes.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use anabranch_secure::PublicKey;
use anabranch_units::{Duration, Instant, Limiter, Limits, Rate};

/// Silence of a sender after which its flow is forgotten: longer than NATs keep a mapping.
const IDLE: Duration = Duration::from_secs(120);
/// The same if the receiver has no session by it: a handshake takes a few seconds.
const UNCONFIRMED_IDLE: Duration = Duration::from_secs(15);
/// Maximum number of flows, of some 200 bytes each …
const MAX_FLOWS: usize = 8_192;
/// … and of those of one receiver: 16 senders with 32 paths.
const MAX_OF_RECEIVER: usize = 512;
/// New flows: 20 at once and 20 a second of a host, which may hide many senders, and ten times as
/// many altogether (chosen).
const NEW_FLOWS: Limits = Limits {
    total: Rate {
        burst: 200,
        interval: Duration::from_millis(5),
    },
    host: Rate {
        burst: 20,
        interval: Duration::from_millis(50),
    },
};

/// The flow of one path of a sender.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) receiver: PublicKey,
    /// Local address at which its datagrams arrive, and from which answers leave.
    pub(super) local: Option<IpAddr>,
    heard_at: Instant,
    /// Bytes that may still be sent to an address that has not proven to receive: as many as came
    /// from there. `None` once it has.
    allowance_bytes: Option<u64>,
    /// Whether the receiver has a session by it.
    is_confirmed: bool,
    /// Session index of its last protected datagram, by which its sender's other paths are known.
    index: Option<u32>,
}

impl Flow {
    /// Returns the silence after which it is forgotten.
    fn patience(&self) -> Duration {
        if self.is_confirmed {
            IDLE
        } else {
            UNCONFIRMED_IDLE
        }
    }

    /// Returns whether `bytes` may be sent to the address; if so, counts them as sent.
    /// `is_proven` says whether the receiver has a session by the flow.
    pub(super) fn may_send(&mut self, bytes: usize, is_proven: bool) -> bool {
        if is_proven {
            self.allowance_bytes = None;
            self.is_confirmed = true;
        }
        let Some(allowance_bytes) = &mut self.allowance_bytes else {
            return true;
        };
        let left = allowance_bytes.checked_sub(bytes as u64);
        *allowance_bytes = left.unwrap_or(*allowance_bytes);
        left.is_some()
    }
}

/// A session of a receiver.
#[derive(Clone, Copy, Debug)]
struct Indexed {
    receiver: PublicKey,
    /// Number of flows that have its index.
    flow_count: usize,
}

/// All flows, by the address from which they come.
#[derive(Debug)]
pub(super) struct Flows {
    flows: BTreeMap<SocketAddr, Flow>,
    /// Sessions by the indices of their senders' datagrams.
    by_index: BTreeMap<u32, Indexed>,
    newcomers: Limiter,
}

impl Flows {
    pub(super) fn new() -> Self {
        Flows {
            flows: BTreeMap::new(),
            by_index: BTreeMap::new(),
            newcomers: Limiter::new(NEW_FLOWS),
        }
    }

    pub(super) fn get_mut(&mut self, from: SocketAddr) -> Option<&mut Flow> {
        self.flows.get_mut(&from)
    }

    /// Returns the number of a receiver's flows.
    pub(super) fn count_of(&self, receiver: &PublicKey) -> usize {
        self.flows
            .values()
            .filter(|flow| flow.receiver == *receiver)
            .count()
    }

    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    /// Opens a flow to a receiver, in place of one from the same address. `is_proven` says whether
    /// its sender has proven to receive there. Returns whether there is room.
    pub(super) fn open(
        &mut self,
        now: Instant,
        from: SocketAddr,
        local: Option<IpAddr>,
        receiver: PublicKey,
        is_proven: bool,
    ) -> bool {
        let is_known = self.flows.contains_key(&from);
        let has_room = is_known || self.flows.len() < MAX_FLOWS;
        if !has_room || self.count_of(&receiver) >= MAX_OF_RECEIVER {
            return false;
        }
        if !self.newcomers.admit(now, from.ip()) {
            return false;
        }
        self.close(from);
        let flow = Flow {
            receiver,
            local,
            heard_at: now,
            allowance_bytes: (!is_proven).then_some(0),
            is_confirmed: false,
            index: None,
        };
        self.flows.insert(from, flow);
        true
    }

    /// Records a datagram of a flow, whose protected ones have an index.
    pub(super) fn hear(
        &mut self,
        now: Instant,
        from: SocketAddr,
        bytes: usize,
        index: Option<u32>,
    ) {
        let Some(flow) = self.flows.get_mut(&from) else {
            return;
        };
        flow.heard_at = now;
        if let Some(allowance_bytes) = &mut flow.allowance_bytes {
            *allowance_bytes += bytes as u64;
        }
        // A sender that the receiver does not know teaches no index, which would let others in.
        if flow.is_confirmed && index.is_some() && flow.index != index {
            let (before, receiver) = (flow.index, flow.receiver);
            flow.index = index;
            if let Some(index) = index {
                let session = self.by_index.entry(index).or_insert(Indexed {
                    receiver,
                    flow_count: 0,
                });
                session.flow_count += 1;
            }
            self.forget_index(before);
        }
    }

    /// Returns the receiver that has a session with this index.
    pub(super) fn receiver_of(&self, index: u32) -> Option<PublicKey> {
        self.by_index.get(&index).map(|session| session.receiver)
    }

    /// Forgets idle flows, and those of receivers that are not `kept`.
    pub(super) fn prune(&mut self, now: Instant, kept: impl Fn(&PublicKey) -> bool) {
        let over: Vec<SocketAddr> = self
            .flows
            .iter()
            .filter(|(_, flow)| now >= flow.heard_at + flow.patience() || !kept(&flow.receiver))
            .map(|(from, _)| *from)
            .collect();
        for from in over {
            self.close(from);
        }
    }

    fn close(&mut self, from: SocketAddr) {
        if let Some(flow) = self.flows.remove(&from) {
            self.forget_index(flow.index);
        }
    }

    /// Counts a flow less with an index, and forgets one that no flow has any longer.
    fn forget_index(&mut self, index: Option<u32>) {
        let Some(index) = index else { return };
        if let Some(session) = self.by_index.get_mut(&index) {
            session.flow_count -= 1;
            if session.flow_count == 0 {
                self.by_index.remove(&index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_secure::SecretKey;

    use super::*;

    fn from(host: u32) -> SocketAddr {
        (std::net::Ipv4Addr::from(0xC612_0000 + (host << 8)), 5_000).into()
    }

    #[test]
    fn an_address_without_proof_gets_no_more_bytes_than_came_from_it() {
        let receiver = SecretKey::generate().public_key();
        let mut flows = Flows::new();
        assert!(flows.open(Instant::ZERO, from(1), None, receiver, false));
        flows.hear(Instant::ZERO, from(1), 100, Some(7));
        assert_eq!(flows.receiver_of(7), None, "no session");
        let flow = flows.get_mut(from(1)).unwrap();
        assert!(!flow.may_send(101, false) && flow.may_send(60, false));
        assert!(!flow.may_send(41, false) && flow.may_send(40, false));
        assert!(!flow.may_send(1, false));
        assert!(flow.may_send(10_000, true) && flow.may_send(10_000, false));
    }

    #[test]
    fn other_paths_are_known_by_the_index_as_long_as_a_flow_has_it() {
        let receiver = SecretKey::generate().public_key();
        let mut flows = Flows::new();
        for host in [1, 2] {
            assert!(flows.open(Instant::ZERO, from(host), None, receiver, true));
            assert!(flows.get_mut(from(host)).unwrap().may_send(100, true));
            flows.hear(Instant::from_secs(u64::from(host)), from(host), 50, Some(7));
        }
        flows.hear(Instant::from_secs(2), from(2), 50, Some(8));
        assert_eq!(flows.receiver_of(7), Some(receiver));
        flows.prune(Instant::from_secs(121), |_| true);
        assert_eq!((flows.len(), flows.receiver_of(7)), (1, None));
        assert_eq!(flows.receiver_of(8), Some(receiver));
        flows.prune(Instant::from_secs(121), |_| false);
        assert_eq!((flows.len(), flows.by_index.len()), (0, 0));
    }

    #[test]
    fn flows_are_bounded_by_host_by_receiver_and_in_time() {
        let receivers = [(); 2].map(|()| SecretKey::generate().public_key());
        let mut flows = Flows::new();
        let crowd = (0..100).filter(|port| {
            let from = SocketAddr::new(from(1).ip(), 1_000 + port);
            flows.open(Instant::ZERO, from, None, receivers[0], true)
        });
        let count = crowd.count();
        assert!((1..=20).contains(&count), "{count}");
        for host in 2..2_000 {
            let now = Instant::from_millis(u64::from(host) * 10);
            flows.open(now, from(host), None, receivers[0], true);
        }
        assert_eq!(flows.count_of(&receivers[0]), MAX_OF_RECEIVER);
        let now = Instant::from_secs(30);
        assert!(flows.open(now, from(3_000), None, receivers[1], true));
    }
}
