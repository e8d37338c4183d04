//! Permitted targets of streams and flows, and their addresses.
//!
//! A request is checked twice: its host and port by the rules of its peer, before any look-up, and
//! then each address of its target. The connection goes to an address that was checked.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use anabranch_observe::Observation;
use anabranch_observe::Transport;
use anabranch_secure::PublicKey;

use super::destination::{Destination, Target};
use super::journal::Journal;
use super::peer::Peer;
use super::reach::{CurrentSurroundings, Reach};
use super::request::Answer;
use super::resolver::Resolver;

const NO_RULE: &str = "no --connect and no connect= leads there";
const NOT_FORWARDED: &str = "there is no --forward";
const SPECIAL: &str = "its address is special, and no rule names it";
const NEIGHBOUR: &str = "its address is a neighbour's of this machine, and no rule names it";
const OWN: &str = "its address is this machine's own, and no rule names it";

/// Rules for targets that proxies request.
#[derive(Debug)]
pub struct Policy {
    forward: Option<Target>,
    /// Rules for peers without their own.
    connect: RwLock<Arc<[Destination]>>,
    /// Rules of each allowed peer.
    peers: RwLock<BTreeMap<PublicKey, Arc<[Destination]>>>,
    resolver: Resolver,
    surroundings: CurrentSurroundings,
    journal: Journal,
}

/// A request that a rule may permit.
#[derive(Clone, Debug)]
pub struct Request {
    peer: PublicKey,
    transport: Transport,
    target: Target,
    /// Rules; `None` for the target of `--forward`, which may have any address.
    rules: Option<Arc<[Destination]>>,
}

impl Policy {
    /// Creates the rules of a server: the target of proxies' own listeners, the rules for peers
    /// without their own, and the peers.
    pub fn new(
        forward: Option<Target>,
        connect: Vec<Destination>,
        allowed: &[Peer],
        observation: Arc<Observation>,
    ) -> Self {
        let policy = Policy {
            forward,
            connect: RwLock::new(connect.into()),
            peers: RwLock::default(),
            resolver: Resolver::of_system(),
            surroundings: CurrentSurroundings::default(),
            journal: Journal::new(observation),
        };
        policy.set_allowed(allowed);
        policy
    }

    /// Sets the rules for peers without their own, from the next
    /// [`set_allowed`](Self::set_allowed) on.
    pub fn set_connect(&self, connect: Vec<Destination>) {
        *self.connect.write().unwrap_or_else(PoisonError::into_inner) = connect.into();
    }

    /// Serves these peers by their rules, and no others. Open connections are kept.
    pub fn set_allowed(&self, allowed: &[Peer]) {
        let common = self.connect.read().unwrap_or_else(PoisonError::into_inner);
        let common = Arc::clone(&common);
        let rules = allowed.iter().map(|allowed| {
            let its = allowed.connect.as_ref();
            let rules = its.map_or_else(|| Arc::clone(&common), |its| its.as_slice().into());
            (allowed.key, rules)
        });
        *self.peers.write().unwrap_or_else(PoisonError::into_inner) = rules.collect();
        self.journal.set_allowed(allowed);
    }

    /// Returns the request of `peer`, if a rule may permit it. An empty request is for the target
    /// of `--forward`.
    ///
    /// # Errors
    /// The answer for the peer.
    pub fn request(
        &self,
        peer: PublicKey,
        transport: Transport,
        asked: &str,
    ) -> Result<Request, Answer> {
        let peers = self.peers.read().unwrap_or_else(PoisonError::into_inner);
        // The peer's session is about to end.
        let rules = peers.get(&peer).cloned().ok_or(Answer::NotAllowed)?;
        drop(peers);
        let found = if asked.is_empty() {
            let target = self.forward.clone().ok_or(NOT_FORWARDED);
            target.map(|target| (target, None))
        } else {
            let target = Target::of(asked)
                .filter(|target| rules.iter().any(|rule| rule.may_permit(target)))
                .ok_or(NO_RULE);
            target.map(|target| (target, Some(rules)))
        };
        match found {
            Ok((target, rules)) => Ok(Request {
                peer,
                transport,
                target,
                rules,
            }),
            Err(reason) => {
                self.journal.refused(&peer, transport, asked, reason);
                Err(Answer::NotAllowed)
            }
        }
    }

    /// Returns the permitted addresses of a request's target, at least one.
    ///
    /// # Errors
    /// The answer for the peer.
    pub async fn addresses(&self, request: &Request) -> Result<Vec<SocketAddr>, Answer> {
        let Request { peer, target, .. } = request;
        let resolved = self.resolver.resolve(peer, target.as_str()).await;
        let found = resolved.unwrap_or_default();
        if found.is_empty() {
            self.failed(request, Answer::UnknownHost);
            return Err(Answer::UnknownHost);
        }
        self.permitted(request, found).map_err(|reason| {
            let transport = request.transport;
            self.journal
                .refused(peer, transport, target.as_str(), reason);
            Answer::NotAllowed
        })
    }

    /// Returns the permitted addresses, or the reason why there are none.
    fn permitted(
        &self,
        request: &Request,
        mut found: Vec<SocketAddr>,
    ) -> Result<Vec<SocketAddr>, &'static str> {
        let Some(rules) = &request.rules else {
            return Ok(found);
        };
        // If the own addresses are unknown, each address may be one of them.
        let surroundings = self.surroundings.get().ok();
        let mut reason = NO_RULE;
        found.retain(|address| {
            let ip = address.ip();
            let reach = surroundings
                .as_ref()
                .map_or(Reach::Own, |found| Reach::of(ip, found));
            match reach {
                Reach::Public => {}
                Reach::Special => reason = SPECIAL,
                Reach::Neighbour(_) => reason = NEIGHBOUR,
                Reach::Own => reason = OWN,
            }
            rules
                .iter()
                .any(|rule| rule.permits(&request.target, ip, reach))
        });
        if found.is_empty() {
            Err(reason)
        } else {
            Ok(found)
        }
    }

    /// Returns the target of proxies' own listeners.
    pub fn forward(&self) -> Option<&Target> {
        self.forward.as_ref()
    }

    /// Returns the addresses of [`forward`](Self::forward).
    ///
    /// # Errors
    /// Its name is unknown.
    pub async fn forward_addresses(&self) -> Result<Vec<SocketAddr>, Answer> {
        let target = self.forward.as_ref().map_or("", Target::as_str);
        let resolved = tokio::net::lookup_host(target).await;
        let found: Vec<_> = resolved.map_err(|_| Answer::UnknownHost)?.collect();
        if found.is_empty() {
            Err(Answer::UnknownHost)
        } else {
            Ok(found)
        }
    }

    /// Records that a request's target could not be connected to.
    pub fn failed(&self, request: &Request, answer: Answer) {
        let Request {
            peer,
            transport,
            target,
            ..
        } = request;
        self.journal
            .failed(peer, *transport, target.as_str(), answer.reason());
    }

    /// Records that a request was connected.
    pub fn connected(&self, request: &Request, address: SocketAddr) {
        let Request {
            peer,
            transport,
            target,
            ..
        } = request;
        self.journal
            .connected(peer, *transport, target.as_str(), address);
    }
}

#[cfg(test)]
mod tests {
    use anabranch_secure::SecretKey;

    use super::*;

    fn peer(name: &str, connect: Option<&[&str]>) -> Peer {
        Peer {
            key: SecretKey::generate().public_key(),
            name: name.to_owned(),
            connect: connect.map(|rules| rules.iter().map(|rule| rule.parse().unwrap()).collect()),
        }
    }

    fn policy(connect: &[&str], allowed: &[Peer]) -> Policy {
        let connect = connect.iter().map(|rule| rule.parse().unwrap()).collect();
        let forward = Target::of("127.0.0.1:8080");
        Policy::new(forward, connect, allowed, Arc::default())
    }

    async fn asked(policy: &Policy, peer: &Peer, target: &str) -> Result<SocketAddr, Answer> {
        let request = policy.request(peer.key, Transport::Tcp, target)?;
        let addresses = policy.addresses(&request).await?;
        Ok(addresses[0])
    }

    /// The audit's attack with every notation of an address. No look-up leaves the machine.
    #[tokio::test]
    async fn a_rule_for_a_port_reaches_neither_this_machine_nor_its_networks() {
        let peer = peer("a", None);
        let policy = policy(&["*:80"], core::slice::from_ref(&peer));
        for target in [
            "127.0.0.1:80",
            "169.254.169.254:80",
            "10.0.0.1:80",
            "192.168.0.1:80",
            "0.0.0.0:80",
            "[::1]:80",
            "[::ffff:127.0.0.1]:80",
            "[64:ff9b::127.0.0.1]:80",
            "[fd00::1]:80",
            "localhost:80",
            "127.1:80",
            "2130706433:80",
            "0x7f000001:80",
            "017700000001:80",
        ] {
            let refused = asked(&policy, &peer, target).await;
            assert_eq!(refused, Err(Answer::NotAllowed), "{target}");
        }
        let public = asked(&policy, &peer, "1.1.1.1:80").await;
        assert_eq!(public, Ok(([1, 1, 1, 1], 80).into()));
        let forwarded = asked(&policy, &peer, "").await;
        assert_eq!(forwarded, Ok(([127, 0, 0, 1], 8080).into()), "it is named");
    }

    #[tokio::test]
    async fn a_key_with_rules_has_these_alone_and_a_key_that_is_not_let_in_has_none() {
        let ruled = peer("a", Some(&["127.0.0.1:22", "*:443"]));
        let (none, plain) = (peer("b", Some(&[])), peer("c", None));
        let all = [ruled.clone(), none.clone(), plain.clone()];
        let policy = policy(&["*:80"], &all);
        for (peer, target, expected) in [
            (&ruled, "127.0.0.1:22", true),
            (&ruled, "1.1.1.1:443", true),
            (&ruled, "1.1.1.1:80", false),
            (&none, "1.1.1.1:80", false),
            (&none, "", true),
            (&plain, "1.1.1.1:80", true),
            (&plain, "127.0.0.1:22", false),
        ] {
            let found = asked(&policy, peer, target).await;
            assert_eq!(found.is_ok(), expected, "{target}");
        }
        policy.set_allowed(core::slice::from_ref(&plain));
        for target in ["127.0.0.1:22", "1.1.1.1:443", ""] {
            let refused = asked(&policy, &ruled, target).await;
            assert_eq!(refused, Err(Answer::NotAllowed), "{target}");
        }
        assert!(asked(&policy, &plain, "1.1.1.1:80").await.is_ok());
    }
}
