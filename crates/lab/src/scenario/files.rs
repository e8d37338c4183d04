//! The files that a scenario names: on disk beside its own, or in the program.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anabranch_units::Seed;

/// Largest text of a scenario: the largest one here has 6 kB, and the places of keys are counted
/// from the start.
pub(super) const MAX_SCENARIO_BYTES: u64 = 256 << 10;
/// Largest file that a scenario names: an hour of deliveries at 100 Mbit/s, one per line, has 240
/// MB.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Location of the files that a scenario names.
#[derive(Clone, Copy, Debug)]
pub(super) enum Files<'a> {
    /// In this folder.
    In(&'a Path),
    /// In this folder; each one that is read is noted.
    Noted(&'a Path, &'a Contents),
    /// In the program: names, as the scenario writes them, and texts.
    BuiltIn(&'a [(&'a str, &'a str)]),
}

/// Hashes of the texts of files, by the names that the scenario has for them.
#[derive(Debug, Default)]
pub(super) struct Contents(RefCell<BTreeMap<String, u64>>);

impl Contents {
    fn note(&self, name: &str, text: &str) {
        self.0.borrow_mut().insert(name.to_owned(), hash(text));
    }

    /// Returns a text that is the same if all names and contents are.
    pub(super) fn summary(&self) -> String {
        format!("{:?}", self.0.borrow())
    }
}

/// Returns a number that any other text has with a chance of 2^-64.
pub(super) fn hash(text: &str) -> u64 {
    Seed(0).derive(text).0
}

impl<'a> Files<'a> {
    /// Returns the files in the folder of the scenario's own file.
    pub(super) fn beside(file: &'a str) -> Files<'a> {
        Files::In(folder_of(file))
    }

    /// Returns the text of the file called `name`; the error is the reason why it cannot be read.
    pub(super) fn read(&self, name: &str) -> Result<String, String> {
        match self {
            Files::In(folder) => {
                let path = folder.join(name);
                let metadata = path.metadata().map_err(|error| error.to_string())?;
                // Others block, never end or have effects.
                if !metadata.is_file() {
                    return Err("it is no regular file".to_owned());
                }
                let text = text_of(&path, MAX_FILE_BYTES);
                text.map_err(|error| error.to_string())
            }
            Files::Noted(folder, contents) => {
                let text = Files::In(folder).read(name)?;
                contents.note(name, &text);
                Ok(text)
            }
            Files::BuiltIn(files) => {
                let found = files.iter().find(|(known, _)| *known == name);
                let (_, text) = found.ok_or("it is not part of the program")?;
                Ok((*text).to_owned())
            }
        }
    }

    /// Returns the name of a file in messages.
    pub(super) fn path_of(&self, name: &str) -> String {
        match self {
            Files::In(folder) | Files::Noted(folder, _) => folder.join(name).display().to_string(),
            Files::BuiltIn(_) => name.to_owned(),
        }
    }
}

/// Returns the folder of a scenario's own file.
pub(super) fn folder_of(file: &str) -> &Path {
    Path::new(file).parent().unwrap_or(Path::new(""))
}

/// Returns the text of a file, unless it is too long for any use: a device, say, that never ends.
pub(super) fn text_of(path: &Path, max_bytes: u64) -> io::Result<String> {
    read_text(File::open(path)?, max_bytes)
}

/// Reads a text to its end, unless it is too long for any use.
pub(super) fn read_text(source: impl Read, max_bytes: u64) -> io::Result<String> {
    let mut text = String::new();
    let read_bytes = source.take(max_bytes + 1).read_to_string(&mut text)?;
    if read_bytes as u64 > max_bytes {
        let message = format!("it is longer than {} KiB", max_bytes >> 10);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    fn mistake(text: &str) -> String {
        let error = Scenario::parse("hostile.toml", text, &[]).expect_err("hostile");
        error.to_string()
    }

    #[test]
    fn a_scenario_of_more_than_anybody_needs_is_refused() {
        let links: String = (0..5_000)
            .map(|link| format!("l{link}.delay = \"1 ms\"\n"))
            .collect();
        let error = mistake(&format!("duration = \"1 s\"\n[links]\n{links}"));
        assert!(error.contains("links: more than 4096"), "{error}");
        let flow = |name| {
            format!(
                "[[flows]]\nname = \"{name}\"\nkind = \"bulk\"\npaths = [\"r\"]\ncount = 10000\n"
            )
        };
        let error = mistake(&format!(
            "duration = \"1 s\"\nlinks.l.delay = \"1 ms\"\n\
             routes.r = {{ forward = [\"l\"], reverse = [\"l\"] }}\n{}{}",
            flow("one"),
            flow("other")
        ));
        assert!(error.contains("flows: more than 10000"), "{error}");
    }

    #[test]
    fn no_device_is_read_and_no_file_repeated_by_a_strangers_scenario() {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "abkey_1234\n").unwrap();
        let secret = secret.display().to_string();
        let trace = |name: &str| {
            mistake(&format!(
                "duration = \"1 s\"\nlinks.l = {{ trace = \"{name}\" }}\n"
            ))
        };
        for device in ["/dev/zero", "/dev/stdin", "/"] {
            assert!(trace(device).contains("no regular file"), "{device}");
        }
        let base = mistake(&format!("base = \"{secret}\"\n"));
        let source = mistake(&format!(
            "duration = \"1 s\"\nlinks.l.delay = \"1 ms\"\n\
             routes.r = {{ forward = [\"l\"], reverse = [\"l\"] }}\n\
             [[flows]]\nkind = \"media\"\npaths = [\"r\"]\n\
             source = {{ kind = \"trace\", file = \"{secret}\" }}\n"
        ));
        for error in [trace(&secret), base, source] {
            assert!(
                !error.contains("abkey") && error.contains("secret"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_file_that_never_ends_is_refused() {
        let endless = Path::new("/dev/zero");
        let error = text_of(endless, 1 << 20).expect_err("it never ends");
        assert_eq!(error.to_string(), "it is longer than 1024 KiB");
        let error = Scenario::load(endless, &[]).expect_err("it never ends");
        assert_eq!(error.to_string(), "cannot read /dev/zero");
        let cause = core::error::Error::source(&error).expect("the file is too long");
        assert_eq!(cause.to_string(), "it is longer than 256 KiB");
    }
}
