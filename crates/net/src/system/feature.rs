//! Features that some operating systems lack: the one list, from which every message comes.

use core::fmt;

use super::NAME;

/// A feature that not every operating system has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// IP packets of a whole machine through a proxy: `--tun`.
    Tun,
    /// Programs in network namespaces: `anabranch link`, and parts of `anabranch-lab`.
    Namespaces,
    /// Congestion controllers and tests inside the kernel.
    KernelControllers,
    /// Sockets with a path in the file system.
    UnixSockets,
    /// Named pipes that a path in the file system names.
    Fifos,
    /// Signals that open files again.
    ReopenSignal,
    /// A firewall mark on sockets.
    Marks,
    /// Files with bits for their owner, their group and others.
    FileModes,
    /// Decoding of untrusted pictures in a process with limits: thumbnails.
    ProcessLimits,
    /// Helper programs that write datagrams to a socket: `rtmp://` inputs and `--encode`.
    InheritedSockets,
    /// A check that a datagram on loopback comes from this user.
    SourceUser,
    /// A queue of the kernel's own for each peer of a receiver.
    PeerSockets,
    /// Arrival times that the kernel notes.
    KernelTimestamps,
}

impl Feature {
    /// All features.
    pub const ALL: [Feature; 13] = [
        Feature::Tun,
        Feature::Namespaces,
        Feature::KernelControllers,
        Feature::UnixSockets,
        Feature::Fifos,
        Feature::ReopenSignal,
        Feature::Marks,
        Feature::FileModes,
        Feature::ProcessLimits,
        Feature::InheritedSockets,
        Feature::SourceUser,
        Feature::PeerSockets,
        Feature::KernelTimestamps,
    ];

    /// Returns whether Linux, macOS and Windows have it, and the way without it.
    const fn entry(self) -> ([bool; 3], &'static str) {
        match self {
            Feature::Tun => (
                [true, false, false],
                "let programs use the SOCKS or HTTP proxy, or run `proxy --tun` on a router with \
                 Linux",
            ),
            Feature::Namespaces => (
                [true, false, false],
                "`anabranch emulate` runs the same network between two ports of UDP",
            ),
            Feature::KernelControllers => (
                [true, false, false],
                "run it on a machine with Linux; simulations need no kernel",
            ),
            Feature::UnixSockets => (
                [true, true, false],
                "give an address of loopback instead, as udp://127.0.0.1:7100",
            ),
            Feature::Fifos => (
                [true, true, false],
                "use standard input or output (-), a file, or udp://127.0.0.1:PORT",
            ),
            Feature::ReopenSignal => (
                [true, true, false],
                "stop and start the program to begin a new file",
            ),
            Feature::Marks => (
                [true, false, false],
                "name an interface or an address by --via",
            ),
            Feature::FileModes => (
                [true, true, false],
                "keep keys in a folder of your own, which other users cannot open",
            ),
            Feature::ProcessLimits => (
                [true, true, false],
                "watch the live picture instead: a browser decodes it",
            ),
            Feature::InheritedSockets => (
                [true, true, false],
                "let ffmpeg or OBS send to srt://127.0.0.1:PORT or udp://127.0.0.1:PORT, and name \
                 that as the input",
            ),
            Feature::SourceUser => (
                [true, false, false],
                "let an encoder on a shared machine use srt:// with a passphrase",
            ),
            Feature::PeerSockets => (
                [true, false, false],
                "a flood from strangers shares the receiver's queue with its senders",
            ),
            Feature::KernelTimestamps => (
                [true, false, false],
                "arrivals are noted when the program reads them",
            ),
        }
    }
}

/// The absence of a feature on this system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The operating system.
    pub system: &'static str,
    /// The way without it, or its consequence.
    pub instead: &'static str,
}

/// Returns the absence of a feature, with the way without it; `None` if this system has it.
pub const fn lacks(feature: Feature) -> Option<Lack> {
    let ([linux, macos, windows], instead) = feature.entry();
    let has = if cfg!(windows) {
        windows
    } else if cfg!(target_vendor = "apple") {
        macos
    } else {
        linux
    };
    if has {
        None
    } else {
        Some(Lack {
            system: NAME,
            instead,
        })
    }
}

/// Checks that this system has a feature, for the request `name` of the user.
///
/// # Errors
/// It has not: the text names the request, the system, and the way without it.
pub fn ensure_has(feature: Feature, name: impl fmt::Display) -> Result<(), MissingFeature> {
    match lacks(feature) {
        None => Ok(()),
        Some(lack) => Err(MissingFeature {
            name: name.to_string(),
            lack,
        }),
    }
}

/// Refusal of an option that this system cannot serve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} does not work on {}: {}", lack.system, lack.instead)]
pub struct MissingFeature {
    name: String,
    lack: Lack,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_names_a_substitute() {
        for feature in Feature::ALL {
            let (has, instead) = feature.entry();
            assert!(has[0], "{feature:?}: Linux has all of them");
            assert!(instead.len() > 20, "{feature:?}");
            let place = usize::from(cfg!(target_vendor = "apple")) + 2 * usize::from(cfg!(windows));
            assert_eq!(lacks(feature).is_none(), has[place], "{feature:?}");
        }
    }

    #[test]
    fn a_refusal_names_the_request_the_system_and_the_way_out() {
        let refusal = MissingFeature {
            name: "--tun".to_owned(),
            lack: Lack {
                system: "Windows",
                instead: "use the proxy",
            },
        };
        let text = refusal.to_string();
        assert_eq!(text, "--tun does not work on Windows: use the proxy");
        let has_it = ensure_has(Feature::UnixSockets, "unix:/run/target");
        assert_eq!(has_it.is_ok(), cfg!(unix));
    }
}
