//! The proxy's flows: their numbers, and their state at the server.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use tokio::time::{Duration, Instant};

use super::{IDLE_AFTER, MAX_FLOWS};

/// Time after which a server that refused a target is asked again.
const REFUSED_FOR: Duration = Duration::from_secs(5);

/// Source of an application's datagram, and the port that it arrived at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Source {
    /// Port of the proxy, by its rule's number.
    pub(super) port: usize,
    pub(super) from: SocketAddr,
    /// Local address of the datagram, if the port is open at several.
    pub(super) to: Option<IpAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Datagrams name their target.
    Named,
    Known,
    /// Datagrams are dropped until then.
    Refused(Instant),
}

#[derive(Debug)]
struct Flow {
    source: Source,
    standing: Standing,
    used_at: Instant,
}

/// Flow of an application's datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outgoing {
    pub(super) flow: u32,
    /// Whether the datagram must name its target.
    pub(super) is_named: bool,
}

/// All flows of a proxy.
#[derive(Debug, Default)]
pub(super) struct Flows {
    by_source: BTreeMap<Source, u32>,
    flows: BTreeMap<u32, Flow>,
    /// Number of the next flow. Numbers are not reused, so that datagrams of an old flow reach no
    /// other.
    next: u32,
}

impl Flows {
    /// Records an application's datagram. Returns `None` if it must be dropped.
    pub(super) fn outgoing(&mut self, now: Instant, source: Source) -> Option<Outgoing> {
        let known = self.by_source.get(&source).copied();
        let number = known
            .filter(|number| !self.flows[number].is_idle(now))
            .unwrap_or_else(|| self.add(now, source));
        let flow = self.flows.get_mut(&number)?;
        flow.used_at = now;
        match flow.standing {
            Standing::Refused(until) if now < until => return None,
            Standing::Refused(_) => flow.standing = Standing::Named,
            Standing::Named | Standing::Known => {}
        }
        Some(Outgoing {
            flow: number,
            is_named: flow.standing == Standing::Named,
        })
    }

    /// Records an answer. Returns its destination.
    pub(super) fn incoming(&mut self, now: Instant, number: u32) -> Option<Source> {
        let flow = self.flows.get_mut(&number)?;
        flow.used_at = now;
        Some(flow.source)
    }

    /// Records whether the server knows the flow.
    pub(super) fn set_known(&mut self, number: u32, is_known: bool) {
        if let Some(flow) = self.flows.get_mut(&number) {
            flow.standing = if is_known {
                Standing::Known
            } else {
                Standing::Named
            };
        }
    }

    /// Records that the server does not permit the flow's target. Returns the number of its rule,
    /// unless an earlier refusal still applies.
    pub(super) fn refuse(&mut self, now: Instant, number: u32) -> Option<usize> {
        let flow = self.flows.get_mut(&number)?;
        let is_first = !matches!(flow.standing, Standing::Refused(until) if now < until);
        flow.standing = Standing::Refused(now + REFUSED_FOR);
        is_first.then_some(flow.source.port)
    }

    fn add(&mut self, now: Instant, source: Source) -> u32 {
        self.flows.retain(|_, flow| !flow.is_idle(now));
        if self.flows.len() >= MAX_FLOWS {
            let oldest = self
                .flows
                .iter()
                .min_by_key(|(_, flow)| flow.used_at)
                .map(|(number, _)| *number);
            if let Some(number) = oldest {
                self.flows.remove(&number);
            }
        }
        let flows = &self.flows;
        self.by_source
            .retain(|_, number| flows.contains_key(number));
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.by_source.insert(source, number);
        self.flows.insert(
            number,
            Flow {
                source,
                standing: Standing::Named,
                used_at: now,
            },
        );
        number
    }
}

impl Flow {
    fn is_idle(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.used_at) >= IDLE_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(rule: usize, port: u16) -> Source {
        Source {
            port: rule,
            from: ([127, 0, 0, 1], port).into(),
            to: None,
        }
    }

    fn named(flow: u32) -> Option<Outgoing> {
        let is_named = true;
        Some(Outgoing { flow, is_named })
    }

    #[test]
    fn each_port_and_source_has_a_flow_of_its_own_which_names_its_target_until_it_is_known() {
        let (mut flows, now) = (Flows::default(), Instant::now());
        for (source, number) in [(source(0, 1), 0), (source(0, 2), 1), (source(1, 1), 2)] {
            for _ in 0..2 {
                assert_eq!(flows.outgoing(now, source), named(number));
            }
            flows.set_known(number, true);
            let is_named = false;
            let flow = number;
            assert_eq!(
                flows.outgoing(now, source),
                Some(Outgoing { flow, is_named })
            );
            assert_eq!(flows.incoming(now, number), Some(source));
            flows.set_known(number, false);
            assert_eq!(flows.outgoing(now, source), named(number));
        }
        assert_eq!(flows.incoming(now, 3), None);
    }

    #[test]
    fn a_flow_that_is_idle_from_both_ends_is_over() {
        let (mut flows, now) = (Flows::default(), Instant::now());
        assert_eq!(flows.outgoing(now, source(0, 1)), named(0));
        let later = now + IDLE_AFTER - Duration::from_secs(1);
        assert!(flows.incoming(later, 0).is_some());
        let then = later + IDLE_AFTER - Duration::from_secs(1);
        assert_eq!(
            flows.outgoing(then, source(0, 1)),
            named(0),
            "an answer came"
        );
        assert_eq!(flows.outgoing(then + IDLE_AFTER, source(0, 1)), named(1));
        assert_eq!(flows.incoming(then + IDLE_AFTER, 0), None);
    }

    #[test]
    fn a_flood_of_flows_is_bounded_and_the_one_that_is_used_stays() {
        let (mut flows, begin) = (Flows::default(), Instant::now());
        let used = source(0, 1);
        for number in 0..5_000 {
            let now = begin + Duration::from_micros(u64::from(number));
            assert_eq!(flows.outgoing(now, used).map(|out| out.flow), Some(0));
            let another = source(1, number);
            assert!(flows.outgoing(now, another).is_some());
        }
        assert_eq!(
            (flows.flows.len(), flows.by_source.len()),
            (MAX_FLOWS, MAX_FLOWS)
        );
    }

    #[test]
    fn refused_flow_is_retried_and_reported_once() {
        let (mut flows, now) = (Flows::default(), Instant::now());
        assert_eq!(flows.outgoing(now, source(2, 1)), named(0));
        assert_eq!(flows.refuse(now, 0), Some(2));
        assert_eq!(flows.refuse(now, 0), None);
        assert_eq!(flows.outgoing(now, source(2, 1)), None);
        assert_eq!(flows.outgoing(now + REFUSED_FOR, source(2, 1)), named(0));
    }
}
