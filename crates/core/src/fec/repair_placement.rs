//! Paths of repairs: away from the symbols they cover, and from losses.

use core::cmp::Ordering;
use core::ops::Range;

use anabranch_fec::repair_weight;
use anabranch_units::{Duration, Instant};

use crate::forecast::Priority;
use crate::path_view::{PathId, PathView};
use crate::scheduler::PacketView;

/// Number of remembered symbols: a large frame is several blocks.
const SYMBOLS: usize = 512;
/// Number of remembered repairs.
const REPAIRS: usize = 256;

/// Remembers which paths the last symbols and repairs took.
#[derive(Debug)]
pub(crate) struct RepairPlacement {
    /// Number and path of the last symbols, by the number modulo the length.
    symbols: [(u64, PathId); SYMBOLS],
    /// The last repairs, a ring.
    repairs: [Placed; REPAIRS],
    repair_count: usize,
}

/// A repair that goes by a path, and the symbols that it covers.
#[derive(Clone, Copy, Debug)]
struct Placed {
    first: u64,
    end: u64,
    path: PathId,
}

/// Criteria for the choice of a path.
#[derive(Clone, Copy, Debug)]
struct Rank {
    is_late: bool,
    /// Quotient of Webster's method.
    quotient: f64,
    cost: Duration,
}

impl Rank {
    /// Compares two ranks; the better one is less.
    fn order(&self, other: &Rank) -> Ordering {
        let lateness = self.is_late.cmp(&other.is_late);
        lateness
            .then_with(|| other.quotient.total_cmp(&self.quotient))
            .then_with(|| self.cost.cmp(&other.cost))
    }
}

impl RepairPlacement {
    pub(crate) fn new() -> Self {
        let nothing = Placed {
            first: 0,
            end: 0,
            path: PathId::default(),
        };
        RepairPlacement {
            symbols: [(u64::MAX, PathId::default()); SYMBOLS],
            repairs: [nothing; REPAIRS],
            repair_count: 0,
        }
    }

    /// Records the path of a symbol.
    pub(crate) fn on_symbol(&mut self, symbol: u64, path: PathId) {
        self.symbols[symbol as usize % SYMBOLS] = (symbol, path);
    }

    /// Records the path of a repair of these symbols.
    pub(crate) fn on_repair(&mut self, window: &Range<u64>, path: PathId) {
        self.repairs[self.repair_count % REPAIRS] = Placed {
            first: window.start,
            end: window.end,
            path,
        };
        self.repair_count += 1;
    }

    /// Returns the path for a repair of these symbols, among the active paths that it need not
    /// avoid and that deliver it before its deadline. `None` if only paths in reserve are left.
    /// Repairs that share symbols are spread in proportion to each path's weight (Webster's
    /// method). So those of a block are spread among themselves, and those of a sliding window over
    /// time. Of equal paths the fastest is taken.
    pub(crate) fn path_for(
        &self,
        now: Instant,
        packet: &PacketView,
        window: &Range<u64>,
        paths: &[PathView],
    ) -> Option<PathId> {
        let mut carried = [0_u16; PathId::LIMIT];
        let mut known = 0_u16;
        for symbol in window.clone() {
            let (number, path) = self.symbols[symbol as usize % SYMBOLS];
            if number == symbol {
                carried[path.index()] += 1;
                known += 1;
            }
        }
        let mut placed = [0_u16; PathId::LIMIT];
        for repair in &self.repairs {
            if repair.first < window.end && window.start < repair.end {
                placed[repair.path.index()] += 1;
            }
        }
        let candidates = paths
            .iter()
            .filter(|path| path.is_in_service() && !packet.avoid.contains(path.id));
        let ranked = candidates.map(|path| {
            let arrival = path.arrival(Priority::New, u64::from(packet.bytes));
            let arrives_at = now + arrival;
            let index = path.id.index();
            let share = f64::from(carried[index]) / f64::from(known.max(1));
            let rank = Rank {
                is_late: packet.deadline.is_some_and(|at| arrives_at > at),
                quotient: repair_weight(share, path.risk.recent_loss())
                    / f64::from(2 * u32::from(placed[index]) + 1),
                cost: path.preferred(arrival),
            };
            (rank, path.id)
        });
        let best = ranked.min_by(|(one, _), (other, _)| one.order(other));
        best.map(|(_, path)| path)
    }
}

#[cfg(test)]
mod tests;
