//! Flows of media.

use anabranch_core::recovery::LossDetection;
use anabranch_core::{Config, MediaConfig, SourceLimits};
use anabranch_units::{Duration, Instant};
use anabranch_video::source::{SourceConfig, SourceConfigError};

use super::{FlowKind, Kind, session};
use crate::scenario::document::{Node, Value};
use crate::scenario::error::Mistake;
use crate::scenario::reader::{
    Read, Table, integer, number, positive_duration, positive_rate, share, text,
};

/// Frames over a session.
#[derive(Clone, Debug, PartialEq)]
pub struct MediaSpec {
    /// Set-up of both ends.
    pub config: Config,
    /// Where the frames come from.
    pub source: SourceConfig,
}

pub(super) const KIND: Kind = Kind {
    name: "media",
    keys: &[session::KEYS, KEYS],
    read,
};

const KEYS: &[&str] = &["source", "deadline", "reassembly-wait", "target-fraction"];

fn read(table: &Table<'_>) -> Read<FlowKind> {
    let source = table.or(
        "source",
        named_source("ideal").expect("it is known"),
        source,
    )?;
    let session = session::config(table, &LossDetection::NAMES)?;
    let config = Config {
        media: media_config(table, session.media, &source)?,
        ..session
    };
    Ok(FlowKind::Media(MediaSpec { config, source }))
}

fn media_config(table: &Table<'_>, usual: MediaConfig, source: &SourceConfig) -> Read<MediaConfig> {
    Ok(MediaConfig {
        deadline: table.or("deadline", usual.deadline, positive_duration)?,
        reassembly_wait: table.or("reassembly-wait", usual.reassembly_wait, positive_duration)?,
        target_fraction: table.or(
            "target-fraction",
            usual.target_fraction,
            |node| match share(node)? {
                0.0 => Err(node.mistake("the encoder needs a share above zero")),
                fraction => Ok(fraction),
            },
        )?,
        source: limits(source),
    })
}

/// What the transport may know of a source.
fn limits(source: &SourceConfig) -> SourceLimits {
    match *source {
        SourceConfig::Ideal {
            min_rate: min,
            max_rate: max,
            ..
        }
        | SourceConfig::Gop {
            min_rate: min,
            max_rate: max,
            ..
        } => SourceLimits::Adaptive { min, max },
        SourceConfig::Cbr { .. } => SourceLimits::Fixed,
    }
}

fn named_source(name: &str) -> Result<SourceConfig, SourceConfigError> {
    name.parse()
}

fn source(node: &Node) -> Read<SourceConfig> {
    let named = |node: &Node| named_source(text(node)?).map_err(|error| node.mistake(error));
    if let Value::Text(_) = node.value {
        return named(node);
    }
    let all = [
        "kind",
        "fps",
        "min",
        "max",
        "key-interval",
        "key-ratio",
        "rate",
    ];
    let usual = Table::of(node, &all)?.required("kind", named)?;
    let fps = |node| integer(node, 1..=1_000_u32);
    let source = match usual {
        SourceConfig::Ideal {
            frames_per_second,
            min_rate,
            max_rate,
        } => {
            let table = Table::of(node, &["kind", "fps", "min", "max"])?;
            SourceConfig::Ideal {
                frames_per_second: table.or("fps", frames_per_second, fps)?,
                min_rate: table.or("min", min_rate, positive_rate)?,
                max_rate: table.or("max", max_rate, positive_rate)?,
            }
        }
        SourceConfig::Gop {
            frames_per_second,
            min_rate,
            max_rate,
            key_frame_ratio,
            ..
        } => {
            let table = Table::of(
                node,
                &["kind", "fps", "min", "max", "key-interval", "key-ratio"],
            )?;
            let frames_per_second = table.or("fps", frames_per_second, fps)?;
            let interval = Duration::from_secs(2);
            let interval = table.or("key-interval", interval, positive_duration)?;
            SourceConfig::Gop {
                frames_per_second,
                min_rate: table.or("min", min_rate, positive_rate)?,
                max_rate: table.or("max", max_rate, positive_rate)?,
                key_frame_interval: frames_in(interval, frames_per_second),
                key_frame_ratio: table.or("key-ratio", key_frame_ratio, |node| {
                    number(node, 1.0..=1_000.0)
                })?,
            }
        }
        SourceConfig::Cbr {
            frames_per_second,
            rate,
        } => {
            let table = Table::of(node, &["kind", "fps", "rate"])?;
            SourceConfig::Cbr {
                frames_per_second: table.or("fps", frames_per_second, fps)?,
                rate: table.or("rate", rate, positive_rate)?,
            }
        }
    };
    let refused = |error: SourceConfigError| -> Mistake { node.mistake(error) };
    source.build(Instant::ZERO).map_err(refused)?;
    Ok(source)
}

fn frames_in(span: Duration, frames_per_second: u32) -> u32 {
    let frames = span.as_secs_f64() * f64::from(frames_per_second);
    (frames + 0.5).clamp(1.0, f64::from(u32::MAX)) as u32
}
