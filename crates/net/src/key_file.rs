//! Files of secret keys, as `anabranch keygen` writes them.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anabranch_secure::{ParseKeyError, SecretKey};

use crate::system::allow_owner_alone;

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

fn cannot_open(path: &Path, source: io::Error) -> KeyFileError {
    KeyFileError::Io {
        path: path.to_owned(),
        source,
    }
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
    match fs::read_to_string(path) {
        Ok(text) => SecretKey::from_text(&text).map_err(|source| KeyFileError::Parse {
            path: path.to_owned(),
            source,
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let key = SecretKey::generate();
            create(path, &key).map_err(|error| cannot_open(path, error))?;
            Ok(key)
        }
        Err(error) => Err(cannot_open(path, error)),
    }
}

fn create(path: &Path, key: &SecretKey) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    let mut file = allow_owner_alone(&mut options).open(path)?;
    file.write_all(key.to_text().as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}
