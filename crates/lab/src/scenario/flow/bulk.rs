//! Flows of a single stream: `bulk`.

use anabranch_core::Config;
use anabranch_units::ByteCount;

use super::{Context, FlowKind, Kind, session, stream};
use crate::scenario::reader::{Read, Table, quantity};
use crate::scenario::shape::{Key, Shape};

/// Bytes of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct BulkSpec {
    /// Set-up of both ends.
    pub config: Config,
    /// Number of bytes; `None`: without end.
    pub bytes: Option<u64>,
}

pub(super) const KIND: Kind = Kind {
    name: "bulk",
    keys: &[session::KEYS, stream::KEYS, KEYS],
    read,
};

const KEYS: &[Key] = &[Key::new(
    "bytes",
    Shape::Amount,
    "size of the stream; without end if missing",
)];

fn read(table: &Table<'_>, context: &Context<'_>) -> Read<FlowKind> {
    Ok(FlowKind::Bulk(Box::new(BulkSpec {
        config: stream::config(table, context.algorithms)?,
        bytes: table.optional("bytes", |node| match quantity(node)? {
            ByteCount(0) => Err(node.mistake("must be more than nothing")),
            ByteCount(bytes) => Ok(bytes),
        })?,
    })))
}
