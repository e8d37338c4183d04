//! Argument parsing that several commands share.

use std::borrow::Cow;
use std::fs::{self, OpenOptions};
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::Path;

use anabranch_units::Duration;
use anyhow::{Context, anyhow};

/// Parses a duration that must be positive.
pub(crate) fn positive(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(Duration::ZERO) => Err("it must be longer than nothing".to_owned()),
        Ok(span) => Ok(span),
        Err(error) => Err(error.to_string()),
    }
}

/// Default port of receivers.
const USUAL_PORT: u16 = 7_000;

/// Returns a host with its port, which is [`USUAL_PORT`] if the text has none.
pub(crate) fn with_port(text: &str) -> Cow<'_, str> {
    let host = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let is_v6 = |host: &str| host.parse::<Ipv6Addr>().is_ok();
    let has_none = match host {
        Some(host) => is_v6(host),
        None => !text.is_empty() && !text.contains(':'),
    };
    match has_none {
        true => format!("{text}:{USUAL_PORT}").into(),
        false => text.into(),
    }
}

/// Returns the address and port that an option names.
pub(crate) fn socket_addr(option: &str, text: &str) -> anyhow::Result<SocketAddr> {
    let addresses = text.to_socket_addrs().ok();
    addresses
        .and_then(|mut addresses| addresses.next())
        .ok_or_else(|| anyhow!("{option} {text}: expected an address and a port, as 0.0.0.0:7000"))
}

/// Parses `--listen` of an end that accepts sessions.
///
/// # Errors
/// The text is no address.
pub(crate) fn listen_addr(text: &str) -> anyhow::Result<SocketAddr> {
    socket_addr("--listen", &with_port(text))
}

/// Parses `--listen-tcp`.
///
/// # Errors
/// The text is no address with a port.
pub(crate) fn tcp_addr(text: Option<&str>) -> anyhow::Result<Option<SocketAddr>> {
    text.map(|text| socket_addr("--listen-tcp", text))
        .transpose()
}

/// Returns the words for an address that accepts TCP connections, if there is one.
pub(crate) fn describe_tcp(address: Option<SocketAddr>) -> String {
    address.map_or_else(String::new, |address| format!(" and by TCP at {address}"))
}

/// Raises the limit of open files. Every connection and session needs one, and many systems start
/// with a limit of 1,024.
pub(crate) fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // If this fails, later connections wait.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    );
}

/// Checks that the file can be written, before the work whose result it is for.
pub(crate) fn check_writable(path: &Path) -> anyhow::Result<()> {
    let is_new = !path.exists();
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.with_context(|| format!("cannot write {}", path.display()))?;
    if is_new {
        // The check leaves no new file behind.
        let _ = fs::remove_file(path);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_at_all_is_refused() {
        assert_eq!(positive("5 ms"), Ok(Duration::from_millis(5)));
        assert!(positive("0 s").unwrap_err().contains("longer than nothing"));
        assert!(positive("5").unwrap_err().contains("units"));
    }

    #[test]
    fn an_address_without_a_port_has_the_usual_one() {
        let with_port = |text| with_port(text).into_owned();
        assert_eq!(with_port("studio.example"), "studio.example:7000");
        assert_eq!(with_port("192.0.2.1"), "192.0.2.1:7000");
        assert_eq!(with_port("[2001:db8::1]"), "[2001:db8::1]:7000");
        for text in ["192.0.2.1:9", "[::1]:9", "2001:db8::1", "[studio]", ""] {
            assert_eq!(with_port(text), text);
        }
        assert_eq!(listen_addr("[::]").unwrap().port(), USUAL_PORT);
    }

    #[test]
    fn asking_whether_a_file_can_be_written_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plot.svg");
        check_writable(&path).unwrap();
        assert!(!path.exists());
        fs::write(&path, "old").unwrap();
        check_writable(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        let error = check_writable(folder.path()).unwrap_err().to_string();
        assert!(error.starts_with("cannot write "), "{error}");
        assert!(check_writable(&folder.path().join("none/plot.svg")).is_err());
    }
}
