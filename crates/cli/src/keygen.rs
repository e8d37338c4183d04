//! `anabranch keygen`, and reading the key files that it writes.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anabranch_secure::SecretKey;
use anyhow::{Context, anyhow, bail};

use crate::print;

/// Makes a key pair: the secret key into a file of yours, the public key onto the screen.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The public key (abpub_…) is what the other side is told: `--peer` for send, `--allow` for recv. The
file holds the secret key (absec_…) and never leaves its machine.

  anabranch keygen --output camera.key         makes camera.key
  anabranch keygen --show camera.key           prints its public key again")]
pub(crate) struct Arguments {
    /// File to write the secret key to.
    #[arg(long, value_name = "FILE", default_value = "anabranch.key")]
    output: PathBuf,
    /// Overwrite the file if there is one: its key is lost.
    #[arg(long)]
    force: bool,
    /// Make nothing; print the public key of this file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "force"])]
    show: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let key = match &arguments.show {
        Some(path) => read_key(path)?,
        None => {
            let key = SecretKey::generate();
            write_key(&arguments.output, &key, arguments.force)?;
            key
        }
    };
    print::line(key.public_key())
}

fn write_key(path: &Path, key: &SecretKey, is_forced: bool) -> anyhow::Result<()> {
    let shown = path.display();
    // A new file each time: an old one may have been open to others, and still be read by them.
    let fresh = path.with_extension("new-key");
    let target = if is_forced { &fresh } else { path };
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(target)
        .map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                anyhow!("key file {shown} is there already: --force overwrites it, --show shows it")
            }
            _ => anyhow!(error).context(format!("cannot make key file {shown}")),
        })?;
    let written = file
        .write_all(key.to_text().as_bytes())
        .and_then(|()| file.write_all(b"\n"));
    let kept = written
        .and_then(|()| file.sync_all())
        .and_then(|()| match is_forced {
            true => std::fs::rename(&fresh, path),
            false => Ok(()),
        });
    if kept.is_err() {
        let _ = std::fs::remove_file(target);
    }
    kept.with_context(|| format!("cannot write key file {shown}"))
}

/// Reads a secret key file.
///
/// # Errors
/// A file that others may read, or that holds no secret key. No message repeats any of it.
pub(crate) fn read_key(path: &Path) -> anyhow::Result<SecretKey> {
    /// More than any key file has.
    const MAX_BYTES: u64 = 1_000;
    let shown = path.display();
    let unreadable = || format!("cannot read key file {shown}");
    let file = File::open(path).with_context(unreadable)?;
    let mode = file
        .metadata()
        .with_context(unreadable)?
        .permissions()
        .mode();
    if mode & 0o077 != 0 {
        bail!(
            "key file {shown} is open to others (mode {:03o}): run `chmod 600 {shown}`, and make a \
             new key if somebody may have read it",
            mode & 0o777
        );
    }
    let mut text = String::new();
    file.take(MAX_BYTES)
        .read_to_string(&mut text)
        .with_context(unreadable)?;
    SecretKey::from_text(&text).with_context(|| format!("key file {shown} holds no secret key"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_key_reads_back_and_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.key");
        let key = SecretKey::generate();
        write_key(&path, &key, false).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read_key(&path).unwrap().public_key(), key.public_key());
    }

    #[test]
    fn a_key_is_overwritten_only_by_force() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.key");
        let (first, second) = (SecretKey::generate(), SecretKey::generate());
        write_key(&path, &first, false).unwrap();
        let error = write_key(&path, &second, false).unwrap_err();
        assert!(format!("{error:#}").contains("--force"), "{error:#}");
        assert_eq!(read_key(&path).unwrap().public_key(), first.public_key());
        write_key(&path, &second, true).unwrap();
        assert_eq!(read_key(&path).unwrap().public_key(), second.public_key());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn a_key_file_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.key");
        write_key(&path, &SecretKey::generate(), false).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let error = format!("{:#}", read_key(&path).unwrap_err());
        assert!(
            error.contains("chmod 600") && error.contains("640"),
            "{error}"
        );
    }

    #[test]
    fn what_is_no_key_is_told_without_repeating_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.key");
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .unwrap();
        file.write_all(b"absec_hunter2").unwrap();
        let error = format!("{:#}", read_key(&path).unwrap_err());
        assert!(
            error.contains("a.key") && !error.contains("hunter2"),
            "{error}"
        );
    }
}
