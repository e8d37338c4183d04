//! Linux, macOS and other systems of the family of Unix.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anabranch_net::system::LocalStream;
use anyhow::{Context, ensure};
use rustix::fs::{FileType, StatVfsMountFlags, fstat, statvfs};
use rustix::process::{
    Pid, Resource, Signal, geteuid, getrlimit, kill_process, kill_process_group, setrlimit,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::files::installed;

/// Meaning of the signal for this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The controlling terminal has closed: the same as Ctrl-C.
    Stop,
    /// A service opens its files again.
    Reopen,
    /// It was ignored when the program began, as by `nohup`.
    Nothing,
}

impl Meaning {
    /// Returns the meaning, by the state in which the program was started.
    pub(crate) fn of_now() -> Meaning {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        // The device stands for the controlling terminal, and cannot be opened without one.
        Meaning::of(&status, File::open("/dev/tty").is_ok())
    }

    fn of(status: &str, has_terminal: bool) -> Meaning {
        let shown = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = shown.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        let is_ignored = ignored.is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1);
        if is_ignored {
            Meaning::Nothing
        } else if has_terminal {
            Meaning::Stop
        } else {
            Meaning::Reopen
        }
    }
}

/// Stops on signals: sets the flag, and writes to the stream.
///
/// # Errors
/// The system refuses a handler.
pub(crate) fn on_signals(is_stopped: &Arc<AtomicBool>, ringer: &LocalStream) -> io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        // With this order the second signal finds the flag set.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(is_stopped))?;
        signal_hook::flag::register(signal, Arc::clone(is_stopped))?;
        signal_hook::low_level::pipe::register(signal, ringer.try_clone()?)?;
    }
    match Meaning::of_now() {
        Meaning::Stop => {
            signal_hook::flag::register(SIGHUP, Arc::clone(is_stopped))?;
            signal_hook::low_level::pipe::register(SIGHUP, ringer.try_clone()?)?;
        }
        // A handler, even without an effect, keeps the program alive.
        Meaning::Reopen => {
            signal_hook::flag::register(SIGHUP, Arc::default())?;
        }
        Meaning::Nothing => {}
    }
    Ok(())
}

/// Sets the flag at each SIGHUP that asks to open files again.
///
/// # Errors
/// The system refuses a handler.
pub(crate) fn on_reopen_signal(flag: &Arc<AtomicBool>) -> io::Result<()> {
    if Meaning::of_now() == Meaning::Reopen {
        signal_hook::flag::register(SIGHUP, Arc::clone(flag))?;
    }
    Ok(())
}

/// Returns whether standard error is a file.
pub(crate) fn is_error_output_a_file() -> bool {
    let stat = fstat(io::stderr());
    stat.is_ok_and(|of| FileType::from_raw_mode(of.st_mode) == FileType::RegularFile)
}

/// Returns whether standard error has this name: its device and inode.
pub(crate) fn is_error_output(named: &str) -> bool {
    let stat = fstat(io::stderr());
    stat.is_ok_and(|stat| named == format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// Makes a folder that only this user may open, and those above it.
pub(crate) fn make_private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Checks that no other user can change the file at a canonical path, nor replace it.
///
/// # Errors
/// Another user can.
pub(crate) fn check_unshared(real: &Path) -> anyhow::Result<()> {
    let shown = real.display();
    let own = geteuid().as_raw();
    for place in real.ancestors() {
        let found = place
            .metadata()
            .with_context(|| format!("cannot read {shown}"))?;
        let Some(complaint) = complaint(place, own, found.uid(), found.mode()) else {
            continue;
        };
        let is_fixed = statvfs(place).is_ok_and(|of| of.f_flag.contains(READ_ONLY));
        ensure!(is_fixed, "another user could change {shown}: {complaint}");
    }
    Ok(())
}

/// Flag of a file system on which nobody writes, as that of a container's configuration.
const READ_ONLY: StatVfsMountFlags = StatVfsMountFlags::RDONLY;
/// Bit of a folder in which users only replace files of their own.
const STICKY: u32 = 0o1000;

/// Returns the reason why users other than `own` and root can change a file or folder.
fn complaint(place: &Path, own: u32, owner: u32, mode: u32) -> Option<String> {
    let shown = place.display();
    if owner != own && owner != 0 {
        return Some(format!(
            "{shown} belongs to user {owner}, and this program runs as user {own}"
        ));
    }
    let is_shared = mode & 0o022 != 0 && mode & STICKY == 0;
    is_shared.then(|| format!("others may write {shown}: run `chmod go-w {shown}`"))
}

/// Forbids core dumps, which would write keys to a file. Programs that this one starts have the
/// same limit, and may raise it.
pub fn forbid_core_dumps() {
    let mut limit = getrlimit(Resource::Core);
    limit.current = Some(0);
    // Lowering a limit needs no privilege. A system without limits writes no dumps either.
    let _ = setrlimit(Resource::Core, limit);
}

/// Limits memory and processor time of this process, and forbids files and other processes.
///
/// # Errors
/// The system refuses a limit.
pub fn limit_this_process(memory_bytes: u64, seconds: u64) -> io::Result<()> {
    let limits = [
        (Resource::As, memory_bytes),
        (Resource::Cpu, seconds),
        (Resource::Fsize, 0),
        (Resource::Nofile, 0),
        (Resource::Nproc, 0),
    ];
    for (resource, most) in limits {
        let mut limit = getrlimit(resource);
        let most = limit.maximum.map_or(most, |maximum| maximum.min(most));
        (limit.current, limit.maximum) = (Some(most), Some(most));
        setrlimit(resource, limit)?;
    }
    Ok(())
}

/// Makes a stream standard input and output of a program.
///
/// # Errors
/// The system has no descriptors left.
pub fn hand_over_stream(command: &mut Command, stream: LocalStream) -> io::Result<()> {
    let stream = OwnedFd::from(stream);
    command.stdin(stream.try_clone()?).stdout(stream);
    Ok(())
}

/// Starts a program outside this one's process group: Ctrl-C then reaches this program alone.
pub fn in_own_group(command: &mut Command) -> &mut Command {
    command.process_group(0)
}

/// Returns a shell for a command. With `setpriv`, the kernel ends it together with its starting
/// thread, even if this program is killed. An outer shell then ends all of its children.
pub fn shell(command: &str) -> Command {
    const WITH_ALL: &str = "trap 'kill -KILL 0' TERM; sh -c \"$1\" & wait \"$!\"";
    let setpriv = if cfg!(target_os = "linux") {
        installed("setpriv")
    } else {
        None
    };
    let Some(setpriv) = setpriv else {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]);
        return shell;
    };
    let mut shell = Command::new(setpriv);
    shell.args(["--pdeathsig", "TERM", "sh", "-c", WITH_ALL, "sh", command]);
    shell
}

/// Asks a program to end (SIGTERM).
pub fn ask_to_end(child: &mut Child) {
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
}

/// Ends a program that was started in a group of its own, and all that it has started.
pub fn end_group(child: &mut Child) {
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::files::check_unshared;

    #[test]
    fn a_signal_means_what_its_surroundings_say() {
        let usual = "Name:\tab\nSigIgn:\t0000000000001000\n";
        let of_nohup = "Name:\tab\nSigIgn:\t0000000000001001\n";
        for (status, has_terminal, expected) in [
            (usual, true, Meaning::Stop),
            (usual, false, Meaning::Reopen),
            (of_nohup, true, Meaning::Nothing),
            (of_nohup, false, Meaning::Nothing),
            ("", true, Meaning::Stop),
        ] {
            assert_eq!(Meaning::of(status, has_terminal), expected, "{status}");
        }
    }

    #[test]
    fn a_file_that_others_can_change_or_replace_is_found_out() {
        fn set_mode(path: &Path, mode: u32) {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }

        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        let path = inner.join("senders");
        fs::create_dir(&inner).unwrap();
        fs::write(&path, "").unwrap();
        for (of_folder, of_file, is_refused) in [
            (0o755, 0o644, false),
            (0o700, 0o600, false),
            (0o1777, 0o600, false),
            (0o755, 0o664, true),
            (0o755, 0o646, true),
            (0o775, 0o600, true),
            (0o777, 0o600, true),
        ] {
            set_mode(&inner, of_folder);
            set_mode(&path, of_file);
            let checked = check_unshared(&path);
            assert_eq!(checked.is_err(), is_refused, "{of_folder:o} {of_file:o}");
        }
        set_mode(&inner, 0o777);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let error = check_unshared(&link).unwrap_err().to_string();
        assert!(error.contains("chmod go-w"), "{error}");
        assert!(check_unshared(&inner.join("none")).is_err());
        check_unshared(Path::new("/dev/null")).unwrap();
    }

    #[test]
    fn owners_are_this_user_and_root() {
        let [own, of_root, of_other] =
            [1_000, 0, 1_001].map(|owner| complaint(Path::new("/x"), 1_000, owner, 0o644));
        assert_eq!((own, of_root), (None, None));
        assert!(of_other.unwrap().contains("user 1001"));
    }
}
