//! S. Zhang and W. Lei, "An Optimized BBR for Multipath Real Time Video Streaming": §5.1, one path.

mod backoff;
mod compared;
mod convergence;
mod cross_traffic;
mod delay_and_loss;
mod estimates;
mod forms;
mod framework;
mod gain_cycle;
mod padding;
mod probe_rtt;
mod queueing;
mod rates;
mod reno;
mod reset;
mod setup;
mod startup;
mod utilisation;

use super::case::{Algorithms, Case, Forms};
use super::claim::{Claim, Paper};
use super::record::Span;

pub(super) const PAPER: Paper = Paper {
    key: "zhang-delay-bbr",
    citation: "S. Zhang, W. Lei: An Optimized BBR for Multipath Real Time Video Streaming",
    algorithms: Algorithms::Developed(Forms {
        published: "delay-bbr",
        ours: "live-bbr",
        why: "The authors' code has two modes. A start fills the queue; a flow that measures its \
              base delay then takes the full queue for the path. If all flows do, none reacts to \
              delay any more, and the queue stays full to the end.",
        ablation: "S0-F3 also runs case 1 with one flow and with two, whose start does not fill \
        the \
                   queue for good.",
    }),
};

/// Claims by kind, in the paper's order.
pub(super) const CLAIMS: &[&Claim] = &[
    &setup::TABLE_1,
    &framework::FIGURE_1,
    &delay_and_loss::FIGURE_3,
    &delay_and_loss::FIGURE_4,
    &rates::FIGURE_5,
    &rates::FIGURE_6,
    &reno::FIGURE_7,
    &rates::FIGURE_8,
    &rates::FIGURE_9,
    &rates::FIGURE_10,
    &compared::TABLE_2,
    &forms::TABLE_2,
    &gain_cycle::CLAIM,
    &probe_rtt::GENTLE,
    &compared::CONCLUSION,
    &estimates::CLAIM,
    &utilisation::CLAIM,
    &reset::CLAIM,
    &convergence::CLAIM,
    &startup::CLAIM,
    &probe_rtt::INTERVAL,
    &backoff::CLAIM,
    &queueing::SAW_TOOTH,
    &queueing::BUFFERBLOAT,
    &cross_traffic::LOSS,
    &cross_traffic::STARVATION,
    &queueing::OCCUPANCY,
    &padding::CLAIM,
];

/// One line of Table 1.
struct Setting {
    /// Its number, 1 to 9.
    number: u8,
    /// The bottleneck's rate.
    megabits: u8,
    /// The bottleneck's queue, as the time that it takes to drain.
    queue_ms: u16,
    /// The scenario file.
    text: &'static str,
}

macro_rules! setting {
    ($number:literal, $megabits:literal, $queue_ms:literal) => {
        Setting {
            number: $number,
            megabits: $megabits,
            queue_ms: $queue_ms,
            text: include_str!(concat!(
                "../../../scenarios/zhang-delay-bbr/case-",
                stringify!($number),
                ".toml"
            )),
        }
    };
}

/// Table 1.
const SETTINGS: [Setting; 9] = [
    setting!(1, 3, 300),
    setting!(2, 3, 400),
    setting!(3, 3, 600),
    setting!(4, 4, 300),
    setting!(5, 4, 400),
    setting!(6, 4, 600),
    setting!(7, 5, 300),
    setting!(8, 5, 400),
    setting!(9, 5, 600),
];

/// Cases that Table 2 and Figs. 8 to 10 show.
const SHOWN: [usize; 3] = [1, 4, 7];

/// Scenario of one greedy flow over 10 Mbit/s and 50 ms of round trip, for the paper's remarks in
/// passing.
const TEST_BED: &str = include_str!("../../../scenarios/zhang-delay-bbr/test-bed.toml");

/// Returns a line of Table 1 by its number.
fn setting(number: usize) -> &'static Setting {
    &SETTINGS[number - 1]
}

impl Setting {
    fn bits_per_second(&self) -> f64 {
        f64::from(self.megabits) * 1e6
    }

    /// Returns a case of three flows of one controller, which start at 0, 40 and 80 s, for 300 s.
    fn three_flows(&self, name: impl Into<String>, controller: &str) -> Case {
        let file = format!("zhang-delay-bbr/case-{}.toml", self.number);
        Case::new(name, file, self.text).controller(controller)
    }

    /// Returns a label such as "1: 3 Mbit/s, 300 ms".
    fn label(&self) -> String {
        format!(
            "{}: {} Mbit/s, {} ms",
            self.number, self.megabits, self.queue_ms
        )
    }
}

fn test_bed(name: &str, controller: &str) -> Case {
    Case::new(name, "zhang-delay-bbr/test-bed.toml", TEST_BED).controller(controller)
}

/// Makes the first flow TCP as in ns-3.26: no SACK, 54 B of headers (TCP with its time stamp, IP,
/// PPP), an acknowledgement for every second segment or after 200 ms, and a first window of one.
fn as_tcp(case: Case) -> Case {
    case.set("flows.0.kind", "bulk")
        .set("flows.0.loss-detection", "tcp-cumulative")
        .set("flows.0.overhead", "44 B")
        .set("flows.0.delayed-ack", "200 ms")
        .set("flows.0.min-rto", "1 s")
        .set("flows.0.initial-window", "1")
}

const WHOLE: Span = (0.0, 300.0);
/// Time in which all three flows have found their shares.
const SHARED: Span = (100.0, 300.0);
/// Time after the start, in the test bed.
const STEADY: Span = (20.0, 60.0);
