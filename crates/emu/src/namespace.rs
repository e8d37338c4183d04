//! Network namespaces without names: they end with the last process in them, even after a crash.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};
use rustix::process::{getegid, geteuid};

/// A network namespace.
#[derive(Debug)]
pub struct Namespace(File);

impl Namespace {
    /// Makes an empty namespace. No thread enters it.
    ///
    /// # Errors
    /// This program may not ("operation not permitted"), or the system has no namespaces.
    pub fn new() -> io::Result<Namespace> {
        in_a_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            Namespace::current()
        })
    }

    /// Returns the namespace of the calling thread.
    ///
    /// # Errors
    /// There is no `/proc`.
    pub fn current() -> io::Result<Namespace> {
        File::open("/proc/thread-self/ns/net").map(Namespace)
    }

    /// Moves the calling thread into the namespace. Programs that it starts run in it.
    ///
    /// # Errors
    /// This program may not.
    pub fn enter(&self) -> io::Result<()> {
        setns(&self.0, CloneFlags::CLONE_NEWNET).map_err(io::Error::from)
    }

    /// Calls `action` in the namespace, in a thread of its own, and returns its result.
    ///
    /// # Errors
    /// Those of the action, or this program may not enter the namespace.
    pub fn run<T: Send>(&self, action: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        in_a_thread(|| {
            self.enter()?;
            action()
        })
    }

    /// Returns the namespace's number, which another one may have after its end.
    ///
    /// # Errors
    /// The system does not know the number.
    pub fn number(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.ino())
    }

    /// Returns a path that names the namespace for other programs while this one runs.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

fn in_a_thread<T: Send>(action: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let result = thread::scope(|scope| scope.spawn(action).join());
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Capabilities that namespaces, interfaces and addresses need: `CAP_NET_ADMIN`, `CAP_NET_RAW`,
/// `CAP_SYS_ADMIN` (capabilities(7)).
const NEEDED_CAPABILITIES: u64 = 1 << 12 | 1 << 13 | 1 << 21;

/// A user who may make no namespaces.
#[derive(Debug, thiserror::Error)]
#[error(
    "this user may make no user namespace: run it as root, or allow them (on Debian and Ubuntu, \
     sysctl kernel.unprivileged_userns_clone=1 or kernel.apparmor_restrict_unprivileged_userns=0)"
)]
pub struct NoRights(#[from] io::Error);

/// Obtains the rights to make namespaces. A program that lacks them becomes root of a user
/// namespace of its own. It must have no other thread. Returns whether it has done so.
///
/// # Errors
/// The program has other threads ("invalid argument"), or the system does not let users make user
/// namespaces.
pub fn obtain_rights() -> Result<bool, NoRights> {
    let status = fs::read_to_string("/proc/self/status")?;
    if has_capabilities(&status) {
        return Ok(false);
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER).map_err(io::Error::from)?;
    // Without privileges, a process maps its group after giving up others (user_namespaces(7)).
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))?;
    Ok(true)
}

/// Returns whether a program with this text in `/proc/PID/status` may make namespaces.
fn has_capabilities(status: &str) -> bool {
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    effective.is_some_and(|mask| mask & NEEDED_CAPABILITIES == NEEDED_CAPABILITIES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_those_of_the_kernels_list() {
        assert!(has_capabilities("Name:\tlink\nCapEff:\t000001ffffffffff\n"));
        assert!(has_capabilities("CapEff:\t0000000000203000\n"));
        assert!(!has_capabilities("CapEff:\t0000000000003000\n"));
        assert!(!has_capabilities("CapEff:\t0000000000000000\n"));
        assert!(!has_capabilities(""));
    }
}
