//! Flows of a film that is watched while it is downloaded: `download`.

use anabranch_core::Config;
use anabranch_units::{Duration, Instant, Seed};
use anabranch_video::source::{SourceConfig, SourceConfigError};
use anabranch_video::stored_player::{Buffering, StoredVideo};

use super::source::{SOURCE, source};
use super::{Context, FlowKind, Kind, session, stream};
use crate::scenario::reader::{Read, Table, positive_duration};
use crate::scenario::shape::{Key, Shape};

/// A film over a stream, and its viewer.
#[derive(Clone, Debug, PartialEq)]
pub struct DownloadSpec {
    /// Set-up of both ends.
    pub config: Config,
    /// Source of the film: `length` of it at its highest bitrate.
    pub source: SourceConfig,
    /// Length of the film.
    pub length: Duration,
    /// Buffer of its player.
    pub buffering: Buffering,
}

impl DownloadSpec {
    /// Returns the film of a run with this seed.
    ///
    /// # Errors
    /// [`SourceConfigError`], for a source that cannot be.
    pub fn film(&self, seed: Seed) -> Result<StoredVideo, SourceConfigError> {
        let mut source = self.source.build(Instant::ZERO, seed)?;
        Ok(StoredVideo::record(&mut *source, self.length))
    }
}

pub(super) const KIND: Kind = Kind {
    name: "download",
    keys: &[session::KEYS, stream::KEYS, KEYS],
    read,
};

const KEYS: &[Key] = &[
    Key::new("source", SOURCE, "source of the film"),
    LENGTH,
    CACHING,
    Key::new(
        "read-ahead",
        Shape::Duration,
        "length of buffered film at which the player takes no more",
    ),
];

pub(super) const LENGTH: Key = Key::new("length", Shape::Duration, "length of the film");
pub(super) const CACHING: Key = Key::new(
    "caching",
    Shape::Duration,
    "length of film that must have arrived before it is played",
);

fn read(table: &Table<'_>, context: &Context<'_>) -> Read<FlowKind> {
    let usual = Buffering::default();
    Ok(FlowKind::Download(Box::new(DownloadSpec {
        config: stream::config(table, context.algorithms)?,
        source: table.required("source", |node| source(node, context.files))?,
        length: table.required("length", positive_duration)?,
        buffering: Buffering {
            caching: table.or("caching", usual.caching, positive_duration)?,
            read_ahead: table.or("read-ahead", usual.read_ahead, positive_duration)?,
        },
    })))
}
