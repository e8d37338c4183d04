//! Flows of objects fetched one after the other: `short`.

use anabranch_core::Config;
use anabranch_sim::ShortObjects;
use anabranch_units::ByteCount;

use super::{Context, FlowKind, Kind, session, stream};
use crate::scenario::error::Mistake;
use crate::scenario::node::Node;
use crate::scenario::reader::{Read, Table, boolean, positive_duration, quantity};
use crate::scenario::shape::{Key, Shape};

/// Objects, each in a session of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct ShortSpec {
    /// Set-up of both ends of every session.
    pub config: Config,
    /// The objects.
    pub objects: ShortObjects,
}

pub(super) const KIND: Kind = Kind {
    name: "short",
    keys: &[session::KEYS, stream::KEYS, KEYS],
    read,
};

const KEYS: &[Key] = &[
    Key::new("min-bytes", Shape::Amount, "size of the smallest object"),
    Key::new("max-bytes", Shape::Amount, "size of the largest object"),
    Key::new(
        "mean-idle",
        Shape::Duration,
        "mean time from one object's end to the next object",
    ),
    Key::new(
        "starts-idle",
        Shape::Boolean,
        "whether it begins with such a wait",
    ),
];

fn read(table: &Table<'_>, context: &Context<'_>) -> Read<FlowKind> {
    fn bytes(node: &Node) -> Result<u64, Mistake> {
        quantity(node).map(|ByteCount(bytes)| bytes.max(1))
    }

    let usual = ShortObjects::default();
    let objects = ShortObjects {
        min_bytes: table.or("min-bytes", usual.min_bytes, bytes)?,
        max_bytes: table.or("max-bytes", usual.max_bytes, bytes)?,
        mean_idle: table.or("mean-idle", usual.mean_idle, positive_duration)?,
        starts_idle: table.or("starts-idle", usual.starts_idle, boolean)?,
    };
    if objects.max_bytes < objects.min_bytes {
        let node = table
            .node("max-bytes")
            .or(table.node("min-bytes"))
            .expect("the usual ones are in order");
        return Err(node.mistake("the largest object is smaller than the smallest"));
    }
    Ok(FlowKind::Short(Box::new(ShortSpec {
        config: stream::config(table, context.algorithms)?,
        objects,
    })))
}
