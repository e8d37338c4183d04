//! Assignment of the server's addresses to keys and sessions.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use anabranch_secure::PublicKey;

use super::address::InnerAddress;
use super::message::{OfEach, Verdict, index_of};

/// Owner of an address.
#[derive(Clone, Copy, Debug)]
struct Owner {
    key: PublicKey,
    /// Whether the address was assigned by the order of keys. Otherwise the key was the first to
    /// claim it, and owns it until it claims another.
    is_reserved: bool,
}

/// Treatment of a session's packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The packet may pass.
    Admitted,
    /// The session has no address.
    Unknown,
    /// The packet's source does not belong to the session.
    Spoofed,
}

/// All addresses; `C` is a channel to a session's peer.
#[derive(Debug)]
pub struct Routes<C> {
    own: Vec<InnerAddress>,
    /// Keys that may have addresses.
    keys: BTreeSet<PublicKey>,
    owners: BTreeMap<IpAddr, Owner>,
    /// Number of the session that has the address, and the channel to its peer.
    routes: BTreeMap<IpAddr, (u64, C)>,
    session_count: u64,
}

impl<C: Clone> Routes<C> {
    /// Creates the routes of a server with these addresses, and reserves the next free ones for the
    /// keys.
    pub fn new(own: Vec<InnerAddress>, keys: &[PublicKey]) -> Self {
        let mut routes = Routes {
            own,
            keys: BTreeSet::new(),
            owners: BTreeMap::new(),
            routes: BTreeMap::new(),
            session_count: 0,
        };
        routes.set_keys(keys);
        routes
    }

    /// Reserves an address of each network for each of the keys without one, and removes those of
    /// all other keys.
    pub fn set_keys(&mut self, keys: &[PublicKey]) {
        self.keys = keys.iter().copied().collect();
        let kept = &self.keys;
        self.owners.retain(|_, owner| kept.contains(&owner.key));
        let owners = &mut self.owners;
        self.routes
            .retain(|address, _| owners.contains_key(address));
        for network in &self.own {
            let reserved = owners.iter().filter(|(address, owner)| {
                owner.is_reserved && address.is_ipv4() == network.is_ipv4()
            });
            let having: BTreeSet<PublicKey> = reserved.map(|(_, owner)| owner.key).collect();
            let mut number = 0;
            for key in keys.iter().filter(|key| !having.contains(*key)) {
                let owner = Owner {
                    key: *key,
                    is_reserved: true,
                };
                while let Some(address) = network.other_host(number) {
                    number += 1;
                    if let Entry::Vacant(free) = owners.entry(address) {
                        free.insert(owner);
                        break;
                    }
                }
            }
        }
    }

    /// Begins a session. Returns its number.
    pub fn open(&mut self) -> u64 {
        self.session_count += 1;
        self.session_count
    }

    /// Ends a session.
    pub fn close(&mut self, session: u64) {
        self.routes.retain(|_, (has_it, _)| *has_it != session);
    }

    /// Handles a session's claim of its peer's addresses. Only the granted ones are routed to the
    /// session.
    pub fn claim(
        &mut self,
        (key, session): (PublicKey, u64),
        channel: &C,
        wanted: OfEach<Option<IpAddr>>,
    ) -> OfEach<Verdict> {
        self.close(session);
        wanted.map(|wanted| {
            let Some(wanted) = wanted else {
                return Verdict::NotClaimed;
            };
            let verdict = self.verdict(key, wanted);
            if verdict == Verdict::Granted {
                self.routes.insert(wanted, (session, channel.clone()));
            }
            verdict
        })
    }

    fn verdict(&mut self, key: PublicKey, wanted: IpAddr) -> Verdict {
        let Some(network) = self
            .own
            .iter()
            .find(|own| own.is_ipv4() == wanted.is_ipv4())
        else {
            return Verdict::NoNetwork;
        };
        match self.owners.get(&wanted) {
            Some(owner) if owner.key == key => Verdict::Granted,
            None if self.keys.contains(&key) && network.has_room_for(wanted) => {
                self.choose(key, wanted);
                Verdict::Granted
            }
            _ => Verdict::NotYours(self.reserved(key, wanted)),
        }
    }

    /// Assigns an address that is not the key's reserved one. The key gives up any earlier such
    /// address.
    fn choose(&mut self, key: PublicKey, wanted: IpAddr) {
        self.owners.retain(|address, owner| {
            owner.is_reserved || owner.key != key || index_of(*address) != index_of(wanted)
        });
        let owners = &self.owners;
        self.routes
            .retain(|address, _| owners.contains_key(address));
        let is_reserved = false;
        self.owners.insert(wanted, Owner { key, is_reserved });
    }

    /// Returns the key's reserved address of the same kind.
    fn reserved(&self, key: PublicKey, like: IpAddr) -> Option<IpAddr> {
        self.owners
            .iter()
            .find(|(address, owner)| {
                owner.is_reserved && owner.key == key && address.is_ipv4() == like.is_ipv4()
            })
            .map(|(address, _)| *address)
    }

    /// Returns whether a session may send a packet with this source.
    pub fn admit(&self, session: u64, from: IpAddr) -> Admission {
        match self.routes.get(&from) {
            Some((has_it, _)) if *has_it == session => Admission::Admitted,
            _ if self.routes.values().any(|(has_it, _)| *has_it == session) => Admission::Spoofed,
            _ => Admission::Unknown,
        }
    }

    /// Returns the channel for packets to that address.
    pub fn route(&self, to: IpAddr) -> Option<&C> {
        self.routes.get(&to).map(|(_, channel)| channel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_secure::SecretKey;

    type Names = Routes<&'static str>;

    fn key() -> PublicKey {
        SecretKey::generate().public_key()
    }

    fn routes(own: &[&str], keys: &[PublicKey]) -> Names {
        let own = own.iter().map(|own| own.parse().unwrap()).collect();
        Routes::new(own, keys)
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn claim(routes: &mut Names, whose: (PublicKey, u64), name: &'static str, v4: &str) -> Verdict {
        routes.claim(whose, &name, [Some(ip(v4)), None])[0]
    }

    #[test]
    fn keys_have_addresses_in_their_order_and_others_are_refused_them() {
        let keys = [key(), key()];
        let mut routes = routes(&["10.99.0.1/24", "fd00::1/64"], &keys);
        let sessions = [routes.open(), routes.open()];
        let first = (keys[0], sessions[0]);
        let both = [Some(ip("10.99.0.2")), Some(ip("fd00::2"))];
        assert_eq!(routes.claim(first, &"a", both), [Verdict::Granted; 2]);
        let offered = [Some(ip("10.99.0.3")), Some(ip("fd00::3"))].map(Verdict::NotYours);
        let second = (keys[1], sessions[1]);
        assert_eq!(routes.claim(second, &"b", both), offered);
        assert_eq!(routes.route(ip("10.99.0.2")), Some(&"a"));
        assert_eq!(routes.route(ip("fd00::2")), Some(&"a"));
        for wrong in ["10.99.0.1", "10.99.0.255", "10.98.0.2"] {
            let verdict = claim(&mut routes, second, "b", wrong);
            assert_eq!(verdict, Verdict::NotYours(Some(ip("10.99.0.3"))));
        }
        assert_eq!(
            claim(&mut routes, second, "b", "10.99.0.3"),
            Verdict::Granted
        );
        assert_eq!(routes.route(ip("10.99.0.3")), Some(&"b"));
        assert_eq!(routes.route(ip("10.99.0.4")), None);
    }

    #[test]
    fn the_first_to_claim_a_free_address_keeps_it_while_it_is_away() {
        let keys = [key(), key()];
        let mut routes = routes(&["10.99.0.1/24"], &keys);
        let (a, b) = (routes.open(), routes.open());
        let (a, b) = ((keys[0], a), (keys[1], b));
        assert_eq!(claim(&mut routes, a, "a", "10.99.0.77"), Verdict::Granted);
        routes.close(a.1);
        assert_eq!(routes.route(ip("10.99.0.77")), None);
        let refused = Verdict::NotYours(Some(ip("10.99.0.3")));
        assert_eq!(claim(&mut routes, b, "b", "10.99.0.77"), refused);
        let newer = (keys[0], routes.open());
        assert_eq!(
            claim(&mut routes, newer, "a", "10.99.0.78"),
            Verdict::Granted
        );
        assert_eq!(claim(&mut routes, b, "b", "10.99.0.77"), Verdict::Granted);
        assert_eq!(
            claim(&mut routes, newer, "a", "10.99.0.2"),
            Verdict::Granted
        );
        assert_eq!(routes.owners.len(), 4, "a key has one beside its own");
    }

    #[test]
    fn a_key_that_is_taken_out_loses_its_addresses_and_others_keep_theirs() {
        let [a, b, c] = [key(), key(), key()];
        let mut routes = routes(&["10.99.0.1/24"], &[a, b]);
        let (first, second) = ((a, routes.open()), (b, routes.open()));
        assert_eq!(
            claim(&mut routes, first, "a", "10.99.0.2"),
            Verdict::Granted
        );
        assert_eq!(
            claim(&mut routes, second, "b", "10.99.0.3"),
            Verdict::Granted
        );
        routes.set_keys(&[c, b]);
        assert_eq!(routes.admit(first.1, ip("10.99.0.2")), Admission::Unknown);
        assert_eq!(routes.route(ip("10.99.0.2")), None);
        assert_eq!(routes.route(ip("10.99.0.3")), Some(&"b"));
        // The key's session is about to end.
        assert_eq!(
            claim(&mut routes, first, "a", "10.99.0.77"),
            Verdict::NotYours(None)
        );
        let third = (c, routes.open());
        assert_eq!(
            claim(&mut routes, third, "c", "10.99.0.3"),
            Verdict::NotYours(Some(ip("10.99.0.2")))
        );
        assert_eq!(
            claim(&mut routes, third, "c", "10.99.0.2"),
            Verdict::Granted
        );
    }

    #[test]
    fn a_session_sends_from_its_own_address_only() {
        let keys = [key(), key()];
        let mut routes = routes(&["10.99.0.1/24"], &keys);
        let (a, b) = (routes.open(), routes.open());
        assert_eq!(routes.admit(a, ip("10.99.0.2")), Admission::Unknown);
        claim(&mut routes, (keys[0], a), "a", "10.99.0.2");
        claim(&mut routes, (keys[1], b), "b", "10.99.0.3");
        for (session, from, expected) in [
            (a, "10.99.0.2", Admission::Admitted),
            (a, "10.99.0.3", Admission::Spoofed),
            (a, "10.99.0.1", Admission::Spoofed),
            (a, "192.0.2.1", Admission::Spoofed),
            (b, "10.99.0.2", Admission::Spoofed),
            (b, "10.99.0.3", Admission::Admitted),
        ] {
            assert_eq!(
                routes.admit(session, ip(from)),
                expected,
                "{session} {from}"
            );
        }
        routes.close(a);
        assert_eq!(routes.admit(a, ip("10.99.0.2")), Admission::Unknown);
    }

    #[test]
    fn a_new_session_of_a_key_takes_the_old_ones_place() {
        let key = key();
        let mut routes = routes(&["10.99.0.1/24"], &[key]);
        let (old, new) = (routes.open(), routes.open());
        claim(&mut routes, (key, old), "old", "10.99.0.2");
        claim(&mut routes, (key, new), "new", "10.99.0.2");
        assert_eq!(routes.admit(old, ip("10.99.0.2")), Admission::Unknown);
        routes.close(old);
        assert_eq!(routes.route(ip("10.99.0.2")), Some(&"new"));
    }

    #[test]
    fn a_server_without_addresses_of_a_kind_says_so() {
        let key = key();
        let mut routes = routes(&["10.99.0.1/24"], &[key]);
        let session = routes.open();
        let wanted = [None, Some(ip("fd00::2"))];
        let verdicts = routes.claim((key, session), &"a", wanted);
        assert_eq!(verdicts, [Verdict::NotClaimed, Verdict::NoNetwork]);
    }
}
