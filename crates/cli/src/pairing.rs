//! Links by which peers register: `--pair` of `recv` and `serve`, and `anabranch pair`.

pub(crate) mod desk;
pub(crate) mod invitation;
pub(crate) mod phone_request;
pub(crate) mod private_file;
pub(crate) mod qr_code;
pub(crate) mod running_program;

use std::fs::OpenOptions;
use std::io::{IsTerminal, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anabranch_net::system::allow_owner_alone;
use anabranch_terminal::files::make_private_folder;
use anabranch_terminal::print;
use anabranch_units::Duration;
use anyhow::Context;
use qrcode::{EcLevel, QrCode};

use crate::allowed::StreamName;
use crate::link::Link;
use crate::open_port::{OpenPort, outward};
use crate::usage::usual_folder;

/// Validity of a link. Chosen: enough time to send it to another person.
pub(crate) const LASTS: Duration = Duration::from_secs(600);
/// Address to listen at without --listen.
pub(crate) const LISTEN: &str = "0.0.0.0:7000";

/// Warning about a link that leads to this machine alone.
const NO_ROUTE: &str = "this machine has no default route, so the link leads to 127.0.0.1, which \
                        only its own programs reach: name its address in the senders' network, as \
                        192.0.2.7 (`ip address` lists them)";

/// Beginning of a list of peers that a program makes.
const LIST_HEAD: &str = "# Peers that are let in: a line KEY [NAME [LIMIT…]] each\n";

#[derive(Debug, Default, clap::Args)]
pub(crate) struct PairArguments {
    /// Print a link, and on a terminal its QR code, for one new peer: `anabranch send FILE LINK`
    /// for `recv`, `anabranch proxy LINK` for `serve`. It is good once and for ten minutes; then
    /// `anabranch pair` prints another while the program runs. The peer is added to the list of
    /// --allow-from. HOST is this machine's name or address for peers. Makes the key and the list
    /// if there are none [--key, --allow-from: receiver.key and senders, server.key and proxies,
    /// or relay.key and receivers, beside `usage.json`; --listen: 0.0.0.0:7000].
    #[arg(long, value_name = "HOST[:PORT]", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "")]
    pub(crate) pair: Option<String>,
    /// Name of the peer that uses the link of --pair, in lists, outputs and statistics.
    #[arg(long, value_name = "NAME", requires = "pair")]
    pub(crate) name: Option<StreamName>,
    /// Ask the local router for a port that leads to this program (by PCP, NAT-PMP or UPnP), and
    /// name the router's address in links. The port is kept open while the program runs, and given
    /// back at the end. If the router opens none, the program names its setting for that.
    #[arg(long)]
    pub(crate) open_port: bool,
}

impl PairArguments {
    pub(crate) fn is_asked(&self) -> bool {
        self.pair.is_some()
    }

    /// Returns the host that the user has named for links; empty without one.
    pub(crate) fn host(&self) -> &str {
        self.pair.as_deref().unwrap_or_default()
    }

    /// Returns the host for links: the one that the user has named, or a port of the router; empty
    /// without either.
    pub(crate) fn host_by(&self, port: Option<&OpenPort>) -> String {
        match (self.host(), port) {
            ("", Some(port)) => port.outside().to_string(),
            (host, _) => host.to_owned(),
        }
    }

    /// Returns a file: the one that is named, or with `--pair` the usual one.
    pub(crate) fn or_usual(&self, named: Option<&Path>, name: &str) -> Option<PathBuf> {
        named.map(Path::to_owned).or_else(|| {
            let folder = if self.is_asked() {
                usual_folder()
            } else {
                None
            };
            folder.map(|folder| folder.join(name))
        })
    }

    /// Makes the list of peers if there is none, and it is wished by `--pair` or is to be in the
    /// program's own folder.
    ///
    /// # Errors
    /// The file cannot be made.
    pub(crate) fn make_list(&self, list: Option<&Path>) -> anyhow::Result<()> {
        let Some(list) = list.filter(|list| !list.exists()) else {
            return Ok(());
        };
        let is_own = usual_folder().is_some_and(|own| list.parent() == Some(&own));
        if self.is_asked() || is_own {
            make_list(list).with_context(|| format!("cannot make {}", list.display()))?;
        }
        Ok(())
    }
}

/// Makes a list without peers, and its folder.
fn make_list(list: &Path) -> anyhow::Result<()> {
    if let Some(folder) = list.parent() {
        make_private_folder(folder)?;
    }
    let mut private = OpenOptions::new();
    private.write(true).create_new(true);
    let mut made = allow_owner_alone(&mut private).open(list)?;
    made.write_all(LIST_HEAD.as_bytes())?;
    Ok(())
}

/// Prints a link, and on a terminal its QR code.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn print_link(link: &Link) -> anyhow::Result<()> {
    let text = link.to_text();
    // The lines below the code must not scroll it off the screen.
    print_qr_code(&text)?;
    print::secret(&text)
}

/// Draws a link's QR code, if standard output is a terminal and the link is not too long.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn print_qr_code(link: &str) -> anyhow::Result<()> {
    if std::io::stdout().is_terminal()
        && let Ok(code) = QrCode::with_error_correction_level(link.as_bytes(), EcLevel::L)
    {
        print::secret(&qr_code::drawn(&code))?;
    }
    Ok(())
}

/// Returns where peers find a program that listens at `local`: the host that the user has named, or
/// the address of the default route. Warns if there is neither.
pub(crate) fn address_of(host: &str, local: SocketAddr) -> String {
    let outward = outward();
    if host.is_empty() && local.ip().is_unspecified() && outward.is_none() {
        print::warn(NO_ROUTE);
    }
    address_for_senders(host, local, outward)
}

/// Returns the host by which senders reach this machine.
pub(crate) fn host_for_senders(named: &str) -> String {
    let (host, _) = split_port(named);
    if host.is_empty() {
        let this_machine = IpAddr::V4(Ipv4Addr::LOCALHOST);
        match outward().unwrap_or(this_machine) {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        }
    } else {
        host.to_owned()
    }
}

/// Splits HOST[:PORT]. IPv6 addresses with a port are in brackets.
fn split_port(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((host, port))
            if port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']')) =>
        {
            (host, Some(port))
        }
        _ => (text, None),
    }
}

/// Returns where senders find a receiver that listens at `local`: the host that the user has named,
/// or `outward`, the address of the default route.
fn address_for_senders(host: &str, local: SocketAddr, outward: Option<IpAddr>) -> String {
    let port = local.port();
    let has_port = split_port(host).1.is_some();
    match host {
        "" if local.ip().is_unspecified() => {
            let this_machine = IpAddr::V4(Ipv4Addr::LOCALHOST);
            SocketAddr::new(outward.unwrap_or(this_machine), port).to_string()
        }
        "" => local.to_string(),
        host if has_port => host.to_owned(),
        host => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_link_names_an_address_that_senders_reach() {
        let any: SocketAddr = "0.0.0.0:7443".parse().unwrap();
        let outward = Some(IpAddr::from([192, 0, 2, 7]));
        for (host, expected) in [
            ("", "192.0.2.7:7443"),
            ("studio.example", "studio.example:7443"),
            ("studio.example:80", "studio.example:80"),
            ("[2001:db8::1]", "[2001:db8::1]:7443"),
            ("[2001:db8::1]:80", "[2001:db8::1]:80"),
        ] {
            assert_eq!(address_for_senders(host, any, outward), expected);
        }
        assert_eq!(address_for_senders("", any, None), "127.0.0.1:7443");
        let own = "127.0.0.1:7000".parse().unwrap();
        assert_eq!(address_for_senders("", own, None), "127.0.0.1:7000");
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_list_that_is_made_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("state/anabranch/senders");
        let arguments = PairArguments {
            pair: Some(String::new()),
            ..PairArguments::default()
        };
        arguments.make_list(Some(&list)).unwrap();
        assert_eq!(mode(&list), 0o600);
        assert_eq!(mode(list.parent().unwrap()), 0o700);
        assert_eq!(std::fs::read_to_string(&list).unwrap(), LIST_HEAD);
        arguments.make_list(Some(&list)).unwrap();
        let other = folder.path().join("elsewhere");
        PairArguments::default().make_list(Some(&other)).unwrap();
        assert!(!other.exists(), "it may be misspelt");
    }
}
