//! What is sent: units of video from wherever they come, each at its time.

use core::fmt;
use core::str::FromStr;
use std::collections::VecDeque;
use std::path::PathBuf;

use anabranch_core::SourceLimits;
use anabranch_net::Clock;
use anabranch_units::{DataRate, Duration, Importance, Instant};
use anabranch_video::input::InputKind;
use anyhow::Context;

use super::adaptive::{self, AdaptiveCamera};
use super::foreign::{ForeignInput, ForeignName};
use super::links::Links;
use super::muxer::Muxer;
use super::pace::Pace;
use super::picture_end::PictureEnd;
use super::source::{Bytes, READ_BYTES, Source, Wait};
use super::udp_url::UdpUrl;
use super::units::{FilmUnit, Reading, UnitSplitter};
use super::watch::InputWatch;
use crate::print;
use crate::stop::Stop;

/// Bytes that came this close together are dated alike: a fraction of a picture's interval, and as
/// long as fast datagrams are left to gather.
const SAME_TIME: Duration = Duration::from_millis(2);

/// A stream that pauses for this long has no more of the picture that it began.
const PAUSE: Duration = Duration::from_millis(100);

/// What the command line says of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InputName {
    /// `test:`
    Test,
    /// `-`
    Stdin,
    /// `udp://ADDR:PORT` or `rtp://ADDR:PORT`
    Udp(UdpUrl),
    /// `srt://`, `srtla://`, `rist://` or `rtmp://`
    Foreign(ForeignName),
    File(PathBuf),
}

impl FromStr for InputName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(name) = ForeignName::input(text) {
            return Ok(InputName::Foreign(name));
        }
        // MPEG-TS is known in RTP and out of it, whichever is expected.
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

/// Without what may be secret.
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

/// Protocols that are not spoken here are for ffmpeg, called in this way.
pub(super) fn check_protocol(text: &str, way: &str) -> Result<(), String> {
    match text.split_once("://") {
        Some((protocol, _)) if protocol != "udp" && !protocol.contains('/') => Err(format!(
            "{protocol}:// is not spoken here, but udp://ADDR:PORT with MPEG-TS in it is: let \
             ffmpeg come between, as in `{way}`"
        )),
        _ => Ok(()),
    }
}

/// One picture, or as much of a stream as belongs together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// MPEG-TS.
    pub(crate) bytes: Vec<u8>,
    /// What is lost with it.
    pub(crate) importance: Importance,
}

impl InputName {
    /// The protocol that it comes by.
    pub(crate) fn protocol(&self) -> &'static str {
        match self {
            InputName::Foreign(name) => name.protocol(),
            InputName::Udp(_) => "udp",
            InputName::Test | InputName::Stdin | InputName::File(_) => "file",
        }
    }
}

/// What the transport asks an encoder for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) bitrate: DataRate,
    /// Something was lost, or somebody new looks: decoding must be able to start.
    pub(crate) is_key: bool,
}

/// An input that is open.
#[derive(Debug)]
pub(crate) struct Input(Kind);

#[derive(Debug)]
enum Kind {
    Camera(Box<AdaptiveCamera>),
    Stream(Box<Stream>),
}

/// Bytes that are cut into units.
#[derive(Debug)]
struct Stream {
    name: String,
    source: Source,
    splitter: Splitter,
    /// `None` for what is live.
    pace: Option<Pace>,
    watch: InputWatch,
    /// Who speaks the protocol, if others do.
    foreign: Option<ForeignInput>,
}

/// A unit, its time in the stream, and the time at which its end had come.
type DatedUnit = (Unit, Option<Duration>, Instant);

/// Units of MPEG-TS out of bytes.
#[derive(Debug)]
struct Splitter {
    units: UnitSplitter,
    /// What is no MPEG-TS becomes so on the way.
    muxer: Option<Muxer>,
    /// Units that were complete before the last bytes came, and the time at which they were.
    complete: VecDeque<(FilmUnit, Instant)>,
    /// When the last bytes came, or a pause was noticed.
    came_at: Instant,
}

impl Input {
    /// Opens an input; `duration` is the test picture's.
    pub(crate) fn open(
        name: &InputName,
        duration: Option<Duration>,
        stop: &Stop,
        clock: &Clock,
    ) -> anyhow::Result<Input> {
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
                let (input, speaker) = name.open_input(clock)?;
                foreign = Some(speaker);
                let source = Source::Udp(Box::new(input));
                (name.to_string(), (source, InputKind::MpegTs, Vec::new()))
            }
        };
        let mut splitter = Splitter::new(
            match source.may_be_live() {
                true => UnitSplitter::live(kind),
                false => UnitSplitter::new(kind),
            },
            kind,
        );
        splitter.push(clock.now(), &first);
        let is_udp = matches!(source, Source::Udp(_));
        let pace = (!is_udp).then(Pace::default);
        let mut watch = InputWatch::new(shown.clone(), is_udp);
        if matches!(name, InputName::Udp(url) if url.joins_by_default()) {
            watch.hint_at_interface();
        }
        Ok(Input(Kind::Stream(Box::new(Stream {
            name: shown,
            source,
            splitter,
            pace,
            watch,
            foreign,
        }))))
    }

    /// What the transport should know of the source.
    pub(crate) fn limits(&self) -> SourceLimits {
        match &self.0 {
            Kind::Camera(_) => adaptive::LIMITS,
            Kind::Stream(_) => SourceLimits::Fixed,
        }
    }

    /// The links that it comes by, if it comes by several that are not of our own protocol.
    pub(crate) fn links(&self) -> Option<Links> {
        match &self.0 {
            Kind::Camera(_) => None,
            Kind::Stream(stream) => stream.foreign.as_ref()?.links(),
        }
    }

    /// Hands each unit to `deliver` at its time, with that time, until the input ends, it is
    /// stopped or `deliver` returns false. `wanted` tells what the transport asks for.
    pub(crate) fn run(
        self,
        clock: &Clock,
        stop: &Stop,
        wanted: impl Fn() -> Wanted,
        deliver: impl FnMut(Unit, Instant) -> bool,
    ) -> anyhow::Result<()> {
        match self.0 {
            Kind::Camera(camera) => run_camera(*camera, clock, stop, wanted, deliver),
            Kind::Stream(stream) => stream.run(clock, stop, deliver),
        }
    }
}

fn run_camera(
    mut camera: AdaptiveCamera,
    clock: &Clock,
    stop: &Stop,
    wanted: impl Fn() -> Wanted,
    mut deliver: impl FnMut(Unit, Instant) -> bool,
) -> anyhow::Result<()> {
    let origin = clock.now();
    while let Some(taken_after) = camera.next_clock() {
        let taken_at = origin + taken_after;
        if !stop.wait_until(clock, taken_at) {
            break;
        }
        let unit = camera.take(taken_after, wanted())?;
        if !deliver(unit, taken_at) {
            break;
        }
    }
    Ok(())
}

impl Stream {
    fn run(
        mut self,
        clock: &Clock,
        stop: &Stop,
        mut deliver: impl FnMut(Unit, Instant) -> bool,
    ) -> anyhow::Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        let mut waited = Duration::ZERO;
        let mut picture_end = PictureEnd::default();
        let mut read_at = clock.now();
        let mut state = Reading::GoesOn;
        loop {
            while let Some((unit, unit_clock, came_at)) = self.splitter.next_unit(state)? {
                let may_leave = self.release(clock, stop, unit_clock, &mut waited);
                let is_paced = self.pace.is_some();
                let captured_at = if is_paced { clock.now() } else { came_at };
                if !may_leave || !deliver(unit, captured_at) {
                    return Ok(());
                }
            }
            if state == Reading::HasEnded || stop.is_stopped() {
                return Ok(());
            }
            picture_end.on_bytes(read_at, self.splitter.units.progress());
            let is_live = self.source.may_be_live();
            let over_at = picture_end.over_at().filter(|_| is_live);
            let pauses_at = over_at.unwrap_or(Instant::FAR_FUTURE).min(read_at + PAUSE);
            if state == Reading::GoesOn && pauses_at <= read_at {
                // Bytes come, and none of the picture's.
                state = Reading::Pauses;
                self.splitter.on_pause(pauses_at);
                continue;
            }
            let wait = Wait {
                patience: pauses_at.saturating_since(clock.now()),
                stop,
                clock,
            };
            let (splitter, watch) = (&mut self.splitter, &mut self.watch);
            let mut take = |came_at: Instant, bytes: &[u8]| {
                let told = watch.on_bytes(clock.now(), bytes);
                told.into_iter().for_each(print::note);
                splitter.push(came_at, bytes);
            };
            let read = self.source.read(&mut buffer, wait, &mut waited, &mut take);
            let read = read.with_context(|| format!("cannot read input {}", self.name))?;
            if let Some(warning) = self.source.warning() {
                print::warn(format_args!("input {}: {warning}", self.name));
            }
            if read == Bytes::NoneYet {
                let told = self.watch.on_nothing(clock.now());
                told.into_iter().for_each(print::note);
            }
            state = match read {
                Bytes::End => Reading::HasEnded,
                Bytes::NoneYet if clock.now() < pauses_at => {
                    state = Reading::GoesOn;
                    continue;
                }
                Bytes::NoneYet => {
                    self.splitter.on_pause(pauses_at);
                    Reading::Pauses
                }
                Bytes::Some => Reading::GoesOn,
            };
            read_at = clock.now();
        }
    }

    /// Waits until a unit may leave. Whether it may: not when stopped.
    fn release(
        &mut self,
        clock: &Clock,
        stop: &Stop,
        unit_clock: Option<Duration>,
        waited: &mut Duration,
    ) -> bool {
        let waited = core::mem::take(waited);
        match &mut self.pace {
            Some(pace) => {
                let release_at = pace.release_at(unit_clock, clock.now(), waited);
                stop.wait_until(clock, release_at)
            }
            None => !stop.is_stopped(),
        }
    }
}

impl Splitter {
    fn new(units: UnitSplitter, kind: InputKind) -> Self {
        Splitter {
            units,
            muxer: (kind == InputKind::AnnexB).then(Muxer::new),
            complete: VecDeque::new(),
            came_at: Instant::ZERO,
        }
    }

    /// Takes bytes that came at `came_at`. If earlier ones waited to be read together with them,
    /// then the units that those completed get their time.
    fn push(&mut self, came_at: Instant, bytes: &[u8]) {
        if came_at > self.came_at + SAME_TIME {
            let units = core::iter::from_fn(|| self.units.next(Reading::GoesOn));
            self.complete.extend(units.map(|unit| (unit, self.came_at)));
        }
        self.came_at = self.came_at.max(came_at);
        self.units.push(bytes);
    }

    /// Takes note that nothing of the picture came until `at`, which ends it.
    fn on_pause(&mut self, at: Instant) {
        self.came_at = self.came_at.max(at);
    }

    /// Returns the next unit, its time in the stream, and the time at which its end had come: its
    /// last byte, or a sign that this was the last. Where the input pauses or has ended, also what
    /// has come of the unit after.
    fn next_unit(&mut self, state: Reading) -> anyhow::Result<Option<DatedUnit>> {
        let waiting = self.complete.pop_front();
        let next = || self.units.next(state).map(|unit| (unit, self.came_at));
        let Some((unit, came_at)) = waiting.or_else(next) else {
            return Ok(None);
        };
        let FilmUnit {
            bytes,
            importance,
            clock,
        } = unit;
        let bytes = match (&mut self.muxer, clock) {
            (Some(muxer), Some(clock)) => muxer.mux(&bytes, clock, importance.is_key())?,
            _ => bytes,
        };
        Ok(Some((Unit { bytes, importance }, clock, came_at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_inputs() {
        let name = |text: &str| -> InputName { text.parse().unwrap() };
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

    #[test]
    fn a_byte_stream_becomes_mpeg_ts_at_its_own_pace() {
        // An access unit delimiter and a slice, three times.
        let picture = [0, 0, 0, 1, 0x09, 0xf0, 0, 0, 0, 1, 0x41, 0x9a, 1, 2, 3];
        let kind = InputKind::AnnexB;
        let mut splitter = Splitter::new(UnitSplitter::new(kind), kind);
        splitter.push(Instant::ZERO, &picture.repeat(3));
        let mut clocks = Vec::new();
        while let Some((unit, clock, _)) = splitter.next_unit(Reading::HasEnded).unwrap() {
            assert_eq!(unit.bytes.len() % 188, 0);
            assert_eq!(unit.bytes[0], 0x47);
            clocks.push(clock.unwrap().as_millis());
        }
        assert_eq!(clocks, [0, 40, 80]);
    }

    /// A packet without video, whose continuity counter is `number`.
    fn null_packet(number: u8) -> Vec<u8> {
        [vec![0x47, 0x1f, 0xff, 0x10 | number & 0xf], vec![0xff; 184]].concat()
    }

    #[test]
    fn units_that_were_read_together_keep_the_times_at_which_they_came() {
        let kind = InputKind::MpegTs;
        let mut splitter = Splitter::new(UnitSplitter::live(kind), kind);
        // A unit without video is complete with its 350th packet.
        let unit: Vec<u8> = (0..350_u32)
            .flat_map(|number| null_packet(number as u8))
            .collect();
        let came_at = [1, 5, 9].map(Instant::from_secs);
        for at in came_at {
            splitter.push(at, &unit);
        }
        splitter.push(Instant::from_secs(13), &null_packet(0));
        let mut units = Vec::new();
        for state in [Reading::GoesOn, Reading::Pauses] {
            while let Some((unit, _, at)) = splitter.next_unit(state).unwrap() {
                units.push((unit.bytes.len() / 188, at));
            }
            splitter.on_pause(Instant::from_millis(13_100));
        }
        // Each ends with the first packet of the next.
        let ends = [5_000, 9_000, 13_000, 13_100].map(Instant::from_millis);
        let expected: Vec<_> = [350, 350, 350, 1].into_iter().zip(ends).collect();
        assert_eq!(units, expected);
    }
}
