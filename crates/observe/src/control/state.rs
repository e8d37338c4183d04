//! State of all that can be changed, for the answer to `GET /control`.

use serde::{Deserialize, Serialize};

/// Possible changes of a program, and its present state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ControlState {
    /// The command: send, recv or serve.
    pub role: String,
    /// Names of the changes that it can make, as `output-add`.
    pub changes: Vec<String>,
    /// A sender's paths.
    pub paths: Vec<PathControl>,
    /// Range of a sender's target.
    pub target: Option<TargetControl>,
    /// Streams of a receiver, or sessions of a service.
    pub streams: Vec<StreamControl>,
    /// Senders whose sessions were ended, and that are not let in yet.
    pub kept_out: Vec<KeptOut>,
}

/// A path of a sender.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathControl {
    /// Its number.
    pub path: usize,
    /// Its interface or address.
    pub name: String,
    /// Whether it is switched on.
    pub on: bool,
    /// Whether it is paid for by volume.
    pub metered: bool,
    /// Volume after which it stands by.
    pub cap_bytes: Option<u64>,
    /// Maximum rate.
    pub max_bps: Option<u64>,
}

/// Range of a target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetControl {
    /// Least bitrate.
    pub min_bps: u64,
    /// Greatest bitrate.
    pub max_bps: u64,
    /// Greatest bitrate that can be asked for: that of the start.
    pub most_bps: u64,
}

/// A stream of a receiver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamControl {
    /// Its name.
    pub stream: String,
    /// Whether its sender has a session.
    pub connected: bool,
    /// Whether its sender takes requests: `send --remote-control`.
    pub remote_control: bool,
    /// Latency, if both ends have one.
    pub latency_s: Option<f64>,
    /// Its outputs.
    pub outputs: Vec<OutputState>,
}

/// An output of a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutputState {
    /// Its address without parameters, or its file.
    pub output: String,
    /// Whether it is a recording that was started while the program runs.
    pub recording: bool,
}

/// A sender that is kept out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptOut {
    /// Its name.
    pub stream: String,
    /// Time until it is let in again.
    pub for_s: f64,
}
