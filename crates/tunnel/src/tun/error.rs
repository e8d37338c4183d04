//! Errors of an interface, and of changes of the machine's own set-up.

use core::error::Error;
use std::io;
use std::path::PathBuf;

use anabranch_net::system::MissingFeature;

use super::address::InnerAddress;

/// Reason why an interface, or a change for it, could not be made. The text begins with the option
/// that asked for it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunError {
    /// This system has no TUN interfaces.
    #[error(transparent)]
    Missing(#[from] MissingFeature),
    /// There are two addresses of IPv4, or of IPv6.
    #[error("--tun-address: one of IPv4 and one of IPv6 at the most")]
    TooManyAddresses,
    /// The server's network has no address for a proxy.
    #[error("--tun-address {address}: its network has no room for a proxy")]
    NoRoom {
        /// The server's address.
        address: InnerAddress,
    },
    /// An interface has the name.
    #[error(
        "--tun {name}: there is an interface of that name already (after a crash, `anabranch proxy \
         --clean-up` removes it)"
    )]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The system does not make the interface.
    #[error("--tun {name} with {addresses}")]
    Device {
        /// The interface's name.
        name: String,
        /// Its addresses, joined by "and".
        addresses: String,
        /// The reason.
        #[source]
        source: DeviceError,
    },
    /// The name could be misread in the rules of nftables.
    #[error("--nat: the interface's name {name:?} may have letters, digits, '.', '_' and '-' only")]
    NatName {
        /// The interface's name.
        name: String,
    },
    /// Forwarding or address translation could not be set up.
    #[error("--nat")]
    Nat(#[source] HostError),
    /// Routes or name servers could not be changed.
    #[error("--default-route")]
    DefaultRoute(#[source] HostError),
    /// The changes of an earlier run could not be undone.
    #[error(transparent)]
    CleanUp(HostError),
    /// The changes in one record of an earlier run could not be undone.
    #[error("--clean-up of {record}")]
    CleanUpOf {
        /// File name of the record.
        record: String,
        /// The reason.
        #[source]
        source: HostError,
    },
}

/// Reason of the system against an interface, with advice where it is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The program lacks the right.
    #[error("it takes root (CAP_NET_ADMIN)")]
    Permission(#[source] io::Error),
    /// The kernel's module is not loaded, or its file is missing.
    #[error("there is no /dev/net/tun: load the kernel's module tun, or let the container use it")]
    NoDriver(#[source] io::Error),
    /// Another program has the interface.
    #[error("another program has it")]
    Busy(#[source] io::Error),
    /// Any other error.
    #[error(transparent)]
    Other(io::Error),
}

/// Reason why the machine's set-up could not be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A file has other content than this program has seen or written.
    #[error("{} was changed by another program", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The folder of records cannot be read.
    #[error("it takes root: cannot read {}", path.display())]
    ReadRecords {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The record of changes cannot be opened.
    #[error("it takes root: cannot write {}", path.display())]
    OpenRecord {
        /// The record.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Another program that runs has the record.
    #[error("a running program has made these changes already")]
    RecordInUse,
    /// The record cannot be understood.
    #[error("{} is damaged: remove it, and the changes that it lists", path.display())]
    RecordDamaged {
        /// The record.
        path: PathBuf,
        /// The mistake in its text.
        #[source]
        source: serde_json::Error,
    },
    /// The record, or its folder, belongs to another user.
    #[error(
        "{path} belongs to user {owner}, and this program runs as user {own}: changes of a \
         service are undone by its next start (`systemctl start`); to drop them, undo the \
         changes that the file lists and remove it",
        path = path.display()
    )]
    RecordOwner {
        /// The record or its folder.
        path: PathBuf,
        /// Number of its owner.
        owner: u32,
        /// Number of the program's user.
        own: u32,
    },
    /// Other users may write the record, or its folder.
    #[error(
        "other users may write {path}: run `chmod go-w {path}` if its content is yours",
        path = path.display()
    )]
    RecordShared {
        /// The record or its folder.
        path: PathBuf,
    },
    /// The program's network namespace is unknown.
    #[error("it takes Linux")]
    Namespace(#[source] io::Error),
    /// The machine has no parameters of IPv6.
    #[error("this machine has no IPv6")]
    NoIpv6(#[source] io::Error),
    /// A program is not installed.
    #[error("the program {program} is missing{}", package(program))]
    ProgramMissing {
        /// Its name.
        program: String,
    },
    /// A command could not be run.
    #[error("{command}")]
    NotRun {
        /// The command with its arguments.
        command: String,
        /// The reason.
        #[source]
        source: Box<HostError>,
    },
    /// A command has failed.
    #[error("{command}: {complaint}")]
    Failed {
        /// The command with its arguments.
        command: String,
        /// Its complaint, or its exit status.
        complaint: String,
    },
    /// A routing rule of another program has one of our priorities.
    #[error("another program has a rule in the range {first} to {last}: {rule} (see `ip rule`)")]
    RuleTaken {
        /// Our first priority.
        first: u32,
        /// Our last priority.
        last: u32,
        /// The other program's rule.
        rule: String,
    },
    /// Another program uses our routing table.
    #[error("another program has routes in table {table} (see `ip route show table {table}`)")]
    TableTaken {
        /// The table's number.
        table: u32,
    },
    /// Any other error of the system.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Returns the package that has a program, for its error.
fn package(program: &str) -> &'static str {
    match program {
        "ip" => " (Debian: iproute2)",
        "nft" => " (Debian: nftables)",
        "resolvectl" => " (Debian: systemd-resolved)",
        _ => "",
    }
}

impl HostError {
    /// Returns the text with those of its causes.
    pub(super) fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text.push_str(&format!(": {error}"));
            cause = error.source();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_with_causes_names_the_command_and_the_missing_program() {
        let missing = HostError::ProgramMissing {
            program: "nft".to_owned(),
        };
        let error = HostError::NotRun {
            command: "nft -f -".to_owned(),
            source: Box::new(missing),
        };
        assert_eq!(error.to_string(), "nft -f -");
        assert_eq!(
            error.with_causes(),
            "nft -f -: the program nft is missing (Debian: nftables)"
        );
    }
}
