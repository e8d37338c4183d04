//! Who may send, and by what name.

use core::str::FromStr;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anabranch_secure::PublicKey;
use anyhow::{Context, bail, ensure};
use clap::builder::TypedValueParser;

use crate::keygen::discreetly;

/// The longest name of a stream.
const MAX_NAME_BYTES: usize = 64;
/// So many characters of a key stand for its owner who has no name.
const KEY_CHARACTERS: usize = 8;

/// What a stream is called: in outputs' names, in what is told, in statistics.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamName(String);

impl StreamName {
    /// The name of a sender who has none.
    fn of_key(key: &PublicKey) -> Self {
        let text = key.to_string();
        let digits = text
            .split_once('_')
            .map_or(text.as_str(), |(_, digits)| digits);
        StreamName(digits.chars().take(KEY_CHARACTERS).collect())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for StreamName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_name = !text.is_empty()
            && text.len() <= MAX_NAME_BYTES
            && !text.starts_with(['.', '-'])
            && text.bytes().all(is_plain);
        match is_name {
            true => Ok(StreamName(text.to_owned())),
            false => Err(format!(
                "a stream's name has 1 to {MAX_NAME_BYTES} letters, digits, '-', '_' and '.', and \
                 begins with a letter, a digit or '_'"
            )),
        }
    }
}

/// One sender that is let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub(crate) key: PublicKey,
    pub(crate) name: StreamName,
}

impl FromStr for Allowed {
    type Err = String;

    /// `KEY` or `KEY=NAME`. What is wrong with a key is told without repeating it.
    fn from_str(text: &str) -> Result<Self, String> {
        let (key, name) = match text.split_once('=') {
            Some((key, name)) => (key, Some(name.parse()?)),
            None => (text, None),
        };
        let key: PublicKey = key.parse().map_err(|error| format!("{error}"))?;
        let name = name.unwrap_or_else(|| StreamName::of_key(&key));
        Ok(Allowed { key, name })
    }
}

/// Reads senders on the command line. What is wrong with a key is told without repeating it: it may
/// be a secret one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllowedParser;

impl TypedValueParser for AllowedParser {
    type Value = Allowed;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Allowed, clap::Error> {
        discreetly(command, argument, value.to_string_lossy().parse())
    }
}

/// Everybody that is let in: those of the command line, and those of a file that may change.
#[derive(Debug, Default)]
pub(crate) struct AllowList {
    fixed: Vec<Allowed>,
    file: Option<(PathBuf, Option<SystemTime>)>,
    all: Vec<Allowed>,
}

impl AllowList {
    /// # Errors
    /// The file cannot be read, a name or key occurs twice, or there is nobody.
    pub(crate) fn new(fixed: Vec<Allowed>, file: Option<&Path>) -> anyhow::Result<Self> {
        let mut list = AllowList {
            fixed,
            file: file.map(|path| (path.to_owned(), None)),
            all: Vec::new(),
        };
        list.read()?;
        if list.file.is_none() {
            ensure!(!list.all.is_empty(), "nobody is let in: --allow KEY");
        }
        Ok(list)
    }

    pub(crate) fn all(&self) -> &[Allowed] {
        &self.all
    }

    pub(crate) fn keys(&self) -> Vec<PublicKey> {
        self.all.iter().map(|allowed| allowed.key).collect()
    }

    /// What the owner of a key is called.
    pub(crate) fn name_of(&self, key: &PublicKey) -> StreamName {
        name_of(&self.all, key)
    }

    /// Reads the file again if it was changed since. Whether it was.
    ///
    /// # Errors
    /// As [`new`](Self::new); the list stays as it was.
    pub(crate) fn refresh(&mut self) -> anyhow::Result<bool> {
        let Some((path, read_at)) = &self.file else {
            return Ok(false);
        };
        let changed_at = changed_at(path);
        if changed_at == *read_at {
            return Ok(false);
        }
        self.read()?;
        Ok(true)
    }

    fn read(&mut self) -> anyhow::Result<()> {
        let mut all = self.fixed.clone();
        if let Some((path, read_at)) = &mut self.file {
            let shown = path.display();
            // Told once, if it cannot be read.
            *read_at = changed_at(path);
            let text = std::fs::read_to_string(&*path);
            let text = text.with_context(|| format!("cannot read --allow-from {shown}"))?;
            for (index, line) in text.lines().enumerate() {
                let line = line.split('#').next().unwrap_or_default().trim();
                if !line.is_empty() {
                    let line = line.split_whitespace().collect::<Vec<_>>().join("=");
                    let parsed = line.parse::<Allowed>().map_err(anyhow::Error::msg);
                    let wrong = || format!("{shown}, line {}", index + 1);
                    all.push(parsed.with_context(wrong)?);
                }
            }
        }
        for (index, allowed) in all.iter().enumerate() {
            let before = &all[..index];
            if before.iter().any(|other| other.key == allowed.key) {
                bail!("{} is let in twice", allowed.key);
            }
            if before.iter().any(|other| other.name == allowed.name) {
                bail!("two senders are called {}", allowed.name.as_str());
            }
        }
        self.all = all;
        Ok(())
    }
}

/// What the owner of a key is called in a list.
pub(crate) fn name_of(all: &[Allowed], key: &PublicKey) -> StreamName {
    let allowed = all.iter().find(|allowed| allowed.key == *key);
    allowed.map_or_else(|| StreamName::of_key(key), |allowed| allowed.name.clone())
}

fn changed_at(path: &Path) -> Option<SystemTime> {
    path.metadata()
        .and_then(|metadata| metadata.modified())
        .ok()
}

#[cfg(test)]
mod tests {
    use anabranch_secure::SecretKey;

    use super::*;

    fn key() -> PublicKey {
        SecretKey::generate().public_key()
    }

    #[test]
    fn keys_have_names_or_are_their_own() {
        let key = key();
        let named: Allowed = format!("{key}=front").parse().unwrap();
        assert_eq!((named.key, named.name.as_str()), (key, "front"));
        let bare: Allowed = key.to_string().parse().unwrap();
        assert!(key.to_string().contains(bare.name.as_str()));
        for wrong in ["", "a/b", "..", "-a", "a b", "{name}", &"n".repeat(65)] {
            assert!(
                format!("{key}={wrong}").parse::<Allowed>().is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_file_is_read_again_when_it_changes_and_kept_when_it_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("senders");
        let keys = [key(), key(), key()];
        let write = |text: &str, age: u64| {
            std::fs::write(&path, text).unwrap();
            let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(age);
            let file = std::fs::File::options().append(true).open(&path).unwrap();
            file.set_modified(at).unwrap();
        };
        write(&format!("# who\n{}  front # the first\n\n", keys[0]), 1);
        let fixed = vec![format!("{}=roof", keys[1]).parse().unwrap()];
        let mut list = AllowList::new(fixed, Some(&path)).unwrap();
        assert_eq!(list.keys(), [keys[1], keys[0]]);
        assert_eq!(list.name_of(&keys[0]).as_str(), "front");
        assert!(!list.refresh().unwrap());
        write(&format!("{} roof", keys[2]), 2);
        let error = list.refresh().unwrap_err().to_string();
        assert!(error.contains("roof"), "{error}");
        assert_eq!(list.keys(), [keys[1], keys[0]]);
        assert!(!list.refresh().unwrap(), "told once");
        write("front", 3);
        let error = format!("{:#}", list.refresh().unwrap_err());
        assert!(error.contains("line 1"), "{error}");
        write("", 4);
        assert!(list.refresh().unwrap());
        assert_eq!(list.keys(), [keys[1]]);
    }
}
