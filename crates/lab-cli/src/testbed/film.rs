//! A film over emulated links.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::park_timeout;

use anabranch_emu::namespace::Namespace;
use anabranch_emu::{Damage, Ends, Network, NetworkConfig, PacketLink, Relay};
use anabranch_net::Clock;
use anabranch_units::{Duration, Instant, Seed};
use anyhow::{Context, bail, ensure};

use super::needs::proxy_program;
use super::networks;
use super::player::{Playback, Player};
use super::programs::Program;
use super::rows::Row;

/// MTU of the links' interfaces.
const MTU: u32 = 1_500;
/// Port of the web server.
const WEB_PORT: u16 = 27_080;
/// Port of VLC's counters in its namespace.
const COUNTER_PORT: u16 = 27_100;
/// Port of the proxy's server, and that at which the proxy takes connections.
const SERVER_PORT: u16 = 7_000;
const PROXY_PORT: u16 = 27_081;
/// Time that a server has to begin, and the pause between looks at it.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);

/// Set-up of a film.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting<'a> {
    pub(super) network: &'a networks::Network,
    pub(super) row: &'a Row,
    /// The film's file, and its length.
    pub(super) film: &'a Path,
    pub(super) seconds: u64,
    /// Folder for logs, which is made.
    pub(super) folder: &'a Path,
    pub(super) seed: Seed,
}

/// Outcome of a film.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Played {
    pub(super) playback: Playback,
    /// Bytes on the wire of each path, from the server.
    pub(super) path_bytes: Vec<u64>,
    /// Packets that the queues or the links dropped on each path.
    pub(super) dropped: Vec<u64>,
    /// Segments that TCP has sent again.
    pub(super) resent: u64,
    /// Release error of the links, 99th percentile.
    pub(super) lateness: Duration,
    /// Seconds from the request to the end.
    pub(super) lasted: f64,
}

/// Plays a film once.
///
/// # Errors
/// The network or a program cannot be started.
pub(super) fn play(setting: Setting<'_>, stop: &AtomicBool) -> anyhow::Result<Played> {
    fs::create_dir_all(setting.folder)?;
    let routes = setting.network.routes()?;
    let mut network = Network::new(&NetworkConfig {
        mtus: vec![MTU; routes.len()],
        depth: 0,
        has_mptcp: true,
        mark: None,
    })?;
    let interfaces = std::mem::take(&mut network.paths);
    let mut links = Vec::new();
    // The viewer is the near end: its connections join all paths.
    for (route, Ends { near, far }) in routes.iter().zip(interfaces) {
        links.push(PacketLink {
            name: route.name.clone(),
            sender: far,
            receiver: near,
            forward: route.forward.clone(),
            reverse: route.reverse.clone(),
            seed: setting.seed.derive(&route.name),
            reports_mtu: true,
            damage: Damage::default(),
        });
    }
    let network = Arc::new(network);
    let (programs, address) = start_servers(setting, &network)?;
    await_server(&network.far, WEB_PORT)?;
    if let Row::Proxy(_) = setting.row {
        await_server(&network.near, PROXY_PORT)?;
    }
    // Links' schedules begin with the request.
    let relay = Relay::between_interfaces(links, None)?;
    let clock = Clock::start();
    let wrapper: &[&str] = match setting.row {
        Row::Kernel(_) => &["mptcpize", "run"],
        Row::Proxy(_) => &[],
    };
    let name = setting
        .film
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let url = format!("http://{address}/{name}");
    let home = setting.folder.join("viewer");
    let limit = limit_of(setting.seconds);
    let near = Some(&network.near);
    let mut player = Player::start(near, wrapper, &url, &home, COUNTER_PORT, limit + 30)?;
    while clock.now() < Instant::from_secs(limit) && !player.read_counters(near)? {
        ensure!(!stop.load(Ordering::Relaxed), "the testbed was interrupted");
        wait_for_the_next_second(&clock);
    }
    let lasted = (clock.now() - Instant::ZERO).as_secs_f64();
    let playback = player.finish()?;
    let resent = retransmissions(&network.far)?;
    drop(programs);
    let of_links: Vec<_> = (0..routes.len())
        .map(|index| relay.statistics(index).forward.link)
        .collect();
    Ok(Played {
        playback,
        path_bytes: of_links.iter().map(|link| link.delivered_bytes).collect(),
        dropped: of_links.iter().map(|link| link.dropped.total()).collect(),
        resent,
        lateness: relay.release_errors().p99,
        lasted,
    })
}

/// Waits until a server listens at a port of its own namespace.
fn await_server(namespace: &Namespace, port: u16) -> anyhow::Result<()> {
    let clock = Clock::start();
    while let Err(error) = namespace.run(|| TcpStream::connect(("127.0.0.1", port))) {
        if clock.now() - Instant::ZERO > PATIENCE {
            return Err(error).with_context(|| format!("no server at port {port}"));
        }
        park_timeout(PAUSE.to_std());
    }
    Ok(())
}

/// Returns the seconds after which a film is given up.
pub(super) fn limit_of(seconds: u64) -> u64 {
    seconds * 3 / 2 + 30
}

pub(super) fn wait_for_the_next_second(clock: &Clock) {
    let now = clock.now();
    let second = Duration::from_secs(1);
    let whole = (now - Instant::ZERO).as_nanos() / second.as_nanos();
    let next = Instant::ZERO + second * (whole + 1);
    while clock.now() < next {
        park_timeout(next.saturating_since(clock.now()).to_std());
    }
}

/// Starts the far end's programs, and the proxy. Returns the address that the viewer asks.
fn start_servers(
    setting: Setting<'_>,
    network: &Network,
) -> anyhow::Result<(Vec<Program>, String)> {
    let far = network.addresses.v4(0).far;
    let limit = limit_of(setting.seconds) + 60;
    match setting.row {
        Row::Kernel(controller) => {
            choose_controller(&network.far, controller)?;
            let web = web_server(setting, network, &["mptcpize", "run"], limit)?;
            Ok((vec![web], format!("{far}:{WEB_PORT}")))
        }
        Row::Proxy(scheduler) => {
            let web = web_server(setting, network, &[], limit)?;
            let mut programs = vec![web];
            programs.extend(start_proxy(setting, network, scheduler, limit)?);
            Ok((programs, format!("127.0.0.1:{PROXY_PORT}")))
        }
    }
}

fn choose_controller(namespace: &Namespace, controller: &str) -> anyhow::Result<()> {
    let file = "/proc/sys/net/ipv4/tcp_congestion_control";
    let written = namespace.run(|| fs::write(file, controller));
    written.with_context(|| format!("the kernel did not take the controller {controller}"))
}

fn web_server(
    setting: Setting<'_>,
    network: &Network,
    wrapper: &[&str],
    limit: u64,
) -> anyhow::Result<Program> {
    let folder = setting.folder.display();
    let root = setting.film.parent().unwrap_or(setting.folder).display();
    let text = format!(
        "daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.log;\n\
         events {{}}\n\
         http {{ access_log off; sendfile on; tcp_nopush on; types {{ video/mp4 mp4; }}\n\
         client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;\n\
         fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;\n\
         server {{ listen {WEB_PORT}; root {root}; }} }}\n"
    );
    let file = setting.folder.join("nginx.conf");
    fs::write(&file, text)?;
    let configuration = file.display().to_string();
    let mut words = wrapper.to_vec();
    words.extend(["nginx", "-c", &configuration]);
    let log = setting.folder.join("nginx-output");
    Program::start(Some(&network.far), &words, limit, &log)
}

fn start_proxy(
    setting: Setting<'_>,
    network: &Network,
    scheduler: &str,
    limit: u64,
) -> anyhow::Result<[Program; 2]> {
    fn key(name: &str, program: &str, folder: &Path) -> anyhow::Result<(String, String)> {
        let file = folder.join(name);
        let _ = fs::remove_file(&file);
        let output = Command::new(program)
            .args(["keygen", "--output"])
            .arg(&file)
            .output()
            .context("cannot run `anabranch`")?;
        ensure!(output.status.success(), "`anabranch keygen` failed");
        let public = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok((file.display().to_string(), public))
    }

    let program = proxy_program()?.display().to_string();
    let (server_key, server) = key("server.key", &program, setting.folder)?;
    let (proxy_key, proxy) = key("proxy.key", &program, setting.folder)?;
    let words = [
        &program,
        "serve",
        "--listen",
        &format!("0.0.0.0:{SERVER_PORT}"),
        "--key",
        &server_key,
        "--allow",
        &proxy,
        "--scheduler",
        scheduler,
        "--forward",
        &format!("127.0.0.1:{WEB_PORT}"),
    ];
    let log = setting.folder.join("serve.log");
    let serve = Program::start(Some(&network.far), &words, limit, &log)?;
    let mut words = [&program, "proxy", "--key", &proxy_key, "--peer", &server]
        .map(|word: &str| word.to_owned())
        .to_vec();
    for index in 0..setting.network.routes()?.len() {
        let Ends { near, far } = network.addresses.v4(index);
        words.extend(["--to".to_owned(), format!("{far}:{SERVER_PORT}")]);
        words.extend(["--via".to_owned(), near.to_string()]);
    }
    words.extend(["--scheduler".to_owned(), scheduler.to_owned()]);
    words.extend(["--tcp".to_owned(), "off".to_owned()]);
    words.extend(["--listen".to_owned(), format!("127.0.0.1:{PROXY_PORT}")]);
    let log = setting.folder.join("proxy.log");
    let proxy = Program::start(Some(&network.near), &words, limit, &log)?;
    Ok([serve, proxy])
}

/// Returns the number of segments that TCP has sent again in a namespace.
fn retransmissions(namespace: &Namespace) -> anyhow::Result<u64> {
    let text = namespace.run(|| fs::read_to_string("/proc/thread-self/net/snmp"))?;
    match tcp_counter(&text, "RetransSegs") {
        Some(count) => Ok(count),
        None => bail!("the kernel does not count retransmissions"),
    }
}

fn tcp_counter(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split_whitespace().position(|word| word == name)?;
    values.split_whitespace().nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_of_the_kernel_is_read_by_its_name() {
        let text = "Ip: A B\nIp: 1 2\nTcp: InSegs OutSegs RetransSegs\nTcp: 10 20 30\n";
        assert_eq!(tcp_counter(text, "RetransSegs"), Some(30));
        assert_eq!(tcp_counter(text, "Other"), None);
        assert_eq!(tcp_counter("", "RetransSegs"), None);
    }
}
