//! Writes to outputs that may block: a named pipe without a reader, or with a reader that sleeps. A
//! wait ends when the program is stopped.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::path::Path;

use anabranch_net::Clock;
use anabranch_terminal::stop::Stop;
use anabranch_units::{Duration, Instant};

use crate::pipes;

/// Time between attempts to open a named pipe without a reader.
const OPEN_INTERVAL: Duration = Duration::from_millis(50);
/// Time that the reader has for the remaining bytes after the program was stopped.
const GRACE: Duration = Duration::from_secs(1);
/// Length of a transport packet.
const PACKET_BYTES: u64 = 188;
/// Bytes that a writable pipe or socket accepts without blocking. POSIX's smallest PIPE_BUF is 512,
/// Linux's is this.
const CHUNK_BYTES: usize = 4_096;

/// A file, pipe or device.
#[derive(Debug)]
pub struct BlockingFile {
    file: File,
    /// Maximum bytes of a write that does not block after a poll.
    chunk_bytes: usize,
    /// Whether a write may block.
    may_wait: bool,
    /// End of the wait for the reader, after the program was stopped.
    grace_ends_at: Option<Instant>,
}

impl BlockingFile {
    /// Opens `path` and truncates it if it is a file. A named pipe is opened as soon as it has a
    /// reader.
    ///
    /// # Errors
    /// The operating system's error; [`ErrorKind::Interrupted`] if the program was stopped.
    pub(super) fn create(path: &Path, clock: &Clock, stop: &Stop) -> io::Result<Self> {
        let is_pipe = path
            .metadata()
            .is_ok_and(|metadata| pipes::is_fifo(&metadata));
        if !is_pipe {
            return Ok(BlockingFile::of(File::create(path)?));
        }
        let mut is_reported = false;
        while !stop.is_stopped() {
            match open_pipe(path) {
                Err(error) if pipes::has_no_reader_yet(&error) => {}
                opened => return opened,
            }
            if !core::mem::replace(&mut is_reported, true) {
                log::info!("waiting for a reader of {}", path.display());
            }
            stop.wait_until(clock, clock.now() + OPEN_INTERVAL);
        }
        Err(ErrorKind::Interrupted.into())
    }

    /// Opens `path` after a failure. A file continues after its last whole transport packet. A
    /// named pipe without a reader is not waited for.
    ///
    /// # Errors
    /// The operating system's error; ENXIO for a pipe without a reader.
    pub(super) fn reopen(path: &Path) -> io::Result<Self> {
        let is_pipe = path
            .metadata()
            .is_ok_and(|metadata| pipes::is_fifo(&metadata));
        if is_pipe {
            return open_pipe(path);
        }
        let options = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        let mut reopened = BlockingFile::of(options?);
        if !reopened.may_wait {
            let length = reopened.file.seek(SeekFrom::End(0))?;
            reopened.take_back(length % PACKET_BYTES)?;
        }
        Ok(reopened)
    }

    /// Takes over standard output.
    ///
    /// # Errors
    /// It is closed.
    pub(super) fn standard_output() -> io::Result<Self> {
        let file = pipes::standard_output()?;
        let is_pipe = file
            .metadata()
            .is_ok_and(|metadata| pipes::is_fifo(&metadata));
        let reopened = is_pipe
            .then(|| pipes::reopen_standard_output().ok().map(of_pipe))
            .flatten();
        Ok(reopened.unwrap_or_else(|| BlockingFile::of(file)))
    }

    fn of(file: File) -> Self {
        let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
        BlockingFile {
            file,
            chunk_bytes: if is_file { usize::MAX } else { CHUNK_BYTES },
            may_wait: !is_file,
            grace_ends_at: None,
        }
    }

    /// Writes all, or, after the program was stopped, the bytes that the reader takes in a second.
    /// If a file does not take all bytes, it keeps none of them.
    ///
    /// # Errors
    /// The operating system's error.
    pub(super) fn write(&mut self, bytes: &[u8], clock: &Clock, stop: &Stop) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.may_wait && !self.wait(clock, stop) {
                return Ok(());
            }
            let chunk = &rest[..rest.len().min(self.chunk_bytes)];
            let failure = match self.file.write(chunk) {
                Ok(0) => ErrorKind::WriteZero.into(),
                Ok(written) => {
                    rest = &rest[written..];
                    continue;
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
                {
                    continue;
                }
                Err(error) => error,
            };
            // If this fails too, the next `reopen` truncates the file.
            let _ = self.take_back((bytes.len() - rest.len()) as u64);
            return Err(failure);
        }
        Ok(())
    }

    /// Removes the last bytes of a file. Bytes in a pipe belong to its reader.
    fn take_back(&mut self, bytes: u64) -> io::Result<()> {
        if self.may_wait || bytes == 0 {
            return Ok(());
        }
        let end = self.file.stream_position()?.saturating_sub(bytes);
        self.file.set_len(end)?;
        self.file.seek(SeekFrom::Start(end)).map(drop)
    }

    /// Waits until the reader takes more. Returns false if it does not in time after the program
    /// was stopped.
    fn wait(&mut self, clock: &Clock, stop: &Stop) -> bool {
        if pipes::wait_writable(&self.file, stop) {
            return true;
        }
        let now = clock.now();
        let ends_at = *self.grace_ends_at.get_or_insert(now + GRACE);
        pipes::wait_writable_for(&self.file, ends_at.saturating_since(now))
    }
}

fn open_pipe(path: &Path) -> io::Result<BlockingFile> {
    pipes::open_fifo_to_write(path).map(of_pipe)
}

/// Takes a pipe that never blocks.
fn of_pipe(file: File) -> BlockingFile {
    BlockingFile {
        chunk_bytes: usize::MAX,
        ..BlockingFile::of(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_cut_to_whole_packets_when_it_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("film.ts");
        std::fs::write(&path, [1; 188 * 2 + 60]).unwrap();
        let mut file = BlockingFile::reopen(&path).unwrap();
        let (clock, stop) = (Clock::start(), Stop::new().unwrap());
        file.write(&[2; 188], &clock, &stop).unwrap();
        let written = std::fs::read(&path).unwrap();
        assert_eq!(written, [[1; 188], [1; 188], [2; 188]].concat());
        file.take_back(188).unwrap();
        file.write(&[3; 188], &clock, &stop).unwrap();
        let written = std::fs::read(&path).unwrap();
        assert_eq!(written, [[1; 188], [1; 188], [3; 188]].concat());
    }
}

// Needs a clock: a real reader keeps a pipe full.
#[cfg(test)]
mod real_time_tests;
