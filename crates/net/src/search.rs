//! The choice among a name's addresses for a path.
//!
//! Sources: RFC 8305 (Happy Eyeballs). §4: families alternate, in the resolver's order otherwise.
//! §5: the next address is tried when one does not answer in time, and addresses to which the
//! interface has no route are left out.
//!
//! Deviations: one address is tried at a time, since an initiation to each would open a session at
//! each. The delay is the handshake's, which grows. The address that last had the session is tried
//! for longer, and for five minutes after a resolver has dropped it.

use std::net::{IpAddr, SocketAddr};

use anabranch_units::{Duration, Instant};

/// Maximum number of addresses of a name. Chosen: more hosts than real names have.
const MAX_CANDIDATES: usize = 16;
/// Number of initiations to the address that last had the session. With their back-off they take
/// 1.75 s, in which the old session may speak again.
const PROVEN_ATTEMPTS: u32 = 3;
/// The same number, if the name has only other addresses by now.
const DROPPED_ATTEMPTS: u32 = 2;
/// Time for which the address that had the session is still tried after its name has lost it. A
/// resolver may lie: a hotel's gives its own address for every name.
const DROPPED_KEPT_FOR: Duration = Duration::from_secs(300);

/// The addresses of one path.
#[derive(Debug, Default)]
pub(crate) struct Search {
    candidates: Vec<SocketAddr>,
    current: Option<SocketAddr>,
    /// The address that last answered, and the time until which it is kept.
    proven: Option<(SocketAddr, Instant)>,
    /// Unanswered attempts at the current address.
    attempts: u32,
}

impl Search {
    /// Returns the search of a path that has one address and no name.
    pub(crate) fn fixed(address: SocketAddr) -> Self {
        Search {
            candidates: vec![address],
            current: Some(address),
            ..Search::default()
        }
    }

    /// Address that the path calls, if one is known.
    pub(crate) fn current(&self) -> Option<SocketAddr> {
        self.current
    }

    /// Returns the addresses of the name, as a resolver last gave them.
    pub(crate) fn candidates(&self) -> &[SocketAddr] {
        &self.candidates
    }

    /// Takes a resolver's answer. Returns whether there is a new address in it.
    pub(crate) fn set_candidates(&mut self, addresses: &[SocketAddr]) -> bool {
        let candidates = alternate(addresses);
        let has_new = candidates
            .iter()
            .any(|address| !self.candidates.contains(address));
        self.candidates = candidates;
        has_new
    }

    /// Records that the address has the session, as of `now`.
    pub(crate) fn prove(&mut self, now: Instant, address: SocketAddr) {
        self.proven = Some((address, now + DROPPED_KEPT_FOR));
        self.attempts = 0;
    }

    /// Returns the address at this host that the path may call.
    pub(crate) fn known_at(&self, host: IpAddr) -> Option<SocketAddr> {
        let proven = self.proven.iter().map(|(address, _)| address);
        let known = self.current.iter().chain(&self.candidates).chain(proven);
        known.copied().find(|address| address.ip() == host)
    }

    /// Returns whether the path may call the address.
    pub(crate) fn knows(&self, address: SocketAddr) -> bool {
        let is_proven = self.proven.is_some_and(|(proven, _)| proven == address);
        is_proven || self.candidates.contains(&address)
    }

    /// Calls this address from now on.
    pub(crate) fn choose(&mut self, address: SocketAddr) {
        self.current = Some(address);
        self.attempts = 0;
    }

    /// Records an attempt without an answer yet.
    pub(crate) fn on_attempt(&mut self) {
        self.attempts += 1;
    }

    /// Records that the receiver there has answered, though not with a session.
    pub(crate) fn on_sign(&mut self) {
        self.attempts = 0;
    }

    /// Returns the address to call instead of the current one, if any. `has_route` returns whether
    /// the path's interface has a route to an address.
    pub(crate) fn next(
        &mut self,
        now: Instant,
        has_route: impl Fn(SocketAddr) -> bool,
    ) -> Option<SocketAddr> {
        let kept = self
            .proven
            .filter(|(_, until)| now < *until)
            .map(|(address, _)| address);
        let dropped = kept.filter(|address| !self.candidates.contains(address));
        let all: Vec<_> = self.candidates.iter().copied().chain(dropped).collect();
        let current_at = all.iter().position(|one| Some(*one) == self.current);
        let is_only = all.len() == 1 && current_at.is_some();
        let is_patient = self.attempts < self.patience();
        // The usual case: there is no other address to try.
        if all.is_empty() || is_only {
            return None;
        }
        if current_at.is_some_and(|at| is_patient && has_route(all[at])) {
            return None;
        }
        let begin = current_at.map_or(0, |at| at + 1);
        let mut others = all[begin..].iter().chain(&all[..begin]).copied();
        // Without a route to any, sending to the first gives the user the reason.
        let chosen = match others.find(|address| has_route(*address)) {
            Some(address) => address,
            None if current_at.is_none() => *all.first()?,
            None => return None,
        };
        let is_other = self.current != Some(chosen);
        self.choose(chosen);
        is_other.then_some(chosen)
    }

    fn patience(&self) -> u32 {
        let proven = self.proven.map(|(address, _)| address);
        match self.current {
            Some(address) if proven != Some(address) => 1,
            Some(address) if self.candidates.contains(&address) => PROVEN_ATTEMPTS,
            _ => DROPPED_ATTEMPTS,
        }
    }
}

/// Makes the families alternate, beginning with that of the first address (RFC 8305 §4).
fn alternate(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let mut unique: Vec<SocketAddr> = Vec::new();
    for address in addresses {
        if !unique.contains(address) {
            unique.push(*address);
        }
    }
    let first_is_ipv4 = unique.first().is_some_and(SocketAddr::is_ipv4);
    let (first, second): (Vec<_>, Vec<_>) = unique
        .into_iter()
        .partition(|address| address.is_ipv4() == first_is_ipv4);
    let longest = first.len().max(second.len());
    let pairs = (0..longest).flat_map(|at| [first.get(at), second.get(at)]);
    pairs.flatten().copied().take(MAX_CANDIDATES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::ZERO;

    fn v4(last: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], 7_000))
    }

    fn v6(last: u16) -> SocketAddr {
        SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, last], 7_000))
    }

    fn search(addresses: &[SocketAddr]) -> Search {
        let mut search = Search::default();
        assert!(search.set_candidates(addresses));
        search
    }

    #[test]
    fn families_alternate_and_the_resolvers_order_is_kept() {
        assert_eq!(
            alternate(&[v6(1), v6(2), v4(1), v6(1), v4(2)]),
            [v6(1), v4(1), v6(2), v4(2)]
        );
        assert_eq!(alternate(&[v4(1), v4(2), v6(1)]), [v4(1), v6(1), v4(2)]);
        let many: Vec<_> = (0..200).map(v4).collect();
        assert_eq!(alternate(&many).len(), MAX_CANDIDATES);
    }

    #[test]
    fn an_interface_takes_an_address_that_it_has_a_route_to() {
        let addresses = [v6(1), v4(1)];
        let by_v4 = search(&addresses).next(START, |address| address.is_ipv4());
        assert_eq!(by_v4, Some(v4(1)));
        let by_v6 = search(&addresses).next(START, |address| address.is_ipv6());
        assert_eq!(by_v6, Some(v6(1)));
        // The first gives the reason, and is replaced by one that can be reached.
        let mut search = search(&addresses);
        assert_eq!(search.next(START, |_| false), Some(v6(1)));
        assert_eq!(search.next(START, |_| false), None);
        assert_eq!(search.next(START, |address| address.is_ipv4()), Some(v4(1)));
    }

    #[test]
    fn the_next_address_is_tried_when_one_does_not_answer_and_all_in_turn() {
        let mut search = search(&[v4(1), v4(2), v4(3)]);
        let mut tried = Vec::new();
        for _ in 0..4 {
            search.next(START, |address| address != v4(2));
            tried.extend(search.current());
            assert_eq!(search.next(START, |_| true), None, "it is not asked yet");
            search.on_attempt();
        }
        assert_eq!(tried, [v4(1), v4(3), v4(1), v4(3)]);
        search.on_sign();
        assert_eq!(search.next(START, |_| true), None, "it is there");
    }

    #[test]
    fn the_address_of_the_session_is_asked_first_and_longer() {
        let mut search = search(&[v4(1), v4(2)]);
        search.next(START, |_| true);
        search.prove(START, v4(1));
        // A resolver's rotation of addresses must not move the path.
        assert!(!search.set_candidates(&[v4(2), v4(1)]));
        for _ in 0..PROVEN_ATTEMPTS {
            assert_eq!(search.next(START, |_| true), None);
            search.on_attempt();
        }
        assert_eq!(search.next(START, |_| true), Some(v4(2)));
    }

    #[test]
    fn an_address_that_the_name_has_lost_is_left_and_not_asked_for_ever() {
        let mut search = search(&[v4(1)]);
        search.next(START, |_| true);
        search.prove(START, v4(1));
        assert!(search.set_candidates(&[v4(9)]));
        for _ in 0..DROPPED_ATTEMPTS {
            assert_eq!(search.next(START, |_| true), None);
            search.on_attempt();
        }
        assert_eq!(search.next(START, |_| true), Some(v4(9)));
        // The resolver may give wrong answers for a while.
        search.on_attempt();
        assert_eq!(search.next(START, |_| true), Some(v4(1)));
        assert!(search.knows(v4(1)));
        let later = START + DROPPED_KEPT_FOR;
        assert_eq!(search.next(later, |_| true), Some(v4(9)));
        search.on_attempt();
        assert_eq!(search.next(later, |_| true), None);
    }

    #[test]
    fn a_path_of_one_address_never_looks_for_another() {
        let mut search = Search::fixed(v4(1));
        search.on_attempt();
        assert_eq!(
            search.next(START, |_| -> bool { panic!("there is nothing to choose") }),
            None
        );
    }
}
