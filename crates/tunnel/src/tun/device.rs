//! The interface: created with its address, brought up, and removed when the program ends.

use std::io;

use anabranch_net::system::{Feature, ensure_has};
use anabranch_terminal::print;
use anyhow::{Context, bail};

use super::TunOptions;
use super::address::InnerAddress;

/// Longest name that the kernel accepts (`IFNAMSIZ` without the final zero).
const MAX_NAME_BYTES: usize = 15;

/// Parses an interface's name.
///
/// # Errors
/// The system has no such interfaces, or no interface can have this name.
pub fn name(text: &str) -> Result<String, String> {
    ensure_has(Feature::Tun, "--tun").map_err(|missing| missing.to_string())?;
    let is_name = (1..=MAX_NAME_BYTES).contains(&text.len())
        && !text
            .bytes()
            .any(|byte| matches!(byte, b'/' | b':' | b'%') || byte <= b' ')
        && !matches!(text, "." | "..");
    if is_name {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "{text:?}: expected an interface's name, 1 to {MAX_NAME_BYTES} bytes without / : % \
             and spaces"
        ))
    }
}

/// A TUN interface.
pub(super) struct Device {
    interface: Interface,
    pub(super) name: String,
}

impl Device {
    /// Creates the interface, if the options request one.
    ///
    /// # Errors
    /// This program lacks the permission, the system has no TUN interfaces, or the name is taken.
    pub(super) fn open(
        options: &TunOptions,
        addresses: &[InnerAddress],
    ) -> anyhow::Result<Option<Device>> {
        let Some(name) = options.name.clone() else {
            return Ok(None);
        };
        ensure_has(Feature::Tun, format_args!("--tun {name}"))?;
        if std::path::Path::new("/sys/class/net").join(&name).exists() {
            bail!(
                "--tun {name}: there is an interface of that name already \
                 (after a crash, `anabranch proxy --clean-up` removes it)"
            );
        }
        let opened = make(&name, options.mtu, addresses);
        let interface = opened.map_err(|error| match cause(&error) {
            Some(cause) => anyhow::Error::new(error).context(cause),
            None => error.into(),
        });
        let texts: Vec<_> = addresses.iter().map(InnerAddress::to_string).collect();
        let texts = texts.join(" and ");
        let interface = interface.with_context(|| format!("--tun {name} with {texts}"))?;
        print::note(format_args!(
            "made the interface {name} with {texts}, MTU {} (--tun)",
            options.mtu
        ));
        Ok(Some(Device { interface, name }))
    }

    /// Keeps the interface when the program ends.
    pub(super) fn persist(&self) -> io::Result<()> {
        self.interface.persist()
    }

    /// Receives the next packet that enters the interface. Returns its length.
    pub(super) async fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.interface.recv(buffer).await
    }

    /// Sends a packet out of the interface. A packet that the kernel refuses is lost, as on any
    /// network.
    pub(super) async fn send(&self, packet: &[u8]) {
        let _ = self.interface.send(packet).await;
    }
}

/// Returns whether the interface was deleted.
#[cfg(target_os = "linux")]
pub(super) fn is_deleted(error: &io::Error) -> bool {
    use rustix::io::Errno;
    Errno::from_io_error(error) == Some(Errno::BADFD)
}

/// Returns false: there are no interfaces.
#[cfg(not(target_os = "linux"))]
pub(super) fn is_deleted(_: &io::Error) -> bool {
    false
}

/// Returns advice about an error, if it is known.
#[cfg(target_os = "linux")]
fn cause(error: &io::Error) -> Option<&'static str> {
    use rustix::io::Errno;
    let number = error.raw_os_error()?;
    match Errno::from_raw_os_error(number) {
        Errno::PERM | Errno::ACCESS => Some("it takes root (CAP_NET_ADMIN)"),
        Errno::NOENT | Errno::NODEV | Errno::NXIO => Some(
            "there is no /dev/net/tun: load the kernel's module tun, or let the container use it",
        ),
        Errno::BUSY => Some("another program has it"),
        _ => None,
    }
}

/// Returns none: the error itself has the advice.
#[cfg(not(target_os = "linux"))]
fn cause(_: &io::Error) -> Option<&'static str> {
    None
}

#[cfg(target_os = "linux")]
type Interface = tun_rs::AsyncDevice;

#[cfg(target_os = "linux")]
fn make(name: &str, mtu: u16, addresses: &[InnerAddress]) -> io::Result<Interface> {
    use std::net::IpAddr;
    let mut builder = tun_rs::DeviceBuilder::new().name(name).mtu(mtu);
    for inner in addresses {
        builder = match inner.address() {
            IpAddr::V4(address) => builder.ipv4(address, inner.prefix(), None),
            IpAddr::V6(address) => builder.ipv6(address, inner.prefix()),
        };
    }
    builder.build_async()
}

/// An interface that does not exist.
#[cfg(not(target_os = "linux"))]
enum Interface {}

#[cfg(not(target_os = "linux"))]
impl Interface {
    fn persist(&self) -> io::Result<()> {
        match *self {}
    }

    async fn recv(&self, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }

    async fn send(&self, _: &[u8]) -> io::Result<usize> {
        match *self {}
    }
}

#[cfg(not(target_os = "linux"))]
fn make(_: &str, _: u16, _: &[InnerAddress]) -> io::Result<Interface> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "it takes Linux"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_the_kernel_takes() {
        for text in ["ab0", "a", "abcdefghijklmno", "tun-1.2"] {
            assert_eq!(name(text), Ok(text.to_owned()));
        }
        for wrong in [
            "",
            "abcdefghijklmnop",
            "a/b",
            "a b",
            "tun%d",
            ".",
            "..",
            "a:1",
            "a\n",
        ] {
            let error_text = name(wrong).unwrap_err();
            assert!(
                error_text.contains("expected an interface's name"),
                "{error_text}"
            );
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn errors_name_the_remedy() {
        use rustix::io::Errno;
        let error_text = |errno: Errno| cause(&io::Error::from(errno)).unwrap_or("nothing");
        assert!(error_text(Errno::PERM).contains("root"));
        assert!(error_text(Errno::NOENT).contains("/dev/net/tun"));
        assert!(error_text(Errno::BUSY).contains("another program"));
        assert_eq!(error_text(Errno::INVAL), "nothing");
    }
}
