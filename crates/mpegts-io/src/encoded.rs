//! Cameras that GStreamer encodes, at the bitrate that the links carry: `send --encode`.

use core::fmt;
use core::str::FromStr;
use std::cell::Cell;
use std::ffi::OsString;
use std::io;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};

use anabranch_terminal::clean::one_line;
use anabranch_terminal::files::installed;
use anabranch_units::{Duration, Instant};

use super::growth::LongestGrowth;
use super::input_error::InputError;
use super::loopback_pair::loopback_pair;
use super::part::Part;
use super::stream::Stream;
use super::supervised::{Supervised, Tool};
use super::tool_error::ToolError;
use super::udp_input::UdpInput;

/// Program that runs the pipeline and sets the encoder's bitrate while it runs.
const SCRIPT: &str = include_str!("encoder.py");
/// Interpreter of the distribution, which finds the distribution's modules. The first one of PATH
/// may be another one, without them.
const SYSTEM_PYTHON: &str = "/usr/bin/python3";
/// Arguments of the interpreter before the program's. `-I` ignores the current folder and the
/// user's variables: a `json.py` there would otherwise run.
const INTERPRETER: [&str; 3] = ["-I", "-c", SCRIPT];
/// Option that names the pictures' source, for messages.
const OPTION: &str = "--encode";
/// Exit code of the program for a source that no restart helps.
const HOPELESS: i32 = 3;
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
    fn source(element: &str, device: &str, text: &str) -> Result<CaptureName, String> {
        let device = if device.is_empty() {
            String::new()
        } else {
            format!(" device={}", quoted(device)?)
        };
        Ok(CaptureName {
            shown: text.to_owned(),
            pipeline: format!("{element}{device}"),
        })
    }
    match text.split_once(':') {
        Some(("alsa", device)) => source("alsasrc", device, text),
        Some(("pulse", device)) => source("pulsesrc", device, text),
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
        let pipeline = text
            .strip_prefix("gst:")
            .map(str::trim)
            .filter(|text| !text.is_empty())
            .ok_or(())?;
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
    if text.contains(['"', '\\']) {
        Err("a device has neither quotes nor backslashes in its name".to_owned())
    } else {
        Ok(format!("\"{text}\""))
    }
}

/// An encoder that is to be started.
#[derive(Debug)]
pub struct Encoder {
    video: CaptureName,
    sound: Option<CaptureName>,
    /// Our end of the channel, and the program's.
    channel: [UdpSocket; 2],
}

/// An encoder that runs, until this is dropped.
#[derive(Debug)]
pub(super) struct RunningEncoder {
    tool: Supervised,
    control: UdpSocket,
    asked_at: Cell<Option<Instant>>,
}

impl Encoder {
    /// Checks that GStreamer can build the pipeline.
    ///
    /// # Errors
    /// Python, GStreamer or one of its elements is missing, or no such pipeline can be.
    pub fn new(video: &CaptureName, sound: Option<&CaptureName>) -> Result<Self, ToolError> {
        let encoder = Encoder {
            video: video.clone(),
            sound: sound.cloned(),
            channel: loopback_pair().map_err(ToolError::Loopback)?,
        };
        encoder.check()?;
        Ok(encoder)
    }

    /// Returns the socket whose datagrams it takes as lines of targets.
    ///
    /// # Errors
    /// The system has no more sockets.
    pub fn control(&self) -> io::Result<UdpSocket> {
        self.channel[0].try_clone()
    }

    /// Name of the pictures' source.
    pub(super) fn name(&self) -> String {
        self.video.to_string()
    }

    fn check(&self) -> Result<(), ToolError> {
        let program = python();
        if installed(program).is_none() {
            return Err(ToolError::NotInstalled {
                purpose: OPTION.to_owned(),
                program: "python3",
                package: "python3",
            });
        }
        let output = Command::new(program)
            .args(self.arguments("check"))
            .stdin(Stdio::null())
            .output()
            .map_err(|source| ToolError::Start {
                program: "python3",
                source,
            })?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or("python3 has failed");
        Err(ToolError::Encoder {
            video: self.video.to_string(),
            said: one_line(last).into_owned(),
        })
    }

    /// Returns the interpreter's arguments for the program's `action`.
    fn arguments(&self, action: &'static str) -> Vec<OsString> {
        let sources = core::iter::once(&self.video)
            .chain(&self.sound)
            .map(|source| source.pipeline.as_str());
        let fixed = INTERPRETER.into_iter().chain([action]);
        fixed.chain(sources).map(OsString::from).collect()
    }

    /// Starts it. It encodes from the first target on.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(self) -> Result<(UdpInput, RunningEncoder), InputError> {
        let arguments = self.arguments("run");
        let [ours, theirs] = self.channel;
        let control = ours.try_clone()?;
        let tool = Tool {
            input: None,
            program: python(),
            label: Some("encoder"),
            package: "python3",
            arguments,
            output: Some(theirs),
            hopeless: Some(HOPELESS),
            secrets: Vec::new(),
            boring: &[],
            instead: &[],
        };
        let running = RunningEncoder {
            tool: Supervised::start(tool, OPTION)?,
            control,
            asked_at: Cell::new(None),
        };
        let input = UdpInput::of_helper(ours)?;
        Ok((input, running))
    }
}

impl RunningEncoder {
    /// Asks for a picture at which decoding can start.
    fn ask_for_key(&self, now: Instant) {
        if self
            .asked_at
            .get()
            .is_none_or(|at| now >= at + KEY_INTERVAL)
        {
            self.asked_at.set(Some(now));
            // It is read after a restart.
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
        growth: LongestGrowth<'_>,
        is_key_wanted: impl Fn() -> bool,
        mut deliver: impl FnMut(Part, Instant) -> bool,
    ) -> Result<(), InputError> {
        let EncodedStream { stream, encoder } = self;
        stream.run(clock, stop, growth, |part, at| {
            if part.is_last && is_key_wanted() {
                encoder.ask_for_key(clock.now());
            }
            deliver(part, at)
        })?;
        if encoder.tool.has_given_up() {
            return Err(ToolError::EncoderGaveUp.into());
        }
        Ok(())
    }
}

fn python() -> &'static str {
    if Path::new(SYSTEM_PYTHON).is_file() {
        SYSTEM_PYTHON
    } else {
        "python3"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_become_pipelines() {
        fn video(text: &str) -> Result<String, String> {
            video_source(text).map(|name| name.pipeline)
        }
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
        fn sound(text: &str) -> Result<String, String> {
            sound_source(text).map(|name| name.pipeline)
        }
        assert_eq!(sound("pulse:").unwrap(), "pulsesrc");
        assert_eq!(sound("alsa:hw:1").unwrap(), "alsasrc device=\"hw:1\"");
        assert!(sound("v4l2:/dev/video0").is_err());
    }

    /// Modules and classes that the program takes from GStreamer.
    const NO_GSTREAMER: &str = r#"
import sys, types
repository = types.ModuleType("gi.repository")
repository.GLib = types.SimpleNamespace(Error=Exception)
repository.Gst = types.SimpleNamespace()
gi = types.ModuleType("gi")
gi.require_version = lambda *_: None
sys.modules.update({"gi": gi, "gi.repository": repository})
"#;
    /// Follows targets that come by standard output, and returns the bitrate that was set last.
    const FOLLOW: &str = r#"
class X264:
    kbit = 0
    def get_property(self, _):
        return self.kbit
    def set_property(self, _, kbit):
        if not 0 <= kbit < 1 << 31:
            raise OverflowError("out of range")
        self.kbit = kbit
encoder = Encoder.__new__(Encoder)
encoder.encoder, encoder.has_sound, encoder.is_playing = X264(), False, True
channel = socket.socket(fileno=1)
threading.Thread(target=encoder.follow, args=(channel,), daemon=True).start()
for _ in range(2000):
    if encoder.encoder.kbit == 2723:
        break
    time.sleep(0.01)
channel.send(str(encoder.encoder.kbit).encode())
"#;

    #[test]
    fn nonsense_does_not_end_the_following_of_targets() {
        let program = SCRIPT.rsplit_once("\nmain()").unwrap().0;
        let program = [NO_GSTREAMER, program, FOLLOW].concat();
        let [ours, theirs] = loopback_pair().unwrap();
        for line in [
            &br#"{"event":"target","target_bps":Infinity}"#[..],
            br#"{"event":"target","target_bps":1e30}"#,
            br#"{"event":"target","target_bps":-1e30}"#,
            br#"["event"]"#,
            &[b'['; 3_000],
            b"\xff\xfe",
            br#"{"event":"target","target_bps":3000000}"#,
        ] {
            ours.send(line).unwrap();
        }
        let ended = Command::new(python())
            .args(["-I", "-c", &program])
            .stdin(Stdio::null())
            .stdout(std::os::fd::OwnedFd::from(theirs))
            .status();
        assert!(ended.unwrap().success());
        let mut buffer = [0; 16];
        let len = ours.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"2723");
    }

    #[test]
    fn no_module_of_the_current_folder_runs() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("json.py"), "raise SystemExit(9)").unwrap();
        let program = Command::new(python())
            .args(INTERPRETER)
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        // It lacks arguments, or GStreamer.
        assert_eq!(program.unwrap().code(), Some(1));
    }
}
