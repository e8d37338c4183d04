//! The frontier of controllers: which of them no other one beats in both delay and goodput.
//!
//! At a *point*, which is a scenario or a point of its sweep, one controller *dominates* another if
//! its means of delay and goodput are no worse, and one of the two is better beyond noise. Beyond
//! noise means by 2 % of the delay or 1 % of the goodput, and, with several seeds, by more than the
//! 95 % confidence interval of the differences seed by seed. A controller is on the point's
//! *frontier* if no other one dominates it.
//!
//! Delay is the 95th percentile of the frames' delay, from capture to the last packet, over all
//! frames. That of packets, from departure to arrival, leaves out the sender's queue; it has a
//! frontier of its own.

mod dominance;
mod output;
mod picture;

use crate::compare::{Column, CompareError, run_columns};
use crate::metrics::{LinkStatistics, Statistics};
use crate::run::Progress;
use crate::scenario::{FlowKind, FlowSpec, Scenario};

use dominance::{Trade, dominates};

pub use output::{FRONTIER_SCHEMA, frontier_json, frontier_table};
pub use picture::frontier_svg;

/// Scenarios that belong together: a panel of the picture.
#[derive(Clone, Debug)]
pub struct Family {
    /// Title of the panel.
    pub name: String,
    /// The points; of each a scenario for every column ([`Column::points`]).
    pub points: Vec<Vec<Scenario>>,
}

/// All points with their figures.
#[derive(Clone, Debug)]
pub struct Frontier {
    /// The controllers.
    pub columns: Vec<Column>,
    /// Number of seeds of each cell.
    pub seed_count: u64,
    /// The points, family by family.
    pub points: Vec<FrontierPoint>,
}

/// A scenario, or a point of its sweep.
#[derive(Clone, Debug)]
pub struct FrontierPoint {
    /// Name of its family.
    pub family: String,
    /// Name of the scenario, with the point's settings.
    pub scenario: String,
    /// One cell per column.
    pub cells: Vec<FrontierCell>,
}

/// Figures of one controller at one point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrontierCell {
    /// 95th percentile of the delay of all frames, ms, of each seed; infinite without frames.
    pub frame_delays_ms: Vec<f64>,
    /// 95th percentile of the packets' one-way delay, ms, of each seed; infinite without packets.
    pub packet_delays_ms: Vec<f64>,
    /// Goodput of the adaptive media, bit/s, of each seed.
    pub goodputs_bits_per_second: Vec<f64>,
    /// Mean goodput as a share of the point's best.
    pub goodput_ratio: f64,
    /// Utilisation of the busiest link.
    pub utilisation: Option<f64>,
    /// Share of all packets that links dropped.
    pub loss: Option<f64>,
    /// Jain's index of all flows but raw ones, if there are several.
    pub jain: Option<f64>,
    /// Media's part of the goodput of media and streams together, if there are both.
    pub share_beside_streams: Option<f64>,
    /// Whether no other controller has less delay of frames and more goodput.
    pub is_on_frontier: bool,
    /// The same with the packets' delay.
    pub is_on_packet_frontier: bool,
}

/// A controller over all points.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// The controller's label.
    pub label: String,
    /// Number of points on whose frontier it is, by frames' and by packets' delay.
    pub on_frontier: usize,
    /// See [`Standing::on_frontier`].
    pub on_packet_frontier: usize,
    /// Number of points.
    pub point_count: usize,
    /// Medians over the points, and the largest loss.
    pub frame_delay_ms: f64,
    /// Median over the points.
    pub packet_delay_ms: f64,
    /// Median over the points.
    pub goodput_ratio: f64,
    /// Median over the points.
    pub utilisation: Option<f64>,
    /// The largest of all points.
    pub most_loss: Option<f64>,
    /// Median over the points beside streams.
    pub share_beside_streams: Option<f64>,
}

/// Runs all points of all families with the seeds 1 to `seed_count`, on `threads` threads (0: one
/// per core).
///
/// # Errors
/// [`CompareError`].
pub fn frontier(
    families: &[Family],
    columns: &[Column],
    seed_count: u64,
    threads: usize,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Frontier, CompareError> {
    let scenarios: Vec<Vec<Scenario>> = families
        .iter()
        .flat_map(|family| family.points.iter().cloned())
        .collect();
    let runs = run_columns(&scenarios, columns, seed_count, threads, progress)?;
    let names = families.iter().flat_map(|family| {
        let points = family.points.iter();
        points.filter_map(|point| Some((family.name.clone(), point.first()?)))
    });
    let points = names
        .zip(runs.chunks(columns.len().max(1)))
        .map(|((family, scenario), runs)| FrontierPoint {
            family,
            scenario: scenario.name.clone(),
            cells: judged(runs.iter().map(|runs| measured(scenario, runs)).collect()),
        });
    Ok(Frontier {
        columns: columns.to_vec(),
        seed_count,
        points: points.collect(),
    })
}

impl Frontier {
    /// Returns each controller's counts and medians over all points.
    pub fn standings(&self) -> Vec<Standing> {
        let columns = self.columns.iter().enumerate();
        columns
            .map(|(place, column)| self.standing(place, column.label()))
            .collect()
    }

    fn standing(&self, place: usize, label: String) -> Standing {
        let cells: Vec<&FrontierCell> = self
            .points
            .iter()
            .map(|point| &point.cells[place])
            .collect();
        let losses = cells.iter().filter_map(|cell| cell.loss);
        Standing {
            label,
            on_frontier: cells.iter().filter(|cell| cell.is_on_frontier).count(),
            on_packet_frontier: cells
                .iter()
                .filter(|cell| cell.is_on_packet_frontier)
                .count(),
            point_count: cells.len(),
            frame_delay_ms: middle(&cells, |cell| Some(cell.frame_delay_ms()))
                .unwrap_or(f64::INFINITY),
            packet_delay_ms: middle(&cells, |cell| Some(cell.packet_delay_ms()))
                .unwrap_or(f64::INFINITY),
            goodput_ratio: middle(&cells, |cell| Some(cell.goodput_ratio)).unwrap_or(0.0),
            utilisation: middle(&cells, |cell| cell.utilisation),
            most_loss: losses.max_by(f64::total_cmp),
            share_beside_streams: middle(&cells, |cell| cell.share_beside_streams),
        }
    }
}

impl FrontierCell {
    /// Returns the mean of the seeds' 95th percentiles, ms.
    pub fn frame_delay_ms(&self) -> f64 {
        mean(&self.frame_delays_ms)
    }

    /// Returns the mean of the seeds' 95th percentiles, ms.
    pub fn packet_delay_ms(&self) -> f64 {
        mean(&self.packet_delays_ms)
    }

    /// Returns the mean goodput of the adaptive media, bit/s.
    pub fn goodput_bits_per_second(&self) -> f64 {
        mean(&self.goodputs_bits_per_second)
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns the median, the mean of the two middle values of an even number; `None` without any.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    let lower = values.get((values.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

/// Returns the median over the cells that have the value.
fn middle(cells: &[&FrontierCell], value: fn(&FrontierCell) -> Option<f64>) -> Option<f64> {
    median(cells.iter().filter_map(|cell| value(cell)).collect())
}

/// Returns the mean over the runs; `None` if a run lacks the value.
fn mean_of(runs: &[Statistics], value: impl Fn(&Statistics) -> Option<f64>) -> Option<f64> {
    let values: Option<Vec<f64>> = runs.iter().map(value).collect();
    values.map(|values| mean(&values))
}

/// Returns the figures of a controller's runs; the frontier is judged later.
fn measured(scenario: &Scenario, runs: &[Statistics]) -> FrontierCell {
    let has_streams = scenario.flows.iter().any(is_stream);
    let sessions = scenario.flows.iter().filter_map(FlowSpec::config);
    let has_several = sessions.count() > 1;
    let frame_delays_ms = runs.iter().map(|run| {
        let delays = run.total.frames.delay_with_dropped_ms;
        delays.map_or(f64::INFINITY, |delay| delay.p95)
    });
    let packet_delays_ms = runs.iter().map(|run| {
        let delays = run.total.traffic.delay_ms;
        delays.map_or(f64::INFINITY, |delay| delay.p95)
    });
    let goodputs = runs.iter().map(|run| goodput(scenario, run, is_media));
    FrontierCell {
        frame_delays_ms: frame_delays_ms.collect(),
        packet_delays_ms: packet_delays_ms.collect(),
        goodputs_bits_per_second: goodputs.collect(),
        utilisation: mean_of(runs, busiest),
        loss: mean_of(runs, |run| run.total.traffic.loss_ratio),
        jain: mean_of(runs, |run| if has_several { run.jain_index } else { None }),
        share_beside_streams: mean_of(runs, |run| {
            let ours = goodput(scenario, run, is_media);
            let all = ours + goodput(scenario, run, is_stream);
            (has_streams && all > 0.0).then(|| ours / all)
        }),
        ..FrontierCell::default()
    }
}

fn is_media(flow: &FlowSpec) -> bool {
    flow.media().is_some()
}

fn is_stream(flow: &FlowSpec) -> bool {
    matches!(flow.kind, FlowKind::Bulk(_) | FlowKind::Short(_))
}

fn goodput(scenario: &Scenario, run: &Statistics, is_meant: fn(&FlowSpec) -> bool) -> f64 {
    let flows = scenario.flows.iter().zip(&run.flows);
    let meant = flows.filter(|(flow, _)| is_meant(flow));
    meant
        .map(|(_, statistics)| statistics.goodput_bits_per_second)
        .sum()
}

fn busiest(run: &Statistics) -> Option<f64> {
    let links = run.links.iter();
    links
        .filter_map(|link: &LinkStatistics| link.utilisation)
        .max_by(f64::total_cmp)
}

/// Marks the cells on a point's frontier, and relates goodputs to the best.
fn judged(mut cells: Vec<FrontierCell>) -> Vec<FrontierCell> {
    let goodputs = cells.iter().map(FrontierCell::goodput_bits_per_second);
    let best = goodputs.fold(0.0, f64::max);
    for cell in &mut cells {
        let goodput = cell.goodput_bits_per_second();
        cell.goodput_ratio = if best > 0.0 { goodput / best } else { 0.0 };
    }
    let by_frames: Vec<bool> = on_frontier(&cells, |cell| &cell.frame_delays_ms);
    let by_packets: Vec<bool> = on_frontier(&cells, |cell| &cell.packet_delays_ms);
    for ((cell, frames), packets) in cells.iter_mut().zip(by_frames).zip(by_packets) {
        (cell.is_on_frontier, cell.is_on_packet_frontier) = (frames, packets);
    }
    cells
}

fn on_frontier(cells: &[FrontierCell], delays_ms: fn(&FrontierCell) -> &[f64]) -> Vec<bool> {
    let trades: Vec<Trade<'_>> = cells
        .iter()
        .map(|cell| Trade {
            delays_ms: delays_ms(cell),
            goodputs: &cell.goodputs_bits_per_second,
        })
        .collect();
    trades
        .iter()
        .map(|one| !trades.iter().any(|other| dominates(other, one)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(delay_ms: f64, goodput: f64) -> FrontierCell {
        FrontierCell {
            frame_delays_ms: vec![delay_ms],
            packet_delays_ms: vec![delay_ms / 2.0],
            goodputs_bits_per_second: vec![goodput],
            ..FrontierCell::default()
        }
    }

    #[test]
    fn goodputs_are_related_to_the_best_and_dominated_cells_are_not_marked() {
        let cells = judged(vec![cell(100.0, 8e5), cell(200.0, 1e6), cell(300.0, 9e5)]);
        let ratios = cells.iter().map(|cell| cell.goodput_ratio);
        assert_eq!(ratios.collect::<Vec<_>>(), [0.8, 1.0, 0.9]);
        let marked = cells.iter().map(|cell| cell.is_on_frontier);
        assert_eq!(marked.collect::<Vec<_>>(), [true, true, false]);
    }

    #[test]
    fn a_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }
}
