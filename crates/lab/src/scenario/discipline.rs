//! Queue disciplines as scenarios describe them: a name, or a table of its kind and options.

use anabranch_link::{
    CoDelOptions, Discipline, DualPi2Options, DualQueueScheduler, FqCoDelOptions, PieOptions,
    QueueLimit, RedOptions,
};
use anabranch_units::ByteCount;

use super::error::Mistake;
use super::node::{Node, Value};
use super::reader::{
    Read, Table, boolean, choice, duration, integer, number, positive_duration, quantity,
    queue_limit, share,
};
use super::shape::{Key, Shape};

#[derive(Clone, Copy)]
enum Kind {
    DropTail,
    Red,
    CoDel,
    FqCoDel,
    Pie,
    DualPi2,
    HalfDuplex,
}

const KINDS: [(&str, Kind); 7] = [
    ("drop-tail", Kind::DropTail),
    ("red", Kind::Red),
    ("codel", Kind::CoDel),
    ("fq-codel", Kind::FqCoDel),
    ("pie", Kind::Pie),
    ("dualpi2", Kind::DualPi2),
    ("half-duplex", Kind::HalfDuplex),
];

/// Every option of any kind, so that the mistake of a missing kind comes before that of a key that
/// it may explain.
pub(super) const KEYS: &[Key] = &[
    Key::required("kind", Shape::Name(names), "name of the discipline"),
    Key::new("ecn", Shape::Boolean, "mark packets that understand it"),
    Key::new("mark-above", Shape::Queue, "drop-tail: mark above this"),
    Key::new("min-threshold", Shape::Queue, "RED: drop none below"),
    Key::new("max-threshold", Shape::Queue, "RED: drop all above"),
    Key::new(
        "max-probability",
        Shape::Share,
        "RED: at the maximum threshold",
    ),
    Key::new(
        "weight",
        Shape::Share,
        "RED: of the new sample in the average",
    ),
    Key::new("gentle", Shape::Boolean, "RED: up to twice the maximum"),
    Key::new("mean-packet", Shape::Amount, "RED: for the time it idles"),
    Key::new("target", Shape::Duration, "the wait to be held"),
    Key::new(
        "interval",
        Shape::Duration,
        "CoDel: longest usual round trip",
    ),
    Key::new("buckets", Shape::Integer(1, 65_536), "FQ-CoDel: queues"),
    Key::new("quantum", Shape::Amount, "FQ-CoDel: bytes a round"),
    Key::new(
        "update-interval",
        Shape::Duration,
        "PIE: between two updates",
    ),
    Key::new("max-burst", Shape::Duration, "PIE: let through undropped"),
    Key::new("derandomise", Shape::Boolean, "PIE: space drops evenly"),
    Key::new(
        "max-rtt",
        Shape::Duration,
        "DualPI2: longest usual round trip",
    ),
    Key::new(
        "step-threshold",
        Shape::Duration,
        "DualPI2: mark above this wait",
    ),
    Key::new("coupling", Shape::Number(0.0, 100.0), "DualPI2: factor k"),
    Key::new(
        "scheduler",
        Shape::Name(|| SCHEDULERS.map(|(name, _)| name.to_owned()).into()),
        "DualPI2: which of the two queues is served",
    ),
];

const SCHEDULERS: [(&str, DualQueueScheduler); 2] = [
    ("wrr", DualQueueScheduler::WeightedRoundRobin),
    ("ts-fifo", DualQueueScheduler::TimeShiftedFifo),
];

/// Returns the names of all disciplines.
pub(super) fn names() -> Vec<String> {
    KINDS.map(|(name, _)| name.to_owned()).into()
}

pub(super) fn discipline(node: &Node) -> Read<Discipline> {
    fn kind(node: &Node) -> Result<Kind, Mistake> {
        choice(node, "queue discipline", &KINDS)
    }
    let (kind, node) = match node.value {
        Value::Table(_) => (Table::of(node, KEYS)?.required("kind", kind)?, node),
        _ => (
            kind(node)?,
            &Node {
                value: Value::Table(Vec::new()),
                ..node.clone()
            },
        ),
    };
    Ok(match kind {
        Kind::DropTail => Discipline::DropTail {
            mark_above: options(node, &["mark-above"])?.optional("mark-above", queue_limit)?,
        },
        Kind::Red => Discipline::Red(red(node)?),
        Kind::CoDel => {
            let keys = ["target", "interval", "ecn"];
            Discipline::CoDel(codel(&options(node, &keys)?)?)
        }
        Kind::FqCoDel => Discipline::FqCoDel(fq_codel(node)?),
        Kind::Pie => Discipline::Pie(pie(node)?),
        Kind::DualPi2 => Discipline::DualPi2(dual_pi2(node)?),
        Kind::HalfDuplex => options(node, &[]).map(|_| Discipline::HalfDuplex)?,
    })
}

fn options<'a>(node: &'a Node, keys: &[&str]) -> Read<Table<'a>> {
    Table::of(node, &[&["kind"], keys].concat())
}

fn red(node: &Node) -> Read<RedOptions> {
    fn threshold(node: &Node) -> Result<QueueLimit, Mistake> {
        quantity::<QueueLimit>(node)
    }

    let keys = [
        "min-threshold",
        "max-threshold",
        "max-probability",
        "weight",
        "gentle",
        "mean-packet",
        "ecn",
    ];
    let table = options(node, &keys)?;
    let usual = RedOptions::default();
    Ok(RedOptions {
        min_threshold: table.or("min-threshold", usual.min_threshold, threshold)?,
        max_threshold: table.or("max-threshold", usual.max_threshold, threshold)?,
        max_probability: table.or("max-probability", usual.max_probability, share)?,
        weight: table.or("weight", usual.weight, share)?,
        is_gentle: table.or("gentle", usual.is_gentle, boolean)?,
        mean_packet_bytes: table.or("mean-packet", usual.mean_packet_bytes, bytes)?,
        ecn: table.or("ecn", usual.ecn, boolean)?,
    })
}

fn codel(table: &Table<'_>) -> Read<CoDelOptions> {
    let usual = CoDelOptions::default();
    Ok(CoDelOptions {
        target: table.or("target", usual.target, positive_duration)?,
        interval: table.or("interval", usual.interval, positive_duration)?,
        ecn: table.or("ecn", usual.ecn, boolean)?,
    })
}

fn fq_codel(node: &Node) -> Read<FqCoDelOptions> {
    let keys = ["target", "interval", "ecn", "buckets", "quantum"];
    let table = options(node, &keys)?;
    let usual = FqCoDelOptions::default();
    Ok(FqCoDelOptions {
        codel: codel(&table)?,
        bucket_count: table.or("buckets", usual.bucket_count, |node| {
            integer(node, 1..=65_536_u32)
        })?,
        quantum: table.or("quantum", usual.quantum, bytes)?,
    })
}

fn pie(node: &Node) -> Read<PieOptions> {
    let keys = [
        "target",
        "update-interval",
        "max-burst",
        "derandomise",
        "ecn",
    ];
    let table = options(node, &keys)?;
    let usual = PieOptions::default();
    Ok(PieOptions {
        target: table.or("target", usual.target, positive_duration)?,
        update_interval: table.or("update-interval", usual.update_interval, positive_duration)?,
        max_burst: table.or("max-burst", usual.max_burst, duration)?,
        is_derandomised: table.or("derandomise", usual.is_derandomised, boolean)?,
        ecn: table.or("ecn", usual.ecn, boolean)?,
    })
}

fn dual_pi2(node: &Node) -> Read<DualPi2Options> {
    fn scheduler(node: &Node) -> Result<DualQueueScheduler, Mistake> {
        choice(node, "scheduler of the two queues", &SCHEDULERS)
    }

    let keys = [
        "target",
        "max-rtt",
        "step-threshold",
        "coupling",
        "scheduler",
    ];
    let table = options(node, &keys)?;
    let usual = DualPi2Options::default();
    Ok(DualPi2Options {
        target: table.or("target", usual.target, positive_duration)?,
        max_rtt: table.or("max-rtt", usual.max_rtt, positive_duration)?,
        step_threshold: table.or("step-threshold", usual.step_threshold, duration)?,
        coupling: table.or("coupling", usual.coupling, |node| number(node, 0.0..=100.0))?,
        scheduler: table.or("scheduler", usual.scheduler, scheduler)?,
    })
}

/// Reads an amount of at least a byte.
fn bytes(node: &Node) -> Read<u32> {
    let limit = quantity::<ByteCount>(node)?;
    match u32::try_from(limit.0) {
        Ok(0) | Err(_) => Err(node.mistake("must be from 1 B to 4 GB")),
        Ok(bytes) => Ok(bytes),
    }
}
