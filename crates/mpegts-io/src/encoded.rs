//! Cameras that GStreamer encodes, at the bitrate that the links carry: `send --encode`.

use core::fmt;
use core::str::FromStr;
use std::cell::Cell;
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};

use anabranch_terminal::clean::one_line;
use anabranch_terminal::files::installed;
use anabranch_units::{Duration, Instant};
use anyhow::{Context, anyhow, bail};

use super::foreign::free_address;
use super::part::Part;
use super::stream::{Growth, Stream};
use super::supervised::{Supervised, Tool};
use super::udp_input::UdpInput;

/// Program that runs the pipeline and sets the encoder's bitrate while it runs.
const SCRIPT: &str = include_str!("encoder.py");
/// Interpreter of the distribution, which finds the distribution's modules. The first one of PATH
/// may be another one, without them.
const SYSTEM_PYTHON: &str = "/usr/bin/python3";
/// Time between two requests for a key frame.
const KEY_INTERVAL: Duration = Duration::from_millis(500);

/// A source of pictures or sound, as `v4l2:/dev/video0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureName {
    shown: String,
    /// The source as `gst-launch-1.0` takes it.
    pipeline: String,
}

/// Reads a source of pictures for `--encode`.
pub fn video_source(text: &str) -> Result<CaptureName, String> {
    match text.split_once(':') {
        Some(("v4l2", device)) if !device.is_empty() => {
            let device = quoted(device)?;
            Ok(CaptureName {
                shown: text.to_owned(),
                // A camera's pictures may be JPEG.
                pipeline: format!("v4l2src device={device} ! decodebin"),
            })
        }
        _ => text.parse().map_err(|()| {
            "expected v4l2:DEVICE, as v4l2:/dev/video0, or gst:PIPELINE, as \
             'gst:videotestsrc is-live=true'"
                .to_owned()
        }),
    }
}

/// Reads a source of sound for `--encode-sound`.
pub fn sound_source(text: &str) -> Result<CaptureName, String> {
    let source = |element: &str, device: &str| {
        let device = match device.is_empty() {
            true => String::new(),
            false => format!(" device={}", quoted(device)?),
        };
        Ok(CaptureName {
            shown: text.to_owned(),
            pipeline: format!("{element}{device}"),
        })
    };
    match text.split_once(':') {
        Some(("alsa", device)) => source("alsasrc", device),
        Some(("pulse", device)) => source("pulsesrc", device),
        _ => text.parse().map_err(|()| {
            "expected alsa:[DEVICE], pulse:[DEVICE] or gst:PIPELINE, as \
             'gst:audiotestsrc is-live=true'"
                .to_owned()
        }),
    }
}

/// `gst:PIPELINE`.
impl FromStr for CaptureName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let pipeline = text.strip_prefix("gst:").map(str::trim);
        let pipeline = pipeline.filter(|text| !text.is_empty()).ok_or(())?;
        Ok(CaptureName {
            shown: text.to_owned(),
            pipeline: pipeline.to_owned(),
        })
    }
}

impl fmt::Display for CaptureName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Returns a property's value that ends nowhere else than its text.
fn quoted(text: &str) -> Result<String, String> {
    match text.contains(['"', '\\']) {
        true => Err("a device has neither quotes nor backslashes in its name".to_owned()),
        false => Ok(format!("\"{text}\"")),
    }
}

/// An encoder that is to be started.
#[derive(Debug)]
pub struct Encoder {
    video: CaptureName,
    sound: Option<CaptureName>,
    control: SocketAddr,
}

/// An encoder that runs, until this is dropped.
#[derive(Debug)]
pub(super) struct RunningEncoder {
    _tool: Supervised,
    control: UdpSocket,
    asked_at: Cell<Option<Instant>>,
}

impl Encoder {
    /// Checks that GStreamer can build the pipeline.
    ///
    /// # Errors
    /// Python, GStreamer or one of its elements is missing, or no such pipeline can be.
    pub fn new(video: &CaptureName, sound: Option<&CaptureName>) -> anyhow::Result<Self> {
        let encoder = Encoder {
            video: video.clone(),
            sound: sound.cloned(),
            control: free_address()?,
        };
        encoder.check()?;
        Ok(encoder)
    }

    /// Address at which it takes lines of targets, one in each datagram.
    pub fn control(&self) -> SocketAddr {
        self.control
    }

    /// Name of the pictures' source.
    pub(super) fn name(&self) -> String {
        self.video.to_string()
    }

    fn check(&self) -> anyhow::Result<()> {
        let program = python();
        if installed(program).is_none() {
            bail!("--encode needs the program python3, which is not installed (Debian: python3)");
        }
        let mut child = Command::new(program)
            .args(self.arguments("check"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start python3")?;
        if let Some(mut stdin) = child.stdin.take() {
            // One that has ended has said why.
            let _ = stdin.write_all(SCRIPT.as_bytes());
        }
        let output = child.wait_with_output().context("python3 cannot be read")?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or("python3 has failed");
        Err(anyhow!("--encode {}: {}", self.video, one_line(last)))
    }

    fn arguments(&self, port: &str) -> Vec<String> {
        let sound = self.sound.iter().map(|sound| sound.pipeline.clone());
        let fixed = [
            "-".to_owned(),
            port.to_owned(),
            self.control.port().to_string(),
            self.video.pipeline.clone(),
        ];
        fixed.into_iter().chain(sound).collect()
    }

    /// Starts it. It encodes from the first target on.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(self) -> anyhow::Result<(UdpInput, RunningEncoder)> {
        let input = UdpInput::open_loopback()?;
        let port = input.port().context("a socket without an address")?;
        let tool = Tool {
            program: python(),
            label: Some("encoder"),
            package: "python3",
            arguments: self
                .arguments(&port.to_string())
                .into_iter()
                .map(Into::into)
                .collect(),
            stdin: SCRIPT,
            secrets: Vec::new(),
            boring: &[],
            instead: &[],
        };
        let control = UdpSocket::bind(("127.0.0.1", 0)).context("cannot open a socket")?;
        control.connect(self.control)?;
        let running = RunningEncoder {
            _tool: Supervised::start(tool, "--encode")?,
            control,
            asked_at: Cell::new(None),
        };
        Ok((input, running))
    }
}

impl RunningEncoder {
    /// Asks for a picture at which decoding can start.
    fn ask_for_key(&self, now: Instant) {
        let is_early = |at: Instant| now < at + KEY_INTERVAL;
        if !self.asked_at.get().is_some_and(is_early) {
            self.asked_at.set(Some(now));
            // While it is started again nobody listens.
            let _ = self.control.send(br#"{"event":"key-frame"}"#);
        }
    }
}

/// A stream whose encoder can be asked for key frames.
#[derive(Debug)]
pub(super) struct EncodedStream {
    pub(super) stream: Stream,
    pub(super) encoder: RunningEncoder,
}

impl EncodedStream {
    /// Runs the stream as [`Stream::run`] does. `is_key_wanted` is asked at the end of each unit.
    pub(super) fn run(
        self,
        clock: &anabranch_net::Clock,
        stop: &anabranch_terminal::stop::Stop,
        growth: Growth<'_>,
        is_key_wanted: impl Fn() -> bool,
        mut deliver: impl FnMut(Part, Instant) -> bool,
    ) -> anyhow::Result<()> {
        let EncodedStream { stream, encoder } = self;
        stream.run(clock, stop, growth, |part, at| {
            if part.is_last && is_key_wanted() {
                encoder.ask_for_key(clock.now());
            }
            deliver(part, at)
        })
    }
}

fn python() -> &'static str {
    match Path::new(SYSTEM_PYTHON).is_file() {
        true => SYSTEM_PYTHON,
        false => "python3",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_become_pipelines() {
        let video = |text| video_source(text).map(|name| name.pipeline);
        let camera = video("v4l2:/dev/video0").unwrap();
        assert_eq!(camera, "v4l2src device=\"/dev/video0\" ! decodebin");
        assert_eq!(video("gst: videotestsrc").unwrap(), "videotestsrc");
        for (text, part) in [
            ("v4l2:", "v4l2:DEVICE"),
            ("/dev/video0", "v4l2:DEVICE"),
            ("gst: ", "gst:PIPELINE"),
            ("v4l2:a\" ! filesink location=\"b", "quotes"),
        ] {
            let error = video(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let sound = |text| sound_source(text).map(|name| name.pipeline);
        assert_eq!(sound("pulse:").unwrap(), "pulsesrc");
        assert_eq!(sound("alsa:hw:1").unwrap(), "alsasrc device=\"hw:1\"");
        assert!(sound("v4l2:/dev/video0").is_err());
    }
}
