//! Private folders, and checks of files and installed programs before the work that needs them.

use std::env;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::process::geteuid;

/// Ending of the file beside a recording that lists its gaps.
pub const GAPS_ENDING: &str = ".gaps.csv";

/// Returns the path of the file that lists a recording's gaps.
pub fn gaps_path(recording: &Path) -> PathBuf {
    let mut path = recording.as_os_str().to_owned();
    path.push(GAPS_ENDING);
    path.into()
}

/// Returns the path of a program that is installed.
pub fn installed(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let mut candidates = env::split_paths(&path).map(|folder| folder.join(program));
    candidates.find(|candidate| candidate.is_file())
}

/// Checks that the file can be written.
///
/// # Errors
/// It cannot be opened or created.
pub fn check_writable(path: &Path) -> anyhow::Result<()> {
    let is_new = !path.exists();
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.with_context(|| format!("cannot write {}", path.display()))?;
    if is_new {
        // The check leaves no new file behind.
        let _ = fs::remove_file(path);
    }
    Ok(())
}

/// Makes a folder that only this user may open, and those above it. An existing folder keeps its
/// mode.
///
/// # Errors
/// The operating system refuses.
pub fn make_private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Checks that no other user can change a file, nor put another one in its place: this user or root
/// owns it and the folders above it, and others may not write them. OpenSSH checks its
/// `authorized_keys` so (`StrictModes`). Pipes and devices are not checked.
///
/// # Errors
/// Another user can, or the file cannot be found.
pub fn check_unshared(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    let unreadable = || format!("cannot read {shown}");
    let real = path.canonicalize();
    let real = match real {
        Ok(real) if real.is_file() => real,
        // A pipe or standard input has no place.
        _ => return path.metadata().map(drop).with_context(unreadable),
    };
    let own = geteuid().as_raw();
    for place in real.ancestors() {
        let found = place.metadata().with_context(unreadable)?;
        let is_fixed = || statvfs(place).is_ok_and(|of| of.f_flag.contains(READ_ONLY));
        let complaint = complaint(place, own, found.uid(), found.mode());
        ensure!(
            complaint.is_none() || is_fixed(),
            "another user could change {shown}: {}",
            complaint.unwrap_or_default()
        );
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

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_that_others_can_change_or_replace_is_found_out() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        let path = inner.join("senders");
        fs::create_dir(&inner).unwrap();
        fs::write(&path, "").unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
        for (of_folder, of_file, is_refused) in [
            (0o755, 0o644, false),
            (0o700, 0o600, false),
            (0o1777, 0o600, false),
            (0o755, 0o664, true),
            (0o755, 0o646, true),
            (0o775, 0o600, true),
            (0o777, 0o600, true),
        ] {
            mode(&inner, of_folder).unwrap();
            mode(&path, of_file).unwrap();
            let checked = check_unshared(&path);
            assert_eq!(checked.is_err(), is_refused, "{of_folder:o} {of_file:o}");
        }
        mode(&inner, 0o777).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let error = check_unshared(&link).unwrap_err().to_string();
        assert!(error.contains("chmod go-w"), "{error}");
        assert!(check_unshared(&inner.join("none")).is_err());
        check_unshared(Path::new("/dev/null")).unwrap();
    }

    #[test]
    fn owners_are_this_user_and_root() {
        let complaint = |owner| complaint(Path::new("/x"), 1_000, owner, 0o644);
        assert_eq!((complaint(1_000), complaint(0)), (None, None));
        assert!(complaint(1_001).unwrap().contains("user 1001"));
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
