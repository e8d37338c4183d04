//! `anabranch recv`.

mod allowance;
mod destination;
mod ending;
mod held;
mod listen;
mod outputs;
mod pairing;
mod phones;
mod places;
mod qr_code;
mod receivers;
mod returns;
mod senders;
mod stream;
mod tally;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use anabranch_mpegts_io::{Input, PARAMETERS, Rotation};
use anabranch_net::{Clock, Receiver, Reception, Receptions, ServerConfig};
use anabranch_observe::{Opened, service};
use anabranch_secure::PublicKey;
use anabranch_terminal::arguments::positive;
use anabranch_terminal::print;
use anabranch_terminal::stop::Stop;
use anabranch_units::{Duration, Instant};
use anabranch_video::player::JitterBuffer;
use anyhow::{Context, bail, ensure};
use rustix::fs::Mode;
use rustix::process::umask;

use crate::allowed::{AllowList, Allowed, Door, StreamName};
use crate::command_line::{allow_many_files, listen_addr, tcp_addr};
use crate::keygen::{discreet, read_key, read_or_make_key};
use crate::latency::Latency;
use crate::observe_arguments::ObserveArguments;
use crate::refusals::RefusalLines;
use crate::slowness;
use allowance::{Allowances, Share};
use destination::{Destination, Destinations};
use held::Held;
use listen::{Carrier, Listen, OtherSource, Sources};
use outputs::Outputs;
use pairing::PairArguments;
use places::Places;
use returns::{ReturnArguments, Returns};
use stream::{Manner, Outcome, Session};
use tally::{Tallies, Tally, looks};

/// Longest wait of the main thread for a session.
const LOOK_INTERVAL: core::time::Duration = core::time::Duration::from_millis(50);
/// Interval between two checks whether the file of senders has changed.
const FILE_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of sessions at a time (chosen).
const MAX_SESSIONS: usize = 10_000;

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

  Watch it live (-fflags nobuffer: with as little delay as the player can):
  anabranch recv --listen 0.0.0.0:7000 --key studio.key --allow abpub_… udp://127.0.0.1:6000 &
  ffplay -fflags nobuffer udp://127.0.0.1:6000

  Two cameras at once, each with a player and with recordings of ten minutes:
  anabranch recv --listen 0.0.0.0:7000 --key studio.key --allow abpub_…A=front \\
    --allow abpub_…B=roof front=udp://127.0.0.1:6000 roof=udp://127.0.0.1:6001 \\
    --rotate '10 min' 'recordings/{name}-{time}.ts'

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
    #[arg(long, required_unless_present = "pair", value_name = "ADDR|[NAME=]URL")]
    listen: Vec<Listen>,
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
    #[command(flatten)]
    returns: ReturnArguments,
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

/// Sources, senders and outputs that the arguments request.
struct Plan {
    /// Address at which to listen for our own protocol.
    native: Option<String>,
    others: Vec<OtherSource>,
    allowed: AllowList,
    destinations: Destinations,
    /// Whether there may be more than one stream.
    has_several: bool,
}

/// The receiver of our own protocol.
struct Native {
    receiver: Arc<Receiver>,
    receptions: Receptions,
    key: PublicKey,
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let stop = Stop::new()?;
    stop.on_signals()?;
    allow_many_files();
    if arguments.group_readable {
        // Files that must stay private are made with a mode of their own.
        umask(Mode::WGRP | Mode::RWXO);
    }
    let clock = Clock::start();
    arguments.prepare()?;
    let mut plan = arguments.plan()?;
    arguments.pairing.make_passphrases(&mut plan.others)?;
    let stdout = plan.destinations.standard_output();
    let observed = arguments.observe.open(stdout)?;
    let native = plan.native.as_ref();
    let native = native.map(|listen| arguments.listen_at(listen, &plan, clock, &observed));
    let native = native.transpose()?;
    let receiver = native.as_ref().map(|native| &native.receiver);
    let names = Arc::new(Mutex::new(plan.allowed.all().to_vec()));
    let tallies = Tallies::default();
    let look = looks(receiver, Arc::clone(&names), tallies.clone(), clock);
    let manner = Manner {
        buffer: arguments.buffer(),
        report: arguments.report,
        keeps_listening: arguments.keep_listening,
        shows_names: plan.has_several,
        clock,
        stop: stop.clone(),
        observation: Arc::new(observed.start("recv", clock, look)?),
        slowness: Arc::default(),
    };
    for pattern in plan.destinations.files() {
        manner.observation.watch_recordings(pattern);
    }
    let slowness = Arc::clone(&manner.slowness);
    let allowances = Allowances::default();
    allowances.update(&plan.allowed, clock.now());
    let returns = Returns::default();
    returns.start(arguments.returns, plan.has_several, clock, &stop)?;
    let mut studio = Studio {
        receiver: receiver.map(|receiver| &**receiver),
        returns,
        allowed: plan.allowed,
        allowances,
        places: Places::default(),
        names,
        destinations: plan.destinations,
        rotation: arguments.rotate,
        manner,
        streams: BTreeMap::new(),
        others: Vec::new(),
        tallies,
        results: mpsc::channel(),
        open_count: 0,
        worst: None,
        look_at: clock.now(),
        refusal_lines: RefusalLines::default(),
        is_pairing: arguments.pairing.is_asked(),
        held: Held::default(),
    };
    match studio.open_all(&plan.others) {
        Err(_) if stop.is_stopped() => {
            print::note("stopped; no session is open");
            return Ok(());
        }
        opened => opened?,
    }
    if let Some(native) = &native {
        native.announce();
        arguments.pairing.start(&native.receiver, native.key)?;
    }
    plan.others.iter().for_each(OtherSource::announce);
    arguments.pairing.print_phones(&plan.others)?;
    service::ready();
    let outcome = studio.run(native.as_ref().map(|native| &native.receptions));
    let summary = slowness::locked(&slowness).summary();
    summary.into_iter().for_each(print::note);
    outcome
}

impl Arguments {
    /// Checks whether the arguments can be used, as far as possible without a session.
    ///
    /// # Errors
    /// An argument, or a file that it names, cannot be used.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        destination::check(&self.outputs, self.rotate)?;
        let is_made = |file: Option<PathBuf>| file.is_some_and(|file| file.exists());
        if self.pairing.is_asked() && !(is_made(self.key_file()) && is_made(self.list())) {
            // Missing files are made at the start.
            return self.sources().map(|_| ());
        }
        let plan = self.plan()?;
        if let Some(listen) = &plan.native {
            self.config(listen, &plan.allowed)?;
        }
        Ok(())
    }

    fn plan(&self) -> anyhow::Result<Plan> {
        let Sources { native, others } = self.sources()?;
        let list = self.list();
        let allowed = match &native {
            Some(_) => AllowList::new(Door::Recv, self.allow.clone(), list.as_deref())?,
            None if !self.allow.is_empty() || self.allow_from.is_some() => {
                bail!("senders of --allow need an address without a protocol: --listen ADDR:PORT")
            }
            None if self.listen_tcp.is_some() => {
                bail!("--listen-tcp needs an address without a protocol, too: --listen ADDR:PORT")
            }
            None => AllowList::default(),
        };
        let stream_count = allowed.all().len() + others.len();
        let has_several = list.is_some() || stream_count > 1;
        let destinations = Destinations::new(self.outputs.clone(), has_several)?;
        ensure!(
            others.is_empty() || !destinations.are_shared(),
            "several streams cannot share an output: say whose it is, as NAME=OUTPUT or with \
             {{name}} in the file's name"
        );
        Ok(Plan {
            native,
            others,
            allowed,
            destinations,
            has_several,
        })
    }

    /// Listens for senders of our own protocol.
    fn listen_at(
        &self,
        listen: &str,
        plan: &Plan,
        clock: Clock,
        observed: &Opened,
    ) -> anyhow::Result<Native> {
        let mut config = self.config(listen, &plan.allowed)?;
        config.clock = clock;
        config.observer = observed.packet_observer();
        if plan.destinations.are_shared() {
            config.max_sessions = 1;
        }
        let key = config.local_key.public_key();
        let (receiver, receptions) = Receiver::start(config)?;
        Ok(Native {
            receiver: Arc::new(receiver),
            receptions,
            key,
        })
    }

    /// Returns this end's own choice of the delay before output; `None`: both ends agree on it.
    fn buffer(&self) -> Option<JitterBuffer> {
        self.playout
            .or_else(|| self.latency.and_then(Latency::buffer))
    }

    /// Returns the configuration of the receiver of our own protocol.
    fn config(&self, listen: &str, allowed: &AllowList) -> anyhow::Result<ServerConfig> {
        let listen = listen_addr(listen)?;
        let Some(key) = self.key_file() else {
            bail!(
                "--listen {listen} needs --key FILE, from `anabranch keygen`; --pair makes one and \
                 prints a link for the sender"
            );
        };
        let key = match self.pairing.is_asked() {
            true => read_or_make_key(&key)?,
            false => read_key(&key)?,
        };
        let own = key.public_key();
        ensure!(
            !allowed.keys().contains(&own),
            "{own} is this receiver's own key: let in the sender's, which its `anabranch keygen \
             --show` prints"
        );
        let mut config = ServerConfig::new(listen, key, allowed.keys());
        config.listen_tcp = tcp_addr(self.listen_tcp.as_deref())?;
        config.silence_timeout = self.timeout;
        config.max_sessions = MAX_SESSIONS;
        config.places = allowed.places();
        config.latency = self.latency.and_then(Latency::requested);
        config.reassembly_wait = self.reassembly_wait;
        if self.buffer() == Some(JitterBuffer::Off) {
            config.transport.media.hand_out = anabranch_core::HandOut::PartsInOrder;
        }
        Ok(config)
    }
}

/// Stream and outcome of a session that is over.
type Over = (StreamName, Option<Outcome>);

/// A stream's thread, and the channel to it.
struct Worker {
    sessions: mpsc::Sender<(StreamName, Share, Reception)>,
    thread: JoinHandle<()>,
}

/// All streams, as the main thread sees them.
struct Studio<'a> {
    /// Receiver of our own protocol, if any.
    receiver: Option<&'a Receiver>,
    returns: Returns,
    allowed: AllowList,
    allowances: Allowances,
    places: Places,
    /// Names of senders, for observers.
    names: Arc<Mutex<Vec<Allowed>>>,
    destinations: Destinations,
    rotation: Option<Rotation>,
    manner: Manner,
    /// Threads by stream name. If outputs are shared, all streams have one thread.
    streams: BTreeMap<Option<StreamName>, Worker>,
    /// The threads of streams by other protocols.
    others: Vec<JoinHandle<()>>,
    tallies: Tallies,
    /// Channel of the outcomes of sessions.
    results: (mpsc::Sender<Over>, mpsc::Receiver<Over>),
    open_count: usize,
    /// First error of a session that becomes the program's.
    worst: Option<anyhow::Error>,
    /// Time of the next check of the file of senders.
    look_at: Instant,
    refusal_lines: RefusalLines,
    /// Whether a link waits for its sender.
    is_pairing: bool,
    /// Sessions whose outputs cannot be opened.
    held: Held<Reception>,
}

impl Studio<'_> {
    /// Opens the outputs of the known streams, so that errors are reported at the start.
    fn open_all(&mut self, others: &[OtherSource]) -> anyhow::Result<()> {
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
        let mut outputs = Outputs::open(&names, self.rotation, name, &self.manner)?;
        let Manner { clock, stop, .. } = &self.manner;
        let source = Input::open(input, None, stop, clock)?;
        let tally = Tally::new(name.clone(), input.protocol(), source.links());
        let tally = Arc::new(tally);
        self.tallies.add(Arc::clone(&tally));
        let carrier = Carrier::new(name.clone(), self.manner.clone(), tally);
        let results = self.results.0.clone();
        let thread = std::thread::Builder::new().name("stream".to_owned());
        let name = name.clone();
        let thread = thread.spawn(move || {
            let outcome = carrier.run(source, &mut outputs);
            // Close the outputs before the main thread ends.
            drop(outputs);
            let _ = results.send((name, Some(outcome)));
        });
        self.others.push(thread.context("cannot start a thread")?);
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
        let mut outputs = Outputs::open(&names, self.rotation, name, &self.manner)?;
        let (sessions, receptions) = mpsc::channel::<(StreamName, Share, Reception)>();
        let (manner, results) = (self.manner.clone(), self.results.0.clone());
        let thread = std::thread::Builder::new().name("stream".to_owned());
        let thread = thread.spawn(move || {
            for (name, share, reception) in receptions {
                let place = name.clone();
                let session = Session::new(name, share, &reception, &mut outputs, &manner);
                // The main thread ends last.
                let _ = results.send((place, session.run()));
            }
        });
        let thread = thread.context("cannot start a thread")?;
        self.streams.insert(owner, Worker { sessions, thread });
        Ok(())
    }

    fn run(&mut self, receptions: Option<&Receptions>) -> anyhow::Result<()> {
        loop {
            match receptions.map(|receptions| receptions.recv_timeout(LOOK_INTERVAL)) {
                Some(Ok(reception)) => self.take(reception),
                Some(Err(RecvTimeoutError::Timeout)) => {}
                Some(Err(RecvTimeoutError::Disconnected)) => break,
                None if self.manner.stop.is_stopped() => break,
                None => {
                    let Manner { clock, stop, .. } = &self.manner;
                    stop.wait_until(clock, clock.now() + Duration::from_std(LOOK_INTERVAL));
                }
            }
            let is_last = self.take_results();
            if self.manner.stop.is_stopped() {
                if self.open_count == 0 && self.worst.is_none() && !is_last {
                    print::note("stopped; no session is open");
                }
                self.receiver.inspect(|receiver| receiver.close());
            } else if is_last {
                break;
            }
            self.look();
        }
        self.finish()
    }

    /// Passes a new session to its stream's thread.
    fn take(&mut self, reception: Reception) {
        // Its sender may have been added just now.
        self.take_pairing_outcomes(self.manner.clock.now());
        let peer = reception.peer();
        let of = self.allowed.name_of(&peer);
        let count = self.allowed.place_count(&of);
        let Some(name) = self.places.enter(peer, &of, count) else {
            let of = of.as_str();
            print::warn(format_args!(
                "{of}: its earlier sessions are not written yet"
            ));
            reception.close();
            return;
        };
        if let Err(error) = self.open(&name) {
            print::warn(format_args!("{}: {error:#}", name.as_str()));
            self.held.hold(self.manner.clock.now(), &name, reception);
            return;
        }
        self.held.on_opened(&name);
        self.publish_names();
        let owner = self.owner(&name);
        if let Some(worker) = self.streams.get(&owner) {
            self.open_count += 1;
            self.returns.add(name.clone(), reception.return_path());
            let share = Share::new(of, self.allowances.clone());
            // A thread that panicked has printed why.
            let _ = worker.sessions.send((name, share, reception));
        }
    }

    /// Takes the outcomes of sessions. Returns whether the last of them ends the program.
    fn take_results(&mut self) -> bool {
        let mut is_over = false;
        while let Ok((name, outcome)) = self.results.1.try_recv() {
            self.places.leave(&name);
            self.open_count -= 1;
            is_over |= outcome.is_some();
            if let Some(Err(error)) = outcome {
                let is_alone = self.open_count == 0 && !self.manner.keeps_listening;
                match self.worst.is_none() && (is_alone || self.manner.stop.is_stopped()) {
                    true => self.worst = Some(error),
                    false => print::warn(format_args!("{error:#}")),
                }
            }
        }
        is_over && self.open_count == 0 && !self.manner.keeps_listening
    }

    /// Checks the file of senders and the load of the machine.
    fn look(&mut self) {
        let now = self.manner.clock.now();
        self.take_pairing_outcomes(now);
        for (name, reception) in self.held.take_due(now) {
            self.places.leave(&name);
            reception.close();
        }
        if now >= self.look_at {
            self.look_at = now + FILE_INTERVAL;
            self.refresh_list(now);
            self.print_refused_senders(now);
        }
        let lateness = self.manner.stop.lateness(&self.manner.clock);
        let lateness = self
            .receiver
            .map_or(lateness, |receiver| lateness.max(receiver.lateness()));
        let Manner { observation, .. } = &self.manner;
        slowness::locked(&self.manner.slowness).watch(now, lateness, observation, "recv");
        service::turn(now, self.manner.stop.is_stopped());
    }
}
