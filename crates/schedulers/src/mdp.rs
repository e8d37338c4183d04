//! `mdp`: a Markov decision process over the paths' backlogs, solved by value iteration.
//!
//! Source: Bui, Zhu & Botta, "A Markovian approach to multipath data transfer in overlay networks",
//! IEEE TPDS 2010, from its description in Zhang & Lei §2. Data goes in bins of fixed size. The
//! state is the backlog of each path, in 8 levels, and the last bin's path. The action is the next
//! bin's path; its cost is the time until the bin has left and the propagation delay. Departures
//! are geometric at the estimated rates. The discount is 0.95. A solution is accurate to 1e-4, and
//! is renewed each second or when a rate changes by a fifth.
//!
//! *Deviations*: a bin, and so a level, is 4 packets. In a step the next bin comes and one of the
//! paths serves a bin, path p with probability μ_p/Σμ: bins come as fast as all paths together
//! carry them. The cost does not depend on the last path, which therefore only breaks ties and is
//! no part of the table. A decision takes its own bin's time from the present backlogs, and the
//! time of later bins from the table. Between whole levels it interpolates; beyond the levels it
//! subtracts the bytes that all paths drain in the same time. Above three paths there are fewer
//! levels, and paths beyond the fifth are not used, so that a table has at most 512 states. Rates
//! are the controllers' estimates, not their momentary pacing rates. No solution is computed while
//! rates and delays round to the same values (to four binary digits, and to 5 ms). A due solution
//! is computed a sweep per decision, beginning with the old values, until a sweep changes all
//! states by the same amount, to 1e-4: a common change decides nothing (Puterman, "Markov Decision
//! Processes", §6.6.2).

use anabranch_core::scheduler::{PacketView, Scheduler, eligible_paths};
use anabranch_core::{PathId, PathSet, PathView};
use anabranch_units::{Duration, Instant};

use super::one_by_one::preferred_bandwidth;
use super::{OneByOne, PathChoice};

/// Backlog levels of a path, if there are at most three paths.
const LEVELS: usize = 8;

/// Largest numbers of states and of paths.
const MAX_STATES: usize = 512;
const MAX_PATHS: usize = 5;

/// γ: weight of a later bin's cost.
const DISCOUNT: f64 = 0.95;

/// Difference between the largest and the least change of a sweep that ends the iteration.
const TOLERANCE: f64 = 1e-4;

/// Packets in a bin, and so in a level.
const BIN_PACKETS: u64 = 4;

/// Interval between computations of the table.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// Resolution of propagation delays.
const DELAY_STEP: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
struct Mdp {
    table: Table,
    /// The paths that the table is for.
    known: PathSet,
    /// Inputs of the table.
    grid: [GridPoint; MAX_PATHS],
    refreshed_at: Option<Instant>,
    /// Path of the bin that is being filled, and its remaining bytes.
    last: Option<PathId>,
    bin_left_bytes: u64,
}

/// A path's rate and delay, rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct GridPoint {
    bits_per_second: u64,
    delay_steps: u64,
}

impl GridPoint {
    fn of(path: &PathView) -> Self {
        let rate = preferred_bandwidth(path).bits_per_second().max(1);
        let dropped = 60_u32.saturating_sub(rate.leading_zeros());
        let delay = path.preferred(path.rtt.least.unwrap_or(PathView::UNKNOWN_RTT) / 2);
        GridPoint {
            bits_per_second: rate >> dropped << dropped,
            delay_steps: (delay.as_nanos() + DELAY_STEP.as_nanos() / 2) / DELAY_STEP.as_nanos(),
        }
    }

    /// Whether the rate differs by more than a fifth from the other's.
    fn is_far_from(&self, other: &GridPoint) -> bool {
        self.bits_per_second.abs_diff(other.bits_per_second) > other.bits_per_second / 5
    }
}

/// The process and its solution. Times are in units of the mean service time of a bin, 1/Σμ.
#[derive(Debug, Default)]
struct Table {
    path_count: usize,
    level_count: usize,
    bin_bits: f64,
    /// By path: service time of a bin, propagation delay, probability to serve a bin in a step, and
    /// change of the state's number by one level.
    service: [f64; MAX_PATHS],
    delay: [f64; MAX_PATHS],
    serves: [f64; MAX_PATHS],
    strides: [usize; MAX_PATHS],
    /// The discounted cost of each state; the first path's level varies fastest.
    values: Vec<f64>,
    /// Costs of the sweep before.
    old_values: Vec<f64>,
    /// Sweeps of the solution, and whether they suffice.
    sweep_count: u32,
    is_solved: bool,
}

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(OneByOne::new(Mdp::default()))
}

impl PathChoice for Mdp {
    fn choose(&mut self, now: Instant, packet: &PacketView, paths: &[PathView]) -> Option<PathId> {
        let usable = eligible_paths(packet, paths).take(MAX_PATHS);
        let met: PathSet = usable.clone().map(|path| path.id).collect();
        if met.is_empty() {
            return None;
        }
        let bytes = u64::from(packet.bytes);
        self.refresh(now, met, bytes, usable.clone());
        if !self.table.is_solved {
            self.table.sweep();
        }
        let last = self.last.filter(|id| met.contains(*id));
        let chosen = match last {
            Some(id) if self.bin_left_bytes >= bytes => id,
            _ => {
                self.bin_left_bytes = BIN_PACKETS * bytes;
                self.next_path(usable)?
            }
        };
        self.bin_left_bytes -= bytes;
        self.last = Some(chosen);
        Some(chosen)
    }
}

impl Mdp {
    /// Starts a computation of the table if it is due.
    fn refresh<'a>(
        &mut self,
        now: Instant,
        met: PathSet,
        packet_bytes: u64,
        paths: impl Iterator<Item = &'a PathView> + Clone,
    ) {
        let is_other = met != self.known;
        let is_due = self
            .refreshed_at
            .is_none_or(|at| now.saturating_since(at) >= REFRESH_INTERVAL);
        let points = paths.clone().map(GridPoint::of);
        let mut both = points.clone().zip(&self.grid);
        let has_jumped = both.any(|(point, known)| point.is_far_from(known));
        if !is_other && !is_due && !has_jumped {
            return;
        }
        self.refreshed_at = Some(now);
        if !is_other && points.clone().zip(&self.grid).all(|(a, b)| a == *b) {
            return;
        }
        self.known = met;
        for (known, point) in self.grid.iter_mut().zip(points) {
            *known = point;
        }
        let bin_bits = (BIN_PACKETS * packet_bytes * 8) as f64;
        self.table.set(&self.grid[..met.len()], bin_bits, is_other);
    }

    /// Returns the path of the next bin; of equally good ones the next after the last one taken.
    fn next_path<'a>(&self, paths: impl Iterator<Item = &'a PathView> + Clone) -> Option<PathId> {
        let levels = self.levels(paths.clone().map(|path| self.table.bins(path)));
        let after = self.last.map_or(0, |id| id.0 + 1);
        let mut best: Option<(f64, bool, PathId)> = None;
        for (index, path) in paths.enumerate() {
            let cost = self.table.cost(self.table.bins(path), &levels, index);
            let is_before = path.id.0 < after;
            let is_better = best.is_none_or(|(least, was_before, _)| {
                let margin = TOLERANCE * least.max(1.0);
                cost < least - margin || (cost < least + margin && was_before && !is_before)
            });
            if is_better {
                best = Some((cost, is_before, path.id));
            }
        }
        best.map(|(_, _, id)| id)
    }

    /// Returns backlogs in bins as levels, such that each path can take another bin.
    fn levels(&self, bins: impl Iterator<Item = f64> + Clone) -> [f64; MAX_PATHS] {
        let highest = (self.table.level_count - 2) as f64;
        let excess = bins
            .clone()
            .zip(&self.table.service)
            .fold(0.0_f64, |most, (bins, service)| {
                most.max((bins - highest) * service)
            });
        let mut levels = [0.0; MAX_PATHS];
        for ((level, bins), service) in levels.iter_mut().zip(bins).zip(&self.table.service) {
            *level = (bins - excess / service).clamp(0.0, highest);
        }
        levels
    }
}

impl Table {
    /// Returns the number of bins that wait for a path.
    fn bins(&self, path: &PathView) -> f64 {
        path.queued_bytes as f64 * 8.0 / self.bin_bits
    }

    /// Sets the problem. The iteration starts from the values of the last one, unless that was of
    /// other paths.
    fn set(&mut self, points: &[GridPoint], bin_bits: f64, is_other: bool) {
        self.path_count = points.len();
        self.level_count = (2..=LEVELS)
            .rev()
            .find(|levels| levels.pow(points.len() as u32) <= MAX_STATES)
            .unwrap_or(2);
        let rates = points.iter().map(|point| point.bits_per_second as f64);
        let total: f64 = rates.sum();
        self.bin_bits = bin_bits;
        let unit = self.bin_bits / total;
        for (index, point) in points.iter().enumerate() {
            let rate = point.bits_per_second as f64;
            self.serves[index] = rate / total;
            self.service[index] = total / rate;
            self.delay[index] = (DELAY_STEP * point.delay_steps).as_secs_f64() / unit;
        }
        let mut stride = 1;
        for slot in &mut self.strides[..points.len()] {
            *slot = stride;
            stride *= self.level_count;
        }
        if is_other {
            self.values.clear();
        }
        self.values.resize(stride, 0.0);
        self.old_values.resize(stride, 0.0);
        self.sweep_count = 0;
        self.is_solved = false;
    }

    /// Runs a sweep of the value iteration.
    fn sweep(&mut self) {
        core::mem::swap(&mut self.values, &mut self.old_values);
        let (mut least_change, mut most_change) = (f64::INFINITY, f64::NEG_INFINITY);
        let mut levels = [0; MAX_PATHS];
        for state in 0..self.old_values.len() {
            let value = self.least_cost(state, &levels);
            let change = value - self.old_values[state];
            least_change = least_change.min(change);
            most_change = most_change.max(change);
            self.values[state] = value;
            self.count_up(&mut levels);
        }
        self.sweep_count += 1;
        self.is_solved = most_change - least_change < TOLERANCE;
    }

    /// Returns the cost of the best path for the next bin. If all paths are full, the excess is
    /// forgotten. Otherwise full paths take nothing.
    fn least_cost(&self, state: usize, levels: &[usize; MAX_PATHS]) -> f64 {
        let highest = self.level_count - 1;
        let levels = &levels[..self.path_count];
        let are_full = levels.iter().all(|level| *level == highest);
        let mut least = f64::INFINITY;
        for (path, level) in levels.iter().enumerate() {
            let after = if *level < highest {
                state + self.strides[path]
            } else if are_full {
                state
            } else {
                continue;
            };
            let mut later = 0.0;
            for (served, level) in levels.iter().enumerate() {
                let is_empty = *level == 0 && served != path;
                let next = if is_empty {
                    after
                } else {
                    after - self.strides[served]
                };
                later += self.serves[served] * self.old_values[next];
            }
            let own = (*level + 1) as f64 * self.service[path] + self.delay[path];
            least = least.min(own + DISCOUNT * later);
        }
        least
    }

    /// Advances to the levels of the next state.
    fn count_up(&self, levels: &mut [usize; MAX_PATHS]) {
        for level in &mut levels[..self.path_count] {
            *level += 1;
            if *level < self.level_count {
                return;
            }
            *level = 0;
        }
    }

    /// Returns the cost of the next bin on `path` behind `bins` others, and of all later bins.
    fn cost(&self, bins: f64, levels: &[f64; MAX_PATHS], path: usize) -> f64 {
        let own = (bins + 1.0) * self.service[path] + self.delay[path];
        let mut after = *levels;
        after[path] = (after[path] + 1.0).min((self.level_count - 1) as f64);
        let later = (0..self.path_count).map(|served| {
            let mut next = after;
            next[served] = (next[served] - 1.0).max(0.0);
            self.serves[served] * self.value(&next, 0, 0)
        });
        own + DISCOUNT * later.sum::<f64>()
    }

    /// Returns the value at levels, linear between whole ones; `state` has the levels before
    /// `path`.
    fn value(&self, levels: &[f64; MAX_PATHS], path: usize, state: usize) -> f64 {
        if path == self.path_count {
            return self.values[state];
        }
        let whole = levels[path] as usize;
        let part = levels[path] - whole as f64;
        let below = self.value(levels, path + 1, state + whole * self.strides[path]);
        if part == 0.0 {
            return below;
        }
        let above = self.value(levels, path + 1, state + (whole + 1) * self.strides[path]);
        below + part * (above - below)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bed, FluidBed, m1, mean_millis, path};
    use super::super::wrr;
    use super::*;

    fn table(paths: &[PathView]) -> Table {
        let points: Vec<GridPoint> = paths.iter().map(GridPoint::of).collect();
        let mut table = Table::default();
        table.set(&points, 32_000.0, true);
        while !table.is_solved && table.sweep_count < 500 {
            table.sweep();
        }
        table
    }

    #[test]
    fn rates_of_any_size_are_compared() {
        fn point(bits_per_second: u64) -> GridPoint {
            GridPoint {
                bits_per_second,
                delay_steps: 0,
            }
        }
        let (most, nearly) = (point(u64::MAX), point(u64::MAX / 10 * 9));
        assert!(!most.is_far_from(&nearly));
        assert!(most.is_far_from(&point(1)));
    }

    #[test]
    fn value_iteration_converges_within_500_sweeps() {
        for paths in [
            vec![path(0, 20, 10)],
            m1(),
            vec![path(0, 20, 100), path(1, 600, 1)],
            vec![path(0, 20, 3), path(1, 60, 2), path(2, 100, 1)],
            (0..5).map(|id| path(id, 20, 3)).collect(),
        ] {
            let table = table(&paths);
            assert!(table.is_solved, "{}", table.sweep_count);
            assert!(table.values.len() <= MAX_STATES);
        }
    }

    #[test]
    fn a_symmetric_problem_has_a_symmetric_solution() {
        let table = table(&[path(0, 40, 4), path(1, 40, 4)]);
        for a in 0..LEVELS - 1 {
            for b in 0..LEVELS - 1 {
                let (a, b) = (a as f64, b as f64);
                let (here, there) = ([a, b, 0.0, 0.0, 0.0], [b, a, 0.0, 0.0, 0.0]);
                let apart = table.cost(a, &here, 0) - table.cost(a, &there, 1);
                assert!(apart.abs() < 10.0 * TOLERANCE, "{a} {b}: {apart}");
                // The shorter queue is the better one.
                assert!(a >= b || table.cost(a, &here, 0) < table.cost(b, &here, 1));
            }
        }
    }

    #[test]
    fn equal_paths_alternate_by_bins() {
        let mut bed = Bed::new(build(), vec![path(0, 40, 4), path(1, 40, 4)]);
        let trail: Vec<u8> = bed
            .schedule(&Bed::frame(32, 1000))
            .iter()
            .map(|(_, set)| set.iter().next().unwrap().0)
            .collect();
        for (index, bin) in trail.chunks(BIN_PACKETS as usize).enumerate() {
            assert!(
                bin.iter().all(|id| usize::from(*id) == index % 2),
                "{trail:?}"
            );
        }
    }

    #[test]
    fn three_times_the_rate_gets_three_times_the_bins_at_saturation() {
        let mut bed = FluidBed::new(build(), vec![path(0, 40, 6), path(1, 40, 2)]);
        bed.run_at(1.1, 20);
        let ratio = bed.bound_bytes[0] as f64 / bed.bound_bytes[1] as f64;
        assert!((ratio / 3.0 - 1.0).abs() < 0.15, "{ratio}");
    }

    #[test]
    fn mean_transfer_time_of_a_frame_is_below_that_of_wrr() {
        fn means(scheduler: Box<dyn Scheduler>, load: f64) -> (f64, f64) {
            let mut bed = FluidBed::new(scheduler, m1());
            bed.run_at(load, 10);
            (
                mean_millis(&bed.frame_delays),
                mean_millis(&bed.packet_delays),
            )
        }

        for load in [0.3, 0.6, 0.9] {
            let (ours, wrr) = (means(build(), load), means(wrr::build(), load));
            assert!(ours.0 < wrr.0, "{ours:?} ms, wrr {wrr:?} ms at {load}");
            // The mean of single packets differs: near saturation each bin counts alone, the near
            // path's queue equalises the delays, and only a fixed split would keep it short.
            assert!(
                load > 0.8 || ours.1 < wrr.1,
                "{ours:?} ms, wrr {wrr:?} ms at {load}"
            );
        }
    }

    #[test]
    fn a_rate_that_changes_by_a_fifth_is_heeded_at_once_and_less_within_a_second() {
        fn grid_after(mdp: &mut Mdp, millis: u64, rate: u64, packet: &PacketView) -> u64 {
            let paths = [path(0, 40, rate), path(1, 40, 8)];
            mdp.choose(Instant::from_millis(millis), packet, &paths);
            mdp.grid[0].bits_per_second / 1_000_000
        }

        let mut mdp = Mdp::default();
        let packet = Bed::source(0, 1000);
        let first = grid_after(&mut mdp, 0, 16, &packet);
        assert_eq!(grid_after(&mut mdp, 10, 18, &packet), first);
        assert!(grid_after(&mut mdp, 1_000, 18, &packet) > first);
        assert!(grid_after(&mut mdp, 1_010, 8, &packet) < 9);
    }
}
