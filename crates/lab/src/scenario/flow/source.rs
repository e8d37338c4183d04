//! Sources of media as scenarios describe them.

use std::sync::Arc;

use anabranch_units::{DataRate, Duration, Instant, Seed};
use anabranch_video::frame_trace::{self, FrameTrace};
use anabranch_video::source::{
    FrameLadder, IpbPattern, IpbStructure, RateControl, SourceConfig, SourceConfigError,
};

use crate::scenario::error::Mistake;
use crate::scenario::files::Files;
use crate::scenario::node::{Node, Value};
use crate::scenario::reader::{
    Read, Table, boolean, bytes, duration, integer, number, positive_duration, positive_rate, text,
};
use crate::scenario::shape::{Key, Shape};
use crate::scenario::trace_format::{self, TraceFormat};

/// Values of the key "source".
pub(super) const SOURCE: Shape = Shape::Any(&[
    Shape::Name(source_names),
    Shape::Table(IDEAL_KEYS),
    Shape::Table(GOP_KEYS),
    Shape::Table(LIVE_KEYS),
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

/// Returns the key "kind" of a table that describes one kind only.
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
const KEY_INTERVAL: Key = Key::new(
    "key-interval",
    Shape::Duration,
    "time from one key frame to the next",
);
const KEY_RATIO: Key = Key::new(
    "key-ratio",
    Shape::Number(1.0, 1_000.0),
    "a key frame's size over another's",
);
const KEY_ON_LOSS: Key = Key::new(
    "key-on-loss",
    Shape::Boolean,
    "whether there is a key frame at once where a frame was given up",
);
const NOISE: Key = Key::new(
    "noise",
    Shape::Number(0.0, 2.0),
    "standard deviation of the logarithm of a frame's size",
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
    RATE,
    KEY_INTERVAL,
    KEY_RATIO,
    KEY_ON_LOSS,
    Key::new(
        "pattern",
        Shape::Text,
        "frames in the order of display, as IBBP: sizes vary as those of stored video",
    ),
    Key::new(
        "b-frames",
        Shape::Integer(0, 16),
        "instead of a pattern, its B-frames in a row",
    ),
    Key::new(
        "ratio",
        Shape::Text,
        "mean sizes of I-, P- and B-frames, as 6:2:1",
    ),
    NOISE,
    Key::new(
        "variation",
        Shape::Number(0.0, 2.0),
        "logarithmic standard deviation of the bytes from one key frame to the next",
    ),
    Key::new(
        "variation-time",
        Shape::Duration,
        "time in which the correlation of these sizes falls to 1/e",
    ),
];
const LIVE_KEYS: &[Key] = &[
    kind(|| vec!["live".to_owned()]),
    FPS,
    MIN,
    MAX,
    KEY_INTERVAL,
    KEY_RATIO,
    KEY_ON_LOSS,
    NOISE,
    Key::new(
        "buffer",
        Shape::Duration,
        "of the rate control: a fall is followed once the excess has filled it",
    ),
];
const CBR_KEYS: &[Key] = &[kind(|| vec!["cbr".to_owned()]), FPS, RATE];
const STATISTICAL_KEYS: &[Key] = &[kind(|| vec!["rfc8593".to_owned()]), FPS, MIN, MAX, REACTION];
const AUDIO_KEYS: &[Key] = &[
    kind(|| vec!["audio".to_owned()]),
    RATE,
    Key::new(
        "interval",
        Shape::Duration,
        "time from one frame to the next",
    ),
];
const PACKETS_KEYS: &[Key] = &[
    kind(|| vec!["packets".to_owned()]),
    Key::new("size", Shape::Amount, "size of a packet"),
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

/// Returns the keys of the model called `name`.
fn keys_of(name: &str) -> Option<&'static [Key]> {
    Some(match name {
        "ideal" => IDEAL_KEYS,
        "gop" => GOP_KEYS,
        "live" => LIVE_KEYS,
        "cbr" => CBR_KEYS,
        "rfc8593" => STATISTICAL_KEYS,
        "audio" => AUDIO_KEYS,
        "packets" => PACKETS_KEYS,
        "trace" => TRACE_KEYS,
        "hybrid" => HYBRID_KEYS,
        _ => return None,
    })
}

/// Returns the source of that name with its usual settings.
pub(super) fn named_source(name: &str) -> Result<SourceConfig, SourceConfigError> {
    name.parse()
}

/// Reads the source at `node`, whose file is one of `files`.
pub(super) fn source(node: &Node, files: Files<'_>) -> Read<SourceConfig> {
    if let Value::Text(name) = &node.value {
        return named_source(name).map_err(|error| node.mistake(error));
    }
    let kind = match &node.value {
        Value::Table(entries) => entries.iter().find(|(key, _)| key == "kind"),
        _ => return Err(node.mistake("expected a source's name, or a table of its settings")),
    };
    let (_, kind) = kind.ok_or_else(|| node.mistake("the key \"kind\" is missing"))?;
    let name = text(kind)?;
    let table = Table::of(
        node,
        keys_of(name).ok_or_else(|| {
            kind.mistake(SourceConfigError::UnknownName {
                name: name.to_owned(),
            })
        })?,
    )?;
    let mut source = usual(name, &table, files)?;
    set(&mut source, &table)?;
    source
        .build(Instant::ZERO, Seed::default())
        .map_err(|error| -> Mistake { node.mistake(error) })?;
    Ok(source)
}

/// Contents of a file of frames.
enum Frames {
    /// Sizes at several bitrates.
    Ladder(Arc<FrameLadder>),
    /// A film, as `anabranch-lab trace` writes it.
    Film(Arc<FrameTrace>),
}

/// Reads the frames of the file that the table of the model `name` names.
fn frames(name: &str, table: &Table<'_>, files: Files<'_>) -> Read<Frames> {
    table.required("file", |node| {
        let (path, text) = files.read(node)?;
        let heading = text.lines().find(|line| !line.starts_with('#'));
        if name == "trace" && heading.is_some_and(|line| line.trim() == frame_trace::HEADING) {
            let film = FrameTrace::parse(&text)
                .map_err(|error| node.mistake(format!("{path}: {error}")))?;
            return Ok(Frames::Film(Arc::new(film)));
        }
        let wanted = match name {
            "trace" => &[TraceFormat::FrameSizes, TraceFormat::Film][..],
            _ => &[TraceFormat::FrameSizes],
        };
        let ladder = FrameLadder::parse(&text).map_err(|error| {
            let mistake = trace_format::mistake(&error, wanted, &text);
            node.mistake(format!("{path}: {mistake}"))
        })?;
        Ok(Frames::Ladder(Arc::new(ladder)))
    })
}

/// Returns the source called `name` without settings. One that plays a file keeps to the bitrates
/// in it by default.
fn usual(name: &str, table: &Table<'_>, files: Files<'_>) -> Read<SourceConfig> {
    if !SourceConfig::NAMES_WITH_FILE.contains(&name) {
        return named_source(name).map_err(|error| table.mistake("kind", error));
    }
    let ladder = match frames(name, table, files)? {
        Frames::Ladder(ladder) => ladder,
        Frames::Film(film) => {
            let rate = film.mean_rate();
            return Ok(SourceConfig::Stored {
                min_rate: rate,
                max_rate: rate,
                film,
            });
        }
    };
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

fn set_rate(table: &Table<'_>, key: &'static str, value: &mut DataRate) -> Read<()> {
    *value = table.or(key, *value, positive_rate)?;
    Ok(())
}

/// Changes those settings of a source that its table has.
fn set(source: &mut SourceConfig, table: &Table<'_>) -> Read<()> {
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
        | SourceConfig::Live {
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
            set_rate(table, "min", min_rate)?;
            set_rate(table, "max", max_rate)?;
        }
        SourceConfig::Stored {
            min_rate, max_rate, ..
        } => {
            if let Some(node) = table.node("fps") {
                return Err(node.mistake("the file has the frames' times"));
            }
            set_rate(table, "min", min_rate)?;
            set_rate(table, "max", max_rate)?;
        }
        SourceConfig::Cbr {
            frames_per_second,
            rate,
        } => {
            *frames_per_second = fps.unwrap_or(*frames_per_second);
            set_rate(table, "rate", rate)?;
        }
        SourceConfig::Audio { .. } => {}
        SourceConfig::Packets {
            packet_bytes,
            min_rate,
            max_rate,
        } => {
            *packet_bytes = table.or("size", *packet_bytes, packet_size)?;
            set_rate(table, "rate", max_rate)?;
            *min_rate = *max_rate;
            set_rate(table, "min", min_rate)?;
            set_rate(table, "max", max_rate)?;
        }
    }
    set_own(source, table)
}

fn packet_size(node: &Node) -> Read<u32> {
    bytes(node, 1..=65_535).map(|bytes| bytes as u32)
}

/// Changes properties that only one model has.
fn set_own(source: &mut SourceConfig, table: &Table<'_>) -> Read<()> {
    match source {
        SourceConfig::Gop { .. } => set_gop(source, table)?,
        SourceConfig::Live {
            frames_per_second,
            control,
            ..
        } => set_live(control, *frames_per_second, table)?,
        SourceConfig::Statistical { reaction, .. } => {
            *reaction = table.or("reaction", *reaction, duration)?;
        }
        SourceConfig::Audio { rate, interval } => {
            *rate = table.or("rate", *rate, positive_rate)?;
            *interval = table.or("interval", *interval, positive_duration)?;
        }
        _ => {}
    }
    Ok(())
}

/// Changes the settings of a `gop` source that others do not have.
fn set_gop(source: &mut SourceConfig, table: &Table<'_>) -> Read<()> {
    let SourceConfig::Gop {
        frames_per_second,
        min_rate,
        max_rate,
        key_frame_interval,
        key_frame_ratio,
        has_key_on_loss,
        structure,
    } = source
    else {
        return Ok(());
    };
    if let Some(rate) = table.optional("rate", positive_rate)? {
        if let Some(node) = table.node("min").or(table.node("max")) {
            return Err(node.mistake("a source of one rate has no range of them"));
        }
        (*min_rate, *max_rate) = (rate, rate);
    }
    *structure = ipb_structure(table)?;
    let interval = table.or("key-interval", Duration::from_secs(2), positive_duration)?;
    *key_frame_interval = frames_in(interval, *frames_per_second);
    *key_frame_ratio = table.or("key-ratio", *key_frame_ratio, |node| {
        number(node, 1.0..=1_000.0)
    })?;
    *has_key_on_loss = table.or("key-on-loss", *has_key_on_loss, boolean)?;
    Ok(())
}

/// Changes the settings of a `live` source that others do not have.
fn set_live(control: &mut RateControl, frames_per_second: u32, table: &Table<'_>) -> Read<()> {
    let interval = table.or("key-interval", Duration::from_secs(2), positive_duration)?;
    *control = RateControl {
        buffer: table.or("buffer", control.buffer, duration)?,
        key_frame_interval: frames_in(interval, frames_per_second),
        key_frame_ratio: table.or("key-ratio", control.key_frame_ratio, |node| {
            number(node, 1.0..=1_000.0)
        })?,
        has_key_on_loss: table.or("key-on-loss", control.has_key_on_loss, boolean)?,
        noise: table.or("noise", control.noise, |node| number(node, 0.0..=2.0))?,
    };
    Ok(())
}

/// Returns the frame structure of a `gop` source, if it has a pattern.
fn ipb_structure(table: &Table<'_>) -> Read<Option<IpbStructure>> {
    fn spread(node: &Node) -> Result<f64, Mistake> {
        number(node, 0.0..=2.0)
    }

    fn pattern(node: &Node) -> Result<IpbPattern, Mistake> {
        let pattern: Result<IpbPattern, _> = text(node)?.parse();
        pattern.map_err(|error| node.mistake(error))
    }
    let pattern = table.optional("pattern", pattern)?;
    let b_frames = table.optional("b-frames", |node| integer(node, 0..=16_u32))?;
    let b_frames = match (pattern, b_frames) {
        (Some(_), Some(_)) => {
            return Err(table.mistake("b-frames", "the pattern has the B-frames"));
        }
        (pattern, b_frames) => b_frames.or(pattern.map(|IpbPattern(b_frames)| b_frames)),
    };
    let Some(b_frames) = b_frames else {
        let mut keys = ["ratio", "noise", "variation", "variation-time"].into_iter();
        return match keys.find_map(|key| table.node(key)) {
            Some(node) => Err(node.mistake("this needs a pattern, such as IBBP")),
            None => Ok(None),
        };
    };
    if let Some(node) = table.node("key-ratio") {
        return Err(node.mistake("with a pattern, the key \"ratio\" gives all sizes"));
    }
    if let Some(node) = table.node("key-on-loss") {
        return Err(node.mistake("stored video, which a pattern is for, hears of no loss"));
    }
    let usual = IpbStructure::default();
    Ok(Some(IpbStructure {
        b_frames,
        ratio: table.or("ratio", usual.ratio, ratio)?,
        noise: table.or("noise", usual.noise, spread)?,
        variation: table.or("variation", usual.variation, spread)?,
        variation_time: table.or("variation-time", usual.variation_time, positive_duration)?,
    }))
}

/// Reads three sizes, as 6:2:1.
fn ratio(node: &Node) -> Read<[f64; 3]> {
    let parts: Option<Vec<f64>> = text(node)?
        .split(':')
        .map(|part| part.trim().parse().ok())
        .collect();
    parts
        .and_then(|parts| <[f64; 3]>::try_from(parts).ok())
        .ok_or_else(|| node.mistake("expected three numbers, as 6:2:1"))
}

fn frames_in(span: Duration, frames_per_second: u32) -> u32 {
    let frames = span.as_secs_f64() * f64::from(frames_per_second);
    (frames + 0.5).clamp(1.0, f64::from(u32::MAX)) as u32
}
