//! Sources of media as scenarios describe them.

use std::path::Path;
use std::sync::Arc;

use anabranch_units::{DataRate, Duration, Instant, Seed};
use anabranch_video::source::{FrameLadder, SourceConfig, SourceConfigError};

use super::session::bytes;
use crate::scenario::document::{Node, Value};
use crate::scenario::error::Mistake;
use crate::scenario::reader::{
    Read, Table, duration, integer, number, positive_duration, positive_rate, text,
};
use crate::scenario::shape::{Key, Shape};

/// What may stand at the key "source".
pub(super) const SOURCE: Shape = Shape::Any(&[
    Shape::Name(source_names),
    Shape::Table(IDEAL_KEYS),
    Shape::Table(GOP_KEYS),
    Shape::Table(CBR_KEYS),
    Shape::Table(STATISTICAL_KEYS),
    Shape::Table(AUDIO_KEYS),
    Shape::Table(PACKETS_KEYS),
    Shape::Table(TRACE_KEYS),
    Shape::Table(HYBRID_KEYS),
]);

fn source_names() -> Vec<String> {
    SourceConfig::NAMES.map(str::to_owned).to_vec()
}

/// The key "kind" of a table that is about one kind only.
const fn kind(name: fn() -> Vec<String>) -> Key {
    Key::required("kind", Shape::Name(name), "the model")
}

const FPS: Key = Key::new("fps", Shape::Integer(1, 1_000), "frames per second");
const MIN: Key = Key::new("min", Shape::Rate, "lowest bitrate");
const MAX: Key = Key::new("max", Shape::Rate, "highest bitrate");
const RATE: Key = Key::new("rate", Shape::Rate, "the bitrate");
const REACTION: Key = Key::new(
    "reaction",
    Shape::Duration,
    "least time between two changes of the bitrate",
);
const FILE: Key = Key::required(
    "file",
    Shape::Text,
    "frame sizes (CSV), beside the scenario",
);

const IDEAL_KEYS: &[Key] = &[kind(|| vec!["ideal".to_owned()]), FPS, MIN, MAX];
const GOP_KEYS: &[Key] = &[
    kind(|| vec!["gop".to_owned()]),
    FPS,
    MIN,
    MAX,
    Key::new(
        "key-interval",
        Shape::Duration,
        "from one key frame to the next",
    ),
    Key::new(
        "key-ratio",
        Shape::Number(1.0, 1_000.0),
        "a key frame's size over another's",
    ),
];
const CBR_KEYS: &[Key] = &[kind(|| vec!["cbr".to_owned()]), FPS, RATE];
const STATISTICAL_KEYS: &[Key] = &[kind(|| vec!["rfc8593".to_owned()]), FPS, MIN, MAX, REACTION];
const AUDIO_KEYS: &[Key] = &[
    kind(|| vec!["audio".to_owned()]),
    RATE,
    Key::new("interval", Shape::Duration, "from one frame to the next"),
];
const PACKETS_KEYS: &[Key] = &[
    kind(|| vec!["packets".to_owned()]),
    Key::new("size", Shape::Amount, "of a packet"),
    RATE,
    MIN,
    MAX,
];
const TRACE_KEYS: &[Key] = &[kind(|| vec!["trace".to_owned()]), FPS, MIN, MAX, FILE];
const HYBRID_KEYS: &[Key] = &[
    kind(|| vec!["hybrid".to_owned()]),
    FPS,
    MIN,
    MAX,
    REACTION,
    FILE,
];

/// The keys of the model called `name`.
fn keys_of(name: &str) -> Option<&'static [Key]> {
    Some(match name {
        "ideal" => IDEAL_KEYS,
        "gop" => GOP_KEYS,
        "cbr" => CBR_KEYS,
        "rfc8593" => STATISTICAL_KEYS,
        "audio" => AUDIO_KEYS,
        "packets" => PACKETS_KEYS,
        "trace" => TRACE_KEYS,
        "hybrid" => HYBRID_KEYS,
        _ => return None,
    })
}

/// The source of that name with its usual settings.
pub(super) fn named_source(name: &str) -> Result<SourceConfig, SourceConfigError> {
    name.parse()
}

/// The source at `node`, whose files lie in `folder`.
pub(super) fn source(node: &Node, folder: &Path) -> Read<SourceConfig> {
    if let Value::Text(name) = &node.value {
        return named_source(name).map_err(|error| node.mistake(error));
    }
    let kind = match &node.value {
        Value::Table(entries) => entries.iter().find(|(key, _)| key == "kind"),
        _ => return Err(node.mistake("expected a source's name, or a table of its settings")),
    };
    let (_, kind) = kind.ok_or_else(|| node.mistake("the key \"kind\" is missing"))?;
    let name = text(kind)?;
    let unknown = || {
        let name = name.to_owned();
        kind.mistake(SourceConfigError::UnknownName { name })
    };
    let table = Table::of(node, keys_of(name).ok_or_else(unknown)?)?;
    let mut source = usual(name, &table, folder)?;
    set(&mut source, &table)?;
    let refused = |error: SourceConfigError| -> Mistake { node.mistake(error) };
    source
        .build(Instant::ZERO, Seed::default())
        .map_err(refused)?;
    Ok(source)
}

/// The frame sizes of the file that the table names.
fn ladder(table: &Table<'_>, folder: &Path) -> Read<Arc<FrameLadder>> {
    let ladder = table.required("file", |node| {
        let path = folder.join(text(node)?);
        let failed =
            |error: &dyn std::fmt::Display| node.mistake(format!("{}: {error}", path.display()));
        let text = std::fs::read_to_string(&path).map_err(|error| failed(&error))?;
        FrameLadder::parse(&text).map_err(|error| failed(&error))
    })?;
    Ok(Arc::new(ladder))
}

/// The source called `name` as it is without settings. One that plays a file keeps, if not told
/// otherwise, to the bitrates in it.
fn usual(name: &str, table: &Table<'_>, folder: &Path) -> Read<SourceConfig> {
    if !SourceConfig::NAMES_WITH_FILE.contains(&name) {
        return named_source(name).map_err(|error| table.mistake("kind", error));
    }
    let ladder = ladder(table, folder)?;
    let (min_rate, max_rate) = ladder.range();
    Ok(match name {
        "trace" => SourceConfig::Trace {
            frames_per_second: 25,
            min_rate,
            max_rate,
            ladder,
        },
        _ => SourceConfig::Statistical {
            frames_per_second: 30,
            min_rate,
            max_rate,
            reaction: Duration::from_millis(200),
            ladder: Some(ladder),
        },
    })
}

/// Changes those settings of a source that its table has.
fn set(source: &mut SourceConfig, table: &Table<'_>) -> Read<()> {
    let set_rate = |key, value: &mut DataRate| {
        *value = table.or(key, *value, positive_rate)?;
        Ok(())
    };
    let fps = table.optional("fps", |node| integer(node, 1..=1_000_u32))?;
    match source {
        SourceConfig::Ideal {
            frames_per_second,
            min_rate,
            max_rate,
        }
        | SourceConfig::Gop {
            frames_per_second,
            min_rate,
            max_rate,
            ..
        }
        | SourceConfig::Statistical {
            frames_per_second,
            min_rate,
            max_rate,
            ..
        }
        | SourceConfig::Trace {
            frames_per_second,
            min_rate,
            max_rate,
            ..
        } => {
            *frames_per_second = fps.unwrap_or(*frames_per_second);
            set_rate("min", min_rate)?;
            set_rate("max", max_rate)?;
        }
        SourceConfig::Cbr {
            frames_per_second,
            rate,
        } => {
            *frames_per_second = fps.unwrap_or(*frames_per_second);
            set_rate("rate", rate)?;
        }
        SourceConfig::Audio { rate, interval } => {
            set_rate("rate", rate)?;
            *interval = table.or("interval", *interval, positive_duration)?;
        }
        SourceConfig::Packets {
            packet_bytes,
            min_rate,
            max_rate,
        } => {
            let size = |node| bytes(node, 1..=65_535).map(|bytes| bytes as u32);
            *packet_bytes = table.or("size", *packet_bytes, size)?;
            set_rate("rate", max_rate)?;
            *min_rate = *max_rate;
            set_rate("min", min_rate)?;
            set_rate("max", max_rate)?;
        }
    }
    match source {
        SourceConfig::Gop {
            frames_per_second,
            key_frame_interval,
            key_frame_ratio,
            ..
        } => {
            let interval = table.or("key-interval", Duration::from_secs(2), positive_duration)?;
            *key_frame_interval = frames_in(interval, *frames_per_second);
            let ratio = |node| number(node, 1.0..=1_000.0);
            *key_frame_ratio = table.or("key-ratio", *key_frame_ratio, ratio)?;
        }
        SourceConfig::Statistical { reaction, .. } => {
            *reaction = table.or("reaction", *reaction, duration)?;
        }
        _ => {}
    }
    Ok(())
}

fn frames_in(span: Duration, frames_per_second: u32) -> u32 {
    let frames = span.as_secs_f64() * f64::from(frames_per_second);
    (frames + 0.5).clamp(1.0, f64::from(u32::MAX)) as u32
}
