//! The socket: callers of SRT, or links of SRTLA, whose groups are callers here.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use anabranch_net::{PlainSocket, Surroundings};
use anabranch_srt::Connection;
use anabranch_srtla::{Event, GroupId, Receiver, Taken};
use anabranch_units::{Duration, Instant};

use super::IngestProtocol;

/// Time between checks for silent links, as SRTLA's receiver asks for.
const TICK: Duration = Duration::from_secs(1);
/// Maximum number of local addresses that are kept.
const MAX_LOCALS: usize = 4_096;
/// First half of the addresses of groups: the prefix for discarded packets (RFC 6666), which no
/// caller has.
const GROUPS: u128 = 0x0100 << 112;

/// A datagram of SRT, and its source.
#[derive(Clone, Copy, Debug)]
pub(super) struct FromCaller {
    pub(super) length: usize,
    /// Address of the caller, or of the group of its links.
    pub(super) caller: SocketAddr,
    /// Host that the caller has proven to be at.
    pub(super) origin: IpAddr,
}

/// A link as it is now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LinkSample {
    pub(super) address: SocketAddr,
    /// Bytes of SRT that it brought.
    pub(super) bytes: u64,
    pub(super) heard_at: Instant,
    pub(super) rtt: Option<Duration>,
}

/// The receiver's socket.
#[derive(Debug)]
pub(super) struct CallerSocket {
    socket: PlainSocket,
    /// This machine's address that each sender has sent to, if the machine has several.
    locals: BTreeMap<SocketAddr, IpAddr>,
    relay: Option<Relay>,
}

/// Links, and the addresses of their groups.
#[derive(Debug)]
struct Relay {
    receiver: Receiver,
    groups: BTreeMap<SocketAddr, GroupId>,
    callers: BTreeMap<GroupId, SocketAddr>,
    group_count: u64,
    tick_at: Instant,
}

impl CallerSocket {
    /// Opens the socket.
    ///
    /// # Errors
    /// The address is taken, or the system has no randomness.
    pub(super) fn open(
        protocol: IngestProtocol,
        listen: SocketAddr,
        surroundings: &Surroundings,
    ) -> io::Result<CallerSocket> {
        let socket = PlainSocket::listen(surroundings, listen)?;
        let relay = match protocol {
            IngestProtocol::Srt => None,
            IngestProtocol::Srtla => Some(Relay {
                receiver: Receiver::new(&surroundings.random_bytes()?),
                groups: BTreeMap::new(),
                callers: BTreeMap::new(),
                group_count: 0,
                tick_at: surroundings.clock().now(),
            }),
        };
        Ok(CallerSocket {
            socket,
            locals: BTreeMap::new(),
            relay,
        })
    }

    pub(super) fn socket(&self) -> PlainSocket {
        self.socket.clone()
    }

    pub(super) fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Returns the next datagram of SRT, if there is one within the budget of datagrams.
    pub(super) fn read(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
        budget: &mut usize,
    ) -> Option<FromCaller> {
        while *budget > 0 {
            *budget -= 1;
            let (length, from, to) = match self.socket.recv(buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                // Others concern earlier datagrams.
                Err(_) => continue,
            };
            let taken = match &mut self.relay {
                Some(relay) => relay.take(now, from, &buffer[..length]),
                None => Taking::caller(from),
            };
            if let Some(to) = to
                && self.keeps_local_of(from)
            {
                self.locals.insert(from, to);
            }
            if let Some(answer) = taken.answer {
                // A datagram that finds no room is lost, as anywhere in the network.
                let _ = self.socket.send_to(&answer, from, to);
            }
            if let Some((caller, origin)) = taken.caller {
                return Some(FromCaller {
                    length,
                    caller,
                    origin,
                });
            }
        }
        None
    }

    /// Returns whether later datagrams for this sender leave from the address that it has sent to.
    fn keeps_local_of(&self, from: SocketAddr) -> bool {
        let is_sender = match &self.relay {
            Some(relay) => relay.receiver.has_link(from),
            None => true,
        };
        is_sender && (self.locals.len() < MAX_LOCALS || self.locals.contains_key(&from))
    }

    /// Sends a datagram of SRT to a caller.
    pub(super) fn send(&mut self, now: Instant, caller: SocketAddr, packet: &[u8]) {
        let links = match &mut self.relay {
            Some(relay) => relay.links_for(now, caller, packet),
            None => vec![caller],
        };
        for to in links {
            let from = self.locals.get(&to).copied();
            // A datagram that finds no room is lost, as anywhere in the network.
            let _ = self.socket.send_to(packet, to, from);
        }
    }

    /// Returns the host from which a caller has come.
    pub(super) fn origin_of(&self, caller: SocketAddr) -> IpAddr {
        let relay = self.relay.as_ref();
        let origin = relay.and_then(|relay| {
            let group = relay.groups.get(&caller)?;
            relay.receiver.address(*group)
        });
        origin.unwrap_or(caller.ip())
    }

    /// Returns the links of a caller.
    pub(super) fn links(&self, caller: SocketAddr, connection: &Connection) -> Vec<LinkSample> {
        let Some(relay) = &self.relay else {
            let statistics = connection.statistics();
            return vec![LinkSample {
                address: caller,
                bytes: statistics.received_bytes,
                heard_at: connection.heard_at(),
                rtt: statistics.rtt,
            }];
        };
        let Some(group) = relay.groups.get(&caller) else {
            return Vec::new();
        };
        let links = relay.receiver.group_links(*group);
        links
            .filter(|(link, _)| link.was_accepted)
            .map(|(link, heard_at)| LinkSample {
                address: link.address,
                bytes: link.bytes,
                heard_at,
                rtt: link
                    .info
                    .map(|info| Duration::from_millis(info.rtt_millis.into())),
            })
            .collect()
    }

    /// Forgets senders that have gone. `is_known` says whether a caller has a session.
    pub(super) fn tend(&mut self, now: Instant, is_known: impl Fn(&SocketAddr) -> bool) {
        let Some(relay) = &mut self.relay else {
            self.locals.retain(|address, _| is_known(address));
            return;
        };
        relay.tend(now);
        self.locals
            .retain(|address, _| relay.receiver.has_link(*address));
    }
}

/// Meaning of a datagram.
#[derive(Debug, Default)]
struct Taking {
    /// Bytes that go back.
    answer: Option<Vec<u8>>,
    /// The caller whose datagram of SRT it is, and its host.
    caller: Option<(SocketAddr, IpAddr)>,
}

impl Taking {
    fn caller(from: SocketAddr) -> Self {
        Taking {
            answer: None,
            caller: Some((from, from.ip())),
        }
    }
}

impl Relay {
    fn take(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) -> Taking {
        match self.receiver.handle_link(now, from, datagram) {
            Taken::Nothing => Taking::default(),
            Taken::Answer(answer) => Taking {
                answer: Some(answer),
                caller: None,
            },
            Taken::Forward { group, ack } => {
                let origin = self.receiver.address(group).unwrap_or(from.ip());
                Taking {
                    answer: ack,
                    caller: Some((self.caller_of(group), origin)),
                }
            }
        }
    }

    /// Returns the address of a group.
    fn caller_of(&mut self, group: GroupId) -> SocketAddr {
        if let Some(caller) = self.callers.get(&group) {
            return *caller;
        }
        let host = Ipv6Addr::from(GROUPS | u128::from(self.group_count));
        let caller = SocketAddr::new(host.into(), 0);
        self.group_count += 1;
        self.callers.insert(group, caller);
        self.groups.insert(caller, group);
        caller
    }

    fn links_for(&mut self, now: Instant, caller: SocketAddr, packet: &[u8]) -> Vec<SocketAddr> {
        match self.groups.get(&caller) {
            Some(group) => self.receiver.handle_srt(now, *group, packet),
            None => Vec::new(),
        }
    }

    fn tend(&mut self, now: Instant) {
        if now >= self.tick_at {
            self.tick_at = now + TICK;
            self.receiver.handle_time(now);
        }
        while let Some(event) = self.receiver.poll_event() {
            if let Event::GroupEnded(group) = event
                && let Some(caller) = self.callers.remove(&group)
            {
                self.groups.remove(&caller);
            }
        }
    }
}
