//! Changes of a running program, as requests name them.

use serde::{Deserialize, Serialize};

/// A change. The name of its variant is the last part of the path, with `/` for `-`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// A sender's path changes.
    Path(PathChange),
    /// The range of a sender's target for its encoder changes.
    Target(TargetChange),
    /// The latency of a receiver's streams changes.
    Latency(LatencyChange),
    /// A stream gets another output.
    OutputAdd(OutputChange),
    /// A stream loses an output.
    OutputRemove(OutputChange),
    /// A recording begins.
    RecordingStart(RecordingChange),
    /// A recording ends.
    RecordingStop(RecordingChange),
    /// A sender's session ends.
    SessionEnd(SessionEnd),
    /// A sender that was kept out is let in again.
    SessionAllow(SessionAdmission),
    /// A receiver gets a link for another sender or phone.
    Link(LinkAddition),
    /// The file of --config is read again.
    Reload(Reload),
}

/// A change of a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathChange {
    /// At a receiver: the stream whose sender is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// Name of the path, or its number.
    pub path: String,
    /// Whether it is used at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<bool>,
    /// Whether it is paid for by volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metered: Option<bool>,
    /// Volume after which it stands by, as "10GB", or "none".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<String>,
    /// Maximum rate, as "3Mbit/s", or "none".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<String>,
}

/// A change of the range of the target for an encoder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetChange {
    /// At a receiver: the stream whose sender is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// Least bitrate, as "500kbit/s".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<String>,
    /// Greatest bitrate, as "6Mbit/s".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<String>,
}

/// A change of the latency.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyChange {
    /// Only this stream, until its session ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// The latency, as "800 ms".
    pub latency: String,
}

/// An output that is added or removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputChange {
    /// The stream; may be left out if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// The output: udp://…, srt://… or rist://….
    pub output: String,
}

/// A recording that begins or ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordingChange {
    /// The stream; may be left out if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
}

/// The end of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionEnd {
    /// The stream, or the name of a proxy.
    pub stream: String,
    /// Time for which its key is not let in, as "10 min"; 60 s if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_out: Option<String>,
}

/// The early end of the time for which a key is kept out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionAdmission {
    /// The stream, or the name of a proxy.
    pub stream: String,
}

/// A link for a sender of our own protocol, or for a phone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkAddition {
    /// Name of the stream. A phone needs one; a sender is called by its key without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// App of the phone: `moblin`, `larix` or `irlpro`; left out for a sender of our own protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phone: Option<String>,
}

/// Another reading of the file of --config.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reload {}

impl Change {
    /// Paths of all changes, below `/control/`, with their names.
    pub const PATHS: [(&str, &str); 11] = [
        ("path", "path"),
        ("target", "target"),
        ("latency", "latency"),
        ("output/add", "output-add"),
        ("output/remove", "output-remove"),
        ("recording/start", "recording-start"),
        ("recording/stop", "recording-stop"),
        ("session/end", "session-end"),
        ("session/allow", "session-allow"),
        ("link", "link"),
        ("reload", "reload"),
    ];

    /// Reads the body of a request for a path below `/control/`.
    ///
    /// # Errors
    /// Words about its mistake.
    pub fn read(path: &str, body: &[u8]) -> Result<Change, String> {
        fn of<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, String> {
            serde_json::from_slice(body).map_err(|error| error.to_string())
        }
        Ok(match path {
            "path" => Change::Path(of(body)?),
            "target" => Change::Target(of(body)?),
            "latency" => Change::Latency(of(body)?),
            "output/add" => Change::OutputAdd(of(body)?),
            "output/remove" => Change::OutputRemove(of(body)?),
            "recording/start" => Change::RecordingStart(of(body)?),
            "recording/stop" => Change::RecordingStop(of(body)?),
            "session/end" => Change::SessionEnd(of(body)?),
            "session/allow" => Change::SessionAllow(of(body)?),
            "link" => Change::Link(of(body)?),
            "reload" => Change::Reload(of(body)?),
            _ => return Err("no such change".to_owned()),
        })
    }

    /// Returns the name of the change.
    pub fn name(&self) -> &'static str {
        match self {
            Change::Path(_) => "path",
            Change::Target(_) => "target",
            Change::Latency(_) => "latency",
            Change::OutputAdd(_) => "output-add",
            Change::OutputRemove(_) => "output-remove",
            Change::RecordingStart(_) => "recording-start",
            Change::RecordingStop(_) => "recording-stop",
            Change::SessionEnd(_) => "session-end",
            Change::SessionAllow(_) => "session-allow",
            Change::Link(_) => "link",
            Change::Reload(_) => "reload",
        }
    }

    /// Returns the path of the change in an address.
    pub fn path(&self) -> String {
        let name = self.name();
        let paths = Change::PATHS.iter();
        let path = { paths }.find(|(_, its)| *its == name);
        format!("/control/{}", path.map_or(name, |(path, _)| path))
    }

    /// Returns the stream that it is about, if it names one.
    pub fn stream(&self) -> Option<&str> {
        match self {
            Change::Path(change) => change.stream.as_deref(),
            Change::Target(change) => change.stream.as_deref(),
            Change::Latency(change) => change.stream.as_deref(),
            Change::OutputAdd(change) | Change::OutputRemove(change) => change.stream.as_deref(),
            Change::RecordingStart(change) | Change::RecordingStop(change) => {
                change.stream.as_deref()
            }
            Change::SessionEnd(change) => Some(&change.stream),
            Change::SessionAllow(change) => Some(&change.stream),
            Change::Link(change) => change.name.as_deref(),
            Change::Reload(_) => None,
        }
    }
}
