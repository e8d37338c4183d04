//! Two network namespaces that emulated links join: the near one has an interface for each path,
//! the far one its other end.
//!
//! | path 1 | near | far |
//! |---|---|---|
//! | interface | `path1` | `far1` |
//! | IPv4 | 10.27.1.2/24 | 10.27.1.1/24 |
//! | IPv6 | fd00:27:1::2/64 | fd00:27:1::1/64 |
//!
//! Packets leave by the interface of their source address, by the first one otherwise. A network
//! inside another one has the next block, 10.28, and its far end is the outer network's near
//! namespace, which forwards packets. Far ends send packets for all inner networks through the
//! path of their own address.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::address_plan::{AddressPlan, Ends, Family, MAX_DEPTH};
use crate::interface::{Frames, HARDWARE_ADDRESS, PacketSocket, TunInterface};
use crate::namespace::Namespace;

/// Length of the prefix of all networks, inner ones included: 10.0.0.0/8.
const V4_PREFIX_BITS: u8 = 8;
/// The same with IPv6: fd00::/16.
const V6_PREFIX_BITS: u8 = 16;
/// Maximum number of paths: as many subflows as MPTCP's limits permit, and its first one.
const MAX_PATH_COUNT: usize = 9;

/// The kind of interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceKind {
    /// TUN interfaces, whose packets the relay reads.
    Tun,
    /// Pairs of virtual Ethernet interfaces, with packet sockets at the relay's ends.
    VirtualEthernet,
}

/// A network to be made.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    /// MTU of each path's interfaces in bytes, in the order of the paths.
    pub mtus: Vec<u32>,
    /// Number of emulated networks around this one. The far end of an inner network is the calling
    /// thread's namespace.
    pub depth: u8,
    /// Whether connections of MPTCP use all paths.
    pub has_mptcp: bool,
    /// An address of 127.0.0.0/8 for the new namespaces, by which `/proc` shows them.
    pub mark: Option<Ipv4Addr>,
}

/// A network. All of it vanishes with the last process in its namespaces.
#[derive(Debug)]
pub struct Network {
    /// Namespace of the paths.
    pub near: Namespace,
    /// Namespace of their other ends.
    pub far: Namespace,
    /// Kind of the interfaces.
    pub kind: InterfaceKind,
    /// Addresses of the interfaces.
    pub addresses: AddressPlan,
    /// Whether the namespaces have IPv6.
    pub has_v6: bool,
    /// Both ends of each path.
    pub paths: Vec<Ends<Box<dyn Frames>>>,
}

/// Reasons for which a network was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// Too many paths.
    #[error("{0} paths: there can be 1 to {MAX_PATH_COUNT}")]
    PathCount(usize),
    /// Too many networks around it.
    #[error("{0} networks inside one another: there can be {MAX_DEPTH}")]
    Depth(u8),
    /// The operating system refused a namespace.
    #[error("cannot make a network namespace")]
    Namespace(#[source] io::Error),
    /// The operating system refused an interface.
    #[error("cannot make the interface {name}")]
    Interface {
        /// Its name.
        name: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// A namespace's setting could not be written.
    #[error("cannot write {path}")]
    Setting {
        /// File of the setting.
        path: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
    /// The program `ip` could not be run.
    #[error("cannot run `ip`: install iproute2")]
    NoIp(#[source] io::Error),
    /// The program `ip` refused a line.
    #[error("`ip` refused the network: {0}")]
    Ip(String),
}

impl Network {
    /// Makes the namespaces and their interfaces: TUN interfaces, or virtual Ethernet if this
    /// program may not have those.
    ///
    /// # Errors
    /// A [`NetworkError`]; nothing remains.
    pub fn new(config: &NetworkConfig) -> Result<Network, NetworkError> {
        let path_count = config.mtus.len();
        if path_count == 0 || path_count > MAX_PATH_COUNT {
            return Err(NetworkError::PathCount(path_count));
        }
        let addresses =
            AddressPlan::inside(config.depth).ok_or(NetworkError::Depth(config.depth))?;
        let is_inner = config.depth > 0;
        let near = Namespace::new().map_err(NetworkError::Namespace)?;
        let opened = if is_inner {
            Namespace::current()
        } else {
            Namespace::new()
        };
        let far = opened.map_err(NetworkError::Namespace)?;
        let has_v6 = Path::new("/proc/sys/net/ipv6").exists();
        prepare(&near, has_v6, config.mark)?;
        if is_inner {
            forward(&far, has_v6)?;
        } else {
            prepare(&far, has_v6, config.mark)?;
        }
        let (kind, paths) = match tun_interfaces(&near, &far, path_count) {
            Ok(paths) => (InterfaceKind::Tun, paths),
            Err(error) if is_denied(&error) => {
                let paths = virtual_ethernet(&near, &far, path_count)?;
                (InterfaceKind::VirtualEthernet, paths)
            }
            Err(error) => return Err(error),
        };
        let script = Script {
            addresses,
            kind,
            mtus: &config.mtus,
            has_v6,
            has_mptcp: config.has_mptcp,
            is_inner,
        };
        ip(&near, &[], &script.of_near(Family::V4))?;
        ip(&far, &[], &script.of_far(Family::V4))?;
        if has_v6 {
            ip(&near, &["-6"], &script.of_near(Family::V6))?;
            ip(&far, &["-6"], &script.of_far(Family::V6))?;
        }
        Ok(Network {
            near,
            far,
            kind,
            addresses,
            has_v6,
            paths,
        })
    }
}

/// Returns whether this program may not make TUN interfaces, or the system has none.
fn is_denied(error: &NetworkError) -> bool {
    let NetworkError::Interface { source, .. } = error else {
        return false;
    };
    matches!(
        source.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound
    )
}

type Paths = Vec<Ends<Box<dyn Frames>>>;

fn tun_interfaces(near: &Namespace, far: &Namespace, count: usize) -> Result<Paths, NetworkError> {
    fn open(namespace: &Namespace, name: String) -> Result<Box<dyn Frames>, NetworkError> {
        let opened = namespace.run(|| TunInterface::open(&name));
        match opened {
            Ok(interface) => Ok(Box::new(interface) as Box<dyn Frames>),
            Err(source) => Err(NetworkError::Interface { name, source }),
        }
    }
    let mut paths = Vec::new();
    for index in 0..count {
        paths.push(Ends {
            near: open(near, format!("path{index}"))?,
            far: open(far, format!("far{index}"))?,
        });
    }
    Ok(paths)
}

/// Makes pairs of interfaces whose other ends lie in a third namespace.
fn virtual_ethernet(
    near: &Namespace,
    far: &Namespace,
    count: usize,
) -> Result<Paths, NetworkError> {
    fn open(name: String, middle: &Namespace) -> Result<Box<dyn Frames>, NetworkError> {
        let opened = middle.run(|| PacketSocket::open(&name));
        match opened {
            Ok(socket) => Ok(Box::new(socket) as Box<dyn Frames>),
            Err(source) => Err(NetworkError::Interface { name, source }),
        }
    }

    let middle = Namespace::new().map_err(NetworkError::Namespace)?;
    if Path::new("/proc/sys/net/ipv6").exists() {
        write_setting(&middle, "/proc/sys/net/ipv6/conf/default/disable_ipv6", "1")?;
    }
    let mut lines = String::new();
    for index in 0..count {
        for (end, name, namespace) in [("near", "path", near), ("far", "far", far)] {
            let path = namespace.path();
            let _ = writeln!(
                lines,
                "link add {end}{index} type veth peer name {name}{index} netns {path}"
            );
            let _ = writeln!(lines, "link set {end}{index} arp off multicast off up");
        }
    }
    ip(&middle, &[], &lines)?;
    let mut paths = Vec::new();
    for index in 0..count {
        paths.push(Ends {
            near: open(format!("near{index}"), &middle)?,
            far: open(format!("far{index}"), &middle)?,
        });
    }
    Ok(paths)
}

/// Makes an empty namespace accept packets at any of its interfaces.
fn prepare(
    namespace: &Namespace,
    has_v6: bool,
    mark: Option<Ipv4Addr>,
) -> Result<(), NetworkError> {
    for path in [
        "/proc/sys/net/ipv4/conf/all/rp_filter",
        "/proc/sys/net/ipv4/conf/default/rp_filter",
    ] {
        write_setting(namespace, path, "0")?;
    }
    if has_v6 {
        // A machine may begin without it.
        write_setting(namespace, "/proc/sys/net/ipv6/conf/all/disable_ipv6", "0")?;
    }
    let mut lines = "link set lo up\n".to_owned();
    if let Some(mark) = mark {
        let _ = writeln!(lines, "addr add {mark}/32 dev lo");
    }
    ip(namespace, &[], &lines)
}

/// Makes a namespace forward packets.
fn forward(namespace: &Namespace, has_v6: bool) -> Result<(), NetworkError> {
    write_setting(namespace, "/proc/sys/net/ipv4/ip_forward", "1")?;
    if has_v6 {
        write_setting(namespace, "/proc/sys/net/ipv6/conf/all/forwarding", "1")?;
    }
    Ok(())
}

fn write_setting(
    namespace: &Namespace,
    path: &'static str,
    value: &str,
) -> Result<(), NetworkError> {
    let written = namespace.run(|| fs::write(path, value));
    written.map_err(|source| NetworkError::Setting { path, source })
}

/// Runs the program `ip` in a namespace with lines of commands.
fn ip(namespace: &Namespace, options: &[&str], lines: &str) -> Result<(), NetworkError> {
    let run = namespace.run(|| {
        let mut child = Command::new("ip")
            .args(options)
            .args(["-batch", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut input) = child.stdin.take() {
            // A program that fails early does not read it.
            let _ = input.write_all(lines.as_bytes());
        }
        child.wait_with_output()
    });
    let output = run.map_err(NetworkError::NoIp)?;
    if output.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(NetworkError::Ip(with_line(complaint.trim(), lines)))
}

/// Replaces the number of a refused line by the line.
fn with_line(complaint: &str, lines: &str) -> String {
    let split = complaint.rsplit_once("Command failed -:");
    let line = split.and_then(|(_, rest)| {
        let number: usize = rest.trim().parse().ok()?;
        lines.lines().nth(number.checked_sub(1)?)
    });
    let reason = complaint.lines().next().unwrap_or("it gave no reason");
    match line {
        Some(line) => format!("{reason} (`ip {line}`)"),
        None => reason.to_owned(),
    }
}

/// Commands for `ip` that give the interfaces their addresses and routes.
#[derive(Clone, Copy, Debug)]
struct Script<'a> {
    addresses: AddressPlan,
    kind: InterfaceKind,
    mtus: &'a [u32],
    has_v6: bool,
    has_mptcp: bool,
    is_inner: bool,
}

impl Script<'_> {
    fn of_near(&self, family: Family) -> String {
        let mut lines = String::new();
        for index in 0..self.mtus.len() {
            let Ends { near, far } = self.addresses.of(family, index);
            self.connect(&mut lines, index, &format!("path{index}"), near, far);
        }
        let far = self.addresses.of(family, 0).far;
        let _ = writeln!(lines, "route add default via {far} dev path0");
        if self.has_mptcp {
            if family == Family::V4 {
                lines += MPTCP_LIMITS;
            }
            for index in 1..self.mtus.len() {
                let near = self.addresses.of(family, index).near;
                let _ = writeln!(lines, "mptcp endpoint add {near} dev path{index} subflow");
            }
        }
        lines
    }

    fn of_far(&self, family: Family) -> String {
        let mut lines = String::new();
        let (all, prefix_bits) = match family {
            Family::V4 => ("10.0.0.0", V4_PREFIX_BITS),
            Family::V6 => ("fd00::", V6_PREFIX_BITS),
        };
        for index in 0..self.mtus.len() {
            let Ends { near, far } = self.addresses.of(family, index);
            self.connect(&mut lines, index, &format!("far{index}"), far, near);
            answer_directly(&mut lines, far, prefix_bits);
        }
        let near = self.addresses.of(family, 0).near;
        let _ = writeln!(lines, "route add {all}/{prefix_bits} via {near} dev far0");
        if self.has_mptcp && !self.is_inner && family == Family::V4 {
            lines += MPTCP_LIMITS;
        }
        lines
    }

    /// Gives a path's interface its address, and the way of its packets. IPv4 comes first.
    fn connect(&self, lines: &mut String, index: usize, name: &str, own: IpAddr, gateway: IpAddr) {
        match own {
            IpAddr::V4(_) => self.bring_up(lines, name, self.mtus[index], &format!("{own}/24")),
            IpAddr::V6(_) => {
                let _ = writeln!(lines, "addr add {own}/64 dev {name} nodad");
            }
        }
        // Each path of each block has a table.
        let table = usize::from(self.addresses.block()) * 100 + index;
        let _ = writeln!(lines, "rule add from {own} lookup {table}");
        let _ = writeln!(
            lines,
            "route add default via {gateway} dev {name} table {table}"
        );
    }

    /// Brings an interface up that resolves no addresses and sends no packets of its own.
    fn bring_up(&self, lines: &mut String, name: &str, mtu: u32, address: &str) {
        let _ = writeln!(lines, "link set {name} mtu {mtu}");
        if self.has_v6 {
            let _ = writeln!(lines, "link set {name} addrgenmode none");
        }
        if self.kind == InterfaceKind::VirtualEthernet {
            let hardware = HARDWARE_ADDRESS.map(|byte| format!("{byte:02x}")).join(":");
            let _ = writeln!(lines, "link set {name} address {hardware} arp off");
            // A packet socket would get segments of up to 64 KiB, which no link carries.
            let _ = writeln!(lines, "link set {name} gso_max_segs 1");
        }
        let _ = writeln!(lines, "addr add {address} dev {name}");
        let _ = writeln!(lines, "link set {name} up");
    }
}

/// Limits of MPTCP's path manager, both at their maximum.
const MPTCP_LIMITS: &str = "mptcp limits set subflow 8 add_addr_accepted 8\n";

/// Sends answers of a far end by the interface from which they were asked, if the source of the
/// question is on its network. Comes before the rule of `connect`, which was added earlier.
fn answer_directly(lines: &mut String, source: IpAddr, prefix_bits: u8) {
    let _ = writeln!(
        lines,
        "rule add from {source} lookup main suppress_prefixlength {prefix_bits}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(mtus: &[u32]) -> Script<'_> {
        Script {
            addresses: AddressPlan::inside(1).unwrap(),
            kind: InterfaceKind::Tun,
            mtus,
            has_v6: true,
            has_mptcp: false,
            is_inner: false,
        }
    }

    #[test]
    fn packets_leave_by_the_interface_of_their_source() {
        let lines = script(&[1_500, 1_400]).of_near(Family::V4);
        for line in [
            "link set path1 mtu 1400",
            "link set path1 addrgenmode none",
            "addr add 10.28.1.2/24 dev path1",
            "rule add from 10.28.1.2 lookup 2801",
            "route add default via 10.28.1.1 dev path1 table 2801",
            "route add default via 10.28.0.1 dev path0",
        ] {
            assert!(lines.lines().any(|found| found == line), "{line}: {lines}");
        }
        let lines = script(&[1_500, 1_400]).of_far(Family::V6);
        for line in [
            "addr add fd00:28:1::1/64 dev far1 nodad",
            "rule add from fd00:28:1::1 lookup 2801",
            "rule add from fd00:28:1::1 lookup main suppress_prefixlength 16",
            "route add fd00::/16 via fd00:28::2 dev far0",
        ] {
            assert!(lines.lines().any(|found| found == line), "{line}: {lines}");
        }
    }

    #[test]
    fn mptcp_has_endpoints_on_all_paths_but_the_first() {
        assert!(!script(&[1_500; 3]).of_near(Family::V4).contains("mptcp"));
        let script = Script {
            has_mptcp: true,
            ..script(&[1_500; 3])
        };
        let lines = script.of_near(Family::V4);
        let endpoints = lines
            .lines()
            .filter(|line| line.starts_with("mptcp endpoint"));
        let expected = [
            "mptcp endpoint add 10.28.1.2 dev path1 subflow",
            "mptcp endpoint add 10.28.2.2 dev path2 subflow",
        ];
        assert_eq!(endpoints.collect::<Vec<_>>(), expected);
        assert!(script.of_far(Family::V4).contains(MPTCP_LIMITS.trim()));
        let inner = Script {
            is_inner: true,
            ..script
        };
        assert!(
            !inner.of_far(Family::V4).contains("mptcp"),
            "the namespace has its own limits"
        );
    }

    #[test]
    fn virtual_ethernet_resolves_no_addresses_and_sends_single_segments() {
        let script = Script {
            kind: InterfaceKind::VirtualEthernet,
            ..script(&[1_500])
        };
        let lines = script.of_far(Family::V4);
        assert!(lines.contains("link set far0 address 02:00:00:00:00:27 arp off\n"));
        assert!(lines.contains("link set far0 gso_max_segs 1\n"));
    }

    #[test]
    fn a_refused_line_is_shown() {
        let complaint = "RTNETLINK answers: File exists\nCommand failed -:2\n";
        let text = with_line(
            complaint.trim(),
            "link set lo up\naddr add 10.0.0.1/8 dev far0\n",
        );
        let expected = "RTNETLINK answers: File exists (`ip addr add 10.0.0.1/8 dev far0`)";
        assert_eq!(text, expected);
        assert_eq!(with_line("", "x"), "it gave no reason");
    }

    #[test]
    fn a_network_needs_paths() {
        for count in [0, MAX_PATH_COUNT + 1] {
            let config = NetworkConfig {
                mtus: vec![1_500; count],
                depth: 0,
                has_mptcp: false,
                mark: None,
            };
            let error = Network::new(&config).unwrap_err();
            assert!(matches!(error, NetworkError::PathCount(found) if found == count));
        }
    }
}
