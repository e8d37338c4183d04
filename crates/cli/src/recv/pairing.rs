//! `recv --pair`: a link with which one sender registers.

use std::fs::OpenOptions;
use std::io::{IsTerminal, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anabranch_mpegts_io::InputName;
use anabranch_net::{PairingOutcome, Receiver};
use anabranch_secure::{PairingCode, PublicKey};
use anabranch_terminal::files::make_private_folder;
use anabranch_terminal::print;
use anabranch_units::{Duration, Instant};
use anyhow::{Context, ensure};
use qrcode::{EcLevel, QrCode};

use super::destination::{self, Destination};
use super::listen::{OtherSource, Sources};
use super::phones::{self, PhoneAddress};
use super::{Arguments, Studio, qr_code};
use crate::link::Link;
use crate::usage::usual_folder;

/// Validity of a link. Chosen: enough time to send it to another person.
const LASTS: Duration = Duration::from_secs(600);
/// Address to listen at without --listen.
const LISTEN: &str = "0.0.0.0:7000";

/// Warning about a link that leads to this machine alone.
const NO_ROUTE: &str = "this machine has no default route, so the link leads to 127.0.0.1, which \
                        only its own programs reach: name its address in the senders' network, as \
                        --pair=192.0.2.7 (`ip address` lists them)";

/// Beginning of a list of senders that `--pair` makes.
const LIST_HEAD: &str = "# Senders that are let in: a line KEY [NAME [LIMIT…]] each\n";

#[derive(Debug, clap::Args)]
pub(super) struct PairArguments {
    /// Print a link, and on a terminal its QR code, for one new sender: `anabranch send FILE LINK`.
    /// It is good once and for ten minutes. The sender is added to the list of --allow-from. HOST
    /// is this machine's name or address for senders. Each --listen by SRT, SRTLA or RTMP also gets
    /// links for the apps of phones, and a passphrase if it has none. Makes the key and the list if
    /// there are none [--key, --allow-from: receiver.key and senders beside `usage.json`; --listen:
    /// 0.0.0.0:7000].
    #[arg(long, value_name = "HOST[:PORT]", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "")]
    pair: Option<String>,
}

impl PairArguments {
    pub(super) fn is_asked(&self) -> bool {
        self.pair.is_some()
    }

    /// Returns the key file: the one that is named, or the usual one.
    fn key_of(&self, named: Option<&Path>) -> Option<PathBuf> {
        self.or_usual(named, "receiver.key")
    }

    /// Returns the list of senders: the one that is named, or the usual one.
    fn list_of(&self, named: Option<&Path>) -> Option<PathBuf> {
        self.or_usual(named, "senders")
    }

    fn or_usual(&self, named: Option<&Path>, name: &str) -> Option<PathBuf> {
        let usual = || {
            let folder = self.is_asked().then(usual_folder);
            folder.flatten().map(|folder| folder.join(name))
        };
        named.map(Path::to_owned).or_else(usual)
    }

    /// Makes the list of senders if there is none.
    ///
    /// # Errors
    /// The file cannot be made, or standard output carries the video.
    pub(super) fn make_list(&self, list: Option<&Path>, uses_stdout: bool) -> anyhow::Result<()> {
        let Some(list) = list.filter(|_| self.is_asked()) else {
            return Ok(());
        };
        ensure!(
            !uses_stdout,
            "--pair prints its link on standard output, which carries the video: pair first, with \
             a file as output"
        );
        let context = || format!("cannot make {}", list.display());
        if let Some(folder) = list.parent() {
            make_private_folder(folder).with_context(context)?;
        }
        if !list.exists() {
            let mut private = OpenOptions::new();
            let made = private.write(true).create_new(true).mode(0o600).open(list);
            let mut made = made.with_context(context)?;
            made.write_all(LIST_HEAD.as_bytes()).with_context(context)?;
        }
        Ok(())
    }

    /// Gives listeners of SRT and SRTLA without a passphrase one of their own.
    ///
    /// # Errors
    /// A file cannot be made, or a parameter of an address is wrong.
    pub(super) fn make_passphrases(&self, sources: &mut [OtherSource]) -> anyhow::Result<()> {
        let Some(folder) = usual_folder().filter(|_| self.is_asked()) else {
            return Ok(());
        };
        for OtherSource { name, input } in sources {
            if let InputName::Foreign(foreign) = input {
                *foreign = phones::with_passphrase(foreign.clone(), name, &folder)?;
            }
        }
        Ok(())
    }

    /// Prints the links for phones of the addresses that their apps call.
    ///
    /// # Errors
    /// A parameter of an address is wrong, or standard output cannot be written.
    pub(super) fn print_phones(&self, sources: &[OtherSource]) -> anyhow::Result<()> {
        let Some(named) = self.pair.as_deref() else {
            return Ok(());
        };
        let host = host_for_senders(named);
        for source in sources {
            if let Some(phone) = PhoneAddress::of(source, &host)? {
                phone.print()?;
            }
        }
        Ok(())
    }

    /// Prints a link to a receiver, and has the receiver wait for its code.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(super) fn start(&self, receiver: &Receiver, key: PublicKey) -> anyhow::Result<()> {
        let Some(host) = self.pair.as_deref() else {
            return Ok(());
        };
        let code = PairingCode::generate();
        receiver.start_pairing(code.clone(), LASTS);
        let local = receiver.local_addr();
        if host.is_empty() && local.ip().is_unspecified() && outward().is_none() {
            print::warn(NO_ROUTE);
        }
        let to = address_for_senders(host, local, outward());
        let link = Link {
            to,
            key,
            code: Some(code),
        };
        let text = link.to_text();
        print::note(
            "the link is good once and for ten minutes: anabranch send INPUT 'LINK'. If senders \
             reach this machine at another address, name it: --pair=HOST",
        );
        // The lines below the code must not scroll it off the screen.
        if std::io::stdout().is_terminal()
            && let Ok(code) = QrCode::with_error_correction_level(text.as_bytes(), EcLevel::L)
        {
            print::secret(&qr_code::drawn(&code))?;
        }
        print::secret(&text)
    }
}

/// Returns the host by which senders reach this machine.
fn host_for_senders(named: &str) -> String {
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

/// Returns the address from which this machine reaches others. It sends nothing: the addresses for
/// documentation (RFC 5737, RFC 3849) only select a route.
fn outward() -> Option<IpAddr> {
    let addresses = [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")];
    let address = |(local, remote): (&str, &str)| {
        let socket = UdpSocket::bind(local).ok()?;
        socket.connect(remote).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    addresses.into_iter().find_map(address)
}

impl Arguments {
    /// Checks the outputs, and then makes the list of senders if there is none.
    pub(super) fn prepare(&self) -> anyhow::Result<()> {
        destination::check(&self.outputs, self.rotate)?;
        let uses_stdout = self.outputs.iter().any(Destination::is_stdout);
        self.pairing.make_list(self.list().as_deref(), uses_stdout)
    }

    /// Returns the addresses to listen at, among them our own protocol's with --pair.
    pub(super) fn sources(&self) -> anyhow::Result<Sources> {
        let mut sources = Sources::of(self.listen.clone())?;
        if self.pairing.is_asked() {
            let usual = || LISTEN.to_owned();
            sources.native.get_or_insert_with(usual);
        }
        Ok(sources)
    }

    pub(super) fn key_file(&self) -> Option<PathBuf> {
        self.pairing.key_of(self.key.as_deref())
    }

    /// Returns the file of senders.
    pub(super) fn list(&self) -> Option<PathBuf> {
        self.pairing.list_of(self.allow_from.as_deref())
    }
}

impl Studio<'_> {
    /// Adds a sender that has used the link to the list, and reports the end of the link.
    pub(super) fn take_pairing_outcomes(&mut self, now: Instant) {
        let Some(receiver) = self.receiver.filter(|_| self.is_pairing) else {
            return;
        };
        for outcome in receiver.take_pairing_outcomes() {
            self.is_pairing = false;
            match outcome {
                PairingOutcome::Paired(peer) => {
                    let kept = self.allowed.add(peer);
                    let name = self.allowed.name_of(&peer);
                    let paired = format!("paired with {}, {peer}", name.as_str());
                    match kept {
                        Ok(path) => {
                            print::note(format_args!("{paired}: now in {}", path.display()))
                        }
                        Err(error) => print::warn(format_args!(
                            "{paired}; it is let in until this program ends: {error:#}"
                        )),
                    }
                    self.use_list(now);
                }
                PairingOutcome::Expired => print::warn(
                    "the link of --pair has expired after ten minutes: restart for another",
                ),
                _ => {}
            }
        }
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
        let shown = |host| address_for_senders(host, any, outward);
        assert_eq!(shown(""), "192.0.2.7:7443");
        assert_eq!(address_for_senders("", any, None), "127.0.0.1:7443");
        assert_eq!(shown("studio.example"), "studio.example:7443");
        assert_eq!(shown("studio.example:80"), "studio.example:80");
        assert_eq!(shown("[2001:db8::1]"), "[2001:db8::1]:7443");
        assert_eq!(shown("[2001:db8::1]:80"), "[2001:db8::1]:80");
        let own = "127.0.0.1:7000".parse().unwrap();
        assert_eq!(address_for_senders("", own, None), "127.0.0.1:7000");
    }

    #[test]
    fn a_list_that_is_made_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("state/anabranch/senders");
        let arguments = PairArguments {
            pair: Some(String::new()),
        };
        arguments.make_list(Some(&list), false).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&list), 0o600);
        assert_eq!(mode(list.parent().unwrap()), 0o700);
        assert_eq!(std::fs::read_to_string(&list).unwrap(), LIST_HEAD);
        arguments.make_list(Some(&list), false).unwrap();
        assert!(arguments.make_list(Some(&list), true).is_err());
    }
}
