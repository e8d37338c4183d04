//! The phones that were added while a receiver ran: the file `senders.phones` beside `senders`,
//! with a line `NAME APP PORT` for each.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, bail};

use super::option::PlacedPhone;
use crate::pairing::private_file::{beside, written_beside};

/// End of the file's name, behind that of the list.
const ENDING: &str = ".phones";
/// Beginning of the file.
const HEAD: &str = "# Phones that are received: a line NAME APP PORT each\n";

/// The file of a list of senders.
#[derive(Clone, Debug)]
pub(crate) struct KeptPhones {
    list: PathBuf,
    path: PathBuf,
}

impl KeptPhones {
    /// Returns the file that belongs to a list of senders. It need not exist.
    pub(crate) fn beside(list: &Path) -> Self {
        KeptPhones {
            list: list.to_owned(),
            path: beside(list, ENDING),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the phones; none without the file.
    ///
    /// # Errors
    /// The file cannot be read, or has a mistake.
    pub(crate) fn read(&self) -> anyhow::Result<Vec<PlacedPhone>> {
        let shown = self.path.display();
        match std::fs::read_to_string(&self.path) {
            Ok(text) => phones_of(&text).with_context(|| format!("{shown}")),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error).with_context(|| format!("cannot read {shown}")),
        }
    }

    /// Adds a phone.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(crate) fn add(&self, phone: PlacedPhone) -> anyhow::Result<()> {
        let mut all = self.read()?;
        all.push(phone);
        self.write(&all)
    }

    /// Removes a phone. Returns whether there was one with this name.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(crate) fn remove(&self, name: &str) -> anyhow::Result<bool> {
        let mut all = self.read()?;
        let count = all.len();
        all.retain(|placed| placed.phone.name.as_str() != name);
        let is_removed = all.len() < count;
        if is_removed {
            self.write(&all)?;
        }
        Ok(is_removed)
    }

    /// Writes the file again under its name, for the list's owner.
    fn write(&self, all: &[PlacedPhone]) -> anyhow::Result<()> {
        let mut text = HEAD.to_owned();
        for PlacedPhone { phone, port } in all {
            text.push_str(&format!(
                "{} {} {port}\n",
                phone.name.as_str(),
                phone.app.word()
            ));
        }
        let written = written_beside(&self.list, OsStr::new(".anabranch-phones-"), &text);
        let persisted = written.and_then(|file| Ok(file.persist(&self.path)?));
        persisted.with_context(|| format!("cannot write {}", self.path.display()))?;
        Ok(())
    }
}

fn phones_of(text: &str) -> anyhow::Result<Vec<PlacedPhone>> {
    let lines = text.lines().map(without_comment);
    lines
        .filter(|line| !line.is_empty())
        .map(phone_of)
        .collect()
}

fn without_comment(line: &str) -> &str {
    let (content, _) = line.split_once('#').unwrap_or((line, ""));
    content.trim()
}

fn phone_of(line: &str) -> anyhow::Result<PlacedPhone> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, app, port] = words[..] else {
        bail!("expected NAME APP PORT, found {line}");
    };
    let phone = format!("{name}={app}").parse();
    Ok(PlacedPhone {
        phone: phone.map_err(Error::msg::<String>)?,
        port: { port.parse() }.with_context(|| format!("{line}: {port} is no port"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(text: &str, port: u16) -> PlacedPhone {
        let phone = text.parse().unwrap();
        PlacedPhone { phone, port }
    }

    #[test]
    fn phones_are_kept_and_forgotten_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("senders");
        std::fs::write(&list, "").unwrap();
        let kept = KeptPhones::beside(&list);
        assert_eq!(kept.read().unwrap(), []);
        assert!(!kept.remove("van").unwrap() && !kept.path().exists());
        let (van, roof) = (placed("van=moblin", 5_000), placed("roof=larix", 5_001));
        kept.add(van.clone()).unwrap();
        kept.add(roof.clone()).unwrap();
        assert_eq!(kept.read().unwrap(), [van, roof.clone()]);
        assert!(kept.remove("van").unwrap());
        assert_eq!(kept.read().unwrap(), [roof]);
        assert_eq!(folder.path().read_dir().unwrap().count(), 2);
    }

    #[test]
    fn mistakes_name_the_line() {
        for (line, part) in [
            ("van moblin", "expected NAME APP PORT, found van moblin"),
            ("van obs 5000", "obs is not known"),
            ("van moblin 70000", "70000 is no port"),
        ] {
            let error = format!("{:#}", phones_of(line).unwrap_err());
            assert!(error.contains(part), "{error}");
        }
    }
}
