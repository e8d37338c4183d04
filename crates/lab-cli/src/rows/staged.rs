//! A file that appears under its name only when it is complete.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// Ending of the temporary name. `part-*.jsonl` does not match it.
const ENDING: &str = ".partial";

/// A file under its temporary name, which stays if the program ends early.
#[derive(Debug)]
pub(crate) struct Staged {
    file: File,
    temporary: PathBuf,
    target: PathBuf,
}

impl Staged {
    /// Opens the temporary file, with the contents that an earlier program left.
    ///
    /// # Errors
    /// It cannot be written, or another program writes it.
    pub(crate) fn open(target: &Path) -> anyhow::Result<Staged> {
        let mut name = OsString::from(target);
        name.push(ENDING);
        let temporary = PathBuf::from(name);
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&temporary)
            .with_context(|| format!("cannot write {}", temporary.display()))?;
        // Networks' file systems may have no locks; then nothing guards against a second program.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            bail!("another program is writing {}", temporary.display());
        }
        Ok(Staged {
            file,
            temporary,
            target: target.to_owned(),
        })
    }

    /// Returns the temporary name.
    pub(crate) fn name(&self) -> String {
        self.temporary.display().to_string()
    }

    /// Returns a reader of the contents from their beginning.
    pub(crate) fn reader(&self) -> anyhow::Result<BufReader<&File>> {
        let mut file = &self.file;
        let rewound = file.seek(SeekFrom::Start(0));
        rewound.with_context(|| format!("cannot read {}", self.temporary.display()))?;
        Ok(BufReader::new(file))
    }

    /// Cuts the file to its first `end` bytes. Appended bytes follow these.
    pub(crate) fn cut(&mut self, end: u64) -> anyhow::Result<()> {
        let cut = self
            .file
            .set_len(end)
            .and_then(|()| self.file.seek(SeekFrom::Start(end)));
        self.written(cut.map(|_| ()))
    }

    /// Appends bytes at once: a program that is killed loses no earlier ones.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let appended = self.file.write_all(bytes);
        self.written(appended)
    }

    /// Gives the file its name.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        // Before the rename, so that a failure of power leaves no part under the final name.
        self.written(self.file.sync_all())?;
        let renamed = fs::rename(&self.temporary, &self.target);
        renamed.with_context(|| format!("cannot write {}", self.target.display()))
    }

    /// Removes the temporary file.
    pub(crate) fn discard(self) {
        // One that cannot be removed is written again by the next program.
        let _ = fs::remove_file(&self.temporary);
    }

    fn written(&self, result: io::Result<()>) -> anyhow::Result<()> {
        result.with_context(|| format!("cannot write {}", self.temporary.display()))
    }
}
