//! S. Zhang and W. Lei, "An Optimized BBR for Multipath Real Time Video Streaming": §§2, 3.2, 4
//! and 5.2, several paths.

mod balance;
mod bench;
mod frame_count;
mod frame_delay;
mod repair;
mod setup;
mod underload;
mod water;
mod zhu;

use super::case::Case;
use super::claim::Claim;
use super::record::RunRecord;
use super::zhang_delay_bbr::PAPER;

/// Claims in the paper's order.
pub(super) const CLAIMS: &[&Claim] = &[
    &water::FIGURE_2,
    &setup::FIGURE_11,
    &setup::TABLE_3,
    &frame_delay::FIGURE_12,
    &frame_delay::FIGURE_13,
    &frame_count::CLAIM,
    &underload::CLAIM,
    &balance::BALANCE,
    &repair::CLAIM,
    &balance::REASSEMBLY,
    &balance::AGGREGATE_COST,
    &balance::INTERVAL,
    &zhu::COMPARISON,
];

/// A link of the candidate Table 3.
#[derive(Clone, Copy)]
struct Link {
    megabits: u64,
    delay_ms: u64,
    queue_ms: u64,
}

/// A line of the candidate Table 3.
pub(super) struct Configuration {
    number: u8,
    /// Name of the scenario file, without its ending.
    pub(super) name: &'static str,
    links: [Link; 2],
    /// The scenario file.
    pub(super) text: &'static str,
}

const fn link(megabits: u64, delay_ms: u64, queue_ms: u64) -> Link {
    Link {
        megabits,
        delay_ms,
        queue_ms,
    }
}

macro_rules! configuration {
    ($number:literal, $name:literal, $first:expr, $second:expr) => {
        Configuration {
            number: $number,
            name: concat!("config-", $name),
            links: [$first, $second],
            text: include_str!(concat!(
                "../../../scenarios/zhang-multipath/config-",
                $name,
                ".toml"
            )),
        }
    };
}

/// The ten configurations of the authors' public test program. The paper's Table 3 is lost from its
/// text.
pub(super) const CONFIGURATIONS: [Configuration; 10] = [
    configuration!(1, "01", link(2, 100, 200), link(1, 150, 200)),
    configuration!(2, "02", link(2, 100, 200), link(1, 100, 200)),
    configuration!(3, "03", link(3, 150, 200), link(1, 100, 200)),
    configuration!(4, "04", link(2, 50, 200), link(1, 100, 200)),
    configuration!(5, "05", link(1, 50, 200), link(1, 100, 200)),
    configuration!(6, "06", link(3, 50, 200), link(3, 100, 200)),
    configuration!(7, "07", link(2, 30, 200), link(3, 50, 200)),
    configuration!(8, "08", link(4, 30, 200), link(2, 100, 200)),
    configuration!(9, "09", link(2, 30, 200), link(2, 100, 200)),
    configuration!(10, "10", link(3, 100, 300), link(2, 100, 200)),
];

/// The paper's proposal, and the schedulers that it is compared with.
const SCHEDULERS: [(&str, &str); 4] = [
    ("min-cost", "min-cost"),
    ("WRR", "wrr"),
    ("EDCLD", "edcld"),
    ("SFL", "sfl"),
];

/// Schedulers of other origin, shown beside them in Fig. 12, and no part of its claim.
const OTHER_SCHEDULERS: [&str; 3] = ["anabranch", "oms", "qaware"];

impl Configuration {
    fn case(&self, name: impl Into<String>) -> Case {
        let file = format!("zhang-multipath/{}.toml", self.name);
        Case::new(name, file, self.text)
    }

    /// Returns a case for every scheduler, with another in the place of the first.
    fn all_schedulers(&self, first: &str) -> Vec<Case> {
        SCHEDULERS
            .iter()
            .enumerate()
            .map(|(place, (label, name))| {
                let scheduler = if place == 0 { first } else { name };
                self.case(self.name(label)).scheduler(scheduler)
            })
            .collect()
    }

    /// Returns the name of a case.
    fn name(&self, label: &str) -> String {
        format!("configuration {}, {label}", self.number)
    }
}

/// Returns the mean time from capture to the last packet's arrival of the flow over both paths, in
/// ms. A frame that is given up counts until then, as in the authors' program.
fn frame_delay_ms(run: &RunRecord) -> f64 {
    let frames = &run.statistics.flows[0].frames;
    frames
        .delay_with_dropped_ms
        .map_or(f64::NAN, |delay| delay.mean)
}
