//! The file by which `anabranch pair --phone` asks a running receiver for a phone, beside the list
//! of senders. The receiver writes its answer into it. No secret is in it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error};

use super::private_file::{files_beside, read_private, value_of, write_beside};
use crate::recv::Phone;

/// Part of the file's name between that of the list and random characters.
const MIDDLE: &str = ".phone-";
/// Upper bound on the length of a file.
const MAX_BYTES: u64 = 4_096;

/// A phone's file as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PhoneRequest {
    /// The phone is asked for.
    Asked(Phone),
    /// The receiver receives it.
    Received(ReceivedPhone),
    /// The receiver does not, for this reason.
    Refused(String),
}

/// Where a receiver receives a phone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReceivedPhone {
    /// Host by which phones reach the receiver.
    pub(crate) host: String,
    /// UDP port.
    pub(crate) port: u16,
    /// File of the passphrase; `None` if there is no folder for it.
    pub(crate) passphrase_file: Option<String>,
}

impl PhoneRequest {
    /// Asks for a phone: writes a file beside a list, for the list's owner. Returns its path.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(phone: Phone, list: &Path) -> anyhow::Result<PathBuf> {
        let text = PhoneRequest::Asked(phone).to_text();
        write_beside(list, MIDDLE, &text)
    }

    /// Returns the files beside a list.
    pub(crate) fn files(list: &Path) -> Vec<PathBuf> {
        files_beside(list, MIDDLE)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, is open to others, or is not whole.
    pub(crate) fn read(path: &Path) -> anyhow::Result<PhoneRequest> {
        PhoneRequest::of(&read_private(path, MAX_BYTES)?)
    }

    /// Writes the receiver's answer in the place of a request.
    ///
    /// # Errors
    /// The file is gone, or cannot be written.
    pub(crate) fn answer(&self, path: &Path) -> anyhow::Result<()> {
        // A file that is gone stays so: nobody waits for the answer.
        let mut file = fs::OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(path)?;
        Ok(file.write_all(self.to_text().as_bytes())?)
    }

    fn of(text: &str) -> anyhow::Result<PhoneRequest> {
        if let Some(reason) = value_of(text, "refused") {
            return Ok(PhoneRequest::Refused(reason.to_owned()));
        }
        if let Some(port) = value_of(text, "port") {
            return Ok(PhoneRequest::Received(ReceivedPhone {
                host: value_of(text, "host")
                    .context("`host` is missing")?
                    .to_owned(),
                port: port.parse().context("its port is no number")?,
                passphrase_file: value_of(text, "passphrase-file").map(str::to_owned),
            }));
        }
        let phone = value_of(text, "phone").context("the file is not whole")?;
        Ok(PhoneRequest::Asked(
            phone.parse().map_err(Error::msg::<String>)?,
        ))
    }

    fn to_text(&self) -> String {
        match self {
            PhoneRequest::Asked(phone) => {
                format!("phone = {}={}\n", phone.name.as_str(), phone.app.word())
            }
            PhoneRequest::Received(its) => {
                let file = match &its.passphrase_file {
                    Some(file) => format!("passphrase-file = {file}\n"),
                    None => String::new(),
                };
                format!("host = {}\nport = {}\n{file}", its.host, its.port)
            }
            PhoneRequest::Refused(reason) => format!("refused = {}\n", reason.replace('\n', " ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_answered_in_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("senders");
        fs::write(&list, "").unwrap();
        let phone: Phone = "van=moblin".parse().unwrap();
        let file = PhoneRequest::write(phone.clone(), &list).unwrap();
        assert_eq!(PhoneRequest::files(&list), std::slice::from_ref(&file));
        assert_eq!(
            PhoneRequest::read(&file).unwrap(),
            PhoneRequest::Asked(phone)
        );
        for passphrase_file in [None, Some("/state/van.passphrase".to_owned())] {
            let answer = PhoneRequest::Received(ReceivedPhone {
                host: "studio.example".to_owned(),
                port: 5_000,
                passphrase_file,
            });
            answer.answer(&file).unwrap();
            assert_eq!(PhoneRequest::read(&file).unwrap(), answer);
        }
        let refused = PhoneRequest::Refused("two\nlines".to_owned());
        refused.answer(&file).unwrap();
        assert_eq!(
            PhoneRequest::read(&file).unwrap(),
            PhoneRequest::Refused("two lines".to_owned())
        );
        fs::write(&file, "phone = van").unwrap();
        assert!(PhoneRequest::read(&file).is_err(), "it is not whole");
        fs::remove_file(&file).unwrap();
        assert!(refused.answer(&file).is_err() && !file.exists());
    }
}
