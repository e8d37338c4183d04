//! `anabranch recv`.

mod allowance;
mod by_relay;
mod control;
mod destination;
mod ending;
mod held;
mod joining;
mod listen;
mod native;
mod outputs;
mod pairing;
mod phones;
mod plan;
mod receivers;
mod receiving;
mod reload;
mod return_paths;
mod senders;
mod steering;
mod stream;
mod stream_counters;
mod stream_settings;
mod streams_in_use;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use anabranch_mpegts_io::{Input, PARAMETERS, Rotation};
use anabranch_net::{Clock, Receiver, Reception, Receptions};
use anabranch_observe::http::HttpAddress;
use anabranch_observe::service;
use anabranch_terminal::arguments::positive;
use anabranch_terminal::print;
use anabranch_terminal::stop::Stop;
use anabranch_terminal::turns::Turns;
use anabranch_units::{Duration, Instant};
use anabranch_video::player::JitterBuffer;
use anyhow::{Context, ensure};

use crate::allowed::{AllowList, Allowed, StreamName};
use crate::keygen::discreet;
use crate::latency::Latency;
use crate::link::Link;
use crate::observe_arguments::ObserveArguments;
use crate::pairing::PairArguments;
use crate::pairing::desk::Desk;
use crate::refusals::RefusalLines;
use crate::slowness;
use crate::system;
use crate::worker::Worker;
use allowance::{Allowances, Share};
use by_relay::ByRelay;
use control::Controlled;
pub(crate) use control::keep_out;
use destination::{Destination, Destinations};
use held::Held;
use joining::Joining;
use listen::{Carrier, Listen, OtherSource};
use outputs::Outputs;
pub(crate) use phones::{KeptPhones, Phone, PhoneAddress, PlacedPhone, passphrase_path};
use receiving::Receiving;
use reload::Reloads;
use return_paths::{ReturnArguments, ReturnPaths};
use steering::Steering;
use stream::{Outcome, Session};
use stream_counters::{AllCounters, StreamCounters, snapshots};
use stream_settings::StreamSettings;
use streams_in_use::StreamsInUse;

/// Interval between two checks whether the file of senders has changed.
const FILE_INTERVAL: Duration = Duration::from_secs(1);

/// Beginning of the help: outputs and inputs.
const PLACES: &str = "\
OUTPUT is one of
  FILE              the video in order, as MPEG-TS; an existing file is overwritten when the first
                    video arrives. {time} in its name is the time (UTC) when it begins, so that
                    each session has its own file; {name} is the stream's name
  -                 the same to standard output
  udp://ADDR:PORT   datagrams of seven MPEG-TS packets, for players
  NAME=OUTPUT       the same, for the stream of this name only
  srt://ADDR:PORT   to an SRT listener, or to all callers: srt://:9000?streamid=cam&latency=200
  rist://ADDR:PORT  to a RIST receiver
There may be several.

--listen [NAME=]URL receives MPEG-TS by another protocol; without NAME the stream is called as its
protocol. It needs no key, and only its own protocol protects it. URL is one of
  srtla://ADDR:PORT[?latency=…&passphrase=…]    Moblin, BELABOX, IRL Pro: one sender at a time
  srt://:PORT[?streamid=…&passphrase_file=…]    a sender for each ID; with a host: fetches a stream
  rtmp://ADDR:PORT/APP/KEY                      OBS and others; every key is let in
  rist://@ADDR:PORT                             without the @, recv fetches a stream
  udp://ADDR:PORT, rtp://ADDR:PORT              MPEG-TS in datagrams
On this machine, RIST needs Debian's rist-tools, and RTMP ffmpeg.
";
const NOTES: &str = "
Examples:
  Without keys and options; give the printed link to the sender:
  anabranch recv --pair film.ts

  anabranch recv --listen 0.0.0.0:7000 --key studio.key --allow abpub_… film.ts

  From a studio at home, whose router lets nobody in; LINK is printed by a machine with a public
  address (`anabranch serve --relay --pair`):
  anabranch recv --pair film.ts --via-relay LINK

  Watch it live (-fflags nobuffer: with as little delay as the player can):
  anabranch recv --listen 0.0.0.0:7000 --key studio.key --allow abpub_… udp://127.0.0.1:6000 &
  ffplay -fflags nobuffer udp://127.0.0.1:6000

  Two cameras at once, each with a player and with recordings of ten minutes:
  anabranch recv --listen 0.0.0.0:7000 --key studio.key --allow abpub_…A=front \\
    --allow abpub_…B=roof front=udp://127.0.0.1:6000 roof=udp://127.0.0.1:6001 \\
    --rotate '10 min' 'recordings/{name}-{time}.ts'

  Phones, each with the app that it has; scan the printed QR codes:
  anabranch recv --pair --phone van=moblin --phone roof=larix 'recordings/{name}-{time}.ts'

  A phone with Moblin, and the native sender beside it:
  anabranch recv --listen phone=srtla://0.0.0.0:5000 --listen 0.0.0.0:7000 --key studio.key \
    --allow abpub_…=van phone=udp://127.0.0.1:6000 van=udp://127.0.0.1:6001

Latency: every frame leaves --latency after the earliest time at which it could have arrived, as
with SRT. Lost packets are sent again until then. The larger value of both ends counts. With `min`
each frame leaves when it arrives, unevenly.

Limits: if a name exceeds max=RATE, its frames are left out up to the next key frame within the
limit, and both ends report it. Of the keys of a name with streams=N, N may send at a time, and the
others wait. The second one's stream is NAME-2, with its own outputs.

Several senders share outputs that are neither NAME=OUTPUT nor have {name} in them. Then only one
sender is let in at a time. The file of --allow-from has a line for each sender, with its key and
its name. It may be changed at any time; a removed sender is disconnected.

A named pipe as FILE is opened when a program reads it.

Without --keep-listening the program ends when the last session has ended. The first Ctrl-C
notifies senders that this receiver ends, and prints a summary. The senders wait for the next
receiver at this address. A second Ctrl-C ends the program at once.";

/// Receives video from one sender or many, and writes it to files, pipes or players.
#[derive(Debug, clap::Args)]
#[command(after_help = [PLACES, PARAMETERS, NOTES].concat())]
pub(crate) struct Arguments {
    /// Address and port to listen at (7000 by default); `[::]:PORT` accepts IPv4 and IPv6. Or the
    /// address of a stream by another protocol, see below. May be repeated.
    #[arg(long, required_unless_present_any = ["pair", "phone"], value_name = "ADDR|[NAME=]URL")]
    listen: Vec<Listen>,
    /// Receive a phone's stream by SRTLA (moblin, irlpro: UDP port 5000, for the next phones 5002
    /// and up) or SRT (larix: port 5001), with a stream ID and a passphrase of its own. With --pair
    /// the app's link is printed, and on a terminal its QR code, beside this receiver's own link.
    /// May be repeated.
    #[arg(long, value_name = "NAME=APP")]
    phone: Vec<Phone>,
    /// Address and port at which to accept TCP connections, too, for senders whose networks block
    /// UDP; they try port 443. Ports below 1,024 need root or CAP_NET_BIND_SERVICE.
    #[arg(long, value_name = "ADDR")]
    listen_tcp: Option<String>,
    /// This end's key file, from `anabranch keygen`.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Public key of a sender that is let in, and the name of its stream. May be repeated.
    /// `max=8Mbit/s` limits the average bitrate of the name. `streams=2` limits the number of keys
    /// of the same name that may send at a time.
    #[arg(long, value_name = "PUBKEY[=NAME][,LIMIT…]", value_parser = discreet::<Allowed>())]
    allow: Vec<Allowed>,
    /// A file with a line for each sender that is let in: its public key, name and limits.
    #[arg(long, value_name = "FILE")]
    allow_from: Option<PathBuf>,
    #[command(flatten)]
    pairing: PairArguments,
    /// Link of a relay (`anabranch serve --relay --pair`), by which senders reach this receiver
    /// behind any router or provider. It need not be called by anybody; the relay cannot read what
    /// it carries. Later starts take the same link, or the one without its code.
    #[arg(long, value_name = "LINK", value_parser = discreet::<Link>())]
    via_relay: Option<Link>,
    /// The constant delay of the output beyond that of the fastest packets, such as "800 ms"; or
    /// "min" [default: the sender's value].
    #[arg(long, value_name = "TIME|min")]
    latency: Option<Latency>,
    /// Begin a new file at the first key frame after this time, such as "10 min", or size, such as
    /// "500 MB". The file's name must have {time} in it.
    #[arg(long, value_name = "TIME|SIZE")]
    rotate: Option<Rotation>,
    /// Let this user's group read recordings and logs, whatever the umask is. Keys, tokens and
    /// lists of senders stay private.
    #[arg(long)]
    group_readable: bool,
    /// Folder for recordings that are started while the program runs, by `anabranch ctl record` or
    /// on the page of --dashboard. Their names have the stream and the time.
    #[arg(long, value_name = "DIR", requires = "control_token")]
    recordings: Option<PathBuf>,
    /// Time of a sender's silence after which its session is over.
    #[arg(long, value_name = "TIME", default_value = "60 s", value_parser = positive)]
    timeout: Duration,
    /// Wait for the next session when one is over.
    #[arg(long)]
    keep_listening: bool,
    /// Print a line about each path at this interval.
    #[arg(long, value_name = "TIME", value_parser = positive)]
    report: Option<Duration>,
    #[command(flatten)]
    pub(crate) observe: ObserveArguments,
    /// Serve the received pictures to players and browsers by WHEP (WebRTC) at /whep of this
    /// address, or of this port of 127.0.0.1, over UDP at the same port; and as fragmented MP4 at
    /// /live.mp4. An address that other machines reach needs --dashboard-token-file.
    #[arg(long, value_name = "[ADDR:]PORT")]
    whep: Option<HttpAddress>,
    #[command(flatten)]
    return_paths: ReturnArguments,
    /// Longest time for which an incomplete frame delays later frames, in place of --latency.
    #[arg(long, value_name = "TIME", help_heading = "For experts")]
    reassembly_wait: Option<Duration>,
    /// Delay of frames before output, in place of --latency: "off", "adaptive" (20 to 500 ms, as
    /// the network requires), or a time.
    #[arg(long, value_name = "off|adaptive|TIME", help_heading = "For experts")]
    #[arg(alias = "jitter-buffer")]
    playout: Option<JitterBuffer>,
    /// Destination of the received video.
    #[arg(required = true, value_name = "OUTPUT")]
    outputs: Vec<Destination>,
}

impl Arguments {
    /// Lets the group read files, if it shall. Private ones have modes of their own.
    fn set_mode_of_files(&self) {
        if self.group_readable {
            system::let_group_read();
        }
    }
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let stop = Stop::new()?;
    stop.on_signals()?;
    let clock = Clock::start();
    arguments.prepare()?;
    let reloads = Reloads::new(&arguments)?;
    let mut plan = arguments.plan()?;
    arguments.make_secrets(&mut plan.others)?;
    let stdout = plan.destinations.standard_output();
    let pictures = arguments.whep.as_ref();
    let observed = arguments.observe.open_with_pictures(stdout, pictures)?;
    let native = plan
        .native
        .as_ref()
        .map(|listen| arguments.listen_at(listen, &plan, clock, &observed))
        .transpose()?;
    let receiver = native.as_ref().map(|native| &native.receiver);
    let names = Arc::new(Mutex::new(plan.allowed.all().to_vec()));
    let all_counters = AllCounters::default();
    let take_snapshots = snapshots(receiver, Arc::clone(&names), all_counters.clone(), clock);
    let observation = observed.start("recv", clock, take_snapshots)?;
    let settings = arguments.settings(plan.has_several, clock, stop.clone(), observation);
    let allowances = Allowances::default();
    allowances.update(&plan.allowed, clock.now());
    let (way_in, desk) = arguments.way_in(native.as_ref());
    let joining = arguments.joining(native.as_ref(), &way_in.host)?;
    let return_paths = ReturnPaths::default();
    return_paths.start(arguments.return_paths, plan.has_several, clock, &stop)?;
    let mut received = ReceivedStreams {
        receiver: receiver.map(|receiver| &**receiver),
        return_paths,
        allowed: plan.allowed,
        allowances,
        streams_in_use: StreamsInUse::default(),
        names,
        destinations: plan.destinations,
        rotation: arguments.rotate,
        settings,
        streams: BTreeMap::new(),
        others: Vec::new(),
        all_counters,
        results: mpsc::channel(),
        open_count: 0,
        worst: None,
        look_at: clock.now(),
        refusal_lines: RefusalLines::default(),
        desk,
        joining,
        by_relay: { arguments.via_relay.as_ref() }.map(|link| ByRelay::new(link, clock.now())),
        held: Held::default(),
        controlled: Controlled::new(arguments.recordings),
        reloads,
    };
    match received.open_all(&plan.others) {
        Err(_) if stop.is_stopped() => {
            print::note("stopped; no session is open");
            return Ok(());
        }
        opened => opened?,
    }
    if let Some(native) = &native {
        native.announce();
    }
    plan.others.iter().for_each(OtherSource::announce);
    received.print_links(&arguments.pairing)?;
    service::ready();
    let outcome = received.run(native.as_ref().map(|native| &native.receptions));
    if let Some(summary) = slowness::locked(&received.settings.slowness).summary() {
        print::note(summary);
    }
    outcome
}

/// Stream and outcome of a session that is over.
type Over = (StreamName, Option<Outcome>);

/// A stream's thread, and the channel to it.
struct StreamWorker {
    sessions: mpsc::Sender<(StreamName, Share, Steering, Reception)>,
    outputs: Outputs,
    thread: Worker,
}

/// A stream by another protocol.
struct OtherStream {
    source: OtherSource,
    outputs: Outputs,
    /// Ends this stream alone.
    stop: Stop,
    thread: Worker,
}

/// All streams, as the main thread sees them.
struct ReceivedStreams<'a> {
    /// Receiver of our own protocol, if any.
    receiver: Option<&'a Receiver>,
    return_paths: ReturnPaths,
    allowed: AllowList,
    allowances: Allowances,
    streams_in_use: StreamsInUse,
    /// Names of senders, for observers.
    names: Arc<Mutex<Vec<Allowed>>>,
    destinations: Destinations,
    rotation: Option<Rotation>,
    settings: StreamSettings,
    /// Threads by stream name. If outputs are shared, all streams have one thread.
    streams: BTreeMap<Option<StreamName>, StreamWorker>,
    /// The streams by other protocols.
    others: Vec<OtherStream>,
    all_counters: AllCounters,
    /// Channel of the outcomes of sessions.
    results: (mpsc::Sender<Over>, mpsc::Receiver<Over>),
    open_count: usize,
    /// First error of a session that becomes the program's.
    worst: Option<anyhow::Error>,
    /// Time of the next check of the file of senders.
    look_at: Instant,
    refusal_lines: RefusalLines,
    /// Codes that wait for their senders.
    desk: Desk,
    joining: Joining,
    /// The relay by which senders come, if any.
    by_relay: Option<ByRelay>,
    /// Sessions whose outputs cannot be opened.
    held: Held<Reception>,
    controlled: Controlled,
    reloads: Reloads,
}

impl ReceivedStreams<'_> {
    /// Opens the outputs of the known streams, so that errors are reported at the start.
    fn open_all(&mut self, others: &[OtherSource]) -> anyhow::Result<()> {
        for pattern in self.destinations.files() {
            self.settings.observation.watch_recordings(pattern);
        }
        for OtherSource { name, .. } in others {
            let is_taken = self
                .allowed
                .all()
                .iter()
                .any(|allowed| allowed.name == *name);
            ensure!(!is_taken, "two streams are called {}", name.as_str());
        }
        let all = self.allowed.all().to_vec();
        for Allowed { name, .. } in &all {
            let count = self.allowed.place_count(name);
            (1..=count).try_for_each(|place| self.open(&name.in_place(place)))?;
        }
        others.iter().try_for_each(|source| self.open_other(source))
    }

    /// Opens a stream of another protocol, and its outputs.
    fn open_other(&mut self, source: &OtherSource) -> anyhow::Result<()> {
        let OtherSource { name, input } = source;
        let names = self.destinations.of(name)?;
        let outputs = Outputs::open(&names, self.rotation, name, &self.settings)?;
        let mut settings = self.settings.clone();
        settings.stop = Stop::new()?;
        let stop = settings.stop.clone();
        let opened = Input::open(input, None, &self.settings.stop, &settings.clock)?;
        let counters = StreamCounters::new(name.clone(), input.protocol(), opened.links());
        let counters = Arc::new(counters);
        self.all_counters.add(Arc::clone(&counters));
        let carrier = Carrier::new(name.clone(), settings, counters);
        let results = self.results.0.clone();
        let (name, its_outputs) = (name.clone(), outputs.clone());
        let (its_stop, all_stop) = (stop.clone(), self.settings.stop.clone());
        let thread = Worker::spawn("stream", move || {
            let outcome = carrier.run(opened, &its_outputs);
            // A stream that its owner has taken away does not end the program.
            let is_removed = its_stop.is_stopped() && !all_stop.is_stopped();
            let _ = results.send((name, (!is_removed).then_some(outcome)));
        });
        self.others.push(OtherStream {
            source: source.clone(),
            outputs,
            stop,
            thread: thread.context("cannot start a thread")?,
        });
        self.open_count += 1;
        Ok(())
    }

    /// Returns the owner of a stream's thread: the stream, or `None` if outputs are shared.
    fn owner(&self, name: &StreamName) -> Option<StreamName> {
        (!self.destinations.are_shared()).then(|| name.clone())
    }

    /// Opens a stream's outputs and starts its thread, unless it has one.
    fn open(&mut self, name: &StreamName) -> anyhow::Result<()> {
        let owner = self.owner(name);
        if self.streams.contains_key(&owner) {
            return Ok(());
        }
        let names = self.destinations.of(name)?;
        let outputs = Outputs::open(&names, self.rotation, name, &self.settings)?;
        let its_outputs = outputs.clone();
        let (sessions, receptions) = mpsc::channel::<(StreamName, Share, Steering, Reception)>();
        let (settings, results) = (self.settings.clone(), self.results.0.clone());
        let thread = Worker::spawn("stream", move || {
            for (name, share, steering, reception) in receptions {
                let place = name.clone();
                let session =
                    Session::new(name, share, &reception, &its_outputs, steering, &settings);
                // The main thread ends last.
                let _ = results.send((place, session.run()));
            }
        });
        let worker = StreamWorker {
            sessions,
            outputs,
            thread: thread.context("cannot start a thread")?,
        };
        self.streams.insert(owner, worker);
        Ok(())
    }

    fn run(&mut self, receptions: Option<&Receptions>) -> anyhow::Result<()> {
        Receiving {
            streams: self,
            receptions,
        }
        .run_turns();
        self.finish()
    }

    /// Passes a new session to its stream's thread.
    fn take(&mut self, reception: Reception) {
        // Its sender may have been added just now.
        self.take_paired(self.settings.clock.now());
        let peer = reception.peer();
        let of = self.allowed.name_of(&peer);
        let count = self.allowed.place_count(&of);
        let Some(name) = self.streams_in_use.enter(peer, &of, count) else {
            let owner = of.as_str();
            print::warn(format_args!(
                "{owner}: its earlier sessions are not written yet"
            ));
            reception.close();
            return;
        };
        if let Err(error) = self.open(&name) {
            print::warn(format_args!("{}: {error:#}", name.as_str()));
            self.held.hold(self.settings.clock.now(), &name, reception);
            return;
        }
        self.held.on_opened(&name);
        self.publish_names();
        let owner = self.owner(&name);
        if let Some(worker) = self.streams.get(&owner) {
            self.open_count += 1;
            self.return_paths.add(name.clone(), reception.return_path());
            let share = Share::new(of, self.allowances.clone());
            let steering = self.controlled.begin(&name, &reception);
            // A thread that panicked has printed why.
            let _ = worker.sessions.send((name, share, steering, reception));
        }
    }

    /// Takes the outcomes of sessions. Returns whether the last of them ends the program.
    fn take_results(&mut self) -> bool {
        let mut is_over = false;
        while let Ok((name, outcome)) = self.results.1.try_recv() {
            self.streams_in_use.leave(&name);
            if !self.streams_in_use.has(&name) {
                self.controlled.end(&name);
            }
            self.open_count -= 1;
            is_over |= outcome.is_some();
            if let Some(Err(error)) = outcome {
                let is_alone = self.open_count == 0 && !self.settings.keeps_listening;
                if self.worst.is_none() && (is_alone || self.settings.stop.is_stopped()) {
                    self.worst = Some(error)
                } else {
                    print::warn(format_args!("{error:#}"))
                }
            }
        }
        is_over && self.open_count == 0 && !self.settings.keeps_listening
    }

    /// Checks the file of senders and the load of the machine.
    fn tend(&mut self) {
        let now = self.settings.clock.now();
        self.follow_orders(now);
        self.take_paired(now);
        for (name, reception) in self.held.take_due(now) {
            self.streams_in_use.leave(&name);
            reception.close();
        }
        if now >= self.look_at {
            self.look_at = now + FILE_INTERVAL;
            self.look_for_invitations();
            self.watch_relay(now);
            self.refresh_list(now);
            self.print_refused_senders(now);
        }
        let lateness = self.settings.stop.lateness(&self.settings.clock);
        let lateness = self
            .receiver
            .map_or(lateness, |receiver| lateness.max(receiver.lateness()));
        let StreamSettings { observation, .. } = &self.settings;
        slowness::locked(&self.settings.slowness).watch(now, lateness, observation, "recv");
        service::turn(now, self.settings.stop.is_stopped());
    }
}
