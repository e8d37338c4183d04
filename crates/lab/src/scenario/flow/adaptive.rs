//! Flows of segmented video whose viewer chooses bitrates: `adaptive-viewer`.

use anabranch_core::Config;
use anabranch_units::{DataRate, Duration};
use anabranch_video::adaptive_player::{SegmentBuffer, SegmentedVideo};

use super::download::{CACHING, LENGTH};
use super::{Context, FlowKind, Kind, session, stream};
use crate::scenario::node::Node;
use crate::scenario::reader::{Read, Table, list_of, positive_duration, positive_rate};
use crate::scenario::shape::{Key, Shape};

/// Segments over a stream, and their viewer.
#[derive(Clone, Debug, PartialEq)]
pub struct AdaptiveSpec {
    /// Set-up of both ends.
    pub config: Config,
    /// The segments.
    pub video: SegmentedVideo,
    /// Buffer of the viewer.
    pub buffer: SegmentBuffer,
}

pub(super) const KIND: Kind = Kind {
    name: "adaptive-viewer",
    keys: &[session::KEYS, stream::KEYS, KEYS],
    read,
};

const KEYS: &[Key] = &[
    LENGTH,
    CACHING,
    Key::new(
        "ladder",
        Shape::List(&Shape::Rate),
        "bitrates that the viewer can choose, ascending",
    ),
    Key::new("segment", Shape::Duration, "length of a segment"),
    Key::new("buffer", Shape::Duration, "most that a viewer buffers"),
];

/// 1, 2.5, 5 and 8 Mbit/s, in kbit/s; chosen, about 360p to 1080p.
const LADDER: [u64; 4] = [1_000, 2_500, 5_000, 8_000];
const SEGMENT: Duration = Duration::from_secs(2);
const BUFFER: Duration = Duration::from_secs(30);

fn read(table: &Table<'_>, context: &Context<'_>) -> Read<FlowKind> {
    let segment = table.or("segment", SEGMENT, positive_duration)?;
    let buffer = SegmentBuffer {
        caching: table.or("caching", segment, positive_duration)?,
        most: table.or("buffer", BUFFER, positive_duration)?,
    };
    if buffer.most < buffer.caching + segment {
        let message = "must exceed the caching by at least a segment";
        return Err(table.mistake("buffer", message));
    }
    let length = table.required("length", positive_duration)?;
    if length < segment {
        return Err(table.mistake("length", "is shorter than a segment"));
    }
    let usual = LADDER.map(DataRate::from_kilobits_per_second).to_vec();
    Ok(FlowKind::Adaptive(Box::new(AdaptiveSpec {
        config: stream::config(table, context.algorithms)?,
        video: SegmentedVideo {
            ladder: table.or("ladder", usual, ladder)?,
            segment,
            length,
        },
        buffer,
    })))
}

fn ladder(node: &Node) -> Read<Vec<DataRate>> {
    let rates: Vec<DataRate> = list_of(node, positive_rate)?;
    if rates.is_sorted_by(|one, next| one < next) && !rates.is_empty() {
        Ok(rates)
    } else {
        Err(node.mistake("needs one bitrate or more, in ascending order"))
    }
}
