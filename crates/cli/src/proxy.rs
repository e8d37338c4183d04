//! `anabranch proxy`.

mod flows;
mod watch;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anabranch_core::Config;
use anabranch_net::{ClientConfig, Clock, DatagramClient, Ended, StreamClient, listen};
use anabranch_observe::service;
use anabranch_observe::{Opened, StandardOutput};
use anabranch_secure::{PairingCode, PublicKey};
use anabranch_terminal::arguments::positive;
use anabranch_terminal::exit::Failure;
use anabranch_terminal::print;
use anabranch_terminal::stop::Stop;
use anabranch_tunnel::proxy::{Protocol, accept_all};
use anabranch_tunnel::tun;
use anabranch_tunnel::tun::host::default_route::DefaultRoute;
use anabranch_tunnel::udp::{Rule, client};
use anabranch_units::Duration;
use anyhow::{Context, bail};
use tokio::net::TcpListener;

use crate::command_line::port_or_addr;
use crate::end::{Datagrams, End};
use crate::keygen::{discreet, ensure_other, read_key, read_or_make_key};
use crate::observe_arguments::ObserveArguments;
use crate::paths::PathArguments;
use crate::system::allow_many_files;
use crate::target::TargetArguments;
use crate::tunnel_arguments::{
    DatagramArguments, RouteArguments, TransportArguments, TunArguments,
};
use watch::{Client, Watch};

/// Carries TCP connections, UDP flows and IP packets over several networks at once, to an
/// `anabranch serve`.
///
/// With the link that `anabranch serve --pair` prints: anabranch proxy LINK --listen ADDR
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  With the link of `anabranch serve --pair` and two networks; the key is made if there is none:
  anabranch proxy 'anabranch://192.0.2.1:7000?key=abpub_…&code=…' --via wlan0 --via wwan0 \
    --socks5 127.0.0.1:1080

  A film over Wi-Fi and a mobile network at once, from the web server beside `anabranch serve`:
  anabranch proxy --to 192.0.2.1:7000 --via wlan0 --via wwan0 --key phone.key --peer abpub_… \\
    --listen 127.0.0.1:8080 &
  vlc http://127.0.0.1:8080/film.mp4

  Everything that a browser or curl asks for, if the server was started with --connect:
  anabranch proxy … --socks5 127.0.0.1:1080 &
  curl --proxy socks5h://127.0.0.1:1080 https://example.org/

  SRT, WireGuard, a game: datagrams to port 5000 here go to port 5000 beside the server, and the
  answers come back. The server was started with --connect 127.0.0.1:5000:
  anabranch proxy … --udp 5000=127.0.0.1:5000 &
  ffmpeg … -f mpegts srt://127.0.0.1:5000

  Everything this machine sends, as root, if the server was started with --tun ab0 --nat:
  anabranch proxy … --via wlan0 --via wwan0 --tun ab0 --default-route --dns 9.9.9.9

A datagram is sent again while it can arrive within --udp-deadline, and then given up. A flow
(all datagrams from one local port to one --udp) is over when it is silent for 60 s; there may be
1,024.

A connection does not notice that a path dies. While the server does not answer, connections wait;
those of a server that is started again break off, and new ones are taken when it is back. Every
host that can reach --listen, --socks5, --http-proxy and --udp can use them: leave them at
127.0.0.1, or use a network whose hosts you trust.

The first Ctrl-C ends the session and prints a summary; a second one ends the program at once.")]
#[command(group = clap::ArgGroup::new("listeners").required(true).multiple(true)
    .args(["listen", "socks5", "http_proxy", "udp", "tun", "clean_up"]))]
pub(crate) struct Arguments {
    #[command(flatten)]
    paths: PathArguments,
    /// This end's key file, from `anabranch keygen`.
    #[arg(long, value_name = "FILE", required = true)]
    key: Option<PathBuf>,
    /// The server's public key.
    #[arg(long, value_name = "PUBKEY", value_parser = discreet::<PublicKey>(), required = true)]
    peer: Option<PublicKey>,
    /// The code of a link, in place of which it stands.
    #[arg(long, value_name = "CODE", value_parser = discreet::<PairingCode>(), hide = true)]
    code: Option<PairingCode>,
    /// Takes connections for the target that the server forwards to (its --forward).
    #[arg(long, value_name = "ADDR")]
    listen: Vec<String>,
    /// Takes connections of applications that speak SOCKS5.
    #[arg(long, value_name = "ADDR")]
    socks5: Vec<String>,
    /// Takes connections of applications that speak to an HTTP proxy.
    #[arg(long, value_name = "ADDR")]
    http_proxy: Vec<String>,
    /// Takes UDP datagrams at a local port, for a host and port that the server can reach (its
    /// --connect); may be given several times. Without ADDR it is 127.0.0.1. Options follow after
    /// commas: `deadline=80ms` in place of --udp-deadline, `unordered` for QUIC, WebRTC and what
    /// else sorts its datagrams itself, `max=4Mbit/s` as the most that applications may send,
    /// `name=cam1` for statistics.
    #[arg(long, value_name = "[ADDR:]PORT=HOST:PORT[,OPTION]…")]
    udp: Vec<Rule>,
    /// Maximum wait for the server's first answer.
    #[arg(long, value_name = "TIME", default_value = "10 s", value_parser = positive)]
    timeout: Duration,
    /// End when the server has been silent for this long. By default the proxy asks for a new
    /// session without end.
    #[arg(long, value_name = "TIME", value_parser = positive)]
    give_up_after: Option<Duration>,
    /// Print a line about each path at this interval.
    #[arg(long, value_name = "TIME", value_parser = positive)]
    report: Option<Duration>,
    #[command(flatten)]
    pub(crate) observe: ObserveArguments,
    #[command(flatten)]
    transport: TransportArguments,
    #[command(flatten)]
    datagrams: DatagramArguments,
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    tun: TunArguments,
    #[command(flatten)]
    route: RouteArguments,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.route.has_cleaned_up()? {
        return Ok(());
    }
    arguments.observe.ensure_no_control("`proxy`")?;
    let stop = Stop::new()?;
    stop.on_signals()?;
    allow_many_files();
    let clock = Clock::start();
    let names = arguments
        .paths
        .resolve()?
        .iter()
        .map(|path| path.via.to_string())
        .collect();
    let observed = arguments
        .observe
        .open(StandardOutput::Free(print::library_line))?;
    let tasks = anabranch_tunnel::tasks()?;
    let listeners = tasks.block_on(listeners(arguments))?;
    let rules = arguments.datagrams.with_deadlines(&arguments.udp);
    let ports = tasks.block_on(client::Ports::open(&rules))?;
    let outlets = arguments.target.open()?;
    let (tun, route) = (arguments.tun.options(), arguments.route.options());
    let prepared = route.prepare()?;
    let interface = {
        let _is_within = tasks.enter();
        tun::client::Interface::open(&tun)?
    };
    let route = route.through(prepared, interface.as_ref(), &tun)?;
    let datagrams = Datagrams::of(!arguments.udp.is_empty(), tun.is_wanted());
    let mut watch = Watch::new(End::Tunnel(datagrams), names, stop, clock, arguments.report);
    let mut target_reports = None;
    if !listeners.is_empty() {
        let config = config(arguments, arguments.transport.config()?, clock, &observed)?;
        let (client, events) = StreamClient::start(config)?;
        let client = Arc::new(client);
        for (listener, protocol) in listeners {
            tasks.spawn(accept_all(listener, protocol, Arc::clone(&client)));
        }
        watch.add(Client::Streams(client), events);
    }
    if !arguments.udp.is_empty() || interface.is_some() {
        let mut transport = arguments.datagrams.config(&rules)?;
        transport.media.source = arguments.target.limits();
        let config = config(arguments, transport, clock, &observed)?;
        let (client, events) = DatagramClient::start(config)?;
        let meters = ports.meters();
        tasks.spawn(client::run(ports, interface, client.channel().clone()));
        let client = Client::Datagrams(Arc::new(client), meters);
        target_reports = Some(outlets.start(client.snapshots(), clock)?);
        watch.add(client, events);
    }
    watch.observe(observed)?;
    service::ready();
    let ended = carry_all(&mut watch, route)?;
    drop(target_reports);
    watch.print_counts();
    tasks.shutdown_background();
    match ended {
        Ended::Closed | Ended::ClosedByPeer => Ok(()),
        Ended::Replaced => bail!("another proxy with the same key has taken this one's place"),
        ended => bail!(Failure::PeerLost(ended.to_string())),
    }
}

/// Prints reports until all sessions are over. Meanwhile the machine uses the routes of `route`.
fn carry_all(watch: &mut Watch, mut route: Option<DefaultRoute>) -> anyhow::Result<Ended> {
    let ended = watch.until_end(|stop| {
        if let Some(route) = &mut route {
            route.tend(stop);
        }
    });
    route.map_or(Ok(()), DefaultRoute::end)?;
    Ok(ended)
}

impl Arguments {
    /// Checks that keys and paths can be used, as far as that is known without a session.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let key = self.key()?;
        if self.code.is_none() || key.exists() {
            read_key(key)?;
        }
        self.paths.resolve().map(drop)
    }

    /// Returns the key file. It is missing only with `--clean-up`.
    fn key(&self) -> anyhow::Result<&Path> {
        self.key.as_deref().context("--key is missing")
    }
}

/// Returns the configuration of a session.
fn config(
    arguments: &Arguments,
    transport: Config,
    clock: Clock,
    observed: &Opened,
) -> anyhow::Result<ClientConfig> {
    let local_key = match &arguments.code {
        Some(_) => read_or_make_key(arguments.key()?)?,
        None => read_key(arguments.key()?)?,
    };
    let peer = arguments.peer.context("--peer is missing")?;
    ensure_other(&peer, local_key.public_key())?;
    let paths = arguments.paths.resolve()?;
    Ok(ClientConfig {
        transport,
        clock,
        observer: observed.packet_observer(),
        connect_timeout: arguments.timeout,
        give_up_after: arguments.give_up_after,
        tcp: arguments.paths.tcp(),
        pairing_code: arguments.code.clone(),
        ..ClientConfig::new(local_key, peer, paths)
    })
}

/// Opens all listeners, before a session is requested.
async fn listeners(arguments: &Arguments) -> anyhow::Result<Vec<(TcpListener, Protocol)>> {
    let all = [
        ("--listen", &arguments.listen, Protocol::Nothing),
        ("--socks5", &arguments.socks5, Protocol::Socks5),
        ("--http-proxy", &arguments.http_proxy, Protocol::Http),
    ];
    let mut listeners = Vec::new();
    for (option, addresses, protocol) in all {
        for text in addresses {
            let address = port_or_addr(option, text, Ipv4Addr::LOCALHOST.into())?;
            let listener = listen::tcp(address)
                .and_then(|listener| {
                    listener.set_nonblocking(true)?;
                    TcpListener::from_std(listener)
                })
                .with_context(|| format!("{option} {text}"))?;
            print::note(format_args!(
                "taking connections at {} ({option})",
                listener.local_addr()?
            ));
            listeners.push((listener, protocol));
        }
    }
    Ok(listeners)
}
