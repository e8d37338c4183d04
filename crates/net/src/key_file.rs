//! Files of secret keys, as `anabranch keygen` writes them.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anabranch_secure::{ParseKeyError, SecretKey};
use zeroize::Zeroizing;

/// Upper bound on the length of a key file.
const MAX_BYTES: usize = 1_000;

/// Reasons for which a file gives no key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The file cannot be read or created.
    #[error("cannot open key file {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// Others may read the file.
    #[error(
        "key file {} is open to others (mode {mode:03o}): run `chmod 600` on it, and make a new \
         key if somebody may have read it",
        path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The file holds no secret key.
    #[error("key file {} holds no secret key", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The mistake in its text.
        #[source]
        source: ParseKeyError,
    },
}

/// Reads the secret key from a file. If there is none, generates a key and creates the file, which
/// only its owner may read. `anabranch keygen` writes the same format.
///
/// ```
/// let folder = tempfile::tempdir()?;
/// let file = folder.path().join("camera.key");
/// let made = anabranch_net::read_or_create_key(&file)?;
/// let read = anabranch_net::read_or_create_key(&file)?;
/// assert_eq!(made.public_key(), read.public_key());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`KeyFileError`]; an existing file is never changed.
pub fn read_or_create_key(path: impl AsRef<Path>) -> Result<SecretKey, KeyFileError> {
    let path = path.as_ref();
    let failed = |source| KeyFileError::Io {
        path: path.to_owned(),
        source,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let key = SecretKey::generate();
            create(path, &key).map_err(failed)?;
            return Ok(key);
        }
        Err(error) => return Err(failed(error)),
    };
    let mode = file.metadata().map_err(failed)?.mode() & 0o777;
    if mode & 0o077 != 0 {
        let path = path.to_owned();
        return Err(KeyFileError::Exposed { path, mode });
    }
    // Room for all at once: a string that grows would leave pieces of the secret behind.
    let mut text = Zeroizing::new(String::with_capacity(MAX_BYTES));
    let mut reader = file.take(MAX_BYTES as u64);
    reader.read_to_string(&mut text).map_err(failed)?;
    SecretKey::from_text(&text).map_err(|source| KeyFileError::Parse {
        path: path.to_owned(),
        source,
    })
}

fn create(path: &Path, key: &SecretKey) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(key.to_text().as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_file_is_its_owners_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("camera.key");
        read_or_create_key(&path).expect("a new key");
        let mode = fs::metadata(&path).expect("it exists").mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("it is ours");
        let error = read_or_create_key(&path).expect_err("the group may read it");
        assert!(
            matches!(error, KeyFileError::Exposed { mode: 0o640, .. }),
            "{error}"
        );
    }

    #[test]
    fn a_file_without_a_key_is_not_changed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notes");
        fs::write(&path, "notes").expect("it can be written to");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("it is ours");
        let error = read_or_create_key(&path).expect_err("it holds no key");
        assert!(matches!(error, KeyFileError::Parse { .. }), "{error}");
        assert_eq!(fs::read_to_string(&path).expect("it exists"), "notes");
    }
}
