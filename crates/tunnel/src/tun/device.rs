//! The interface: created with its address, brought up, and removed when the program ends.

use std::io;

use anabranch_net::system::{Feature, MissingFeature, ensure_has};

use super::address::InnerAddress;
use super::{DeviceError, TunError, TunOptions};

/// Longest name that the kernel accepts (`IFNAMSIZ` without the final zero).
const MAX_NAME_BYTES: usize = 15;

/// Mistake in an interface's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InterfaceNameError {
    /// This system has no such interfaces.
    #[error(transparent)]
    Missing(#[from] MissingFeature),
    /// No interface can have this name.
    #[error(
        "{text:?}: expected an interface's name, 1 to {MAX_NAME_BYTES} bytes without / : % and \
         spaces"
    )]
    Syntax {
        /// The text.
        text: String,
    },
}

/// Parses an interface's name.
///
/// # Errors
/// The system has no such interfaces, or no interface can have this name.
pub fn name(text: &str) -> Result<String, InterfaceNameError> {
    ensure_has(Feature::Tun, "--tun")?;
    let is_name = (1..=MAX_NAME_BYTES).contains(&text.len())
        && !text
            .bytes()
            .any(|byte| matches!(byte, b'/' | b':' | b'%') || byte <= b' ')
        && !matches!(text, "." | "..");
    if is_name {
        Ok(text.to_owned())
    } else {
        let text = text.to_owned();
        Err(InterfaceNameError::Syntax { text })
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
    ) -> Result<Option<Device>, TunError> {
        let Some(name) = options.name.clone() else {
            return Ok(None);
        };
        ensure_has(Feature::Tun, format_args!("--tun {name}"))?;
        if std::path::Path::new("/sys/class/net").join(&name).exists() {
            return Err(TunError::NameTaken { name });
        }
        let all: Vec<_> = addresses.iter().map(InnerAddress::to_string).collect();
        let texts = all.join(" and ");
        match make(&name, options.mtu, addresses) {
            Ok(interface) => {
                let mtu = options.mtu;
                log::info!("made the interface {name} with {texts}, MTU {mtu} (--tun)");
                Ok(Some(Device { interface, name }))
            }
            Err(error) => Err(TunError::Device {
                name,
                addresses: texts,
                source: error.into(),
            }),
        }
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

impl From<io::Error> for DeviceError {
    /// Classifies an error by its number.
    #[cfg(target_os = "linux")]
    fn from(error: io::Error) -> Self {
        use rustix::io::Errno;
        match Errno::from_io_error(&error) {
            Some(Errno::PERM | Errno::ACCESS) => DeviceError::Permission(error),
            Some(Errno::NOENT | Errno::NODEV | Errno::NXIO) => DeviceError::NoDriver(error),
            Some(Errno::BUSY) => DeviceError::Busy(error),
            _ => DeviceError::Other(error),
        }
    }

    /// Keeps the error, which has the advice itself.
    #[cfg(not(target_os = "linux"))]
    fn from(error: io::Error) -> Self {
        DeviceError::Other(error)
    }
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
            let error_text = name(wrong).unwrap_err().to_string();
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
        for (errno, remedy) in [
            (Errno::PERM, "root"),
            (Errno::NOENT, "/dev/net/tun"),
            (Errno::BUSY, "another program"),
            (Errno::INVAL, "Invalid argument"),
        ] {
            let error = DeviceError::from(io::Error::from(errno));
            assert!(error.to_string().contains(remedy), "{error}");
        }
    }
}
