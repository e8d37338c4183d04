//! `anabranch recv`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;

use anabranch_core::MediaConfig;
use anabranch_net::{Clock, Ended, Event, Events, Receiver, ServerConfig, Snapshot};
use anabranch_secure::PublicKey;
use anabranch_units::{Duration, Instant};
use anabranch_video::player::JitterBuffer;

use crate::command_line::{positive, socket_addr};
use crate::delivery::Delivery;
use crate::exit::PeerLost;
use crate::io::{Output, OutputName, Playout};
use crate::keygen::{PublicKeyParser, read_key};
use crate::observe::{Look, Observation, ObserveArguments, StandardOutput};
use crate::print;
use crate::slowness::Slowness;
use crate::stop::Stop;
use crate::summary::{self, End, Meter};

/// How often the main thread looks up from waiting for events.
const LOOK_INTERVAL: core::time::Duration = core::time::Duration::from_millis(50);

/// Receives video and writes it to a file, a pipe or a player.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
OUTPUT is one of
  FILE              the video in order, as MPEG-TS; an existing file is overwritten when the first
                    video arrives
  -                 the same to standard output
  udp://ADDR:PORT   datagrams of seven MPEG-TS packets, for players

Examples:
  anabranch recv --listen 0.0.0.0:7000 --key studio.key --allow abpub_… film.ts

  Watch it live (-fflags nobuffer: with as little delay as the player can):
  anabranch recv --listen 0.0.0.0:7000 --key studio.key --allow abpub_… udp://127.0.0.1:6000 &
  ffplay -fflags nobuffer udp://127.0.0.1:6000

A named pipe as FILE is opened when somebody reads it.

Without --keep-listening the program ends with the sender's session. The first Ctrl-C tells the
sender that this receiver ends and prints a summary; the sender waits for the next
receiver at this address. A second Ctrl-C ends the program at once.")]
pub(crate) struct Arguments {
    /// Address and port to listen at; `[::]:PORT` takes IPv4 and IPv6.
    #[arg(long, value_name = "ADDR")]
    listen: String,
    /// This end's key file, from `anabranch keygen`.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Public key of a sender that is let in; may be given several times.
    #[arg(long, value_name = "PUBKEY", required = true, value_parser = PublicKeyParser)]
    allow: Vec<PublicKey>,
    /// How long a frame may take, from when the fastest ones arrive, such as "500 ms": until then
    /// an incomplete one holds up those after it.
    #[arg(long, value_name = "TIME", default_value_t = MediaConfig::default().reassembly_wait)]
    latency: Duration,
    /// How long frames are kept back so that they leave as evenly as they were taken: "off",
    /// "adaptive" (20 to 500 ms, as the network asks for), or a time such as "200 ms". It counts
    /// from the arrival of the fastest frames.
    #[arg(long, value_name = "off|adaptive|TIME", default_value_t = JitterBuffer::Off)]
    jitter_buffer: JitterBuffer,
    /// How long a sender may be silent before its session counts as over.
    #[arg(long, value_name = "TIME", default_value = "60 s", value_parser = positive)]
    timeout: Duration,
    /// Go on waiting for the next session when one is over.
    #[arg(long)]
    keep_listening: bool,
    /// Print a line about each path at this interval.
    #[arg(long, value_name = "TIME", value_parser = positive)]
    report: Option<Duration>,
    #[command(flatten)]
    observe: ObserveArguments,
    /// Where to write what is received.
    output: OutputName,
}

pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let stop = Stop::new()?;
    stop.on_signals()?;
    let clock = Clock::start();
    let listen = socket_addr("--listen", &arguments.listen)?;
    let local_key = read_key(&arguments.key)?;
    let local_public = local_key.public_key();
    let observed = arguments.observe.open(match arguments.output {
        OutputName::Stdout => StandardOutput::CarriesVideo,
        _ => StandardOutput::Free,
    })?;
    let mut config = ServerConfig::new(listen, local_key, arguments.allow);
    config.clock = clock;
    config.observer = observed.packet_observer();
    config.silence_timeout = arguments.timeout;
    config.transport.media.reassembly_wait = arguments.latency;
    let (receiver, events) = Receiver::start(config)?;
    let receiver = Arc::new(receiver);
    let observation = observed.start("recv", clock, looks(&receiver))?;
    let output = match Output::open(&arguments.output, &clock, &stop) {
        Err(_) if stop.is_stopped() => {
            print::note(format_args!("stopped; no session is open"));
            return Ok(());
        }
        output => output?,
    };
    print::note(format_args!(
        "listening at {} as {local_public}",
        receiver.local_addr()
    ));
    let mut session = Session {
        receiver: &receiver,
        events,
        output,
        jitter_buffer: arguments.jitter_buffer,
        playout: Playout::new(arguments.jitter_buffer, clock.now()),
        stop,
        clock,
        keeps_listening: arguments.keep_listening,
        is_connected: false,
        stats: arguments.report,
        meter: Meter::new(arguments.report, clock.now()),
        slowness: Slowness::default(),
        observation,
        peer: String::new(),
    };
    session.run()
}

/// What is seen of the sessions, as long as there is a receiver.
fn looks(receiver: &Arc<Receiver>) -> impl Fn() -> Vec<Look> + Send + 'static {
    let receiver = Arc::downgrade(receiver);
    move || {
        let seen = receiver.upgrade().map(|receiver| receiver.snapshots());
        let look = |snapshot: Snapshot| Look {
            name: snapshot.peer.map_or(String::new(), |peer| peer.to_string()),
            path_names: Vec::new(),
            snapshot,
        };
        seen.unwrap_or_default().into_iter().map(look).collect()
    }
}

struct Session<'a> {
    receiver: &'a Receiver,
    events: Events,
    output: Output,
    jitter_buffer: JitterBuffer,
    playout: Playout,
    stop: Stop,
    clock: Clock,
    keeps_listening: bool,
    is_connected: bool,
    stats: Option<Duration>,
    meter: Meter,
    slowness: Slowness,
    observation: Observation,
    /// Of the last session.
    peer: String,
}

impl Session<'_> {
    fn run(&mut self) -> anyhow::Result<()> {
        loop {
            match self.events.recv_timeout(self.patience()) {
                Ok(Event::FrameReceived(frame)) => {
                    self.observation.on_frame(&self.peer, &frame);
                    self.playout.push(self.clock.now(), frame);
                }
                Ok(Event::FrameDropped { .. }) => self.playout.on_dropped(self.clock.now()),
                Ok(Event::Connected { peer, .. }) => {
                    self.is_connected = true;
                    self.peer = peer.to_string();
                    self.playout = Playout::new(self.jitter_buffer, self.clock.now());
                    self.meter = Meter::new(self.stats, self.clock.now());
                    print::note(format_args!("connected to {peer}"));
                }
                Ok(Event::Ended(ended)) => {
                    self.is_connected = false;
                    let written = self.play_out();
                    // By now there may be another session.
                    let seen = self.receiver.take_ended();
                    let seen = seen.unwrap_or_else(|| self.receiver.snapshot());
                    self.summarize(&seen);
                    written?;
                    if let Some(done) = self.outcome(ended, &seen) {
                        return done;
                    }
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if let Err(error) = self.write_due() {
                self.summarize(&self.receiver.snapshot());
                return Err(error);
            }
            if self.stop.is_stopped() {
                if !self.is_connected {
                    print::note(format_args!("stopped; no session is open"));
                    return Ok(());
                }
                self.receiver.close();
            }
            self.print_statistics();
        }
    }

    /// How long to wait for events: until the next frame is due.
    fn patience(&self) -> core::time::Duration {
        let until = |at: Instant| at.saturating_since(self.clock.now()).to_std();
        let due = self.playout.next_at().map_or(LOOK_INTERVAL, until);
        due.min(LOOK_INTERVAL)
    }

    /// Writes the frames whose time has come.
    fn write_due(&mut self) -> anyhow::Result<()> {
        while let Some(bytes) = self.playout.pop(self.clock.now()) {
            self.output.write(&bytes, &self.clock, &self.stop)?;
        }
        Ok(())
    }

    /// Writes what is left of a session that is over, each frame at its time; who cannot wait gets
    /// it at once.
    fn play_out(&mut self) -> anyhow::Result<()> {
        while let Some(at) = self.playout.next_at() {
            self.stop.wait_until(&self.clock, at);
            if let Some(bytes) = self.playout.pop(at.max(self.clock.now())) {
                self.output.write(&bytes, &self.clock, &self.stop)?;
            }
        }
        Ok(())
    }

    /// What the end of a session is to the program: nothing yet while it goes on listening.
    fn outcome(&self, ended: Ended, seen: &Snapshot) -> Option<anyhow::Result<()>> {
        let delivery = Delivery::of(End::Receiver, seen, 0);
        match ended {
            // Who stops a session that brought nothing knows it, and who listens on has others.
            _ if self.stop.is_stopped() && (self.keeps_listening || delivery.share().is_none()) => {
                Some(Ok(()))
            }
            _ if self.stop.is_stopped() => Some(delivery.check()),
            Ended::Replaced => None,
            ended if self.keeps_listening => {
                print::note(format_args!("session over: {ended}"));
                None
            }
            Ended::Closed | Ended::ClosedByPeer => Some(delivery.check()),
            ended => Some(Err(PeerLost(ended).into())),
        }
    }

    fn summarize(&self, seen: &Snapshot) {
        print::note(summary::table(End::Receiver, seen, &[]));
        if self.jitter_buffer != JitterBuffer::Off {
            print::note(self.playout.summary(self.clock.now()));
        }
    }

    fn print_statistics(&mut self) {
        let now = self.clock.now();
        if !self.is_connected {
            return;
        }
        if self.meter.is_due(now) {
            let snapshot = self.receiver.snapshot();
            print::note(self.meter.line(End::Receiver, snapshot, &[]));
        }
        let lateness = self.receiver.lateness();
        let lateness = lateness.max(self.stop.lateness(&self.clock));
        let told = self.slowness.news(now, lateness);
        told.into_iter().for_each(print::note);
    }
}
