//! `--stats`: statistics as lines of JSON.

use core::str::FromStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anabranch_terminal::hangup::Reopen;
use anabranch_units::Duration;
use serde::Serialize;

use super::open_error::OpenError;
use super::{StandardOutput, WriteLine};

/// Destination of the lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatsName {
    /// `-`
    StandardOutput,
    /// A file, which is appended to.
    File(PathBuf),
}

impl FromStr for StatsName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The option was a time in earlier versions.
        if text.parse::<Duration>().is_ok() {
            return Err(format!(
                "it is a file, or `-`; for a line at this interval say --report '{text}'"
            ));
        }
        Ok(match text {
            "-" => StatsName::StandardOutput,
            _ => StatsName::File(text.into()),
        })
    }
}

/// Reasons for which a line was not written.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("standard output")]
    StandardOutput(#[source] io::Error),
    #[error(transparent)]
    File(#[from] io::Error),
}

/// Destination that is open.
#[derive(Debug)]
enum Sink {
    StandardOutput(WriteLine),
    File(File, PathBuf),
}

/// An open file, or standard output.
#[derive(Debug)]
pub(super) struct Stats {
    sink: Sink,
    name: String,
    reopen: Reopen,
    has_failed: bool,
}

impl Stats {
    /// Opens the destination; lines are appended to an existing file.
    pub(super) fn open(name: &StatsName, stdout: StandardOutput) -> Result<Stats, OpenError> {
        let (sink, name) = match name {
            StatsName::StandardOutput => match stdout {
                StandardOutput::CarriesVideo => return Err(OpenError::StatsBesideVideo),
                StandardOutput::Free(write_line) => (
                    Sink::StandardOutput(write_line),
                    "standard output".to_owned(),
                ),
            },
            StatsName::File(path) => {
                let name = path.display().to_string();
                match opened(path) {
                    Ok(file) => (Sink::File(file, path.clone()), name),
                    Err(source) => return Err(OpenError::Stats { name, source }),
                }
            }
        };
        Ok(Stats {
            sink,
            name,
            reopen: Reopen::on_signal().map_err(OpenError::Signals)?,
            has_failed: false,
        })
    }

    fn write(&mut self, line: &impl Serialize) -> Result<(), WriteError> {
        let mut text = serde_json::to_string(line)?;
        match &mut self.sink {
            Sink::StandardOutput(write_line) => {
                write_line(&text).map_err(WriteError::StandardOutput)
            }
            Sink::File(file, path) => {
                if self.reopen.is_due() {
                    *file = opened(path)?;
                }
                text.push('\n');
                // A single call per line, so that readers see only whole lines.
                Ok(file.write_all(text.as_bytes())?)
            }
        }
    }
}

fn opened(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// Writes a line. Only the first error is reported, because the streams must continue.
pub(super) fn write(stats: &Mutex<Stats>, line: &impl Serialize) {
    let mut stats = stats.lock().unwrap_or_else(PoisonError::into_inner);
    match stats.write(line) {
        Err(error) if !stats.has_failed => {
            stats.has_failed = true;
            let name = &stats.name;
            log::info!("statistics are missing from {name}: {error}");
        }
        Ok(()) => stats.has_failed = false,
        Err(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_nothing(_: &str) -> io::Result<()> {
        Ok(())
    }

    #[test]
    fn a_time_is_no_file_and_the_option_for_it_is_named() {
        let error = "1 s".parse::<StatsName>().unwrap_err();
        assert!(error.contains("--report '1 s'"), "{error}");
        assert_eq!("-".parse(), Ok(StatsName::StandardOutput));
        assert_eq!("1.json".parse(), Ok(StatsName::File("1.json".into())));
    }

    #[test]
    fn standard_output_is_not_shared_with_video() {
        let name = StatsName::StandardOutput;
        let error = Stats::open(&name, StandardOutput::CarriesVideo).unwrap_err();
        assert!(error.to_string().contains("carries the video"), "{error}");
        assert!(Stats::open(&name, StandardOutput::Free(write_nothing)).is_ok());
    }

    #[test]
    fn lines_are_added_to_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stats.json");
        for number in 0..2 {
            let name = StatsName::File(path.clone());
            let stats = Stats::open(&name, StandardOutput::CarriesVideo).unwrap();
            write(&Mutex::new(stats), &number);
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), "0\n1\n");
        let folder = StatsName::File(folder.path().to_owned());
        let error = Stats::open(&folder, StandardOutput::Free(write_nothing)).unwrap_err();
        assert!(error.to_string().contains("--stats: cannot write"));
    }

    #[test]
    fn lines_go_to_a_new_file_after_logrotate_has_moved_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let [path, old] = ["stats.json", "stats.1"].map(|name| folder.path().join(name));
        let name = StatsName::File(path.clone());
        let stats = Mutex::new(Stats::open(&name, StandardOutput::CarriesVideo).unwrap());
        write(&stats, &1);
        std::fs::rename(&path, &old).unwrap();
        write(&stats, &2);
        stats.lock().unwrap().reopen.ask();
        write(&stats, &3);
        assert_eq!(std::fs::read_to_string(old).unwrap(), "1\n2\n");
        assert_eq!(std::fs::read_to_string(path).unwrap(), "3\n");
    }
}
