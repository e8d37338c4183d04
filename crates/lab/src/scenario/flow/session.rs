//! Common part of flows that run over a session of the protocol.

use anabranch_controllers::{CONTROLLERS, default_controller};
use anabranch_core::recovery::{FeedbackSchedule, HoleReports, LossDetection};
use anabranch_core::{Config, Laboratory, PaddingPolicy};
use anabranch_schedulers::default_scheduler;

use crate::scenario::algorithms::{Algorithms, scheduler_names};
use crate::scenario::node::{Node, Value};
use crate::scenario::reader::{
    Read, Table, boolean, bytes, choice, duration, integer, positive_duration, positive_rate, text,
};
use crate::scenario::shape::Key;
use crate::scenario::shape::Shape::{
    self, Amount, Any, Boolean, Integer, Name, NameWithOptions, Rate,
};

/// The keys that [`config`] reads.
pub(super) const KEYS: &[Key] = &[
    Key::new(
        "controller",
        NameWithOptions(controllers),
        "congestion controller of each path",
    ),
    Key::new(
        "scheduler",
        Name(scheduler_names),
        "which packet takes which path",
    ),
    Key::new(
        "padding",
        Name(paddings),
        "when a path is filled up with padding",
    ),
    Key::new(
        "padding-limit",
        Amount,
        "most bytes of earned padding a minute, 0 B to 1 GB",
    ),
    Key::new(
        "padding-packet",
        Amount,
        "bytes of padding in a packet, 64 B to 9 kB",
    ),
    Key::new("feedback", FEEDBACK, "schedule of the receiver's reports"),
    Key::new(
        "loss-detection",
        Name(loss_detections),
        "when a packet counts as lost",
    ),
    Key::new("min-rate", Rate, "least rate of a controller"),
    Key::new("max-rate", Rate, "largest rate that a controller needs"),
    Key::new(
        "initial-window",
        Integer(1, 1_000),
        "initial window of each path's controller, in packets",
    ),
    Key::new("ecn", Boolean, "whether packets may carry an ECN codepoint"),
    Key::new(
        "initial-rate",
        Rate,
        "initial rate of each path's controller",
    ),
    Key::new("fixed-rate", Rate, "rate of the controller \"fixed\""),
    Key::new(
        "packet",
        Amount,
        "most media bytes in a packet, 64 B to 9 kB",
    ),
    Key::new(
        "overhead",
        Amount,
        "bytes that network and encryption add to each packet",
    ),
];

const FEEDBACK: Shape = Any(&[Name(feedback_names), Shape::Table(FEEDBACK_KEYS)]);

const FEEDBACK_KEYS: &[Key] = &[
    Key::new("every", Integer(1, 1_000), "packets"),
    Key::new("max-delay", Shape::Duration, "how long a report may wait"),
    Key::new("interval", Shape::Duration, "interval of periodic reports"),
    Key::new("on-hole", Boolean, "whether a gap is reported at once"),
];

fn controllers() -> Vec<String> {
    CONTROLLERS
        .iter()
        .map(|entry| entry.name.to_owned())
        .collect()
}

fn paddings() -> Vec<String> {
    PADDINGS.map(|(name, _)| name.to_owned()).to_vec()
}

fn loss_detections() -> Vec<String> {
    STREAM_LOSS_DETECTIONS
        .map(|(name, _)| name.to_owned())
        .to_vec()
}

fn feedback_names() -> Vec<String> {
    FEEDBACK_NAMES.map(|(name, _)| name.to_owned()).to_vec()
}

const PADDINGS: [(&str, PaddingPolicy); 4] = [
    ("never", PaddingPolicy::Never),
    ("while-probing", PaddingPolicy::WhileProbing),
    ("earned", PaddingPolicy::Earned),
    ("always", PaddingPolicy::Always),
];

/// Rules for media; the first is the default.
pub(super) const LOSS_DETECTIONS: [(&str, LossDetection); 2] = [
    ("per-packet", LossDetection::PerPacket),
    ("gap-immediate", LossDetection::GapImmediate),
];

/// Rules for streams; the first is the default.
pub(super) const STREAM_LOSS_DETECTIONS: [(&str, LossDetection); 4] = [
    ("tcp-sack", LossDetection::TcpSack),
    ("tcp-cumulative", LossDetection::TcpCumulative),
    LOSS_DETECTIONS[0],
    LOSS_DETECTIONS[1],
];

const FEEDBACK_NAMES: [(&str, Option<FeedbackSchedule>); 2] = [
    ("controller", None),
    ("every packet", Some(FeedbackSchedule::EVERY_PACKET)),
];

/// Reads the set-up of both ends. The first of the loss detections is the default.
pub(super) fn config(
    table: &Table<'_>,
    algorithms: &Algorithms,
    loss_detections: &[(&str, LossDetection)],
) -> Read<Config> {
    let usual = Config::new(default_controller(), default_scheduler());
    let laboratory = Laboratory {
        fixed_rate: table.or("fixed-rate", usual.laboratory.fixed_rate, positive_rate)?,
        loss_detection: Some(table.or("loss-detection", loss_detections[0].1, |node| {
            choice(node, "loss detection", loss_detections)
        })?),
        padding_bytes: table.optional("padding-packet", |node| {
            bytes(node, 64..=9_000).map(|b| b as u16)
        })?,
        feedback: table.or("feedback", usual.laboratory.feedback, feedback)?,
        // Nothing reads them.
        keeps_bytes: false,
        ..Laboratory::default()
    };
    Ok(Config {
        laboratory,
        controller: table.or("controller", usual.controller, |node| {
            let found = algorithms.controller(text(node)?);
            found.map_err(|error| node.mistake(error))
        })?,
        scheduler: table.or("scheduler", usual.scheduler, |node| {
            let found = algorithms.scheduler(text(node)?);
            found.map_err(|error| node.mistake(error))
        })?,
        min_rate: table.or("min-rate", usual.min_rate, positive_rate)?,
        initial_rate: table.or("initial-rate", usual.initial_rate, positive_rate)?,
        max_rate: table.optional("max-rate", positive_rate)?,
        initial_window_packets: table.or(
            "initial-window",
            usual.initial_window_packets,
            |node| integer(node, 1..=1_000_u32),
        )?,
        is_ecn_capable: table.or("ecn", usual.is_ecn_capable, boolean)?,
        // The results of the page are of this policy.
        padding: table.or("padding", PaddingPolicy::WhileProbing, |node| {
            choice(node, "padding", &PADDINGS)
        })?,
        padding_bytes_per_minute: table
            .optional("padding-limit", |node| bytes(node, 0..=1_000_000_000))?,
        overhead_bytes: table.or("overhead", usual.overhead_bytes, |node| {
            bytes(node, 0..=1_000).map(|b| b as u32)
        })?,
        fragment_bytes: table.or("packet", usual.fragment_bytes, |node| {
            bytes(node, 64..=9_000).map(|b| b as u16)
        })?,
        ..usual
    })
}

fn feedback(node: &Node) -> Read<Option<FeedbackSchedule>> {
    if let Value::Text(_) = node.value {
        return choice(node, "feedback", &FEEDBACK_NAMES);
    }
    let usual = FeedbackSchedule::default();
    let table = Table::of(node, FEEDBACK_KEYS)?;
    Ok(Some(FeedbackSchedule {
        every_packets: table.or("every", usual.every_packets, |node| {
            integer(node, 1..=1_000_u32)
        })?,
        max_delay: table.or("max-delay", usual.max_delay, duration)?,
        interval: table.optional("interval", positive_duration)?,
        on_hole: table.or("on-hole", usual.on_hole, |node| {
            Ok(boolean(node)?.then_some(HoleReports::AT_ONCE))
        })?,
        ..usual
    }))
}
