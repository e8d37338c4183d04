//! Common part of flows that carry streams.

use std::ops::RangeInclusive;

use anabranch_core::{Config, StreamConfig};
use anabranch_schedulers::{REINJECTIONS, default_stream_scheduler};
use anabranch_units::{ByteCount, Duration};

use super::session;
use crate::scenario::algorithms::Algorithms;
use crate::scenario::error::Mistake;
use crate::scenario::node::Node;
use crate::scenario::reader::{
    Read, Table, choice, duration, integer, list, positive_duration, quantity,
};
use crate::scenario::shape::{Key, Shape};

/// The keys that [`config`] reads beside those of every session.
pub(super) const KEYS: &[Key] = &[
    Key::new(
        "delayed-ack",
        Shape::Duration,
        "how long an acknowledgement may wait",
    ),
    Key::new(
        "ack-every",
        Shape::Integer(1, 16),
        "segments that one acknowledgement covers",
    ),
    Key::new(
        "quick-acks",
        Shape::Integer(0, 64),
        "first packets of a path that are acknowledged at once",
    ),
    Key::new("min-rto", Shape::Duration, "least retransmission timeout"),
    Key::new(
        "initial-rto",
        Shape::Duration,
        "retransmission timeout before any measurement",
    ),
    Key::new(
        "receive-window",
        Shape::Amount,
        "bytes that the receiver takes beyond those read",
    ),
    Key::new(
        "retransmission",
        Shape::Name(retransmissions),
        "over several paths, which of them retransmits",
    ),
    Key::new(
        "reinjection",
        Shape::Name(reinjections),
        "over several paths, when segments in flight on one are copied to another",
    ),
];

/// Longest delay that RFC 5681 §4.2 allows.
const MAX_DELAYED_ACK: Duration = Duration::from_millis(500);

/// Largest backlog of a greedy source, in segments.
const MAX_UNSENT_SEGMENTS: usize = 16;

/// Whether a segment is retransmitted on the path that lost it.
const RETRANSMISSIONS: [(&str, bool); 2] = [("any path", false), ("same path", true)];

fn reinjections() -> Vec<String> {
    let names = REINJECTIONS.iter().map(|(name, _)| (*name).to_owned());
    names.collect()
}

fn retransmissions() -> Vec<String> {
    let names = RETRANSMISSIONS.iter().map(|(name, _)| (*name).to_owned());
    names.collect()
}

/// Reads the set-up of both ends.
pub(super) fn config(table: &Table<'_>, algorithms: &Algorithms) -> Read<Config> {
    fn delayed_ack(node: &Node) -> Result<Duration, Mistake> {
        match duration(node)? {
            delay if delay > MAX_DELAYED_ACK => Err(node.mistake("must be at most 500 ms")),
            delay => Ok(delay),
        }
    }

    let mut session = session::config(table, algorithms, &session::STREAM_LOSS_DETECTIONS)?;
    let has_several_paths = has_several_paths(table)?;
    if has_several_paths && table.node("scheduler").is_none() {
        session.scheduler = default_stream_scheduler();
    }
    session.laboratory.retransmits_on_same_path = table.or("retransmission", false, |node| {
        choice(node, "retransmission", &RETRANSMISSIONS)
    })?;
    let usual = StreamConfig::default();
    let receive_window_bytes = table.or("receive-window", usual.receive_window_bytes, |node| {
        let ByteCount(bytes) = quantity(node)?;
        let allowed = StreamConfig::INITIAL_WINDOW_BYTES..=StreamConfig::MAX_WINDOW_BYTES;
        if allowed.contains(&bytes) {
            Ok(bytes)
        } else {
            Err(node.mistake(format!("{bytes} B: allowed are 64 KiB to 1 GiB")))
        }
    })?;
    // Bytes within the peer's window must also be kept for retransmissions.
    let send_buffer_bytes = usual.send_buffer_bytes.max(receive_window_bytes as usize);
    let stream = StreamConfig {
        send_buffer_bytes,
        max_unsent_bytes: if has_several_paths {
            // Schedulers may read the backlog: all data that an application has for the buffer.
            send_buffer_bytes
        } else {
            // Simulated applications write as soon as they may: a burst of acknowledgements finds
            // enough data, whatever the size of segments.
            MAX_UNSENT_SEGMENTS * usize::from(session.fragment_bytes)
        },
        receive_window_bytes,
        carries_messages: false,
        reinjection: table.or("reinjection", usual.reinjection, |node| {
            choice(node, "reinjection", &REINJECTIONS).map(|policy| policy())
        })?,
        delayed_ack: table.or("delayed-ack", usual.delayed_ack, delayed_ack)?,
        ack_every: table.or("ack-every", usual.ack_every, |node| count(node, 1..=16))?,
        quick_acks: table.or("quick-acks", usual.quick_acks, |node| count(node, 0..=64))?,
        min_retransmission_timeout: table.or(
            "min-rto",
            usual.min_retransmission_timeout,
            positive_duration,
        )?,
        silence_question_interval: usual.silence_question_interval,
        initial_retransmission_timeout: table.or(
            "initial-rto",
            usual.initial_retransmission_timeout,
            positive_duration,
        )?,
    };
    Ok(Config { stream, ..session })
}

fn count(node: &Node, allowed: RangeInclusive<u64>) -> Read<u32> {
    Ok(integer(node, allowed)? as u32)
}

fn has_several_paths(table: &Table<'_>) -> Read<bool> {
    let paths = table.node("paths").map(list).transpose()?;
    Ok(paths.is_some_and(|paths| paths.len() > 1))
}
