//! `anabranch serve`: the server of tunnels.

mod admission;
mod relay;
mod watch;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anabranch_net::{Clock, ServerConfig, StreamServer};
use anabranch_observe::names::session_name;
use anabranch_observe::service;
use anabranch_observe::{StandardOutput, StreamSnapshot};
use anabranch_secure::{PairingCode, PublicKey, SecretKey};
use anabranch_terminal::arguments::positive;
use anabranch_terminal::print;
use anabranch_terminal::stop::Stop;
use anabranch_terminal::turns::Turns;
use anabranch_tunnel::policy::Policy;
use anabranch_tunnel::tun;
use anabranch_tunnel::tun::host::nat::Nat;
use anabranch_tunnel::udp::server;
use anabranch_tunnel::{Destination, Target, streams};
use anabranch_units::{DataRate, Duration};
use anyhow::{Context, ensure};

use crate::allowed::{AllowList, Allowed, ListenCommand};
use crate::command_line::{describe_tcp, listen_addr, tcp_addr};
use crate::config::Reload;
use crate::keygen::{discreet, read_key, read_or_make_key};
use crate::link::Link;
use crate::observe_arguments::ObserveArguments;
use crate::open_port::{self, OpenPort};
use crate::pairing::desk::Desk;
use crate::pairing::running_program::RunningProgram;
use crate::pairing::{LISTEN, PairArguments, address_of, print_link};
use crate::system::allow_many_files;
use crate::tunnel_arguments::{DatagramArguments, TransportArguments, TunArguments};
use admission::Admission;
use watch::Watch;

/// Maximum number of proxies with sessions.
const MAX_SESSIONS: usize = 10_000;

/// Forward TCP connections, UDP flows and IP packets of proxies: the far end of `anabranch proxy`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  Beside a web server, for viewers who bond their networks:
  anabranch serve --listen 0.0.0.0:7000 --key origin.key --allow abpub_… --forward 127.0.0.1:80

  As a way into the Internet, for browsers whose proxy is `anabranch proxy --socks5`:
  anabranch serve --listen 0.0.0.0:7000 --key home.key --allow abpub_… --connect any

  One proxy may reach the house's network and nothing else, the other this machine's SSH alone:
  anabranch serve --listen 0.0.0.0:7000 --key home.key --allow \
    abpub_…A=phone,connect=192.168.1.0/24:* --allow abpub_…B=desk,connect=127.0.0.1:22

  Without keys; give the printed link to the proxy (`anabranch proxy LINK --socks5 1080`), and add
  another while the server runs by `anabranch pair`:
  anabranch serve --pair --connect any

  On a machine with a public address, for a studio at home; give the printed link to its receiver:
  anabranch serve --relay --pair=relay.example

  Beside an SRT server, for encoders that send to `anabranch proxy --udp 5000=127.0.0.1:5000`:
  anabranch serve --listen 0.0.0.0:7000 --key studio.key --allow abpub_… --connect 127.0.0.1:5000

  For packets of whole machines (their proxies have --default-route), as root:
  anabranch serve --listen 0.0.0.0:7000 --key home.key --allow abpub_… --tun ab0 --nat

--connect and connect= are rules for addresses. `any`, `*:PORT` and networks reach the public
Internet alone. Loopback, private, link-local, multicast and reserved addresses are reached by rules
that name the address, its host, or a network within these. An address of this machine is reached by
rules that name the address or its host. A key with connect= has these rules and not those of
--connect; connect=none leaves it --forward and --tun. The file of --allow-from has a line for each
proxy with its key, its name and its limits (KEY desk connect=127.0.0.1:22). It may be changed at
any time: the sessions of removed keys end.

Each allowed key has one session for connections and one for UDP and packets at a time; a second
program with the same key replaces the first.
The first Ctrl-C notifies the proxies, which wait for the next server; a second one ends the program
at once.")]
pub(crate) struct Arguments {
    /// Address and port to listen at (7000 by default); `[::]:PORT` accepts IPv4 and IPv6.
    #[arg(long, required_unless_present = "pair", value_name = "ADDR")]
    listen: Option<String>,
    /// Address and port at which to accept TCP connections too, for proxies whose networks block
    /// UDP; they try port 443. Ports below 1,024 need root or CAP_NET_BIND_SERVICE.
    #[arg(long, value_name = "ADDR")]
    listen_tcp: Option<String>,
    /// Key file of this end, from `anabranch keygen`.
    #[arg(long, required_unless_present = "pair", value_name = "FILE")]
    key: Option<PathBuf>,
    /// Public key of an allowed proxy, and its name; may be given several times.
    /// `connect=HOST:PORT` is a rule for this key alone. `streams=2` limits the number of keys of
    /// the same name with sessions at a time.
    #[arg(long, value_name = "PUBKEY[=NAME][,LIMIT…]", value_parser = discreet::<Allowed>())]
    allow: Vec<Allowed>,
    /// File with a line for each allowed proxy: its public key, its name, its limits.
    #[arg(long, value_name = "FILE")]
    allow_from: Option<PathBuf>,
    #[command(flatten)]
    pairing: PairArguments,
    /// Relay the sessions of receivers that only call out, as behind a home's router:
    /// `anabranch recv --via-relay LINK`. Senders call this machine. It carries the datagrams of
    /// both, which only these two can read. It is no tunnel then.
    #[arg(long, conflicts_with_all = ["forward", "connect", "tun", "nat", "listen_tcp"])]
    relay: bool,
    /// Maximum rate of each receiver of --relay, in both directions together.
    #[arg(long, value_name = "RATE", default_value_t = relay::DEFAULT_RATE, requires = "relay")]
    relay_rate: DataRate,
    /// Target of the connections that arrive at a proxy's --listen.
    #[arg(long, value_name = "HOST:PORT", value_parser = target)]
    forward: Option<Target>,
    /// Permitted targets of applications behind a proxy's --socks5, --http-proxy and --udp: `any`,
    /// `HOST:PORT`, `NETWORK/PREFIX:PORT`, `HOST:*` or `*:PORT`; may be given several times.
    #[arg(long, value_name = "HOST:PORT")]
    connect: Vec<Destination>,
    /// Time for which a proxy may be silent before its session ends with all its connections.
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
    /// Lets packets of --tun out by this machine's addresses: switches forwarding on and adds a
    /// table to nftables that masquerades them. Both are undone at the end.
    #[arg(long, requires = "tun")]
    nat: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.relay {
        return relay::run(arguments);
    }
    let stop = Stop::new()?;
    stop.on_signals()?;
    allow_many_files();
    let clock = Clock::start();
    let local_key = arguments.local_key()?;
    let local_public = local_key.public_key();
    let listen = arguments.listen_address()?;
    arguments.pairing.make_list(arguments.list().as_deref())?;
    let allowed = arguments.allowed()?;
    let observed = arguments
        .observe
        .open(StandardOutput::Free(print::library_line))?;
    let config = ServerConfig {
        transport: arguments.transport.config()?,
        clock,
        observer: observed.packet_observer(),
        max_sessions: MAX_SESSIONS,
        session_limits: allowed.session_limits(),
        silence_timeout: arguments.timeout,
        listen_tcp: tcp_addr(arguments.listen_tcp.as_deref())?,
        ..ServerConfig::new(listen, local_key, allowed.keys())
    };
    let tasks = anabranch_tunnel::tasks()?;
    let tun_server = {
        let _is_within = tasks.enter();
        tun::server::ServerTun::open(&arguments.tun.options(), &allowed.keys())?
    };
    let nat = arguments.nat.then(|| Nat::set_up(&arguments.tun.options()));
    let _nat = nat.transpose()?;
    let datagrams = arguments.datagrams.config(&[])?;
    let (server, accepted, accepted_datagrams, events) =
        StreamServer::start_with_datagrams(config, datagrams)?;
    let server = Arc::new(server);
    let observation = Arc::new(observed.start("serve", clock, snapshots(&server))?);
    let observed = Arc::clone(&observation);
    let (forward, connect) = (arguments.forward.clone(), arguments.connect.clone());
    let policy = Policy::new(forward, connect, &allowed.tunnel_peers(), observation);
    let policy = Arc::new(policy);
    tasks.spawn(streams::serve_all(accepted, Arc::clone(&policy)));
    tun_server
        .clone()
        .map(|tun_server| tasks.spawn(tun_server.run()));
    let served = server::serve_all(accepted_datagrams, Arc::clone(&policy), tun_server.clone());
    tasks.spawn(served);
    print::note(format_args!(
        "listening at {}{} as {local_public}",
        server.local_addr(),
        describe_tcp(server.local_tcp_addr())
    ));
    // After the address, so that readers of this program's lines see them in one order.
    tasks.spawn(streams::try_forward(Arc::clone(&policy)));
    let (_port, desk) = arguments.open_desk(&server, local_public)?;
    service::ready();
    let admission = Admission {
        desk,
        allowed,
        look_at: clock.now(),
        server: &server,
        policy: &policy,
        tun_server: tun_server.as_deref(),
        observation: &observed,
        kept_out: BTreeMap::new(),
        reload: Reload::of_program(arguments.observe.config.as_deref())?,
    };
    let mut watch = Watch::new(arguments, admission, &events, &stop, &clock);
    watch.run_turns();
    watch.slowness.summary().into_iter().for_each(print::note);
    Ok(())
}

/// Parses a host and a port.
fn target(text: &str) -> Result<Target, String> {
    if let Some((protocol, rest)) = text.split_once("://") {
        let host = rest.split(['/', '?']).next().unwrap_or_default();
        let port = match protocol {
            _ if host.contains(':') => "",
            "https" => ":443",
            _ => ":80",
        };
        return Err(format!(
            "this is a URL; expected HOST:PORT, as {host}{port}"
        ));
    }
    Target::of(text).ok_or_else(|| "expected HOST:PORT, as web.internal:80".to_owned())
}

impl Arguments {
    /// Checks the arguments, as far as possible without a session.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        tcp_addr(self.listen_tcp.as_deref())?;
        self.listen_address()?;
        let has_key = self.key_file().is_some_and(|file| file.exists());
        let has_list = self.list().is_some_and(|file| file.exists());
        if self.pairing.is_asked() && !(has_key && has_list) {
            // Missing files are made at the start.
            return Ok(());
        }
        self.local_key()?;
        if self.relay {
            relay::allowed(self).map(drop)
        } else {
            self.allowed().map(drop)
        }
    }

    fn key_file(&self) -> Option<PathBuf> {
        let name = if self.relay {
            "relay.key"
        } else {
            "server.key"
        };
        self.pairing.or_usual(self.key.as_deref(), name)
    }

    /// Returns the file of proxies.
    fn list(&self) -> Option<PathBuf> {
        let name = if self.relay { "receivers" } else { "proxies" };
        self.pairing.or_usual(self.allow_from.as_deref(), name)
    }

    fn local_key(&self) -> anyhow::Result<SecretKey> {
        let key = self.key_file().context("--key is missing")?;
        if self.pairing.is_asked() {
            read_or_make_key(&key)
        } else {
            read_key(&key)
        }
    }

    fn listen_address(&self) -> anyhow::Result<SocketAddr> {
        listen_addr(self.listen.as_deref().unwrap_or(LISTEN))
    }

    /// Opens the desk for proxies that pair, and prints the program's own link if it was asked for.
    /// The router's port, if any, is open while it is held.
    fn open_desk(
        &self,
        server: &StreamServer,
        key: PublicKey,
    ) -> anyhow::Result<(Option<OpenPort>, Desk)> {
        let local = server.local_addr();
        let port = open_port::requested(self.pairing.open_port, local.port());
        let host = self.pairing.host_by(port.as_ref());
        let entrance = self.entrance(key, local, &host);
        let mut desk = Desk::open(self.list().as_deref(), &entrance);
        if self.pairing.is_asked() {
            let code = desk.invite(server, self.pairing.name.clone());
            self.print_link(&entrance, &host, code)?;
        }
        Ok((port, desk))
    }

    /// Returns the way in for `anabranch pair`.
    fn entrance(&self, key: PublicKey, local: SocketAddr, host: &str) -> RunningProgram {
        RunningProgram {
            command: if self.relay { "serve --relay" } else { "serve" }.to_owned(),
            key,
            local,
            outside: match host {
                "" => String::new(),
                host => address_of(host, local),
            },
        }
    }

    /// Prints the program's own link.
    fn print_link(
        &self,
        entrance: &RunningProgram,
        host: &str,
        code: PairingCode,
    ) -> anyhow::Result<()> {
        print::note(
            "the link is good once and for ten minutes: anabranch proxy 'LINK' --listen \
             127.0.0.1:8080. If proxies reach this machine at another address, name it: \
             --pair=HOST",
        );
        print_link(&Link {
            to: address_of(host, entrance.local),
            key: entrance.key,
            code: Some(code),
        })
    }

    /// Returns the allowed proxies.
    ///
    /// # Errors
    /// There are none, or they could reach nothing.
    fn allowed(&self) -> anyhow::Result<AllowList> {
        let file = self.list();
        let list = AllowList::new(ListenCommand::Serve, self.allow.clone(), file.as_deref())?;
        let leads_somewhere = self.forward.is_some()
            || self.tun.options().is_wanted()
            || (self.allow_from.is_some() && !self.pairing.is_asked())
            || (self.pairing.is_asked() && !self.connect.is_empty())
            || list.may_connect(&self.connect);
        ensure!(
            leads_somewhere,
            "proxies could reach nothing: --forward HOST:PORT, --connect HOST:PORT or --tun NAME"
        );
        Ok(list)
    }
}

/// Returns a function that takes snapshots of the sessions, as long as the server exists.
fn snapshots(server: &Arc<StreamServer>) -> impl Fn() -> Vec<StreamSnapshot> + Send + 'static {
    let server = Arc::downgrade(server);
    move || {
        let snapshots = server.upgrade().map(|server| server.snapshots());
        snapshots
            .unwrap_or_default()
            .into_iter()
            .map(|snapshot| StreamSnapshot {
                name: match (snapshot.session_kind, snapshot.peer) {
                    (Some(session_kind), Some(peer)) => session_name(session_kind, &peer),
                    _ => String::new(),
                },
                path_names: Vec::new(),
                snapshot,
                foreign: None,
                flows: Vec::new(),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_no_target_and_the_error_has_the_port() {
        for (url, expected) in [
            ("http://web.internal/film?x=1", "web.internal:80"),
            ("https://web.internal", "web.internal:443"),
            ("http://web.internal:8080/", "web.internal:8080"),
        ] {
            let error = target(url).unwrap_err();
            assert!(error.ends_with(expected), "{error}");
        }
        for wrong in ["web.internal", "web.internal:", "web.internal:http", ":80"] {
            assert!(target(wrong).is_err(), "{wrong}");
        }
    }
}
