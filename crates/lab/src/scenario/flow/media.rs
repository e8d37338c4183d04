//! Flows of media.

use anabranch_core::{Config, HandOut, Laboratory, MediaConfig, MtuDiscovery, SourceLimits};
use anabranch_schedulers::{FEC_POLICIES, fec_policy};
use anabranch_units::{Duration, Instant, Seed};
use anabranch_video::player::JitterBuffer;
use anabranch_video::source::{FrameSource, Paused, SourceConfig, SourceConfigError};

use super::source::{SOURCE, named_source, source};
use super::{Context, FlowKind, Kind, rules, session};
use crate::scenario::link::{SPAN_KEYS, repeated, span};
use crate::scenario::node::Node;
use crate::scenario::reader::{Read, Table, boolean, positive_duration, rate, share, text};
use crate::scenario::shape::{Key, Shape};

/// Frames over a session.
#[derive(Clone, Debug, PartialEq)]
pub struct MediaSpec {
    /// Set-up of both ends.
    pub config: Config,
    /// Source of the frames.
    pub source: SourceConfig,
    /// Beginnings and lengths of pauses.
    pub pauses: Vec<(Instant, Duration)>,
    /// Jitter buffer of its viewer's player.
    pub jitter_buffer: JitterBuffer,
}

impl MediaSpec {
    /// Returns the source of a flow that begins at `start`, with its pauses.
    ///
    /// # Errors
    /// The source's settings are invalid.
    pub fn build(
        &self,
        start: Instant,
        seed: Seed,
    ) -> Result<Box<dyn FrameSource>, SourceConfigError> {
        let source = self.source.build(start, seed)?;
        if self.pauses.is_empty() {
            return Ok(source);
        }
        Ok(Box::new(Paused::new(source, self.pauses.clone())))
    }
}

pub(super) const KIND: Kind = Kind {
    name: "media",
    keys: &[session::KEYS, KEYS],
    read,
};

const KEYS: &[Key] = &[
    Key::new("source", SOURCE, "where frames come from"),
    Key::new(
        "pauses",
        Shape::List(&Shape::Table(SPAN_KEYS)),
        "times without frames",
    ),
    Key::new(
        "deadline",
        Shape::Duration,
        "lifetime of a frame after its capture",
    ),
    Key::new(
        "reassembly-wait",
        Shape::Duration,
        "longest wait for the rest of a frame",
    ),
    Key::new(
        "target-fraction",
        Shape::Share,
        "the encoder's share of the estimated bandwidth",
    ),
    Key::new(
        "path-target-min",
        Shape::Rate,
        "least part of each path in the encoder's target",
    ),
    Key::new(
        "jitter-buffer",
        Shape::Any(&[Shape::Name(jitter_buffers), Shape::Duration]),
        "how the viewer's player delays frames",
    ),
    Key::new(
        "fec",
        Shape::NameWithOptions(fec_policies),
        "policy of forward error correction",
    ),
    Key::new(
        "mtu-discovery",
        Shape::Boolean,
        "whether packets begin at 1,228 B and grow to each path's MTU",
    ),
    Key::new(
        "endpoint",
        Shape::Name(rules::endpoints),
        "rules of this project that the sender follows",
    ),
    Key::new(
        "without-rules",
        Shape::List(&Shape::Name(rules::rules)),
        "rules that it does not follow, to see their effect",
    ),
];

fn jitter_buffers() -> Vec<String> {
    [JitterBuffer::Off, JitterBuffer::Adaptive]
        .map(|buffer| buffer.to_string())
        .into()
}

fn jitter_buffer(node: &Node) -> Read<JitterBuffer> {
    text(node)?
        .parse()
        .map_err(|_| node.mistake("expected \"off\", \"adaptive\", or a time"))
}

fn fec_policies() -> Vec<String> {
    FEC_POLICIES
        .iter()
        .map(|entry| entry.name.to_owned())
        .collect()
}

fn read(table: &Table<'_>, context: &Context<'_>) -> Read<FlowKind> {
    let source = match table.node("source") {
        Some(node) => source(node, context.files)?,
        None => named_source("ideal").expect("it is known"),
    };
    let session = session::config(table, context.algorithms, &session::LOSS_DETECTIONS)?;
    let config = Config {
        media: media_config(table, session.media.clone(), &source)?,
        laboratory: laboratory(table, session.laboratory.clone())?,
        mtu: mtu_discovery(table)?,
        ..session
    };
    Ok(FlowKind::Media(Box::new(MediaSpec {
        config,
        source,
        pauses: table.or("pauses", Vec::new(), |node| repeated(node, span))?,
        jitter_buffer: table.or("jitter-buffer", JitterBuffer::default(), jitter_buffer)?,
    })))
}

/// Reads the search for the path MTU, which is the product's over IPv4; without it, packets have
/// the size of `packet`.
fn mtu_discovery(table: &Table<'_>) -> Read<Option<MtuDiscovery>> {
    let is_wanted = table.or("mtu-discovery", false, boolean)?;
    Ok(is_wanted.then(|| MtuDiscovery::of_internet(IP_AND_UDP_BYTES)))
}

/// IPv4 and UDP.
const IP_AND_UDP_BYTES: u32 = 28;

/// Reads the settings of media that only experiments change; `usual` has those of every session.
fn laboratory(table: &Table<'_>, usual: Laboratory) -> Read<Laboratory> {
    Ok(Laboratory {
        rules: rules::read(table)?,
        path_target_min: table.or("path-target-min", usual.path_target_min, rate)?,
        ..usual
    })
}

fn media_config(table: &Table<'_>, usual: MediaConfig, source: &SourceConfig) -> Read<MediaConfig> {
    let deadline = table.or("deadline", usual.deadline, positive_duration)?;
    Ok(MediaConfig {
        hand_out: HandOut::InOrder,
        memory: usual.memory,
        includes_send_times: false,
        fec: table.or("fec", usual.fec, |node| {
            fec_policy(text(node)?).map_err(|error| node.mistake(error))
        })?,
        deadline,
        // As in both ends of a session, which derive them from one latency.
        reassembly_wait: table.or("reassembly-wait", deadline, positive_duration)?,
        ends_with_peer: false,
        target_fraction: table.or(
            "target-fraction",
            usual.target_fraction,
            |node| match share(node)? {
                0.0 => Err(node.mistake("the encoder needs a share above zero")),
                fraction => Ok(Some(fraction)),
            },
        )?,
        source: limits(source),
    })
}

/// Returns the limits of a source, as the transport knows them.
fn limits(source: &SourceConfig) -> SourceLimits {
    match *source {
        // Stored video is not adapted.
        SourceConfig::Gop {
            min_rate: min,
            max_rate: max,
            ..
        }
        | SourceConfig::Stored {
            min_rate: min,
            max_rate: max,
            ..
        } if min == max => SourceLimits::Fixed,
        SourceConfig::Ideal {
            min_rate: min,
            max_rate: max,
            ..
        }
        | SourceConfig::Gop {
            min_rate: min,
            max_rate: max,
            ..
        }
        | SourceConfig::Live {
            min_rate: min,
            max_rate: max,
            ..
        }
        | SourceConfig::Statistical {
            min_rate: min,
            max_rate: max,
            ..
        }
        | SourceConfig::Stored {
            min_rate: min,
            max_rate: max,
            ..
        }
        | SourceConfig::Trace {
            min_rate: min,
            max_rate: max,
            ..
        } => SourceLimits::Adaptive { min, max },
        SourceConfig::Packets {
            min_rate, max_rate, ..
        } if min_rate == max_rate => SourceLimits::Fixed,
        SourceConfig::Packets {
            min_rate: min,
            max_rate: max,
            ..
        } => SourceLimits::Adaptive { min, max },
        SourceConfig::Cbr { .. } | SourceConfig::Audio { .. } => SourceLimits::Fixed,
    }
}
