//! `anabranch send --to srtla://…`: to receivers of SRTLA as they are.
//!
//! SRT is spoken by a caller at loopback: one of this process for an input of `send`, or the user's
//! encoder. [`Feed`] is the only place that knows which.

use core::ops::ControlFlow;
use core::time::Duration as StdDuration;
use std::ffi::{OsStr, OsString};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anabranch_core::SourceLimits;
use anabranch_mpegts_io::{
    BondedSender, Callers, Encoder, Input, InputName, Output, OutputName, PARAMETERS, Piece, Wanted,
};
use anabranch_net::{Clock, Event, Surroundings};
use anabranch_observe::service;
use anabranch_observe::{Observation, StandardOutput};
use anabranch_terminal::arguments::positive;
use anabranch_terminal::print;
use anabranch_terminal::stop::Stop;
use anabranch_terminal::turns::{Turns, Wake, wait_for_stop};
use anabranch_units::{Duration, Instant};
use anyhow::{Context, anyhow, bail, ensure};

use super::path_manager::PathManager;
use super::snapshots::snapshots;
use super::{INPUTS, STREAM, TEST_INPUT};
use crate::delivery::Delivery;
use crate::end::End;
use crate::latency::describe_latency;
use crate::observe_arguments::ObserveArguments;
use crate::path_reports::{PathReports, session_message};
use crate::paths::PathArguments;
use crate::slowness::Slowness;
use crate::summary::{self, Meter};
use crate::target::EncoderArguments;

/// Beginning of a receiver's address.
const SCHEME: &str = "srtla://";
/// Name of the command behind `send`; no user types it.
pub(crate) const COMMAND: &str = "send-srtla";
/// Time after which a receiver's silence is reported.
const PATIENCE: Duration = Duration::from_secs(4);

const CALLER: &str = "  srt://ADDR:PORT?mode=listener
                    an SRT sender calls this address, and its connection is carried whole: it sets
                    streamid, passphrase and latency itself, as if it called the receiver
";
const NOTES: &str = "
Parameters of --to are SRT's: streamid, passphrase (10 to 79 characters), latency (ms) and others of
libsrt. Give a latency of at least the slowest link's round trip and 500 ms. passphrase_file=FILE
and passphrase_env=NAME keep the passphrase out of the command line, which other users can read.

Examples:
  anabranch send --to 'srtla://studio.example:5000?streamid=live&latency=2000' --via wlan0 \\
    --via wwan0,metered film.ts

  OBS calls srt://127.0.0.1:9000?streamid=live&latency=2000000, and follows the links:
  anabranch send --to srtla://studio.example:5000 --via 'wwan*' \\
    --encoder-range 500kbit/s..6Mbit/s --target-to obs://127.0.0.1:4455 \\
    'srt://127.0.0.1:9000?mode=listener'";

/// Sends live or stored video to a receiver of SRTLA over one or more paths.
#[derive(Debug, clap::Args)]
#[command(override_usage = "anabranch send --to srtla://HOST:PORT[?PARAMETERS] [OPTIONS] INPUT")]
#[command(after_help = [INPUTS, CALLER, TEST_INPUT, PARAMETERS, NOTES].concat())]
pub(crate) struct Arguments {
    #[command(flatten)]
    paths: PathArguments,
    /// With `test:`, the length of the stream.
    #[arg(long, value_name = "TIME", value_parser = positive)]
    #[arg(hide = cfg!(not(feature = "codec")))]
    duration: Option<Duration>,
    /// Print a line about each path at this interval.
    #[arg(long, value_name = "TIME", value_parser = positive)]
    report: Option<Duration>,
    #[command(flatten)]
    target: EncoderArguments,
    #[command(flatten)]
    pub(crate) observe: ObserveArguments,
    /// Input to send.
    #[arg(required_unless_present = "encode", conflicts_with = "encode")]
    input: Option<InputName>,
}

/// Puts [`COMMAND`] in place of `send` if a receiver of SRTLA is its destination.
pub(crate) fn routed(mut words: Vec<OsString>) -> Vec<OsString> {
    let is_send = words.get(1).map(OsString::as_os_str) == Some(OsStr::new("send"));
    let pairs = words.windows(2);
    let names_receiver = pairs.filter(|pair| pair[0] == "--to" || is_joined(&pair[1]));
    if is_send
        && names_receiver.map(|pair| &pair[1]).any(|text| {
            let text = text.to_string_lossy();
            text.strip_prefix("--to=")
                .unwrap_or(&text)
                .starts_with(SCHEME)
        })
    {
        words[1] = COMMAND.into();
    }
    words
}

fn is_joined(word: &OsString) -> bool {
    word.to_string_lossy().starts_with("--to=")
}

/// Source of the SRT connection.
enum Feed {
    /// A program of the user calls this address.
    Caller(SocketAddr),
    /// This program calls with an input, with these parameters of SRT.
    Input(Box<Input>, String),
}

impl Arguments {
    /// Returns the destinations without protocol and parameters, and the parameters.
    ///
    /// # Errors
    /// They are not all of SRTLA, or have different parameters.
    fn destinations(&self) -> anyhow::Result<(PathArguments, String)> {
        let mut hosts = Vec::new();
        let mut parameters = None;
        for to in self.paths.destinations() {
            // Errors do not repeat parameters, which may hold a passphrase.
            let rest = to
                .strip_prefix(SCHEME)
                .context("--to: either all receivers are srtla://, or none is")?;
            let (host, its) = rest.split_once('?').unwrap_or((rest, ""));
            ensure!(
                *parameters.get_or_insert(its) == its,
                "--to: the addresses of one receiver have the same parameters"
            );
            let host = host.trim_end_matches('/');
            ensure!(
                host.rsplit_once(':')
                    .is_some_and(|(_, port)| port.parse::<u16>().is_ok()),
                "--to {SCHEME}{host}: expected a host and a port, as {SCHEME}studio.example:5000"
            );
            hosts.push(host.to_owned());
        }
        let parameters = parameters.unwrap_or_default().to_owned();
        Ok((self.paths.by_udp_to(hosts)?, parameters))
    }

    /// Checks destinations and parameters, without a receiver.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let (paths, parameters) = self.destinations()?;
        let place = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        own_caller(place, &parameters)?;
        paths.via_set().map(drop)
    }

    /// Returns the address at which an SRT sender calls, if that is the input.
    fn caller(&self, parameters: &str) -> anyhow::Result<Option<SocketAddr>> {
        let Some(InputName::Foreign(name)) = &self.input else {
            return Ok(None);
        };
        let address = name.srt_listener()?;
        ensure!(
            address.is_none() || parameters.is_empty(),
            "{name}: the program that calls sets the parameters: give --to without them"
        );
        Ok(address)
    }

    fn open_feed(
        &self,
        encoder: Option<Encoder>,
        parameters: String,
        stop: &Stop,
        clock: &Clock,
    ) -> anyhow::Result<Feed> {
        if let Some(address) = self.caller(&parameters)? {
            return Ok(Feed::Caller(address));
        }
        let input = match (encoder, &self.input) {
            (Some(encoder), _) => Input::encoded(encoder)?,
            (None, Some(input)) => Input::open(input, self.duration, stop, clock)?,
            (None, None) => bail!("there is nothing to send: name an INPUT"),
        };
        Ok(Feed::Input(Box::new(input), parameters))
    }
}

/// Returns the output that calls `place` by SRT.
///
/// # Errors
/// A parameter is wrong.
fn own_caller(place: SocketAddr, parameters: &str) -> anyhow::Result<OutputName> {
    let others = parameters.split('&').filter(|pair| !pair.is_empty());
    let mut all = vec!["mode=caller"];
    for pair in others {
        ensure!(
            !pair.starts_with("mode="),
            "--to {SCHEME}…: mode is caller, always"
        );
        all.push(pair);
    }
    let name: OutputName = format!("srt://{place}?{}", all.join("&"))
        .parse()
        .map_err(|error| anyhow!("--to {SCHEME}…: {error}"))?;
    name.check(None)
        .with_context(|| format!("--to {SCHEME}…"))?;
    Ok(name)
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let stop = Stop::new()?;
    stop.on_signals()?;
    let clock = Clock::start();
    if arguments.duration.is_some() && arguments.input != Some(InputName::Test) {
        bail!("--duration is for the input test: only");
    }
    arguments.check()?;
    arguments.observe.ensure_no_control("`send` to SRTLA")?;
    let (paths, parameters) = arguments.destinations()?;
    let encoder = arguments.target.encoder()?;
    let outlets = arguments.target.open(encoder.as_ref())?;
    let observed = arguments
        .observe
        .open(StandardOutput::Free(print::library_line))?;
    let feed = arguments.open_feed(encoder, parameters, &stop, &clock)?;
    let opened = PathManager::open(&paths, BondedSender::MAX_PATHS, &stop, &clock)?;
    let Some(path_manager) = opened else {
        return Ok(());
    };
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let (listen, callers, own) = match &feed {
        Feed::Caller(address) => (*address, Callers::All, SourceLimits::Fixed),
        Feed::Input(input, _) => (any_port, Callers::SameUser, input.limits()),
    };
    let limits = arguments.target.limits(own)?;
    let surroundings = Surroundings::system(clock);
    let paths = path_manager.paths();
    let sender = BondedSender::start(listen, callers, &paths, limits, &surroundings)?;
    let sender = Arc::new(sender);
    let _target_reports = outlets.start_for(&sender, clock)?;
    let observation = observed.start("send", clock, snapshots(&sender, path_manager.names()))?;
    service::ready();
    let mut session = Session {
        sender: &sender,
        path_manager,
        stop,
        clock,
        path_reports: PathReports::default(),
        meter: Meter::new(arguments.report, clock.now()),
        observation,
        slowness: Slowness::default(),
    };
    session.run(feed)
}

struct Session<'a> {
    sender: &'a BondedSender,
    path_manager: PathManager,
    stop: Stop,
    clock: Clock,
    path_reports: PathReports,
    meter: Meter,
    observation: Observation,
    slowness: Slowness,
}

impl Session<'_> {
    fn run(&mut self, feed: Feed) -> anyhow::Result<()> {
        if !self.wait_connected() {
            print::note("stopped; no receiver has answered");
            return Ok(());
        }
        let fed = match feed {
            Feed::Caller(address) => {
                print::note(format_args!("waiting for an SRT sender at {address}"));
                self.serve(|| false);
                Ok(())
            }
            Feed::Input(input, parameters) => self.send(*input, &parameters),
        };
        let snapshot = self.sender.snapshot();
        let names = self.path_manager.shown_names();
        print::note(summary::table(End::SrtlaSender, &snapshot, names, None));
        self.slowness.summary().into_iter().for_each(print::note);
        self.path_manager
            .count(self.clock.now(), &snapshot, self.sender, &self.observation);
        self.path_manager
            .departed()
            .into_iter()
            .for_each(print::note);
        fed?;
        Delivery::of(End::SrtlaSender, &snapshot, 0).check()
    }

    /// Waits for the first link. Returns whether there is one.
    fn wait_connected(&mut self) -> bool {
        self.tend();
        let began_at = self.clock.now();
        Connecting {
            session: self,
            began_at,
            is_reported: false,
        }
        .run_turns()
    }

    /// Sends an input by an SRT caller of this program, until it ends or the program is stopped.
    fn send(&mut self, input: Input, parameters: &str) -> anyhow::Result<()> {
        let (clock, stop, sender) = (self.clock, self.stop.clone(), self.sender);
        let name = own_caller(sender.address(), parameters)?;
        let mut output = Output::open(&name, None, &clock, &stop)?;
        std::thread::scope(|scope| {
            let feeder = scope.spawn(move || -> anyhow::Result<()> {
                let mut written = Ok(());
                let ran = input.run(
                    &clock,
                    &stop,
                    || Wanted {
                        bitrate: sender.target_bitrate(),
                        is_key: false,
                    },
                    |unit, _| {
                        let piece = Piece {
                            begins_key_frame: unit.importance.is_key(),
                            bytes: unit.bytes,
                            ..Piece::default()
                        };
                        written = output.write(&piece, &clock, &stop);
                        written.is_ok()
                    },
                );
                // The caller ends with the output: its last packets need the latency to arrive.
                let latency = sender.snapshot().latency.unwrap_or_default();
                let _ = stop.wait_until(&clock, clock.now() + latency + Duration::from_secs(1));
                ran?;
                Ok(written?)
            });
            self.serve(|| feeder.is_finished());
            self.stop.stop();
            match feeder.join() {
                Ok(fed) => fed,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Reports until `is_over` or the program is stopped.
    fn serve(&mut self, is_over: impl Fn() -> bool) {
        if self.stop.is_stopped() || is_over() {
            return;
        }
        self.tend();
        Serving {
            session: self,
            is_over,
            latency: None,
        }
        .run_turns();
    }

    /// Handles events, new interfaces and caps.
    fn tend(&mut self) {
        while let Some(event) = self.sender.next_event() {
            self.on_event(&event);
        }
        let now = self.clock.now();
        while let Some((path, state)) = self.path_reports.next(now) {
            let name = &self.path_manager.shown_names()[path];
            print::note(format_args!("path {path} ({name}): {state:?}"));
        }
        let replaced = self.path_manager.tend(now, self.sender, &self.observation);
        replaced.for_each(|index| self.path_reports.forget(index));
        let lateness = self.stop.lateness(&self.clock);
        self.slowness
            .watch(now, lateness, &self.observation, STREAM);
        service::turn(now, self.stop.is_stopped());
    }

    fn on_event(&mut self, event: &Event) {
        let names = self.path_manager.shown_names();
        self.observation.on_event(STREAM, event, names);
        if let Event::PathState { path, state } = event {
            self.path_reports.on_change(*path, *state, self.clock.now());
        } else if let Some((level, message)) = session_message(event, names, "receiver") {
            print::say(level, message);
        }
    }
}

/// The wait for the first link. Its outcome is whether there is one.
struct Connecting<'s, 'a> {
    session: &'s mut Session<'a>,
    began_at: Instant,
    is_reported: bool,
}

impl Turns for Connecting<'_, '_> {
    type Event = ();
    type Outcome = bool;

    fn wait(&mut self, patience: StdDuration) -> Wake<()> {
        wait_for_stop(&self.session.stop, &self.session.clock, patience)
    }

    fn turn(&mut self, _: Wake<()>) -> ControlFlow<bool> {
        let session = &mut *self.session;
        if session.sender.snapshot().connected_at.is_some() {
            print::note("the receiver has accepted a link");
            return ControlFlow::Break(true);
        }
        let is_late = session.clock.now() > self.began_at + PATIENCE;
        if is_late && !core::mem::replace(&mut self.is_reported, true) {
            print::warn(
                "no receiver of SRTLA has answered yet. Does it run, and does a firewall let \
                 UDP to its port through? It is asked every second",
            );
        }
        if session.stop.is_stopped() {
            return ControlFlow::Break(false);
        }
        session.tend();
        ControlFlow::Continue(())
    }
}

/// The stream until its end.
struct Serving<'s, 'a, F> {
    session: &'s mut Session<'a>,
    is_over: F,
    /// Latency that was printed.
    latency: Option<Duration>,
}

impl<F: Fn() -> bool> Turns for Serving<'_, '_, F> {
    type Event = ();
    type Outcome = ();

    fn wait(&mut self, patience: StdDuration) -> Wake<()> {
        wait_for_stop(&self.session.stop, &self.session.clock, patience)
    }

    fn turn(&mut self, _: Wake<()>) -> ControlFlow<()> {
        let session = &mut *self.session;
        let seen = session.sender.snapshot();
        if seen.session.frames_sent > 0 && self.latency != seen.latency {
            self.latency = seen.latency;
            let latency = describe_latency(self.latency);
            print::note(format_args!("SRT is connected{latency}"));
        }
        if session.meter.is_due(session.clock.now()) {
            let names = session.path_manager.shown_names();
            print::note(session.meter.line(End::SrtlaSender, seen, names));
        }
        if session.stop.is_stopped() || (self.is_over)() {
            return ControlFlow::Break(());
        }
        session.tend();
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(texts: &[&str]) -> Vec<OsString> {
        texts.iter().map(OsString::from).collect()
    }

    #[test]
    fn only_destinations_of_srtla_are_routed() {
        for (line, expected) in [
            (["a", "send", "--to", "srtla://b:1", "x"], COMMAND),
            (["a", "send", "-", "--to=srtla://b:1", "x"], COMMAND),
            (["a", "send", "--to", "b:1", "srtla://c:1"], "send"),
            (["a", "recv", "--to", "srtla://b:1", "x"], "recv"),
        ] {
            assert_eq!(routed(words(&line))[1], expected, "{line:?}");
        }
    }

    #[test]
    fn parameters_go_to_the_caller_and_mistakes_are_reported_without_them() {
        let place = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
        let name = own_caller(place, "streamid=a&passphrase=0123456789").unwrap();
        assert_eq!(name.to_string(), "srt://127.0.0.1:9");
        for (wrong, part) in [
            ("passphrase=secret", "10 to 79"),
            ("mode=listener", "caller, always"),
            ("latency=2s", "milliseconds"),
        ] {
            let error = format!("{:#}", own_caller(place, wrong).unwrap_err());
            assert!(error.contains(part) && !error.contains("secret"), "{error}");
        }
    }
}
