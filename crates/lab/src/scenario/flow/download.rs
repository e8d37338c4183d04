//! Flows of a film that is watched while it is downloaded: `download`.

use anabranch_core::Config;
use anabranch_units::{Duration, Instant, Seed};
use anabranch_video::source::{SourceConfig, SourceConfigError};
use anabranch_video::stored_player::StoredVideo;

use super::source::{SOURCE, source};
use super::{Context, FlowKind, Kind, session, stream};
use crate::scenario::reader::{Read, Table, positive_duration};
use crate::scenario::shape::{Key, Shape};

/// A film over a stream, and its viewer.
#[derive(Clone, Debug, PartialEq)]
pub struct DownloadSpec {
    /// Set-up of both ends.
    pub config: Config,
    /// What the film is made of: so much of this source at its highest bitrate.
    pub source: SourceConfig,
    /// How long the film is.
    pub length: Duration,
    /// How much of it must be there before it is played.
    pub caching: Duration,
}

impl DownloadSpec {
    /// The film.
    ///
    /// # Errors
    /// [`SourceConfigError`].
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
    Key::new("source", SOURCE, "what the film is made of"),
    Key::new("length", Shape::Duration, "of the film"),
    Key::new(
        "caching",
        Shape::Duration,
        "how much of the film must be there before it is played",
    ),
];

/// As VLC waits for the network.
const CACHING: Duration = Duration::from_secs(1);

fn read(table: &Table<'_>, context: &Context<'_>) -> Read<FlowKind> {
    Ok(FlowKind::Download(Box::new(DownloadSpec {
        config: stream::config(table)?,
        source: table.required("source", |node| source(node, context.files))?,
        length: table.required("length", positive_duration)?,
        caching: table.or("caching", CACHING, positive_duration)?,
    })))
}
