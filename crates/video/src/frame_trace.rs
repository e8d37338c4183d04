//! The frames of a film without their content: the time, size, type and importance of each.
//! `anabranch-lab trace` writes them and scenarios play them.

use core::fmt::{self, Write};

use anabranch_units::{DataRate, Duration, Importance};
use thiserror::Error;

/// Coding type of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PictureType {
    /// Predicted from no other picture.
    I,
    /// Predicted from pictures before it.
    P,
    /// Predicted from pictures on both sides.
    B,
}

impl PictureType {
    /// All types.
    pub const ALL: [PictureType; 3] = [PictureType::I, PictureType::P, PictureType::B];
}

impl fmt::Display for PictureType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// One frame, in coding order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedFrame {
    /// Time after the first frame.
    pub at: Duration,
    /// Its size in bytes, at least 1.
    pub bytes: u32,
    /// Coding type; `None` if unknown.
    pub kind: Option<PictureType>,
    /// Importance of the frame.
    pub importance: Importance,
}

/// The frames of a film.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameTrace {
    frames: Vec<TracedFrame>,
}

/// A text or a list of frames that is no trace.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FrameTraceError {
    /// The first line is not the heading.
    #[error("the first line must be: {HEADING}")]
    Heading,
    /// A row is invalid.
    #[error(
        "line {line}: expected frame {frame}, its time in seconds not before the last, its size of \
         1 B to 8 MiB, its type I, P, B or ?, and \"key\", \"reference\" or \"disposable\""
    )]
    Row {
        /// Number of the line, from 1.
        line: usize,
        /// The number that the frame must have.
        frame: usize,
    },
    /// Fewer than two frames, or all at the same time.
    #[error("a trace needs two frames that are not at the same time")]
    TooShort,
}

/// The heading of a trace as comma-separated values.
pub const HEADING: &str = "index,time,bytes,type,importance";

/// Maximum size of a frame in a session.
const MAX_FRAME_BYTES: u32 = 8 << 20;

const IMPORTANCES: [(&str, Importance); 3] = [
    ("key", Importance::Key),
    ("reference", Importance::Reference),
    ("disposable", Importance::Disposable),
];

impl FrameTrace {
    /// Creates a trace of these frames, in coding order and the order of time.
    ///
    /// # Errors
    /// [`FrameTraceError::TooShort`]; [`FrameTraceError::Row`] for a frame out of order, or of no
    /// size.
    pub fn new(frames: Vec<TracedFrame>) -> Result<FrameTrace, FrameTraceError> {
        let mut last = Duration::ZERO;
        for (frame, row) in frames.iter().enumerate() {
            if row.at < last || !(1..=MAX_FRAME_BYTES).contains(&row.bytes) {
                let line = frame + 2;
                return Err(FrameTraceError::Row { line, frame });
            }
            last = row.at;
        }
        match (frames.first(), frames.last()) {
            (Some(first), Some(last)) if first.at < last.at => Ok(FrameTrace { frames }),
            _ => Err(FrameTraceError::TooShort),
        }
    }

    /// Reads comma-separated values with [`HEADING`]. Lines that start with `#` are ignored.
    ///
    /// # Errors
    /// A [`FrameTraceError`] that names the line.
    pub fn parse(text: &str) -> Result<FrameTrace, FrameTraceError> {
        let mut lines = text
            .lines()
            .map(str::trim)
            .enumerate()
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        if lines.next().is_none_or(|(_, line)| line != HEADING) {
            return Err(FrameTraceError::Heading);
        }
        let mut frames: Vec<TracedFrame> = Vec::new();
        for (index, line) in lines {
            let frame = frames.len();
            let (line, row) = (index + 1, row(line, frame));
            let last = frames.last().map_or(Duration::ZERO, |last| last.at);
            let row = row.filter(|row| row.at >= last);
            frames.push(row.ok_or(FrameTraceError::Row { line, frame })?);
        }
        FrameTrace::new(frames)
    }

    /// Returns the trace as comma-separated values, with microseconds.
    pub fn to_csv(&self) -> String {
        let mut text = format!("{HEADING}\n");
        for (index, frame) in self.frames.iter().enumerate() {
            let kind = frame.kind.map_or("?".to_owned(), |kind| kind.to_string());
            let importance = IMPORTANCES.iter().find(|(_, one)| *one == frame.importance);
            let (name, _) = importance.expect("all have names");
            let (at, bytes) = (frame.at.as_secs_f64(), frame.bytes);
            writeln!(text, "{index},{at:.6},{bytes},{kind},{name}").expect("a String takes it");
        }
        text
    }

    /// Returns the frames, at least two.
    pub fn frames(&self) -> &[TracedFrame] {
        &self.frames
    }

    /// Returns the time from the first frame to the end of the last, which counts with the average
    /// duration of the others.
    pub fn duration(&self) -> Duration {
        let count = self.frames.len() as u64;
        let span = self.frames[self.frames.len() - 1].at - self.frames[0].at;
        span + span / (count - 1)
    }

    /// Returns the average number of frames per second.
    pub fn frames_per_second(&self) -> f64 {
        self.frames.len() as f64 / self.duration().as_secs_f64()
    }

    /// Returns the sum of the frames' bytes.
    pub fn total_bytes(&self) -> u64 {
        self.frames.iter().map(|frame| u64::from(frame.bytes)).sum()
    }

    /// Returns the average bitrate.
    pub fn mean_rate(&self) -> DataRate {
        DataRate::from_bytes_per(self.total_bytes(), self.duration())
    }

    /// Returns the average number of frames from one key frame to the next; `None` without two key
    /// frames.
    pub fn key_frame_interval(&self) -> Option<f64> {
        let keys: Vec<usize> = self
            .frames
            .iter()
            .enumerate()
            .filter(|(_, frame)| frame.importance.is_key())
            .map(|(index, _)| index)
            .collect();
        let (first, last) = (keys.first()?, keys.last()?);
        (keys.len() > 1).then(|| (last - first) as f64 / (keys.len() - 1) as f64)
    }

    /// Returns the number of frames of a type and their average size; `None` without any.
    pub fn of_type(&self, kind: PictureType) -> Option<(usize, f64)> {
        let frames = self.frames.iter().filter(|frame| frame.kind == Some(kind));
        let sizes: Vec<f64> = frames.map(|frame| f64::from(frame.bytes)).collect();
        let count = sizes.len();
        (count > 0).then(|| (count, sizes.iter().sum::<f64>() / count as f64))
    }
}

fn row(line: &str, frame: usize) -> Option<TracedFrame> {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    let [index, at, bytes, kind, importance] = cells[..] else {
        return None;
    };
    let at: f64 = at.parse().ok()?;
    let kinds = PictureType::ALL.into_iter();
    let (_, importance) = *IMPORTANCES.iter().find(|(name, _)| *name == importance)?;
    let row = TracedFrame {
        at: (0.0..=1e6)
            .contains(&at)
            .then(|| Duration::from_secs_f64(at))?,
        bytes: bytes.parse().ok()?,
        kind: match kind {
            "?" => None,
            _ => Some(kinds.into_iter().find(|one| one.to_string() == kind)?),
        },
        importance,
    };
    let is_size = (1..=MAX_FRAME_BYTES).contains(&row.bytes);
    (index.parse() == Ok(frame) && is_size).then_some(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "index,time,bytes,type,importance
0,0.000000,6000,I,key
1,0.040000,2000,P,reference
2,0.080000,1000,B,disposable
3,0.120000,1000,?,reference
4,0.160000,6000,I,key
";

    #[test]
    fn a_trace_is_read_as_it_is_written() {
        let trace = FrameTrace::parse(TEXT).unwrap();
        assert_eq!(trace.to_csv(), TEXT);
        assert_eq!(trace.frames()[2].importance, Importance::Disposable);
        assert_eq!(trace.duration(), Duration::from_millis(200));
        assert_eq!(trace.frames_per_second(), 25.0);
        assert_eq!(trace.mean_rate(), DataRate::from_kilobits_per_second(640));
        assert_eq!(trace.key_frame_interval(), Some(4.0));
        assert_eq!(trace.of_type(PictureType::I), Some((2, 6_000.0)));
        assert_eq!(trace.of_type(PictureType::B), Some((1, 1_000.0)));
    }

    #[test]
    fn a_wrong_line_is_named() {
        let with =
            |row: &str| FrameTrace::parse(&format!("{HEADING}\n# note\n0,0,9,I,key\n{row}\n"));
        assert!(with("1,0.04,9,P,reference").is_ok());
        for row in [
            "2,0.04,9,P,reference",
            "1,-1,9,P,reference",
            "1,0.04,0,P,reference",
            "1,0.04,9,X,reference",
            "1,0.04,9,P,vital",
            "1,0.04,9,P",
        ] {
            let error = with(row).unwrap_err();
            assert_eq!(error, FrameTraceError::Row { line: 4, frame: 1 }, "{row}");
        }
        assert_eq!(
            FrameTrace::parse("frame,1 Mbit/s"),
            Err(FrameTraceError::Heading)
        );
        assert_eq!(with(""), Err(FrameTraceError::TooShort));
    }
}
