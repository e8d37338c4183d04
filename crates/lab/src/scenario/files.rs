//! The files that a scenario names: on disk beside its own, or in the program.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anabranch_units::Seed;

use super::error::{Mistake, Place};
use super::node::Node;
use super::reader;

/// Largest text of a scenario: the largest one here has 6 kB, and the places of keys are counted
/// from the start.
pub(super) const MAX_SCENARIO_BYTES: u64 = 256 << 10;
/// Largest file that a scenario names: an hour of deliveries at 100 Mbit/s, one per line, has 240
/// MB.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// Most bytes of all files that the points of a scenario name: 10,000 points with a trace of 50 kB
/// each (chosen). Traces take up to four times as much memory.
const MAX_TOTAL_BYTES: u64 = 512 << 20;
/// A folder of this name has scenarios below it that share files.
const SHARED_FOLDER: &str = "scenarios";

/// Location of the files that a scenario names.
#[derive(Clone, Copy, Debug)]
pub(super) enum Files<'a> {
    /// On disk.
    OnDisk(&'a Beside),
    /// In the program: names, as the scenario writes them, and texts.
    BuiltIn(&'a [(&'a str, &'a str)]),
}

/// The files beside a scenario's own file.
#[derive(Debug)]
pub(super) struct Beside {
    folder: PathBuf,
    /// Bytes of files that may still be read.
    allowed_bytes: Cell<u64>,
    /// Hashes of the texts of files, by the names that the scenario has for them.
    hashes: RefCell<BTreeMap<String, u64>>,
}

impl Beside {
    /// Returns the files beside a scenario's own file.
    pub(super) fn new(file: &str) -> Self {
        Beside {
            folder: folder_of(file).to_owned(),
            allowed_bytes: Cell::new(MAX_TOTAL_BYTES),
            hashes: RefCell::default(),
        }
    }

    /// Returns a text that is the same if the names and contents of all files read are.
    pub(super) fn summary(&self) -> String {
        format!("{:?}", self.hashes.borrow())
    }

    fn read(&self, name: &str, place: Place) -> Result<String, String> {
        let path = self
            .folder
            .join(name)
            .canonicalize()
            .map_err(|error| error.to_string())?;
        // Scenarios come from strangers, settings from the user.
        let is_of_user = matches!(place, Place::Override(_));
        if !is_of_user && !path.starts_with(self.root()?) {
            let message = "it is not below the scenario's folder, and only `--set` names others";
            return Err(message.to_owned());
        }
        let metadata = path.metadata().map_err(|error| error.to_string())?;
        // Others block, never end or have effects.
        if !metadata.is_file() {
            return Err("it is no regular file".to_owned());
        }
        let most = MAX_FILE_BYTES.min(self.allowed_bytes.get());
        let text = text_of(&path, most).map_err(|error| error.to_string())?;
        self.allowed_bytes.update(|bytes| bytes - text.len() as u64);
        self.hashes
            .borrow_mut()
            .insert(name.to_owned(), hash(&text));
        Ok(text)
    }

    /// Returns the folder below which the scenario's files are: its own, or the innermost one above
    /// it that has the name of shared ones.
    fn root(&self) -> Result<PathBuf, String> {
        let own = Path::new(".")
            .join(&self.folder)
            .canonicalize()
            .map_err(|error| error.to_string())?;
        let shared = own
            .ancestors()
            .find(|folder| folder.file_name().is_some_and(|it| it == SHARED_FOLDER));
        Ok(shared.unwrap_or(&own).to_owned())
    }
}

/// Returns a number that any other text has with a chance of 2^-64.
pub(super) fn hash(text: &str) -> u64 {
    Seed(0).derive(text).0
}

impl Files<'_> {
    /// Returns the name and the text of the file that a value names.
    pub(super) fn read(&self, node: &Node) -> Result<(String, String), Mistake> {
        let name = reader::text(node)?;
        let text = match self {
            Files::OnDisk(beside) => beside.read(name, node.place),
            Files::BuiltIn(files) => {
                let found = files
                    .iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, text)| (*text).to_owned());
                found.ok_or_else(|| "it is not part of the program".to_owned())
            }
        };
        let path = self.path_of(name);
        match text {
            Ok(text) => Ok((path, text)),
            Err(reason) => Err(node.mistake(format!("{path}: {reason}"))),
        }
    }

    /// Returns the name of a file in messages.
    fn path_of(&self, name: &str) -> String {
        match self {
            Files::OnDisk(beside) => beside.folder.join(name).display().to_string(),
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
        fn flow(name: &str) -> String {
            format!(
                "[[flows]]\nname = \"{name}\"\nkind = \"bulk\"\npaths = [\"r\"]\ncount = 10000\n"
            )
        }

        let links: String = (0..5_000)
            .map(|link| format!("l{link}.delay = \"1 ms\"\n"))
            .collect();
        let error = mistake(&format!("duration = \"1 s\"\n[links]\n{links}"));
        assert!(error.contains("links: more than 4096"), "{error}");
        let error = mistake(&format!(
            "duration = \"1 s\"\nlinks.l.delay = \"1 ms\"\n\
             routes.r = {{ forward = [\"l\"], reverse = [\"l\"] }}\n{}{}",
            flow("one"),
            flow("other")
        ));
        assert!(error.contains("flows: more than 10000"), "{error}");
    }

    /// A value that no message repeats.
    const SECRET: &str = "abkey_1234";

    /// A folder with a scenario's folder in it, and a secret in both.
    fn folders() -> (tempfile::TempDir, PathBuf) {
        let above = tempfile::tempdir().unwrap();
        let own = above.path().join("own");
        std::fs::create_dir(&own).unwrap();
        for folder in [above.path(), &own] {
            std::fs::write(folder.join("secret"), format!("{SECRET}\n9 8\n")).unwrap();
            std::fs::write(folder.join("good.trace"), "0\n4\n").unwrap();
        }
        (above, own)
    }

    fn with_trace(folder: &Path, name: &str, overrides: &[String]) -> Result<(), String> {
        let file = folder.join("scenario.toml").display().to_string();
        let text = format!(
            "duration = \"1 s\"\nlinks.l = {{ trace = \"{name}\" }}\n\
             routes.r = {{ forward = [\"l\"], reverse = [\"l\"] }}\n\
             flows = [{{ paths = [\"r\"] }}]\n"
        );
        let scenario = Scenario::parse(&file, &text, overrides);
        scenario.map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn a_strangers_scenario_reads_regular_files_below_its_folder_alone() {
        let (above, own) = folders();
        std::fs::create_dir(own.join("below")).unwrap();
        std::fs::copy(own.join("good.trace"), own.join("below/good.trace")).unwrap();
        std::os::unix::fs::symlink("../good.trace", own.join("out")).unwrap();
        std::os::unix::fs::symlink("below/good.trace", own.join("in")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", own.join("zero")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(own.join("socket")).unwrap();
        for name in [
            "good.trace",
            "below/good.trace",
            "in",
            "below/../good.trace",
        ] {
            assert_eq!(with_trace(&own, name, &[]), Ok(()), "{name}");
        }
        let elsewhere = above.path().join("good.trace").display().to_string();
        for name in [
            "../good.trace",
            "out",
            "zero",
            "/dev/zero",
            "/dev/stdin",
            &elsewhere,
        ] {
            let error = with_trace(&own, name, &[]).expect_err(name);
            assert!(error.contains("not below the scenario's folder"), "{error}");
        }
        for name in ["below", "socket"] {
            let error = with_trace(&own, name, &[]).expect_err(name);
            assert!(error.contains("no regular file"), "{error}");
        }
        let setting = [format!("links.l.trace={elsewhere}")];
        assert_eq!(with_trace(&own, "good.trace", &setting), Ok(()));
        let device = ["links.l.trace=/dev/zero".to_owned()];
        let error = with_trace(&own, "good.trace", &device).expect_err("a device");
        assert!(error.contains("no regular file"), "{error}");
    }

    #[test]
    fn scenarios_below_a_shared_folder_share_its_files() {
        let above = tempfile::tempdir().unwrap();
        let own = above.path().join("scenarios/one/two");
        std::fs::create_dir_all(&own).unwrap();
        for folder in ["scenarios", "."] {
            std::fs::write(above.path().join(folder).join("good.trace"), "0\n4\n").unwrap();
        }
        assert_eq!(with_trace(&own, "../../good.trace", &[]), Ok(()));
        assert!(with_trace(&own, "../../../good.trace", &[]).is_err());
    }

    #[test]
    fn no_message_repeats_a_file() {
        fn source(kind: &str, name: &str) -> String {
            format!(
                "duration = \"1 s\"\nlinks.l.delay = \"1 ms\"\n\
                 routes.r = {{ forward = [\"l\"], reverse = [\"l\"] }}\n\
                 [[flows]]\nkind = \"media\"\npaths = [\"r\"]\n\
                 source = {{ kind = \"{kind}\", file = \"{name}\" }}\n"
            )
        }

        let (_above, own) = folders();
        let files = [
            ("text", SECRET.to_owned()),
            ("table", format!("{SECRET} = {SECRET}\n")),
            ("falling", "1234\n1233\n".to_owned()),
            ("ladder", format!("frame,{SECRET}\n0,1\n")),
            (
                "film",
                format!("index,time,bytes,type,importance\n{SECRET},1234\n"),
            ),
        ];
        let file = own.join("scenario.toml").display().to_string();
        for (name, text) in files {
            std::fs::write(own.join(name), text).unwrap();
            let base = format!("base = \"{name}\"\n");
            let texts = [base, source("trace", name), source("hybrid", name)];
            let errors = texts.iter().map(|text| {
                let error = Scenario::parse(&file, text, &[]).expect_err(name);
                error.to_string()
            });
            let of_link = with_trace(&own, name, &[]).expect_err(name);
            for error in errors.chain([of_link]) {
                let is_quoted = error.contains(SECRET) || error.contains("123");
                assert!(!is_quoted && error.contains(name), "{error}");
            }
        }
    }

    #[test]
    fn all_files_together_have_a_limit() {
        let (_above, own) = folders();
        let beside = Beside::new(&own.join("scenario.toml").display().to_string());
        beside.allowed_bytes.set(10);
        let place = Place::Line(1);
        for _ in 0..2 {
            assert_eq!(beside.read("good.trace", place).as_deref(), Ok("0\n4\n"));
        }
        let error = beside.read("good.trace", place).expect_err("12 bytes");
        assert!(error.contains("longer"), "{error}");
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
