//! Gaps of a recording, in a file beside it: if anything is missing in `film.ts`, there is
//! `film.ts.gaps.csv`.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anabranch_terminal::files::gaps_path;
use anabranch_units::{Duration, Instant};
use jiff::Timestamp;

/// Gaps that are no further apart than this are one.
const JOINED: Duration = Duration::from_secs(1);
/// Names of the columns.
const HEADER: &str = "position_s,byte,utc,seconds,pictures,cause";

/// Cause of a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GapCause {
    /// Pictures did not arrive in time.
    Lost,
    /// The stream had no sender.
    NoSender,
    /// The file could not be written.
    NotWritten,
}

impl GapCause {
    fn name(self) -> &'static str {
        match self {
            GapCause::Lost => "lost",
            GapCause::NoSender => "no sender",
            GapCause::NotWritten => "not written",
        }
    }
}

/// A place of the recording where something is missing.
#[derive(Clone, Copy, Debug)]
struct Gap {
    /// Time from the first byte of the file to the last byte before the gap.
    position: Duration,
    /// Number of bytes before the gap.
    byte: u64,
    ended: Timestamp,
    ended_at: Instant,
    length: Duration,
    /// Number of pictures that did not arrive in time.
    pictures: u64,
    cause: GapCause,
}

/// Gaps of one file.
#[derive(Debug)]
pub(super) struct Gaps {
    path: PathBuf,
    began_at: Instant,
    file: Option<File>,
    /// The last gap, as long as another one may join it.
    last: Option<Gap>,
    has_failed: bool,
}

impl Gaps {
    /// Begins with a new recording. The list of an earlier file of this name is removed.
    pub(super) fn begin(recording: &Path, now: Instant) -> Gaps {
        let path = gaps_path(recording);
        if path.is_file() {
            let _ = std::fs::remove_file(&path);
        }
        Gaps {
            path,
            began_at: now,
            file: None,
            last: None,
            has_failed: false,
        }
    }

    /// Adds a gap before byte `byte`, from the last write at `from` to `now`.
    pub(super) fn add(
        &mut self,
        byte: u64,
        from: Instant,
        now: Instant,
        pictures: u64,
        cause: GapCause,
    ) {
        if let Some(last) = &mut self.last
            && last.cause == cause
            && from <= last.ended_at + JOINED
        {
            last.length += now.saturating_since(from);
            last.pictures += pictures;
            (last.ended, last.ended_at) = (Timestamp::now(), now);
            return;
        }
        self.flush();
        self.last = Some(Gap {
            position: from.saturating_since(self.began_at),
            byte,
            ended: Timestamp::now(),
            ended_at: now,
            length: now.saturating_since(from),
            pictures,
            cause,
        });
    }

    /// Writes the last gap if no other one can join it any more.
    pub(super) fn tick(&mut self, now: Instant) {
        if self.last.is_some_and(|last| now > last.ended_at + JOINED) {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let Some(gap) = self.last.take() else { return };
        if let Err(error) = self.write(&gap)
            && !core::mem::replace(&mut self.has_failed, true)
        {
            let path = self.path.display();
            log::warn!("gaps are not noted in {path}: {error}");
        }
    }

    fn write(&mut self, gap: &Gap) -> io::Result<()> {
        if self.file.is_none() {
            let file = OpenOptions::new()
                .append(true)
                .create(true)
                .open(&self.path)?;
            self.file = Some(file);
        }
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let mut lines = String::new();
        if file.metadata()?.len() == 0 {
            lines.push_str(HEADER);
            lines.push('\n');
        }
        let pictures = match gap.cause {
            GapCause::Lost => gap.pictures.to_string(),
            GapCause::NoSender | GapCause::NotWritten => String::new(),
        };
        lines += &format!(
            "{:.3},{},{},{:.3},{pictures},{}\n",
            gap.position.as_secs_f64(),
            gap.byte,
            gap.ended.strftime("%Y-%m-%dT%H:%M:%SZ"),
            gap.length.as_secs_f64(),
            gap.cause.name(),
        );
        file.write_all(lines.as_bytes())
    }
}

impl Drop for Gaps {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lines without their time.
    fn lines(recording: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(gaps_path(recording)).unwrap();
        text.lines()
            .map(|line| {
                let mut columns: Vec<&str> = line.split(',').collect();
                columns.remove(2);
                columns.join(",")
            })
            .collect()
    }

    #[test]
    fn gaps_within_a_second_are_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let film = folder.path().join("film.ts");
        let at = Instant::from_millis;
        let mut gaps = Gaps::begin(&film, at(1_000));
        gaps.tick(at(1_500));
        assert!(!gaps_path(&film).exists(), "there is no gap");
        gaps.add(5_000, at(2_000), at(2_120), 2, GapCause::Lost);
        gaps.add(6_000, at(2_900), at(3_000), 1, GapCause::Lost);
        gaps.tick(at(3_900));
        assert!(!gaps_path(&film).exists(), "another one may join it");
        gaps.add(9_000, at(4_200), at(74_200), 0, GapCause::NoSender);
        gaps.tick(at(80_000));
        gaps.add(9_500, at(90_000), at(90_040), 1, GapCause::Lost);
        drop(gaps);
        let header = "position_s,byte,seconds,pictures,cause";
        let expected = [
            header,
            "1.000,5000,0.220,3,lost",
            "3.200,9000,70.000,,no sender",
            "89.000,9500,0.040,1,lost",
        ];
        assert_eq!(lines(&film), expected);
        drop(Gaps::begin(&film, at(0)));
        assert!(!gaps_path(&film).exists(), "a new film has no gap");
    }

    #[test]
    fn a_folder_that_is_gone_costs_only_the_note() {
        let folder = tempfile::tempdir().unwrap();
        let film = folder.path().join("gone/film.ts");
        let mut gaps = Gaps::begin(&film, Instant::ZERO);
        gaps.add(0, Instant::ZERO, Instant::from_secs(1), 1, GapCause::Lost);
        gaps.flush();
        assert!(gaps.has_failed);
    }
}
