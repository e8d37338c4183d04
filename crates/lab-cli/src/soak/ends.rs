//! The soak's sender and receiver, which are killed and started again, and the watch over them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration as StdDuration;

use anabranch_emu::{End, Program, ProgramConfig};
use anabranch_units::ByteCount;
use anyhow::{Context, bail};

use crate::over_link::links::Links;

/// A program that may run.
#[derive(Debug)]
pub(super) struct SupervisedProgram<'a> {
    links: &'a Links,
    end: End,
    name: &'static str,
    words: Vec<std::ffi::OsString>,
    log: PathBuf,
    running: Option<Program>,
    /// The most memory that it has held, in bytes.
    pub(super) peak_bytes: u64,
    pub(super) start_count: u64,
}

impl<'a> SupervisedProgram<'a> {
    /// Makes a program that does not run yet. Its log is in the folder.
    pub(super) fn new(
        links: &'a Links,
        end: End,
        words: Vec<std::ffi::OsString>,
        folder: &Path,
    ) -> SupervisedProgram<'a> {
        let name = match end {
            End::Near => "sender",
            End::Far => "receiver",
        };
        SupervisedProgram {
            links,
            end,
            name,
            words,
            log: folder.join(format!("{name}.log")),
            running: None,
            peak_bytes: 0,
            start_count: 0,
        }
    }

    /// Starts it, unless it runs.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(&mut self) -> anyhow::Result<()> {
        if self.running.is_some() {
            return Ok(());
        }
        let log = File::options()
            .create(true)
            .append(true)
            .open(&self.log)
            .with_context(|| format!("cannot write {}", self.log.display()))?;
        let config = ProgramConfig {
            words: &self.words,
            log: Some(log),
            ..ProgramConfig::default()
        };
        self.running = Some(Program::start(&self.links.network, self.end, config)?);
        self.start_count += 1;
        Ok(())
    }

    /// Kills it, if it runs.
    ///
    /// # Errors
    /// It does not end.
    pub(super) fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(program) = self.running.take() {
            program.kill()?;
        }
        Ok(())
    }

    /// Looks at the invariants.
    ///
    /// # Errors
    /// It has ended by itself, or holds more memory than it may.
    pub(super) fn check(&mut self, max_memory: ByteCount) -> anyhow::Result<()> {
        let Some(program) = &self.running else {
            return Ok(());
        };
        if let Some(status) = program.wait_for(StdDuration::ZERO)? {
            self.running = None;
            bail!(
                "the {} has ended by itself: {status}: {}",
                self.name,
                self.end_of_log()
            );
        }
        let bytes = program.resident_bytes().unwrap_or(0);
        self.peak_bytes = self.peak_bytes.max(bytes);
        if bytes > max_memory.0 {
            bail!(
                "the {} holds {}, above {max_memory}",
                self.name,
                ByteCount(bytes)
            );
        }
        Ok(())
    }

    /// Returns the memory that it holds now, in bytes.
    pub(super) fn resident_bytes(&self) -> u64 {
        let running = self.running.as_ref();
        running.and_then(Program::resident_bytes).unwrap_or(0)
    }

    /// Looks for panics in its log.
    ///
    /// # Errors
    /// There is one.
    pub(super) fn check_log(&self) -> anyhow::Result<()> {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        if let Some(line) = text.lines().find(|line| line.contains("panicked")) {
            bail!("the {} has panicked: {line}", self.name);
        }
        Ok(())
    }

    fn end_of_log(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().rev().take(3).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }
}

impl Drop for SupervisedProgram<'_> {
    fn drop(&mut self) {
        // An error of one that must end anyway is of no interest.
        let _ = self.kill();
    }
}
