//! Inputs of video, which deliver each unit at its time.

use core::fmt;
use core::str::FromStr;
use std::path::PathBuf;

use anabranch_core::SourceLimits;
use anabranch_net::Clock;
use anabranch_terminal::stop::Stop;
use anabranch_units::{Duration, Instant};
use anabranch_video::input::InputKind;

use super::adaptive::{self, AdaptiveCamera};
use super::encoded::{EncodedStream, Encoder};
use super::foreign_name::ForeignName;
use super::growth::LongestGrowth;
use super::input_error::InputError;
use super::links::Links;
use super::part::Part;
use super::source::Source;
use super::stream::Stream;
use super::udp_url::UdpUrl;
use super::unit::{Unit, Wanted};

/// Time between two warnings that the camera leaves pictures out.
const SLOW_INTERVAL: Duration = Duration::from_secs(10);

/// An input as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputName {
    /// `test:`
    Test,
    /// `-`
    Stdin,
    /// `udp://ADDR:PORT` or `rtp://ADDR:PORT`
    Udp(UdpUrl),
    /// `srt://`, `srtla://`, `rist://` or `rtmp://`
    Foreign(ForeignName),
    /// The path of a file or a named pipe.
    File(PathBuf),
}

impl FromStr for InputName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(name) = ForeignName::input(text) {
            return Ok(InputName::Foreign(name));
        }
        // MPEG-TS is detected with and without RTP under either name.
        if let Some(url) = UdpUrl::parse(text, &["udp", "rtp"]) {
            return url.map(InputName::Udp);
        }
        check_protocol(text, "ffmpeg -i URL -c copy -f mpegts udp://127.0.0.1:5000")?;
        Ok(match text {
            "test:" => InputName::Test,
            "-" => InputName::Stdin,
            _ => InputName::File(text.into()),
        })
    }
}

/// Shows the name without its secrets.
impl fmt::Display for InputName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InputName::Test => f.write_str("test:"),
            InputName::Stdin => f.write_str("standard input"),
            InputName::Udp(url) => url.fmt(f),
            InputName::Foreign(name) => name.fmt(f),
            InputName::File(path) => path.display().fmt(f),
        }
    }
}

/// Refuses protocols that only ffmpeg speaks, and explains `example`, its command line.
///
/// # Errors
/// The text is a URL of another protocol than UDP.
pub(super) fn check_protocol(text: &str, example: &str) -> Result<(), String> {
    match text.split_once("://") {
        Some((protocol, _)) if protocol != "udp" && !protocol.contains('/') => Err(format!(
            "{protocol}:// is not spoken here, but udp://ADDR:PORT with MPEG-TS is: convert the \
             stream with ffmpeg, as in `{example}`"
        )),
        _ => Ok(()),
    }
}

impl InputName {
    /// Returns the name with that of its stream, which messages then show.
    pub fn of_stream(self, stream: &str) -> Self {
        match self {
            InputName::Foreign(name) => InputName::Foreign(name.of_stream(stream)),
            other => other,
        }
    }

    /// Returns the protocol that carries it.
    pub fn protocol(&self) -> &'static str {
        match self {
            InputName::Foreign(name) => name.protocol(),
            InputName::Udp(_) => "udp",
            InputName::Test | InputName::Stdin | InputName::File(_) => "file",
        }
    }

    /// Returns the stream ID by which a port of SRT distinguishes its callers, if there is one.
    pub fn stream_id(&self) -> Option<&str> {
        match self {
            InputName::Foreign(name) => name.parameter("streamid"),
            _ => None,
        }
    }
}

/// An input that is open.
#[derive(Debug)]
pub struct Input(Kind);

#[derive(Debug)]
enum Kind {
    Camera(Box<AdaptiveCamera>),
    Stream(Box<Stream>),
    Encoded(Box<EncodedStream>),
}

impl Input {
    /// Opens an input. `duration` limits the test picture.
    ///
    /// # Errors
    /// The address is wrong or taken, a file cannot be read, or a helper program is missing.
    pub fn open(
        name: &InputName,
        duration: Option<Duration>,
        stop: &Stop,
        clock: &Clock,
    ) -> Result<Input, InputError> {
        let mut foreign = None;
        let (shown, (source, kind, first)) = match name {
            InputName::Test => {
                let camera = AdaptiveCamera::new(duration)?;
                return Ok(Input(Kind::Camera(Box::new(camera))));
            }
            InputName::Stdin => ("standard input".into(), Source::open_stdin(stop, clock)?),
            InputName::File(path) => (
                path.display().to_string(),
                Source::open_path(path, stop, clock)?,
            ),
            InputName::Udp(url) => {
                let source = Source::open_udp(url)?;
                (url.to_string(), (source, InputKind::MpegTs, Vec::new()))
            }
            InputName::Foreign(name) => {
                let (source, speaker) = name.open_input(clock)?;
                foreign = Some(speaker);
                (name.shown(), (source, InputKind::MpegTs, Vec::new()))
            }
        };
        let mut stream = Stream::new(shown, source, kind, &first, foreign)?;
        if matches!(name, InputName::Udp(url) if url.joins_by_default()) {
            stream.hint_at_interface();
        }
        Ok(Input(Kind::Stream(Box::new(stream))))
    }

    /// Starts an encoder. Its limits are those of `--encoder-range`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn encoded(encoder: Encoder) -> Result<Input, InputError> {
        let name = encoder.name();
        let (input, encoder) = encoder.start()?;
        let source = Source::Udp(Box::new(input));
        let stream = Stream::new(name, source, InputKind::MpegTs, &[], None)?;
        let encoded = EncodedStream { stream, encoder };
        Ok(Input(Kind::Encoded(Box::new(encoded))))
    }

    /// Returns the source's limits for the transport.
    pub fn limits(&self) -> SourceLimits {
        match &self.0 {
            Kind::Camera(_) => adaptive::LIMITS,
            Kind::Stream(_) | Kind::Encoded(_) => SourceLimits::Fixed,
        }
    }

    /// Returns the links of an input by another protocol that uses several.
    pub fn links(&self) -> Option<Links> {
        match &self.0 {
            Kind::Camera(_) | Kind::Encoded(_) => None,
            Kind::Stream(stream) => stream.links(),
        }
    }

    /// Hands each unit to `deliver` at its time, with that time. Returns when the input ends or is
    /// stopped, or when `deliver` returns false. `wanted` returns the transport's requests.
    ///
    /// # Errors
    /// The input cannot be read, or a picture cannot be encoded.
    pub fn run(
        self,
        clock: &Clock,
        stop: &Stop,
        wanted: impl Fn() -> Wanted,
        mut deliver: impl FnMut(Unit, Instant) -> bool,
    ) -> Result<(), InputError> {
        self.run_with(clock, stop, None, wanted, |part, at| {
            deliver(part.into_unit(), at)
        })
    }

    /// Hands units of live MPEG-TS to `deliver` in parts, as their bytes come, and others whole. A
    /// unit's capture time is that of its first part. One that grows for longer than `longest`,
    /// which is asked at its beginning, ends there; the rest of its picture makes another one. For
    /// the rest, this is [`run`](Self::run).
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub fn run_in_parts(
        self,
        clock: &Clock,
        stop: &Stop,
        longest: impl Fn() -> Duration,
        wanted: impl Fn() -> Wanted,
        deliver: impl FnMut(Part, Instant) -> bool,
    ) -> Result<(), InputError> {
        self.run_with(clock, stop, Some(&longest), wanted, deliver)
    }

    fn run_with(
        self,
        clock: &Clock,
        stop: &Stop,
        growth: LongestGrowth<'_>,
        wanted: impl Fn() -> Wanted,
        mut deliver: impl FnMut(Part, Instant) -> bool,
    ) -> Result<(), InputError> {
        match self.0 {
            Kind::Camera(camera) => run_camera(*camera, clock, stop, wanted, |unit, at| {
                deliver(unit.into(), at)
            }),
            Kind::Stream(stream) => stream.run(clock, stop, growth, deliver),
            Kind::Encoded(encoded) => encoded.run(clock, stop, growth, || wanted().is_key, deliver),
        }
    }
}

fn run_camera(
    mut camera: AdaptiveCamera,
    clock: &Clock,
    stop: &Stop,
    wanted: impl Fn() -> Wanted,
    mut deliver: impl FnMut(Unit, Instant) -> bool,
) -> Result<(), InputError> {
    let origin = clock.now();
    let mut warn_at = origin;
    let mut left_out_count = 0;
    while let Some(taken_after) = camera.next_clock() {
        let taken_at = origin + taken_after;
        if !stop.wait_until(clock, taken_at) {
            break;
        }
        let unit = camera.take(taken_after, wanted())?;
        if !deliver(unit, taken_at) {
            break;
        }
        let now = clock.now();
        left_out_count += camera.catch_up(now.saturating_since(origin));
        if left_out_count > 0 && now >= warn_at {
            warn_at = now + SLOW_INTERVAL;
            log::warn!(
                "this machine is too slow for the pictures of test:: {left_out_count} are left out"
            );
            left_out_count = 0;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_inputs() {
        fn name(text: &str) -> InputName {
            text.parse().unwrap()
        }
        assert_eq!(name("test:"), InputName::Test);
        assert_eq!(name("-"), InputName::Stdin);
        for text in ["udp://127.0.0.1:5000", "rtp://127.0.0.1:5000?rcvbuf=9"] {
            assert_eq!(name(text), InputName::Udp(text.parse().unwrap()));
        }
        assert_eq!(name("a.ts"), InputName::File("a.ts".into()));
        let error = "udp://127.0.0.1:5000?local=1"
            .parse::<InputName>()
            .unwrap_err();
        assert!(error.contains("no parameter \"local\""), "{error}");
    }
}
