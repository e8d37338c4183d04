//! Controlled delay (RFC 8289). If packets have waited longer than a target throughout an interval,
//! packets are dropped from the queue's head, at an increasing rate.
//!
//! Deviation: with ECN, as in RFC 8290 §4.2 and Linux, a packet is marked and sent where another
//! is dropped and followed up.

use anabranch_units::{Duration, Instant};

use super::{Ledger, QueueDiscipline, Refused};
use crate::element::DropCause;
use crate::packet::Packet;
use crate::queue::{Capacity, Fifo, Load};

/// Parameters of CoDel; the defaults are those of RFC 8289 §4.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDelOptions {
    /// Acceptable waiting time of packets (TARGET).
    pub target: Duration,
    /// Time for which they may wait longer than that (INTERVAL).
    pub interval: Duration,
    /// Whether to mark.
    pub ecn: bool,
}

impl Default for CoDelOptions {
    fn default() -> Self {
        CoDelOptions {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            ecn: false,
        }
    }
}

impl CoDelOptions {
    pub(super) fn mistake(&self) -> Option<&'static str> {
        let is_empty = self.target.is_zero() || self.interval.is_zero();
        is_empty.then_some("CoDel's target and interval must be longer than nothing")
    }
}

/// State of CoDel for one queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Control {
    /// Time at which packets will have waited longer than the target for an interval
    /// (first_above_time_).
    first_above_at: Option<Instant>,
    is_dropping: bool,
    /// Time of the next drop, while dropping; afterwards, the time at which it would have been
    /// (drop_next_).
    drop_next_at: Instant,
    /// Drops since dropping began (count_).
    drop_count: u64,
    /// `drop_count` when dropping last began (lastcount_).
    last_drop_count: u64,
    /// Size of the largest packet seen: a queue of no more is acceptable (maxpacket_).
    max_packet_bytes: u64,
}

impl Control {
    /// Returns the head of `fifo`, behind those that had to be dropped (RFC 8289 §5.5).
    pub(super) fn dequeue(
        &mut self,
        now: Instant,
        fifo: &mut Fifo,
        options: &CoDelOptions,
        ledger: &mut Ledger,
    ) -> Option<Packet> {
        let (mut head, mut is_bad) = self.take_head(now, fifo, options);
        if self.is_dropping {
            self.is_dropping = is_bad;
            while self.is_dropping && now >= self.drop_next_at {
                self.drop_count += 1;
                if strike(now, &mut head, options, ledger) {
                    (head, is_bad) = self.take_head(now, fifo, options);
                    self.is_dropping = is_bad;
                }
                if self.is_dropping {
                    self.drop_next_at = control_law(self.drop_next_at, self.drop_count, options);
                }
            }
        } else if is_bad {
            if strike(now, &mut head, options, ledger) {
                (head, _) = self.take_head(now, fifo, options);
            }
            self.start_dropping(now, options);
        }
        head
    }

    /// Takes the first packet, and returns whether it may be dropped.
    fn take_head(
        &mut self,
        now: Instant,
        fifo: &mut Fifo,
        options: &CoDelOptions,
    ) -> (Option<Packet>, bool) {
        let Some(packet) = fifo.pop() else {
            self.first_above_at = None;
            return (None, false);
        };
        let size = u64::from(packet.size_bytes);
        self.max_packet_bytes = self.max_packet_bytes.max(size);
        let is_above = now.saturating_since(packet.entered_at) >= options.target
            && fifo.load().bytes > self.max_packet_bytes;
        if !is_above {
            self.first_above_at = None;
            return (Some(packet), false);
        }
        let first_above_at = *self.first_above_at.get_or_insert(now + options.interval);
        (Some(packet), now >= first_above_at)
    }

    /// Starts dropping. If dropping ended recently, it continues at the rate that controlled the
    /// queue then.
    fn start_dropping(&mut self, now: Instant, options: &CoDelOptions) {
        self.is_dropping = true;
        let delta = self.drop_count.saturating_sub(self.last_drop_count);
        let is_recent = now.saturating_since(self.drop_next_at) < options.interval * 16;
        self.drop_count = if delta > 1 && is_recent { delta } else { 1 };
        self.last_drop_count = self.drop_count;
        self.drop_next_at = control_law(now, self.drop_count, options);
    }
}

/// Marks the packet, or else drops it and returns `true`.
fn strike(
    now: Instant,
    head: &mut Option<Packet>,
    options: &CoDelOptions,
    ledger: &mut Ledger,
) -> bool {
    let Some(packet) = head else {
        return false;
    };
    if options.ecn && ledger.is_marked(packet) {
        return false;
    }
    if let Some(packet) = head.take() {
        ledger.drop_queued(now, DropCause::EarlyDrop, packet);
    }
    true
}

/// Returns the time of the next drop after `at`: the throughput of TCP falls with the square root
/// of its loss rate.
fn control_law(at: Instant, drop_count: u64, options: &CoDelOptions) -> Instant {
    at + options.interval.mul_f64(1.0 / (drop_count as f64).sqrt())
}

/// One queue under CoDel.
#[derive(Clone, Debug)]
pub(crate) struct CoDel {
    options: CoDelOptions,
    capacity: Capacity,
    fifo: Fifo,
    control: Control,
}

impl CoDel {
    pub(super) fn new(options: CoDelOptions, capacity: Capacity) -> Self {
        CoDel {
            options,
            capacity,
            fifo: Fifo::default(),
            control: Control::default(),
        }
    }
}

impl QueueDiscipline for CoDel {
    fn enqueue(
        &mut self,
        now: Instant,
        packet: Packet,
        in_service: Load,
        _ledger: &mut Ledger,
    ) -> Result<(), Refused> {
        let load = self.fifo.load().plus(in_service).plus(Load::of(&packet));
        if !self.capacity.holds(load) {
            return Err(Refused::full(packet));
        }
        self.fifo.push(now, packet);
        Ok(())
    }

    fn dequeue(&mut self, now: Instant, ledger: &mut Ledger) -> Option<Packet> {
        self.control
            .dequeue(now, &mut self.fifo, &self.options, ledger)
    }

    fn load(&self) -> Load {
        self.fifo.load()
    }

    fn evict(&mut self) -> Option<Packet> {
        self.fifo.pop()
    }

    fn for_each(&self, visit: &mut dyn FnMut(&Packet)) {
        self.fifo.iter().for_each(visit);
    }
}

#[cfg(test)]
mod tests;
