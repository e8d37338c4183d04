//! Measures of a film in the paper's figures.

use super::{Reading, Scenario};
use crate::record::{Points, RunRecord, Span};
use anabranch_lab::metrics::{DownloadStatistics, PathSeries};

/// Indices of the paths.
pub(super) const WIFI: usize = 0;
pub(super) const LTE: usize = 1;

/// Span in which windows and rates count. The film is still being fetched then, wherever it plays
/// without a stop.
const COUNTED: Span = (10.0, 170.0);

pub(super) fn viewer(run: &RunRecord) -> DownloadStatistics {
    run.statistics.flows[0].download.unwrap_or_default()
}

pub(super) fn switches(run: &RunRecord) -> f64 {
    run.statistics.flows[0].segment_path_switches as f64
}

/// Returns the share of the segments that took another path than the one before.
pub(super) fn switch_share(run: &RunRecord) -> f64 {
    let sent = run.statistics.flows[0].traffic.packets_sent;
    switches(run) / sent as f64
}

fn path(run: &RunRecord, path: usize) -> &PathSeries {
    &run.series().flows[0].paths[path]
}

/// Returns the delivery rate of a path over the counted span, in bit/s.
pub(super) fn rate(run: &RunRecord, place: usize) -> f64 {
    run.path_rate(path(run, place), COUNTED)
}

/// Returns the delivery rate of a path over time, in kbit/s.
pub(super) fn rates(run: &RunRecord, place: usize) -> Points {
    run.path_kbits(path(run, place))
}

/// Returns a path's congestion window over time, in packets.
pub(super) fn windows(run: &RunRecord, place: usize) -> Points {
    run.window_packets(&run.series().flows[0], path(run, place))
}

/// Returns the windows of the counted span.
fn counted(run: &RunRecord, place: usize) -> impl Iterator<Item = (f64, f64)> {
    let windows = windows(run, place).into_iter();
    windows.filter(|(at, _)| (COUNTED.0..=COUNTED.1).contains(at))
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

/// Returns the mean window in packets; not a number if there is none.
pub(super) fn window(run: &RunRecord, place: usize) -> f64 {
    let mean = mean(counted(run, place).map(|(_, packets)| packets));
    if mean > 0.0 { mean } else { f64::NAN }
}

/// Returns the window that is exceeded for a tenth of the time.
pub(super) fn window_p90(run: &RunRecord, place: usize) -> f64 {
    let mut windows: Vec<f64> = counted(run, place).map(|(_, packets)| packets).collect();
    windows.sort_by(f64::total_cmp);
    windows
        .get(windows.len() * 9 / 10)
        .copied()
        .unwrap_or(f64::NAN)
}

/// Returns whether the delay is on at a time of a run, and whether its phase is half over.
fn phase(at: f64, phase_s: u64) -> (bool, bool) {
    let phases = at / phase_s as f64;
    // Each entry is about the time before it.
    let within = phases - libm::floor(phases);
    let is_on = libm::floor(phases) as u64 % 2 == 1;
    (is_on, within > 0.5)
}

/// Returns the mean window in the second halves of phases with the delay, over that of phases
/// without it.
pub(super) fn tracking(run: &RunRecord, scenario: Scenario, reading: Reading) -> f64 {
    let phase_s = reading.phase_s(scenario);
    let [on, off] = [true, false].map(|is_on| {
        let meant = counted(run, WIFI).filter(|(at, _)| phase(at - 0.5, phase_s) == (is_on, true));
        mean(meant.map(|(_, packets)| packets))
    });
    on / off
}

/// Returns the Wi-Fi's rate while it is delayed over its rate while it is not.
pub(super) fn delayed_rate(run: &RunRecord, scenario: Scenario, reading: Reading) -> f64 {
    let phase_s = reading.phase_s(scenario);
    let [on, off] = [true, false].map(|is_on| {
        let rates = rates(run, WIFI).into_iter();
        let counted = rates.filter(|(at, _)| (COUNTED.0..=COUNTED.1).contains(at));
        let meant = counted.filter(|(at, _)| phase(at - 0.5, phase_s).0 == is_on);
        mean(meant.map(|(_, rate)| rate))
    });
    on / off
}

/// Returns the share of the time in which a path's window has no room for a packet.
pub(super) fn blocked(run: &RunRecord, place: usize) -> f64 {
    blocked_while(run, place, |_| true)
}

/// Returns the share of the time with the delay in which the Wi-Fi's window has no room for a
/// packet.
pub(super) fn blocked_when_delayed(run: &RunRecord, scenario: Scenario, reading: Reading) -> f64 {
    blocked_while(run, WIFI, |at| phase(at - 0.5, reading.phase_s(scenario)).0)
}

fn blocked_while(run: &RunRecord, place: usize, is_meant: impl Fn(f64) -> bool) -> f64 {
    fn is_full((in_flight, window): (&u64, &u64), packet: u64) -> bool {
        *window > 0 && in_flight + packet > *window
    }

    let series = run.series();
    let packet = series.flows[0].packet_bytes;
    let path = path(run, place);
    let both = path
        .bytes_in_flight
        .iter()
        .zip(&path.congestion_window_bytes);
    let at = (1..).map(|index| f64::from(index) * series.interval_ms as f64 / 1e3);
    let counted = both
        .zip(at)
        .filter(|(_, at)| (COUNTED.0..=COUNTED.1).contains(at) && is_meant(*at));
    mean(counted.map(|(both, _)| f64::from(u8::from(is_full(both, packet)))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_lab::metrics::{FlowSeries, Series};

    /// Makes a run of 180 s with this window, in packets, and this rate, in packets per second.
    fn run(window: impl Fn(f64) -> u64, rate: impl Fn(f64) -> u64) -> RunRecord {
        let seconds = (0..180).map(|second| f64::from(second) + 0.5);
        let path = PathSeries {
            congestion_window_bytes: seconds.clone().map(|at| window(at) * 1_500).collect(),
            bytes_in_flight: seconds
                .clone()
                .map(|at| window(at).min(20) * 1_500)
                .collect(),
            delivered_bytes: seconds.map(|at| rate(at) * 1_500).collect(),
            ..PathSeries::default()
        };
        let flow = FlowSeries {
            packet_bytes: 1_500,
            paths: vec![path.clone(), path],
            ..FlowSeries::default()
        };
        let series = Series {
            interval_ms: 1_000,
            flows: vec![flow],
            ..Series::default()
        };
        RunRecord::new(Default::default(), Vec::new(), 0, series)
    }

    #[test]
    fn tracking_needs_a_window_that_follows_delay() {
        // This window follows after 12 s: within phases of 30 s, and not within 10 s.
        let follows = run(
            |at| {
                if at % 60.0 >= 42.0 || at % 60.0 < 2.0 {
                    40
                } else {
                    10
                }
            },
            |_| 200,
        );
        assert_eq!(tracking(&follows, Scenario::A, Reading::Both), 4.0);
        let stuck = run(|_| 15, |_| 200);
        for scenario in [Scenario::A, Scenario::B, Scenario::C] {
            for reading in [Reading::Both, Reading::Each] {
                assert_eq!(tracking(&stuck, scenario, reading), 1.0);
            }
        }
        // A window that is larger in the first halves alone does not count.
        let early = run(
            |at| {
                if (30.0..45.0).contains(&(at % 60.0)) {
                    40
                } else {
                    10
                }
            },
            |_| 200,
        );
        assert_eq!(tracking(&early, Scenario::A, Reading::Both), 1.0);
    }

    #[test]
    fn windows_count_packets_after_ten_seconds() {
        let grown = run(|at| if at < 9.0 { 1_000 } else { 30 }, |_| 200);
        assert_eq!(window(&grown, WIFI), 30.0);
        assert!(window(&run(|_| 0, |_| 200), WIFI).is_nan());
        let ninth = run(|at| if at % 10.0 < 2.0 { 50 } else { 5 }, |_| 200);
        assert_eq!(window_p90(&ninth, LTE), 50.0);
        let eleventh = run(|at| if at % 20.0 < 1.0 { 50 } else { 5 }, |_| 200);
        assert_eq!(window_p90(&eleventh, LTE), 5.0);
    }

    #[test]
    fn rates_with_and_without_the_delay_are_compared() {
        let slower = run(|_| 15, |at| if at % 20.0 < 10.0 { 250 } else { 200 });
        assert_eq!(delayed_rate(&slower, Scenario::B, Reading::Both), 0.8);
        assert_eq!(delayed_rate(&slower, Scenario::C, Reading::Each), 0.8);
        assert!((rate(&slower, LTE) - 225.0 * 1_500.0 * 8.0).abs() < 1.0);
    }

    #[test]
    fn a_path_is_blocked_while_no_packet_fits_into_its_window() {
        fn share(reading: Reading, delayed: &RunRecord) -> f64 {
            blocked_when_delayed(delayed, Scenario::C, reading)
        }

        fn window(at: f64) -> u64 {
            if at % 4.0 < 1.0 { 21 } else { 20 }
        }
        assert!((blocked(&run(window, |_| 200), WIFI) - 0.75).abs() < 0.01);
        assert_eq!(blocked(&run(|_| 0, |_| 200), WIFI), 0.0);
        // Twenty packets are in flight, so that the larger window is full while it is as small.
        let delayed = run(|at| if at % 10.0 < 5.0 { 30 } else { 20 }, |_| 200);
        assert_eq!(
            (
                share(Reading::Both, &delayed),
                share(Reading::Each, &delayed)
            ),
            (1.0, 0.5)
        );
    }
}
