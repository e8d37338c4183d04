//! Linux, macOS and other systems of the family of Unix.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, IsTerminal, Stdin};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, chown};
use std::path::Path;
use std::time::Duration as StdDuration;

use anabranch_terminal::stop::Stop;
use anabranch_units::Duration;
use anyhow::{bail, ensure};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FlockOperation, Mode, flock};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit, umask};

use crate::secret_kind::{STDIN, SecretKind};

/// Longest wait for a pipe before the next check for a signal, which also ends the wait.
const PATIENCE: Duration = Duration::from_secs(1);
/// Interval at which a program in the background checks whether it has the terminal again.
const BACKGROUND_PAUSE: StdDuration = StdDuration::from_millis(250);

/// A lock, until the file that it is about is closed.
#[derive(Debug)]
pub(crate) struct Hold;

/// Locks a file until it is closed; `None` if another program has.
pub(crate) fn hold(file: &File, _path: &Path) -> Option<Hold> {
    let locked = flock(file, FlockOperation::NonBlockingLockExclusive);
    locked.is_ok().then_some(Hold)
}

/// Returns whether another program has locked a file.
pub(crate) fn is_held(file: &File, _path: &Path) -> bool {
    flock(file, FlockOperation::NonBlockingLockShared).is_err()
}

/// Gives a file to the owner of another one, if it is another user's.
///
/// # Errors
/// This program may not give files away.
pub(crate) fn give_to_owner_of(other: &Metadata, file: &File, path: &Path) -> io::Result<()> {
    if file.metadata()?.uid() != other.uid() {
        chown(path, Some(other.uid()), Some(other.gid()))?;
    }
    Ok(())
}

/// Returns whether only its owner may read a file.
pub(crate) fn is_private(metadata: &Metadata) -> bool {
    metadata.mode() & 0o077 == 0
}

/// Returns whether it is a pipe.
pub(crate) fn is_fifo(metadata: &Metadata) -> bool {
    metadata.file_type().is_fifo()
}

/// Lets this user's group read new files, and nobody else.
pub(crate) fn let_group_read() {
    umask(Mode::WGRP | Mode::RWXO);
}

/// Raises the limit of open files. Every connection and session needs one, and many systems start
/// with a limit of 1,024.
pub(crate) fn allow_many_files() {
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

/// Waits until standard input can be read. While another job has the terminal, reading it would
/// stop this program (SIGTTIN). Returns false if it cannot be waited for.
pub(crate) fn wait_for_foreground(input: &Stdin) -> bool {
    if !input.is_terminal() {
        return true;
    }
    loop {
        if poll(&mut [PollFd::new(input, PollFlags::IN)], None).is_err() {
            return false;
        }
        match rustix::termios::tcgetpgrp(input) {
            Ok(group) if group == rustix::process::getpgrp() => return true,
            Ok(_) => std::thread::park_timeout(BACKGROUND_PAUSE),
            Err(_) => return false,
        }
    }
}

/// Reads standard input to its end, unless a signal ends the program first.
///
/// # Errors
/// As of the system; [`ErrorKind::Interrupted`] after a signal.
pub(crate) fn read_input(max_bytes: usize) -> io::Result<Vec<u8>> {
    read_until_stopped(io::stdin().as_fd(), max_bytes)
}

/// Reads a secret file, as [`read_input`].
///
/// # Errors
/// As there.
pub(crate) fn read_file(file: &File, max_bytes: usize) -> io::Result<Vec<u8>> {
    read_until_stopped(file.as_fd(), max_bytes)
}

fn read_until_stopped(source: BorrowedFd<'_>, max_bytes: usize) -> io::Result<Vec<u8>> {
    let stop = Stop::of_signals()?;
    let mut text = Vec::new();
    while text.len() < max_bytes {
        while !stop.wait_readable(source, PATIENCE) {
            if stop.is_stopped() {
                return Err(io::Error::new(
                    ErrorKind::Interrupted,
                    "interrupted by a signal",
                ));
            }
        }
        let mut bytes = vec![0; max_bytes];
        match rustix::io::read(source, &mut bytes) {
            Ok(0) => break,
            Ok(count) => text.extend_from_slice(&bytes[..count]),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(text)
}

/// Refuses a secret file that others may read or replace.
///
/// # Errors
/// They may.
pub(crate) fn check_secret(
    path: &Path,
    metadata: &Metadata,
    is_credential: bool,
    of: &SecretKind,
) -> anyhow::Result<()> {
    check_mode(path, metadata.mode(), is_credential, of)?;
    check_owner(path, metadata.uid(), geteuid().as_raw(), of)
}

/// Refuses a secret file of another user, because its owner can read and replace it.
pub(crate) fn check_owner(
    path: &Path,
    owner: u32,
    own: u32,
    of: &SecretKind,
) -> anyhow::Result<()> {
    let SecretKind { noun, option } = of;
    let shown = path.display();
    ensure!(
        owner == own || owner == 0,
        "{noun} {shown} belongs to another user ({owner}; this program runs as {own}): run \
         `chown {own} {shown}`, or hand it over by standard input: `{option} {STDIN} <{shown}`"
    );
    Ok(())
}

/// Refuses a secret file that others may read. A credential of a service manager (systemd's
/// `LoadCredential=`) may have an access list in place of an owner. Its mask looks like the rights
/// of a group.
pub(crate) fn check_mode(
    path: &Path,
    mode: u32,
    is_credential: bool,
    of: &SecretKind,
) -> anyhow::Result<()> {
    let SecretKind { noun, option } = of;
    let others = if is_credential { 0o007 } else { 0o077 };
    if mode & others == 0 {
        return Ok(());
    }
    let (shown, mode) = (path.display(), mode & 0o777);
    bail!(
        "{noun} {shown} is open to others (mode {mode:03o}): run `chmod 600 {shown}`, and make a \
         new one if others may have read it. A secret that a container mounts needs mode 0400, or \
         comes by standard input: `{option} {STDIN} <{shown}`"
    )
}
