//! `anabranch send`.

mod control;
mod feeder;
mod outbox;
mod path_manager;
mod snapshots;
pub(crate) mod srtla;
mod turns;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

use anabranch_controllers::by_name;
use anabranch_core::{MediaConfig, PathId, SourceLimits};
use anabranch_mpegts_io::{Input, InputName, OutputName, PARAMETERS, Wanted};
use anabranch_net::{ClientConfig, Clock, Ended, Event, Events, Sender, Snapshot};
use anabranch_observe::service;
use anabranch_observe::{Observation, StandardOutput, StreamEvent};
use anabranch_secure::{PairingCode, PublicKey, SecretKey};
use anabranch_terminal::arguments::positive;
use anabranch_terminal::exit::Failure;
use anabranch_terminal::print;
use anabranch_terminal::stop::Stop;
use anabranch_units::{ByteCount, Duration, Instant};
use anyhow::bail;

use crate::config::Reload;
use crate::delivery::Delivery;
use crate::end::End;
use crate::keygen::{discreet, ensure_other, read_key, read_or_make_key};
use crate::latency::Latency;
use crate::message;
use crate::observe_arguments::ObserveArguments;
use crate::outages::Outages;
use crate::overload::OverloadWatch;
use crate::path_reports::{PathReports, session_message};
use crate::path_watch::{PathProblem, PathWatch, lines};
use crate::paths::PathArguments;
use crate::return_feed::ReturnFeed;
use crate::slowness::Slowness;
use crate::stale_frames::StaleFrames;
use crate::summary::{self, Meter};
use crate::target::EncoderArguments;
use control::{Remote, TargetRange};
use feeder::{Feeder, longest_growth};
use outbox::Outbox;
use path_manager::PathManager;
use snapshots::snapshots;

/// Name of the stream in statistics and events.
const STREAM: &str = "video";

/// The scheduler of the simulator alone, which no registry lists.
const ORACLE: &str = "oracle";

/// Both ways to name a receiver.
const USAGE: &str = "anabranch send [OPTIONS] <INPUT> <LINK>
       anabranch send [OPTIONS] --to <ADDR> --key <FILE> --peer <PUBKEY> <INPUT>";

/// Help on inputs; `test:` needs an encoder.
const INPUTS: &str = "\
INPUT is one of
  FILE              MPEG-TS as it is, H.264 byte streams as MPEG-TS, other files through ffmpeg
  -                 the same from standard input (MPEG-TS or H.264 byte stream)
  udp://ADDR:PORT   MPEG-TS in datagrams, alone or in RTP, as ffmpeg, OBS and encoders send it;
                    udp://@:PORT or udp://:PORT takes it at every address; also rtp://
";
const TEST_INPUT: &str = if cfg!(feature = "codec") {
    "  test:             a built-in camera whose bitrate follows the network\n"
} else {
    ""
};
const NOTES: &str = "
With --to srtla://HOST:PORT, the stream goes to a receiver of SRTLA by SRT; `send --to srtla://x
--help` has its options.

Files leave at the pace of their own clock, live inputs as they come.

Packets fit each path: they begin with 1,228 bytes and grow to the path's MTU, 1,500 at most. The
summary and --report print an MTU below that.

Examples:
  To a receiver that has printed a link (`anabranch recv --pair`); the key is made if there is none:
  anabranch send film.ts 'anabranch://studio.example:7000?key=abpub_…&code=…' --via wlan0

  anabranch send --to 192.0.2.1:7000 --key camera.key --peer abpub_… film.ts

  A camera over Wi-Fi and a mobile network at once:
  ffmpeg -f v4l2 -i /dev/video0 -c:v libx264 -tune zerolatency -g 50 -f mpegts \\
    udp://127.0.0.1:5000 &
  anabranch send --to 192.0.2.1:7000 --via wlan0 --via wwan0,metered --key camera.key \\
    --peer abpub_… udp://127.0.0.1:5000

  The same with a bitrate that follows the networks (needs GStreamer):
  anabranch send --to 192.0.2.1:7000 --via wlan0 --via wwan0,metered --key camera.key \\
    --peer abpub_… --encode v4l2:/dev/video0

A receiver that falls silent is asked for a new session after a second, and one that ends at once,
on all paths and without end (--give-up-after). The input goes on meanwhile. Absent interfaces and
addresses of --via are waited for. A sender that another with the same key has replaced ends with
exit code 6.

The first Ctrl-C ends the session and prints a summary; a second one ends the program at once.";

/// Sends live or stored video over one or more paths.
///
/// With the link that `anabranch recv --pair` prints: anabranch send INPUT LINK
#[derive(Debug, clap::Args)]
#[command(override_usage = USAGE)]
#[command(after_help = [INPUTS, TEST_INPUT, PARAMETERS, NOTES].concat())]
pub(crate) struct Arguments {
    #[command(flatten)]
    paths: PathArguments,
    /// This end's key file, from `anabranch keygen`.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The receiver's public key.
    #[arg(long, value_name = "PUBKEY", value_parser = discreet::<PublicKey>())]
    peer: PublicKey,
    /// The code of a link, in place of which it stands.
    #[arg(long, value_name = "CODE", value_parser = discreet::<PairingCode>(), hide = true)]
    code: Option<PairingCode>,
    /// Congestion controller of every path, with any options: `cubic:hystart=classic`.
    /// `anabranch list controllers` lists them.
    #[arg(long, value_name = "NAME", default_value = anabranch_controllers::DEFAULT)]
    controller: String,
    /// Packet scheduler; `anabranch list schedulers` lists them.
    #[arg(long, value_name = "NAME", default_value = anabranch_schedulers::DEFAULT)]
    scheduler: String,
    /// Most bytes a minute that only probe for bandwidth, such as 5MB; 0 for none. They are never
    /// more than a tenth of all bytes.
    #[arg(long, value_name = "BYTES")]
    max_padding: Option<ByteCount>,
    /// Send packets as ECN-capable, so that routers mark them instead of dropping them. It helps if
    /// the controller reacts to marks, as new-reno, cubic, scream and nada do.
    #[arg(long)]
    ecn: bool,
    /// Delay budget beyond the fastest path's delay, such as "800 ms": lost packets are
    /// retransmitted within it, and the receiver writes each frame when it ends. The larger value
    /// of both ends counts [default: "500 ms"].
    #[arg(long, value_name = "TIME")]
    latency: Option<Latency>,
    /// Forward error correction: adaptive, fixed, frame, off, webrtc or window, with any options:
    /// `fixed:overhead=0.25`. `anabranch list fec` lists them.
    #[arg(long, value_name = "POLICY", default_value = anabranch_schedulers::FEC_DEFAULT)]
    fec: String,
    /// Maximum wait for the receiver's first answer.
    #[arg(long, value_name = "TIME", default_value = "10 s", value_parser = positive)]
    timeout: Duration,
    /// End when the receiver has been silent for this long. By default the sender asks for a new
    /// session without end.
    #[arg(long, value_name = "TIME", value_parser = positive)]
    give_up_after: Option<Duration>,
    /// With `test:`, the length of the stream.
    #[arg(long, value_name = "TIME", value_parser = positive)]
    #[arg(hide = cfg!(not(feature = "codec")))]
    duration: Option<Duration>,
    /// Print a line about each path at this interval.
    #[arg(long, value_name = "TIME", value_parser = positive)]
    report: Option<Duration>,
    #[command(flatten)]
    encoder: EncoderArguments,
    #[command(flatten)]
    pub(crate) observe: ObserveArguments,
    /// Output for the receiver's return stream (its --return-input): talkback, or a return feed.
    /// Outputs are those of `anabranch recv`.
    #[arg(long, value_name = "OUTPUT")]
    return_to: Option<OutputName>,
    /// Lines of this file, pipe or standard input are messages to the receiver, which prints them,
    /// as this end prints the receiver's.
    #[arg(long, value_name = "FILE|-")]
    messages: Option<PathBuf>,
    /// The receiver's owner may switch paths off and on, change their limits, the range of the
    /// target and the latency. Each change is printed, and an event.
    #[arg(long)]
    remote_control: bool,
    /// Frames older than this are not sent, whatever the latency; key frames always are.
    #[arg(long, value_name = "TIME", value_parser = positive, help_heading = "For experts")]
    #[arg(alias = "deadline")]
    frame_lifetime: Option<Duration>,
    /// Input to send.
    #[arg(required_unless_present = "encode", conflicts_with = "encode")]
    input: Option<InputName>,
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    arguments.check_scheduler()?;
    let stop = Stop::new()?;
    stop.on_signals()?;
    let clock = Clock::start();
    if arguments.duration.is_some() && arguments.input != Some(InputName::Test) {
        bail!("--duration is for the input test: only");
    }
    let local_key = arguments.local_key()?;
    let has_code = arguments.code.is_some();
    let is_encoder_informed = arguments.encoder.informs();
    let encoder = arguments.encoder.encoder()?;
    let outlets = arguments.encoder.open(encoder.as_ref())?;
    let observed = arguments
        .observe
        .open(StandardOutput::Free(print::library_line))?;
    let input = match (encoder, &arguments.input) {
        (Some(encoder), _) => Input::encoded(encoder)?,
        (None, Some(input)) => Input::open(input, arguments.duration, &stop, &clock)?,
        (None, None) => bail!("there is nothing to send: name an INPUT"),
    };
    let Some(path_manager) = PathManager::open(&arguments.paths, PathId::LIMIT, &stop, &clock)?
    else {
        return Ok(());
    };
    let mut config = ClientConfig::new(local_key, arguments.peer, path_manager.paths());
    arguments.configure(&mut config, input.limits())?;
    config.clock = clock;
    config.observer = observed.packet_observer();
    let reload = Reload::of_program(arguments.observe.config.as_deref())?;
    let frame_lifetime = config.transport.media.deadline;
    let range = TargetRange::of(config.transport.media.source);
    let (sender, events) = Sender::start(config)?;
    let sender = Arc::new(sender);
    let _target_reports = outlets.start_for(&sender, clock)?;
    let observation = observed.start("send", clock, snapshots(&sender, path_manager.names()))?;
    let messages = arguments.messages.map(message::lines).transpose()?;
    service::ready();
    let mut session = Session {
        messages,
        outbox: Arc::default(),
        printed: message::Printed::default(),
        return_to: arguments.return_to,
        return_feed: None,
        sender: &sender,
        events,
        path_manager,
        stop,
        has_code,
        clock,
        path_reports: PathReports::default(),
        outages: Outages::new(End::Sender),
        path_watch: PathWatch::default(),
        stats: arguments.report,
        meter: Meter::new(arguments.report, clock.now()),
        slowness: Slowness::default(),
        overload: OverloadWatch::new(End::Sender).with_informed_encoder(is_encoder_informed),
        is_key_wanted: Arc::default(),
        frame_lifetime,
        observation,
        range,
        reload,
        remote: Remote::new(arguments.remote_control),
        keeps_lifetime: arguments.frame_lifetime.is_some(),
    };
    session.run(input)
}

impl Arguments {
    /// Sets the transport and the manner of the session. `own` are the limits of the input's rate.
    fn configure(&self, config: &mut ClientConfig, own: SourceLimits) -> anyhow::Result<()> {
        config.transport.controller = by_name(&self.controller)?;
        config.transport.scheduler = anabranch_schedulers::by_name(&self.scheduler)?;
        config.pairing_code.clone_from(&self.code);
        config.connect_timeout = self.timeout;
        config.give_up_after = self.give_up_after;
        config.tcp = self.paths.tcp();
        config.takes_requests = self.remote_control;
        config.transport.is_ecn_capable = self.ecn;
        config.transport.padding_bytes_per_minute = self.max_padding.map(|ByteCount(bytes)| bytes);
        config.keeps_deadline = self.frame_lifetime.is_some();
        config.latency = match self.latency {
            Some(latency) => latency.requested(),
            None => (!config.keeps_deadline).then(|| MediaConfig::default().deadline),
        };
        if let Some(lifetime) = self.frame_lifetime {
            config.transport.media.deadline = lifetime;
        }
        config.transport.media.fec = anabranch_schedulers::fec_policy(&self.fec)?;
        config.transport.media.source = self.encoder.limits(own)?;
        Ok(())
    }

    /// Refuses the scheduler of the simulator alone.
    fn check_scheduler(&self) -> anyhow::Result<()> {
        if self.scheduler == ORACLE {
            bail!(
                "the scheduler {ORACLE} knows the network, as only a simulated one can be known: \
             it is for `anabranch-lab run` and `anabranch-lab compare`. `anabranch list \
             schedulers` lists those that can send"
            );
        }
        Ok(())
    }

    /// Reads this end's key, or makes it for a sender that comes with a code.
    fn local_key(&self) -> anyhow::Result<SecretKey> {
        let key = match self.code {
            Some(_) => read_or_make_key(&self.key)?,
            None => read_key(&self.key)?,
        };
        ensure_other(&self.peer, key.public_key())?;
        Ok(key)
    }

    /// Checks that keys, algorithms and paths can be used, as far as that is known without a
    /// session.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        read_key(&self.key)?;
        by_name(&self.controller)?;
        anabranch_schedulers::by_name(&self.scheduler)?;
        anabranch_schedulers::fec_policy(&self.fec)?;
        self.paths.via_set().map(drop)
    }
}

struct Session<'a> {
    messages: Option<Receiver<String>>,
    outbox: Arc<Outbox>,
    printed: message::Printed,
    return_to: Option<OutputName>,
    return_feed: Option<ReturnFeed>,
    sender: &'a Sender,
    events: Events,
    path_manager: PathManager,
    stop: Stop,
    /// Whether the session is requested with a link's code.
    has_code: bool,
    clock: Clock,
    path_reports: PathReports,
    outages: Outages,
    path_watch: PathWatch,
    stats: Option<Duration>,
    meter: Meter,
    slowness: Slowness,
    overload: OverloadWatch,
    /// Whether the built-in camera is to make a key frame.
    is_key_wanted: Arc<AtomicBool>,
    /// Time in which frames must arrive if no latency is agreed on.
    frame_lifetime: Duration,
    observation: Observation,
    /// Range of the target, if the encoder follows it.
    range: Option<TargetRange>,
    reload: Reload,
    remote: Remote,
    /// Whether frames have a lifetime of their own.
    keeps_lifetime: bool,
}

impl Session<'_> {
    fn run(&mut self, input: Input) -> anyhow::Result<()> {
        if let Some(ended) = self.wait_connected() {
            if self.stop.is_stopped() {
                print::note("stopped; no receiver has answered");
            } else if self.has_code && matches!(ended, Ended::NoAnswer { .. }) {
                print::warn(
                    "the link's code is good once and for ten minutes: if the receiver runs, ask \
                     for another link (anabranch pair)",
                );
            }
            return outcome(ended);
        }
        if let Some(output) = &self.return_to {
            let latency = self.sender.snapshot().latency;
            let feed = ReturnFeed::open(output, latency, self.clock, self.stop.clone())?;
            self.return_feed = Some(feed);
        }
        self.meter = Meter::new(self.stats, self.clock.now());
        let (sender, clock, stop) = (self.sender, self.clock, self.stop.clone());
        let is_key_wanted = Arc::clone(&self.is_key_wanted);
        let outbox = Arc::clone(&self.outbox);
        let frame_lifetime = self.frame_lifetime;
        let (ended, fed) = std::thread::scope(|scope| {
            let feeder = scope.spawn(move || {
                let mut feeder = Feeder::new(sender, &outbox);
                let mut old = StaleFrames::default();
                let latency = || sender.snapshot().latency.unwrap_or(frame_lifetime);
                let ran = input.run_in_parts(
                    &clock,
                    &stop,
                    || longest_growth(latency()),
                    || Wanted {
                        bitrate: sender.target_bitrate(),
                        is_key: is_key_wanted.swap(false, Ordering::Relaxed),
                    },
                    |part, at| {
                        if feeder.is_between_units() {
                            let age = clock.now().saturating_since(at);
                            let warning = old.on_frame(age, latency);
                            warning.into_iter().for_each(print::warn);
                        }
                        feeder.take(part, at)
                    },
                );
                let fed = feeder.finish();
                // The session ends with its input.
                sender.close();
                ran.map(|()| fed)
            });
            let ended = self.wait_ended();
            // A session that is over needs no more input.
            self.stop.stop();
            (ended, feeder.join())
        });
        let fed = match fed {
            Ok(fed) => fed,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let snapshot = self.summarize();
        if let Ok(fed) = &fed {
            fed.notes().for_each(print::note);
        }
        let fed = fed?;
        outcome(ended)?;
        Delivery::of(End::Sender, &snapshot, fed.refused_count).check()
    }

    /// Prints the summary. Returns the session's last state.
    fn summarize(&mut self) -> Snapshot {
        let snapshot = self.sender.snapshot();
        self.outages.see(&snapshot, self.clock.now());
        self.path_manager
            .count(self.clock.now(), &snapshot, self.sender, &self.observation);
        print::note(summary::table(
            End::Sender,
            &snapshot,
            self.path_manager.shown_names(),
            self.outages.text(),
        ));
        self.slowness.summary().into_iter().for_each(print::note);
        self.path_manager
            .departed()
            .into_iter()
            .for_each(print::note);
        snapshot
    }

    fn tend_paths(&mut self, now: Instant) {
        self.follow_orders();
        let replaced = self.path_manager.tend(now, self.sender, &self.observation);
        // The old path's state says nothing about the new one.
        replaced.for_each(|index| self.path_reports.forget(index));
    }

    /// Prints changes of paths and sessions.
    fn print_event(&self, event: &Event) {
        if matches!(
            event,
            Event::FrameDropped { .. } | Event::Reconnected { .. }
        ) {
            self.is_key_wanted.store(true, Ordering::Relaxed);
        }
        self.observation
            .on_event(STREAM, event, self.path_manager.shown_names());
        if let Some((level, message)) =
            session_message(event, self.path_manager.shown_names(), "receiver")
        {
            print::say(level, message);
        }
    }

    /// Searches for paths that are of little use.
    fn watch_paths(&mut self, now: Instant) {
        if self.path_watch.is_due(now) {
            let (snapshot, names) = (self.sender.snapshot(), self.path_manager.shown_names());
            let problems = self.path_watch.due_report(now, &snapshot, names);
            self.report_problems(&problems);
        }
    }

    /// Reports paths that are of little use, with the causes.
    fn report_problems(&self, problems: &[PathProblem]) {
        lines(problems).iter().for_each(print::warn);
        for found in problems {
            let (path, problem) = (found.path, found.problem.name());
            let name = found.name.clone();
            let happening = StreamEvent::PathProblem {
                path,
                name,
                problem,
            };
            self.observation.on_stream_event(STREAM, happening);
        }
    }

    /// Sends the lines that were written since the last call.
    fn send_messages(&self, now: Instant) {
        self.outbox.send(self.sender);
        while self.outbox.has_room()
            && let Some(line) = self.messages.iter().find_map(|lines| lines.try_recv().ok())
        {
            self.outbox.push(message::frame(&line, now), self.sender);
        }
    }
}

fn outcome(ended: Ended) -> anyhow::Result<()> {
    match ended {
        Ended::Closed => Ok(()),
        Ended::Replaced => Err(Failure::Displaced.into()),
        ended => Err(Failure::PeerLost(ended.to_string()).into()),
    }
}
