//! `anabranch serve`.

use core::time::Duration as StdDuration;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;

use anabranch_net::{Accepted, Clock, Event, Events, ServerConfig, Snapshot, StreamServer};
use anabranch_secure::{Cargo, PublicKey};
use anabranch_units::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::command_line::{allow_many_files, positive, socket_addr, tcp_addr, told_tcp};
use crate::keygen::{PublicKeyParser, read_key};
use crate::observe::{Look, ObserveArguments, StandardOutput};
use crate::slowness::Slowness;
use crate::stop::Stop;
use crate::summary::{self, Datagrams, End, Meter};
use crate::tunnel::policy::Policy;
use crate::tunnel::relay::Answered;
use crate::tunnel::request::{self, Answer};
use crate::tunnel::tun::{self, TunArguments};
use crate::tunnel::udp::{DatagramArguments, far};
use crate::tunnel::{self, Destination, TransportArguments, relay};
use crate::turned_away::TurnedAwayNews;
use crate::{print, service};

/// How often the main thread looks up from waiting for events.
const LOOK_INTERVAL: StdDuration = StdDuration::from_millis(50);
/// How long a target may take to answer.
const CONNECT_TIMEOUT: StdDuration = StdDuration::from_secs(10);

/// Lets proxies' TCP connections, UDP flows and IP packets out: the far end of `anabranch proxy`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  Beside a web server, for viewers who bond their networks:
  anabranch serve --listen 0.0.0.0:7000 --key origin.key --allow abpub_… --forward 127.0.0.1:80

  As a way into the Internet, for browsers whose proxy is `anabranch proxy --socks5`:
  anabranch serve --listen 0.0.0.0:7000 --key home.key --allow abpub_… --connect any

  Beside an SRT server, for encoders that send to `anabranch proxy --udp 5000=127.0.0.1:5000`:
  anabranch serve --listen 0.0.0.0:7000 --key studio.key --allow abpub_… --connect 127.0.0.1:5000

  For packets of whole machines, as root; forwarding and address translation are yours to set up, by
  the commands in docs/operations.md:
  anabranch serve --listen 0.0.0.0:7000 --key home.key --allow abpub_… --tun ab0

Each allowed key has one session for connections and one for UDP and packets at a time; a second
program with the same key replaces the first.
The first Ctrl-C tells the proxies, which wait for the next server; a second one ends the program
at once.")]
#[command(group = clap::ArgGroup::new("destinations").required(true).multiple(true)
    .args(["forward", "connect", "tun"]))]
pub(crate) struct Arguments {
    /// Address and port to listen at; `[::]:PORT` takes IPv4 and IPv6.
    #[arg(long, value_name = "ADDR")]
    listen: String,
    /// Address and port at which to accept TCP connections, too, for proxies whose networks block
    /// UDP; they try port 443. Ports below 1,024 need root or CAP_NET_BIND_SERVICE.
    #[arg(long, value_name = "ADDR")]
    listen_tcp: Option<String>,
    /// This end's key file, from `anabranch keygen`.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Public key of a proxy that is let in; may be given several times.
    #[arg(long, value_name = "PUBKEY", required = true, value_parser = PublicKeyParser)]
    allow: Vec<PublicKey>,
    /// Where the connections go that arrive at a proxy's --listen.
    #[arg(long, value_name = "HOST:PORT")]
    forward: Option<String>,
    /// Where applications behind a proxy's --socks5, --http-proxy and --udp may connect to: `any`,
    /// `HOST:PORT`, `HOST:*` or `*:PORT`; may be given several times. `any` includes what only this
    /// machine can reach.
    #[arg(long, value_name = "HOST:PORT")]
    connect: Vec<Destination>,
    /// How long a proxy may be silent before its session, with all connections, counts as over.
    #[arg(long, value_name = "TIME", default_value = "300 s", value_parser = positive)]
    timeout: Duration,
    /// Print a line about each session at this interval.
    #[arg(long, value_name = "TIME", value_parser = positive)]
    report: Option<Duration>,
    #[command(flatten)]
    pub(crate) observe: ObserveArguments,
    #[command(flatten)]
    transport: TransportArguments,
    #[command(flatten)]
    datagrams: DatagramArguments,
    #[command(flatten)]
    tun: TunArguments,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let stop = Stop::new()?;
    stop.on_signals()?;
    allow_many_files();
    let clock = Clock::start();
    let local_key = read_key(&arguments.key)?;
    let local_public = local_key.public_key();
    let listen = socket_addr("--listen", &arguments.listen)?;
    let observed = arguments.observe.open(StandardOutput::Free)?;
    let config = ServerConfig {
        transport: arguments.transport.config()?,
        clock,
        observer: observed.packet_observer(),
        max_sessions: arguments.allow.len(),
        silence_timeout: arguments.timeout,
        listen_tcp: tcp_addr(arguments.listen_tcp.as_deref())?,
        ..ServerConfig::new(listen, local_key, arguments.allow.clone())
    };
    let policy = Policy::new(arguments.forward.clone(), arguments.connect.clone());
    let tasks = tunnel::tasks()?;
    let gate = {
        let _is_within = tasks.enter();
        tun::far::Gate::open(&arguments.tun, &arguments.allow)?
    };
    let datagrams = arguments.datagrams.config();
    let (server, accepted, accepted_datagrams, events) =
        StreamServer::start_with_datagrams(config, datagrams)?;
    let server = Arc::new(server);
    let _observation = observed.start("serve", clock, looks(&server))?;
    let policy = Arc::new(policy);
    tasks.spawn(serve_all(accepted, Arc::clone(&policy)));
    gate.clone().map(|gate| tasks.spawn(gate.run()));
    tasks.spawn(far::serve_all(accepted_datagrams, policy, gate));
    print::note(format_args!(
        "listening at {}{} as {local_public}",
        server.local_addr(),
        told_tcp(server.local_tcp_addr())
    ));
    service::ready();
    watch(arguments, &server, &events, &stop, &clock);
    Ok(())
}

impl Arguments {
    /// Whether what they name can be used, as far as that is known without a session.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        read_key(&self.key)?;
        tcp_addr(self.listen_tcp.as_deref())?;
        socket_addr("--listen", &self.listen).map(drop)
    }
}

/// What is seen of the sessions, as long as there is a server.
fn looks(server: &Arc<StreamServer>) -> impl Fn() -> Vec<Look> + Send + 'static {
    let server = Arc::downgrade(server);
    move || {
        let seen = server.upgrade().map(|server| server.snapshots());
        let look = |snapshot: Snapshot| Look {
            name: match (snapshot.cargo, snapshot.peer) {
                (Some(cargo), Some(peer)) => format!("{} of {peer}", tunnel::name(cargo)),
                _ => String::new(),
            },
            path_names: Vec::new(),
            snapshot,
            foreign: None,
        };
        seen.unwrap_or_default().into_iter().map(look).collect()
    }
}

async fn serve_all(mut accepted: UnboundedReceiver<Accepted>, policy: Arc<Policy>) {
    while let Some(accepted) = accepted.recv().await {
        let policy = Arc::clone(&policy);
        // A connection that breaks off is its two ends' concern.
        tokio::spawn(async move { serve(accepted, &policy).await });
    }
}

/// Connects a stream to where it asks for.
async fn serve(accepted: Accepted, policy: &Policy) -> io::Result<()> {
    let Accepted { peer, mut stream } = accepted;
    let asked = request::read(&mut stream).await?;
    let connected = async {
        let target = policy.target(&asked)?;
        let addresses = policy.addresses(&peer, &target).await?;
        connect(&addresses).await
    };
    let connected = connected.await;
    match connected {
        Ok(connection) => {
            stream.write_u8(Answer::Connected.to_byte()).await?;
            relay::run(connection, stream, Answered::Yes).await
        }
        Err(answer) => {
            stream.write_u8(answer.to_byte()).await?;
            stream.shutdown().await
        }
    }
}

/// Connects to the first of a target's addresses that answers.
async fn connect(addresses: &[SocketAddr]) -> Result<TcpStream, Answer> {
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(addresses)).await;
    let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let connection = connected.map_err(|error| Answer::of_error(&error))?;
    relay::set_up(&connection).map_err(|error| Answer::of_error(&error))?;
    Ok(connection)
}

/// Tells what happens until the server has ended.
fn watch(
    arguments: &Arguments,
    server: &StreamServer,
    events: &Events,
    stop: &Stop,
    clock: &Clock,
) {
    let mut meters: Vec<((PublicKey, Cargo), Meter)> = Vec::new();
    let mut slowness = Slowness::default();
    let mut turned_away = TurnedAwayNews::default();
    let mut session_count: usize = 0;
    let has_udp = !arguments.connect.is_empty();
    let end = End::Tunnel(Datagrams::of(has_udp, arguments.tun.is_wanted()));
    loop {
        match events.recv_timeout(LOOK_INTERVAL) {
            Ok(Event::Connected { peer, cargo }) => {
                print::note(format_args!(
                    "connected to {peer}, for {}",
                    tunnel::name(cargo)
                ));
                session_count += 1;
                let owner = (peer, cargo);
                meters.retain(|(known, _)| *known != owner);
                meters.push((owner, Meter::new(arguments.report, clock.now())));
            }
            Ok(Event::Ended(ended)) => {
                print::note(format_args!("a session is over: {ended}"));
                session_count = session_count.saturating_sub(1);
                if let Some(seen) = server.take_ended() {
                    print::note(summary::table(end, &seen, &[]));
                }
            }
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) if stop.is_stopped() => {
                server.close();
                if session_count == 0 {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = clock.now();
        let lateness = server.lateness().max(stop.lateness(clock));
        let told = slowness.news(now, lateness);
        told.into_iter().for_each(print::warn);
        for asked in server.take_turned_away() {
            let no_place = |_: &PublicKey| "all places are taken".to_owned();
            let line = turned_away.line(now, &asked, no_place);
            line.into_iter().for_each(print::warn);
        }
        service::turn(now, stop.is_stopped());
        let due = meters.iter_mut().filter_map(|(owner, meter)| {
            let is_due = meter.is_due(now);
            is_due.then_some((*owner, meter))
        });
        let due: Vec<_> = due.collect();
        if due.is_empty() {
            continue;
        }
        let snapshots = server.snapshots();
        for ((peer, cargo), meter) in due {
            let is_it = |seen: &&Snapshot| (seen.peer, seen.cargo) == (Some(peer), Some(cargo));
            let snapshot = snapshots.iter().find(is_it);
            if let Some(snapshot) = snapshot {
                print::note(meter.line(end, snapshot.clone(), &[]));
            }
        }
    }
}
