//! Links with many events, and their drivers.

pub mod quantities;

use anabranch_link::{
    CoDelOptions, Discipline, Dropped, DualPi2Options, Element, FqCoDelOptions, JitterAmount,
    JitterModel, JitterOrder, JitterShape, LinkConfig, LossModel, Packet, PieOptions, QueueLimit,
    RedOptions, Trace,
};
use anabranch_units::{DataRate, Duration, Instant, Rng};

pub use quantities::{at_ms, megabits, ms};

/// Returns a packet of this number and size.
pub fn packet(id: u64, size_bytes: u32) -> Packet {
    Packet {
        id,
        ..Packet::of_size(size_bytes)
    }
}

/// Pops all departures up to `end`, each at its own instant.
pub fn drain<E: Element>(element: &mut E, end: Instant) -> Vec<(Instant, u64)> {
    let mut departures = Vec::new();
    while let Some(at) = element.next_at().filter(|at| *at <= end) {
        while let Some(packet) = element.pop(at) {
            departures.push((at, packet.id));
        }
    }
    departures
}

/// Returns all losses that have not been reported yet.
pub fn drain_dropped<E: Element>(element: &mut E) -> Vec<Dropped> {
    core::iter::from_fn(|| element.take_dropped()).collect()
}

/// Draws a duration from the exponential distribution with the given mean.
pub fn exponential(rng: &mut Rng, mean: Duration) -> Duration {
    mean.mul_f64(-libm::log(1.0 - rng.next_f64()))
}

/// Returns a link with every kind of event: changes, bursts of losses, outages.
pub fn lively_config() -> LinkConfig {
    LinkConfig {
        rate: Some(megabits(2)),
        rate_schedule: vec![
            (at_ms(700), DataRate::ZERO),
            (at_ms(900), megabits(1)),
            (at_ms(3_000), megabits(5)),
        ],
        delay: ms(30),
        delay_schedule: vec![(at_ms(1_000), ms(80)), (at_ms(2_000), ms(10))],
        queue: QueueLimit::Time(ms(100)),
        loss: LossModel::GilbertElliott {
            good_to_bad: 0.02,
            bad_to_good: 0.3,
            loss_in_good: 0.0,
            loss_in_bad: 0.8,
        },
        outages: vec![(at_ms(1_500), ms(200)), (at_ms(2_500), ms(50))],
        ..LinkConfig::default()
    }
}

/// Returns links with every discipline, all kinds of jitter, a trace, and a delay that lets packets
/// overtake.
pub fn lively_configs() -> Vec<LinkConfig> {
    fn red(ecn: bool) -> RedOptions {
        RedOptions {
            min_threshold: QueueLimit::Time(ms(10)),
            max_threshold: QueueLimit::Time(ms(50)),
            weight: 0.05,
            ecn,
            ..RedOptions::default()
        }
    }
    let codel = CoDelOptions {
        ecn: true,
        ..CoDelOptions::default()
    };
    let disciplines = [
        Discipline::default(),
        Discipline::DropTail {
            mark_above: Some(QueueLimit::Time(ms(20))),
        },
        Discipline::Red(red(false)),
        Discipline::Red(red(true)),
        Discipline::CoDel(CoDelOptions::default()),
        Discipline::CoDel(codel),
        Discipline::FqCoDel(FqCoDelOptions::default()),
        Discipline::FqCoDel(FqCoDelOptions {
            codel,
            bucket_count: 2,
            quantum: 300,
        }),
        Discipline::Pie(PieOptions::default()),
        Discipline::DualPi2(DualPi2Options::default()),
        Discipline::HalfDuplex,
    ];
    let mut configs = Vec::new();
    let orders = [
        JitterOrder::Spaced,
        JitterOrder::Reordered,
        JitterOrder::Bunched,
    ];
    for (discipline, order) in disciplines.into_iter().zip(orders.into_iter().cycle()) {
        let plain = LinkConfig {
            discipline,
            ..lively_config()
        };
        let with_jitter = LinkConfig {
            jitter: Some(JitterModel {
                amount: JitterAmount::Normal {
                    std: ms(3),
                    max_deviations: 3.0,
                    shape: JitterShape::ZeroMean,
                },
                order,
            }),
            ..plain.clone()
        };
        let with_trace = LinkConfig {
            rate: None,
            rate_schedule: Vec::new(),
            trace: Trace::new(&[0, 1, 9, 9, 9, 30, 31, 90]).ok(),
            mtu: Some(1_200),
            ..plain.clone()
        };
        let overtaking = LinkConfig {
            overtaking: true,
            frame_time: Duration::from_micros(250),
            ..plain.clone()
        };
        configs.extend([plain, with_jitter, with_trace, overtaking]);
    }
    configs
}
