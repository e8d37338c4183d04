//! Queue disciplines, which decide on the order, marks and drops of packets in front of a
//! transmitter.

mod codel;
mod dual_pi2;
mod fq_codel;
mod half_duplex;
mod pie;
mod red;

use std::collections::VecDeque;

use anabranch_units::{DataRate, Duration, Ecn, Instant, Seed};

use crate::element::{DropCause, Dropped};
use crate::packet::Packet;
use crate::queue::{Load, QueueLimit};
use crate::statistics::QueueStatistics;

pub use codel::CoDelOptions;
pub use dual_pi2::{DualPi2Options, DualQueueScheduler};
pub use fq_codel::FqCoDelOptions;
pub use pie::PieOptions;
pub use red::RedOptions;

use codel::CoDel;
use dual_pi2::DualPi2;
use fq_codel::FqCoDel;
use half_duplex::HalfDuplex;
use pie::Pie;
use red::Red;

/// Least update interval of a controller: it makes up for every update that was due while the queue
/// was idle. Chosen.
const MIN_UPDATE_INTERVAL: Duration = Duration::from_micros(100);

/// Discipline of the queue in front of a bottleneck. With any discipline, the queue holds no more
/// than its [`QueueLimit`]. With `ecn`, packets of ECN-capable transports are marked "congestion
/// experienced" where others are dropped early.
#[derive(Clone, Debug, PartialEq)]
pub enum Discipline {
    /// First in, first out; packets that do not fit on arrival are dropped.
    DropTail {
        /// Packets of ECN-capable transports are marked on arrival if the queue with them and with
        /// the packet in service exceeds this.
        mark_above: Option<QueueLimit>,
    },
    /// Random early detection (Floyd & Jacobson 1993).
    Red(RedOptions),
    /// Controlled delay (RFC 8289).
    CoDel(CoDelOptions),
    /// Fair queues by flow, each under CoDel (RFC 8290).
    FqCoDel(FqCoDelOptions),
    /// Proportional integral controller enhanced (RFC 8033).
    Pie(PieOptions),
    /// A queue for L4S and one for the rest, coupled (RFC 9332).
    DualPi2(DualPi2Options),
    /// One medium for both directions of a route: a drop-tail queue for each, served in turns. The
    /// link stands in both directions of its routes.
    HalfDuplex,
}

impl Default for Discipline {
    fn default() -> Self {
        Discipline::DropTail { mark_above: None }
    }
}

impl Discipline {
    /// Returns the reason for which no queue can be made of it.
    pub(crate) fn mistake(&self) -> Option<&'static str> {
        match self {
            Discipline::DropTail { .. } | Discipline::HalfDuplex => None,
            Discipline::Red(options) => options.mistake(),
            Discipline::CoDel(options) => options.mistake(),
            Discipline::FqCoDel(options) => options.mistake(),
            Discipline::Pie(options) => options.mistake(),
            Discipline::DualPi2(options) => options.mistake(),
        }
    }

    /// Builds an empty queue in front of a transmitter of `rate`; `None` if nothing manages it.
    pub(crate) fn build(&self, limit: QueueLimit, rate: DataRate, seed: Seed) -> Option<Queue> {
        let capacity = limit.capacity(rate);
        Some(match self {
            Discipline::DropTail { .. } => return None,
            Discipline::Red(options) => {
                Queue::Red(Box::new(Red::new(*options, capacity, rate, seed)))
            }
            Discipline::CoDel(options) => Queue::CoDel(Box::new(CoDel::new(*options, capacity))),
            Discipline::FqCoDel(options) => {
                Queue::FqCoDel(Box::new(FqCoDel::new(*options, capacity, seed)))
            }
            Discipline::Pie(options) => Queue::Pie(Box::new(Pie::new(*options, capacity, seed))),
            Discipline::DualPi2(options) => {
                Queue::DualPi2(Box::new(DualPi2::new(*options, capacity)))
            }
            Discipline::HalfDuplex => Queue::HalfDuplex(Box::new(HalfDuplex::new(capacity))),
        })
    }
}

impl Discipline {
    /// Returns the threshold of [`Discipline::DropTail`].
    pub(crate) fn mark_above(&self) -> Option<QueueLimit> {
        match self {
            Discipline::DropTail { mark_above } => *mark_above,
            _ => None,
        }
    }
}

/// A queue that decides which packets congestion hits. Instants never go back from call to call,
/// and it acts as of the instants at which its steps were due.
pub(crate) trait QueueDiscipline {
    /// Accepts a packet at `now`, marked or not, or refuses it. The load `in_service` counts
    /// towards the limit.
    fn enqueue(
        &mut self,
        now: Instant,
        packet: Packet,
        in_service: Load,
        ledger: &mut Ledger,
    ) -> Result<(), Refused>;

    /// Returns the packet to send next, at `now`; dropped packets go to the ledger.
    fn dequeue(&mut self, now: Instant, ledger: &mut Ledger) -> Option<Packet>;

    /// Returns the load of the waiting packets.
    fn load(&self) -> Load;

    /// Takes any packet out, independent of its treatment.
    fn evict(&mut self) -> Option<Packet>;

    /// Visits every waiting packet.
    fn for_each(&self, visit: &mut dyn FnMut(&Packet));
}

/// A refused packet, and the reason.
pub(crate) struct Refused {
    pub(crate) cause: DropCause,
    pub(crate) packet: Packet,
}

impl Refused {
    pub(crate) fn full(packet: Packet) -> Refused {
        let cause = DropCause::QueueFull;
        Refused { cause, packet }
    }

    pub(crate) fn early(packet: Packet) -> Refused {
        let cause = DropCause::EarlyDrop;
        Refused { cause, packet }
    }
}

/// Counters of a bottleneck, and the packets that its queue accepted and dropped later.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) dropped: VecDeque<Dropped>,
    pub(crate) statistics: QueueStatistics,
}

impl Ledger {
    /// Records that a waiting packet is dropped.
    pub(crate) fn drop_queued(&mut self, now: Instant, cause: DropCause, packet: Packet) {
        let stay = now.saturating_since(packet.entered_at);
        self.statistics.record_stay(packet.size_bytes, stay);
        self.dropped.push_back(Dropped {
            cause,
            at: now,
            packet,
        });
    }

    /// Marks the packet, if its transport understands that (RFC 3168 §5). Otherwise returns
    /// `false`, and it must be dropped.
    pub(crate) fn is_marked(&mut self, packet: &mut Packet) -> bool {
        if packet.ecn == Ecn::NotEct {
            return false;
        }
        if packet.ecn != Ecn::Ce {
            packet.ecn = Ecn::Ce;
            self.statistics.marked_packets += 1;
        }
        true
    }
}

/// Every discipline that manages a queue, dispatched without a virtual call.
#[derive(Clone, Debug)]
pub(crate) enum Queue {
    Red(Box<Red>),
    CoDel(Box<CoDel>),
    FqCoDel(Box<FqCoDel>),
    Pie(Box<Pie>),
    DualPi2(Box<DualPi2>),
    HalfDuplex(Box<HalfDuplex>),
}

macro_rules! dispatch {
    ($queue:expr, $inner:ident => $call:expr) => {
        match $queue {
            Queue::Red($inner) => $call,
            Queue::CoDel($inner) => $call,
            Queue::FqCoDel($inner) => $call,
            Queue::Pie($inner) => $call,
            Queue::DualPi2($inner) => $call,
            Queue::HalfDuplex($inner) => $call,
        }
    };
}

impl QueueDiscipline for Queue {
    #[inline]
    fn enqueue(
        &mut self,
        now: Instant,
        packet: Packet,
        in_service: Load,
        ledger: &mut Ledger,
    ) -> Result<(), Refused> {
        dispatch!(self, queue => queue.enqueue(now, packet, in_service, ledger))
    }

    #[inline]
    fn dequeue(&mut self, now: Instant, ledger: &mut Ledger) -> Option<Packet> {
        dispatch!(self, queue => queue.dequeue(now, ledger))
    }

    #[inline]
    fn load(&self) -> Load {
        dispatch!(self, queue => queue.load())
    }

    fn evict(&mut self) -> Option<Packet> {
        dispatch!(self, queue => queue.evict())
    }

    fn for_each(&self, visit: &mut dyn FnMut(&Packet)) {
        dispatch!(self, queue => queue.for_each(visit))
    }
}

#[cfg(test)]
mod tests;
