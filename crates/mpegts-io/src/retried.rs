//! An output that fails, for example on a full disk, and is retried until it can be written.

use core::fmt;

use anabranch_net::Clock;
use anabranch_terminal::stop::Stop;
use anabranch_units::{Duration, Instant};

use super::causes::WithCauses;
use super::output::Output;
use super::output_error::OutputError;
use super::playout::Piece;

/// Pause between a failure and the first retry. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause: a user who freed space watches for the effect.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Longest wait for a key frame. A retry begins with one; a stream that has none begins anywhere.
const KEY_FRAME_WAIT: Duration = Duration::from_secs(10);
/// A failure within this time of the recovery counts as the same one: its pauses grow further.
const RELAPSE: Duration = Duration::from_secs(60);

/// An output with its retries.
#[derive(Debug)]
pub struct RetriedOutput {
    output: Output,
    failure: Option<Failure>,
    last_pause: Duration,
    resumed_at: Option<Instant>,
}

/// Reason and start of a failure.
#[derive(Debug)]
struct Failure {
    reason: String,
    since: Instant,
    retry_at: Instant,
    left_out_bytes: u64,
}

/// A change of an output's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputEvent {
    /// The output cannot be written.
    Failed {
        /// Output and cause.
        reason: String,
    },
    /// The output is written again.
    Resumed {
        /// Duration of the failure.
        failed_for: Duration,
        /// Bytes that were not written.
        left_out_bytes: u64,
    },
}

impl RetriedOutput {
    /// Creates a retried output of an open one.
    pub fn new(output: Output) -> Self {
        RetriedOutput {
            output,
            failure: None,
            last_pause: Duration::ZERO,
            resumed_at: None,
        }
    }

    /// Returns whether somebody may watch the bytes on arrival.
    pub fn is_watched(&self) -> bool {
        self.output.is_watched()
    }

    /// Begins a session, which triggers a retry.
    pub fn begin_session(&mut self, now: Instant) {
        self.output.begin_session();
        if let Some(failure) = &mut self.failure {
            failure.retry_at = now;
        }
    }

    /// Writes a piece of the stream, or discards it while the output fails.
    ///
    /// # Errors
    /// Standard output has no reader any more and cannot be opened again.
    pub fn write(
        &mut self,
        piece: &Piece,
        clock: &Clock,
        stop: &Stop,
    ) -> Result<Option<OutputEvent>, OutputError> {
        self.write_at(clock.now(), piece, clock, stop)
    }

    fn write_at(
        &mut self,
        now: Instant,
        piece: &Piece,
        clock: &Clock,
        stop: &Stop,
    ) -> Result<Option<OutputEvent>, OutputError> {
        let bytes = piece.bytes.len() as u64;
        if let Some(failure) = &mut self.failure
            && !failure.is_due(now, piece)
        {
            failure.left_out_bytes += bytes;
            return Ok(None);
        }
        match self.output.write(piece, clock, stop) {
            Ok(()) => Ok(self.failure.take().map(|failure| {
                self.resumed_at = Some(now);
                OutputEvent::Resumed {
                    failed_for: now.saturating_since(failure.since),
                    left_out_bytes: failure.left_out_bytes,
                }
            })),
            Err(error) if self.output.is_over(&error) => Err(error),
            Err(error) => Ok(self.on_failed(now, WithCauses(&error).to_string(), bytes)),
        }
    }

    fn on_failed(&mut self, now: Instant, reason: String, bytes: u64) -> Option<OutputEvent> {
        let is_relapse = self.resumed_at.is_some_and(|at| now < at + RELAPSE);
        self.last_pause = if self.failure.is_some() || is_relapse {
            (self.last_pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE)
        } else {
            FIRST_PAUSE
        };
        let retry_at = now + self.last_pause;
        if let Some(failure) = &mut self.failure {
            failure.reason = reason;
            failure.retry_at = retry_at;
            failure.left_out_bytes += bytes;
            return None;
        }
        self.failure = Some(Failure {
            reason: reason.clone(),
            since: now,
            retry_at,
            left_out_bytes: bytes,
        });
        Some(OutputEvent::Failed { reason })
    }
}

impl Failure {
    /// Returns whether the output should be tried with this piece.
    fn is_due(&self, now: Instant, piece: &Piece) -> bool {
        let waits_long = now >= self.retry_at + KEY_FRAME_WAIT;
        now >= self.retry_at && (piece.begins_key_frame || waits_long)
    }
}

impl fmt::Display for OutputEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutputEvent::Failed { reason } => write!(
                f,
                "{reason}; it is tried again every {:.0} to {:.0} s at a key frame, and all else \
                 goes on",
                FIRST_PAUSE.as_secs_f64(),
                LONGEST_PAUSE.as_secs_f64(),
            ),
            OutputEvent::Resumed {
                failed_for,
                left_out_bytes,
            } => write!(
                f,
                "is written again after {:.1} s, in which {:.1} MB were left out",
                failed_for.as_secs_f64(),
                *left_out_bytes as f64 / 1e6,
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};
    use std::thread::JoinHandle;

    use super::*;
    use crate::OutputName;

    const PIECE_BYTES: usize = 7 * 188;

    /// An output whose pieces arrive at chosen times.
    struct Bed {
        output: RetriedOutput,
        clock: Clock,
        stop: Stop,
    }

    impl Bed {
        fn new(path: &Path) -> Self {
            let (clock, stop) = (Clock::start(), Stop::new().unwrap());
            let name = OutputName::File(path.to_owned());
            let output = Output::open(&name, None, &clock, &stop).unwrap();
            Bed {
                output: RetriedOutput::new(output),
                clock,
                stop,
            }
        }

        fn write(&mut self, millis: u64, begins_key_frame: bool) -> Option<OutputEvent> {
            let piece = Piece {
                bytes: vec![0x47; PIECE_BYTES],
                begins_key_frame,
                ..Piece::default()
            };
            let now = Instant::from_millis(millis);
            let Bed {
                output,
                clock,
                stop,
            } = self;
            output.write_at(now, &piece, clock, stop).unwrap()
        }

        fn assert_failed(&mut self, millis: u64) {
            match self.write(millis, true) {
                Some(OutputEvent::Failed { reason }) => {
                    assert!(reason.contains("cannot write"), "{reason}");
                }
                event => panic!("{event:?}"),
            }
        }
    }

    /// Creates a file on a disk that stays full until the file is deleted.
    fn full(folder: &Path) -> PathBuf {
        let path = folder.join("film.ts");
        symlink("/dev/full", &path).unwrap();
        path
    }

    #[test]
    fn a_full_output_resumes_at_a_key_frame_when_there_is_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = full(folder.path());
        let mut bed = Bed::new(&path);
        bed.assert_failed(0);
        assert_eq!(bed.write(500, true), None);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(bed.write(999, true), None, "it is not time yet");
        assert_eq!(bed.write(1_500, false), None, "no key frame");
        assert!(!path.exists());
        let resumed = OutputEvent::Resumed {
            failed_for: Duration::from_millis(2_000),
            left_out_bytes: 4 * PIECE_BYTES as u64,
        };
        assert_eq!(bed.write(2_000, true), Some(resumed));
        assert_eq!(bed.write(2_040, false), None);
        assert_eq!(path.metadata().unwrap().len(), 2 * PIECE_BYTES as u64);
    }

    #[test]
    fn pauses_double_up_to_a_limit_and_grow_further_after_a_relapse() {
        let folder = tempfile::tempdir().unwrap();
        let path = full(folder.path());
        let mut bed = Bed::new(&path);
        bed.assert_failed(0);
        let tries = (1..600).map(|tenth| tenth * 100);
        let mut retried_at = Vec::new();
        for millis in tries {
            let before = bed.output.last_pause;
            let left_out = bed.output.failure.as_ref().unwrap().retry_at;
            assert_eq!(bed.write(millis, true), None);
            let retry_at = bed.output.failure.as_ref().unwrap().retry_at;
            if retry_at != left_out {
                retried_at.push(millis / 1_000);
                assert!(bed.output.last_pause >= before);
            }
        }
        assert_eq!(retried_at, [1, 3, 7, 15, 25, 35, 45, 55]);
        std::fs::remove_file(&path).unwrap();
        assert!(bed.write(70_000, true).is_some());
        bed.output.output.begin_session();
        // The failure is a relapse, so that its pause exceeds one second.
        let event = bed
            .output
            .on_failed(Instant::from_secs(80), "full".to_owned(), 1);
        assert!(event.is_some());
        assert_eq!(bed.output.last_pause, LONGEST_PAUSE);
    }

    #[test]
    fn a_stream_without_key_frames_resumes_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = full(folder.path());
        let mut bed = Bed::new(&path);
        bed.assert_failed(0);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(bed.write(10_900, false), None);
        assert!(bed.write(11_000, false).is_some());
    }

    #[test]
    fn a_pipe_is_written_again_when_it_has_another_reader() {
        fn open(path: PathBuf) -> JoinHandle<File> {
            std::thread::spawn(move || File::open(path).unwrap())
        }

        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let reader = open(path.clone());
        let mut bed = Bed::new(&path);
        drop(reader.join().unwrap());
        // A program that another test starts has the reader's copy until its `exec`.
        let failed = loop {
            match bed.write(0, true) {
                Some(event) => break event,
                None => std::thread::yield_now(),
            }
        };
        assert!(matches!(failed, OutputEvent::Failed { .. }), "{failed}");
        assert_eq!(bed.write(1_000, true), None, "nobody reads it");
        // Opened for reading and writing, the pipe does not block.
        let mut reader = File::options().read(true).write(true).open(&path).unwrap();
        assert!(matches!(
            bed.write(3_000, true),
            Some(OutputEvent::Resumed { .. })
        ));
        let mut bytes = vec![0; PIECE_BYTES];
        reader.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, vec![0x47; PIECE_BYTES]);
    }
}
