//! The next packet and its link: the one by which it arrives first.

use anabranch_units::{Duration, Instant};

use super::memory::Copy;
use super::{LinkId, Sender, Transmit};

/// Maximum number of waiting packets that are planned ahead.
const MAX_PLANNED: usize = 512;

/// A link while packets are planned.
#[derive(Clone, Copy, Debug)]
struct Plan {
    id: LinkId,
    /// Time at which the next packet may leave.
    start: Instant,
    /// Delay to the receiver.
    forward: Duration,
    weight: f64,
    is_metered: bool,
}

impl Sender {
    /// Returns the next packet of media that may leave now.
    pub(super) fn next_media(&mut self, now: Instant) -> Option<Transmit> {
        self.start_at = None;
        self.expire(now);
        let (link, number) = self.choose(now)?;
        if !self.again.remove(&number) {
            let at = self.fresh.iter().position(|&queued| queued == number)?;
            self.fresh.remove(at);
        }
        let kept = self.memory.get_mut(number)?;
        let is_again = kept.copy_count > 0;
        kept.is_queued = false;
        kept.copy_count += 1;
        kept.copy = Some(Copy { link, sent_at: now });
        let datagram = kept.bytes.to_vec();
        self.queued_bytes = self.queued_bytes.saturating_sub(datagram.len() as u64);
        self.counters.sent_again += u64::from(is_again);
        if is_again {
            self.budget.on_repeat(datagram.len() as u64);
        } else {
            self.budget.on_first(now, datagram.len() as u64);
        }
        let its = self.link_mut(link)?;
        its.on_media(now, number, datagram.len(), is_again);
        Some(Transmit { link, datagram })
    }

    /// Returns the time at which a packet that leaves next can arrive; `None` without a link.
    pub(super) fn next_arrival(&self, now: Instant) -> Option<Instant> {
        let plans = self.plans(now);
        plans.iter().map(|plan| plan.start + plan.forward).min()
    }

    /// Forgets waiting packets that have arrived by another copy, or that are too old.
    fn expire(&mut self, now: Instant) {
        let latency = self.latency;
        while let Some(&number) = self.fresh.front() {
            match self.memory.get(number) {
                Some(kept) if now.saturating_since(kept.taken_at) <= latency => break,
                _ => {}
            }
            self.fresh.pop_front();
            self.counters.expired_packets += 1;
            self.unqueue(number);
        }
        let memory = &self.memory;
        let again = self.again.iter().copied();
        let over: Vec<u64> = again
            .filter(|&number| {
                memory.get(number).is_none_or(|kept| {
                    kept.arrived_at.is_some() || now.saturating_since(kept.taken_at) > latency
                })
            })
            .collect();
        for number in over {
            self.again.remove(&number);
            self.unqueue(number);
        }
        if self.fresh.is_empty() && self.again.is_empty() {
            self.queued_bytes = 0;
        }
    }

    fn unqueue(&mut self, number: u64) {
        if let Some(kept) = self.memory.get_mut(number) {
            kept.is_queued = false;
            let bytes = kept.bytes.len() as u64;
            self.queued_bytes = self.queued_bytes.saturating_sub(bytes);
        }
    }

    /// Plans the waiting packets in their order, until one may leave now.
    fn choose(&mut self, now: Instant) -> Option<(LinkId, u64)> {
        let mut plans = self.plans(now);
        if plans.is_empty() {
            return None;
        }
        let patience = self.latency / 4;
        let mut limited = Vec::new();
        let mut chosen = None;
        let budget = &mut self.budget;
        for &number in self.again.iter().chain(&self.fresh).take(MAX_PLANNED) {
            let Some(kept) = self.memory.get(number) else {
                continue;
            };
            if kept.copy_count > 0 && !budget.allows(now, kept.bytes.len() as u64) {
                continue;
            }
            let best = best(&mut plans, now, patience)?;
            if best.start <= now {
                chosen = Some((best.id, number));
                break;
            }
            limited.push((best.id, best.start));
            if let Some(link) = self.links[usize::from(best.id.0)].as_ref() {
                best.start += link.time_for(kept.bytes.len());
            }
            if plans.iter().all(|plan| plan.start > now) {
                break;
            }
        }
        self.start_at = limited.iter().map(|&(_, start)| start).min();
        for (id, _) in limited {
            if let Some(link) = self.link_mut(id) {
                link.is_limited = true;
            }
        }
        chosen
    }

    fn plans(&self, now: Instant) -> Vec<Plan> {
        let links = self.links.iter().enumerate();
        let mut plans: Vec<Plan> = links
            .filter_map(|(index, link)| {
                let link = link.as_ref().filter(|link| link.is_up())?;
                Some(Plan {
                    id: LinkId(index as u8),
                    start: link.start(now),
                    forward: link.rtt.forward(),
                    weight: link.options.weight,
                    is_metered: link.options.is_metered,
                })
            })
            .collect();
        if plans.iter().any(|plan| plan.forward < self.latency) {
            plans.retain(|plan| plan.forward < self.latency);
        }
        plans
    }
}

/// Returns the link by which the next packet arrives first, as its user has weighted them. Metered
/// links stand by while a free one has less than `patience` of packets before it.
fn best(plans: &mut [Plan], now: Instant, patience: Duration) -> Option<&mut Plan> {
    fn cost(plan: &Plan, now: Instant) -> Duration {
        let delay = plan.start.saturating_since(now) + plan.forward;
        delay.mul_f64(1.0 / plan.weight)
    }
    let free = plans.iter().filter(|plan| !plan.is_metered);
    let suffices = free
        .map(|plan| plan.start)
        .min()
        .is_some_and(|at| at <= now + patience);
    let usable = plans
        .iter_mut()
        .filter(|plan| !suffices || !plan.is_metered);
    usable.min_by_key(|plan| cost(plan, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(id: u8, start: u64, forward: u64) -> Plan {
        Plan {
            id: LinkId(id),
            start: Instant::from_millis(start),
            forward: Duration::from_millis(forward),
            weight: 1.0,
            is_metered: false,
        }
    }

    fn chosen(mut plans: Vec<Plan>) -> u8 {
        let patience = Duration::from_millis(100);
        best(&mut plans, Instant::ZERO, patience).unwrap().id.0
    }

    #[test]
    fn the_first_arrival_decides() {
        assert_eq!(chosen(vec![plan(0, 0, 70), plan(1, 0, 20)]), 1);
        assert_eq!(chosen(vec![plan(0, 0, 70), plan(1, 60, 20)]), 0);
        let weighted = Plan {
            weight: 4.0,
            ..plan(0, 0, 70)
        };
        assert_eq!(chosen(vec![weighted, plan(1, 0, 20)]), 0);
    }

    #[test]
    fn a_metered_link_stands_by_while_the_free_ones_suffice() {
        let metered = Plan {
            is_metered: true,
            ..plan(0, 0, 5)
        };
        assert_eq!(chosen(vec![metered, plan(1, 100, 20)]), 1);
        assert_eq!(chosen(vec![metered, plan(1, 101, 20)]), 0);
        assert_eq!(chosen(vec![metered]), 0);
    }
}
