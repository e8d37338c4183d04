//! The file by which `anabranch pair` hands a code to a running program: one for each code, beside
//! the list of peers, for its owner alone.

use std::fs;
use std::path::{Path, PathBuf};

use anabranch_secure::PairingCode;
use anabranch_units::Duration;
use anyhow::{Context, anyhow};
use jiff::Timestamp;

use super::private_file::{files_beside, read_private, value_of, write_beside};
use crate::allowed::StreamName;

/// Part of the file's name between that of the list and random characters.
const MIDDLE: &str = ".invited-";
/// Upper bound on the length of a file.
const MAX_BYTES: u64 = 1_024;

/// A code for one peer, and the name that it gets.
#[derive(Clone, Debug)]
pub(crate) struct Invitation {
    pub(crate) code: PairingCode,
    pub(crate) name: Option<StreamName>,
    /// End of its validity, in seconds of the Unix epoch.
    until: u64,
}

fn unix_seconds() -> u64 {
    u64::try_from(Timestamp::now().as_second()).unwrap_or(0)
}

/// Returns the value of a line of the file.
fn line<'a>(text: &'a str, name: &str) -> anyhow::Result<&'a str> {
    let value = value_of(text, name).map(str::trim);
    value.ok_or_else(|| anyhow!("the file is not whole"))
}

impl Invitation {
    /// Makes an invitation with a new code, which is good for `lasts`.
    pub(crate) fn new(name: Option<StreamName>, lasts: Duration) -> Self {
        Invitation {
            code: PairingCode::generate(),
            name,
            until: unix_seconds() + lasts.to_std().as_secs(),
        }
    }

    /// Returns the rest of its validity; `None` once it is over.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        let seconds = self.until.saturating_sub(unix_seconds());
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }

    /// Writes its file beside a list, for the list's owner. Returns the file's path.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&self, list: &Path) -> anyhow::Result<PathBuf> {
        let name = self.name.as_ref().map_or("", StreamName::as_str);
        // A program that reads only a part of the file waits for the rest: the line of the code is
        // the last one.
        let (until, code) = (self.until, self.code.to_text());
        let text = format!("until = {until}\nname = {name}\ncode = {}\n", *code);
        write_beside(list, MIDDLE, &text)
    }

    /// Returns the files beside a list.
    pub(crate) fn files(list: &Path) -> Vec<PathBuf> {
        files_beside(list, MIDDLE)
    }

    /// Reads a file. No error repeats a part of it.
    ///
    /// # Errors
    /// It cannot be read, is open to others, or is not whole.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Invitation> {
        let text = read_private(path, MAX_BYTES)?;
        let code = line(&text, "code")?.parse()?;
        // A name may be missing, which leaves no blank behind the sign.
        let shown = line(&text, "name").unwrap_or_default();
        let name = (!shown.is_empty()).then(|| shown.parse()).transpose();
        Ok(Invitation {
            code,
            name: name.map_err(anyhow::Error::msg)?,
            until: line(&text, "until")?
                .parse()
                .context("its end is no number")?,
        })
    }

    /// Removes a file, which voids its code.
    pub(crate) fn remove(path: &Path) {
        // It may have been used meanwhile.
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_invitation_reads_as_it_is_written_and_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("senders");
        fs::write(&list, "").unwrap();
        for name in [None, Some("roof")] {
            let name = name.map(|name: &str| name.parse().unwrap());
            let invitation = Invitation::new(name, Duration::from_secs(600));
            let path = invitation.write(&list).unwrap();
            let mode = path.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            assert_eq!(Invitation::files(&list), std::slice::from_ref(&path));
            let read = Invitation::read(&path).unwrap();
            assert_eq!(
                (&read.code, &read.name),
                (&invitation.code, &invitation.name)
            );
            assert!(read.remaining() > Some(Duration::from_secs(590)));
            fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
            let error = Invitation::read(&path).unwrap_err().to_string();
            assert!(!error.contains(&invitation.code.to_text()[..6]), "{error}");
            Invitation::remove(&path);
            assert!(Invitation::files(&list).is_empty());
        }
        let over = Invitation::new(None, Duration::ZERO);
        assert_eq!(over.remaining(), None);
    }
}
