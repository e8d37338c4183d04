//! A source that plays recorded frame sizes of an encoder (RFC 8593 §6).

use std::sync::Arc;

use anabranch_units::{DataRate, Importance, Instant, ParseQuantityError};
use thiserror::Error;

use super::schedule::Schedule;
use super::{FrameShape, FrameSource, SourceConfigError, check_rates};

/// The sizes of the same frames, encoded at several bitrates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameLadder {
    /// Bitrates in ascending order.
    rates: Vec<DataRate>,
    /// Sizes by rate, then by frame.
    sizes: Vec<Vec<u32>>,
}

/// A text that describes no ladder.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FrameLadderError {
    /// There is no line that names the bitrates.
    #[error("the first line must be \"frame\" and bitrates, as in: frame,200 kbit/s,400 kbit/s")]
    Heading,
    /// A bitrate in the heading cannot be read. The message does not repeat it: a stranger's
    /// scenario may name any file.
    #[error("the first line has a bitrate that cannot be read, as in: frame,200 kbit/s,400 kbit/s")]
    Rate(#[from] ParseQuantityError),
    /// Bitrates are zero or do not ascend.
    #[error("the bitrates must be above zero and ascend")]
    RateOrder,
    /// A row is not the frame's number and one size for each bitrate.
    #[error("line {line}: expected frame {frame} and {count} sizes of 1 B to 1 MB")]
    Row {
        /// Number of the line, from 1.
        line: usize,
        /// The number that the frame must have.
        frame: usize,
        /// Number of bitrates.
        count: usize,
    },
    /// Too few frames to repeat.
    #[error("{0} frames: after the first 20, which are not repeated, there must be more")]
    TooShort(usize),
}

/// Frames at the start that are played once: the encoder was still settling (RFC 8593 §6).
const ONCE: usize = 20;
/// Range of a frame's size.
const SIZE_BYTES: std::ops::RangeInclusive<f64> = 10.0..=1e6;

impl FrameLadder {
    /// Reads comma-separated values: a heading `frame,200 kbit/s,400 kbit/s,…` of ascending
    /// bitrates, then for each frame its number from 0 and its size in bytes at each. Text after a
    /// `#` and empty lines are ignored.
    ///
    /// # Errors
    /// A [`FrameLadderError`] that names the line.
    pub fn parse(text: &str) -> Result<FrameLadder, FrameLadderError> {
        let mut lines = text
            .lines()
            .enumerate()
            .map(|(index, line)| {
                let content = line.split('#').next().unwrap_or_default().trim();
                (index + 1, content)
            })
            .filter(|(_, line)| !line.is_empty());
        let (_, heading) = lines.next().ok_or(FrameLadderError::Heading)?;
        let mut columns = heading.split(',').map(str::trim);
        if columns.next() != Some("frame") {
            return Err(FrameLadderError::Heading);
        }
        let rates = columns
            .map(str::parse)
            .collect::<Result<Vec<DataRate>, _>>()?;
        let count = rates.len();
        if count == 0 {
            return Err(FrameLadderError::Heading);
        }
        if rates[0].is_zero() || rates.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(FrameLadderError::RateOrder);
        }
        let mut sizes = vec![Vec::new(); count];
        for (line, row) in lines {
            let frame = sizes[0].len();
            let wrong = || FrameLadderError::Row { line, frame, count };
            let numbers = row
                .split(',')
                .map(|cell| cell.trim().parse::<u32>())
                .collect::<Result<Vec<u32>, _>>()
                .map_err(|_| wrong())?;
            match numbers.split_first() {
                Some((number, row)) if *number as usize == frame && row.len() == count => {
                    if row.iter().any(|size| !(1..=1_000_000).contains(size)) {
                        return Err(wrong());
                    }
                    for (column, size) in sizes.iter_mut().zip(row) {
                        column.push(*size);
                    }
                }
                _ => return Err(wrong()),
            }
        }
        if sizes[0].len() <= ONCE {
            return Err(FrameLadderError::TooShort(sizes[0].len()));
        }
        Ok(FrameLadder { rates, sizes })
    }

    /// Returns the lowest and the highest bitrate.
    pub fn range(&self) -> (DataRate, DataRate) {
        (self.rates[0], self.rates[self.rates.len() - 1])
    }

    /// Returns the row of the frame `index`; after the last row follows the 21st.
    fn row(&self, index: u64) -> usize {
        let count = self.sizes[0].len();
        match usize::try_from(index) {
            Ok(row) if row < count => row,
            _ => ONCE + ((index - ONCE as u64) % (count - ONCE) as u64) as usize,
        }
    }

    /// Returns the size of the frame `index` at `rate`. It is interpolated between the two nearest
    /// bitrates, scaled beyond the lowest and the highest, and at least 10 B and at most 1 MB.
    pub fn frame_bytes(&self, index: u64, rate: DataRate) -> u32 {
        fn number(rate: DataRate) -> f64 {
            rate.bits_per_second() as f64
        }

        let row = self.row(index);
        let at = |column: usize| {
            (
                number(self.rates[column]),
                f64::from(self.sizes[column][row]),
            )
        };
        let above = self.rates.partition_point(|known| *known < rate);
        let bytes = if above == 0 {
            let (edge, size) = at(0);
            size * number(rate) / edge
        } else if above == self.rates.len() {
            let (edge, size) = at(above - 1);
            size * number(rate) / edge
        } else {
            let ((low, small), (high, large)) = (at(above - 1), at(above));
            small + (large - small) * (number(rate) - low) / (high - low)
        };
        (bytes + 0.5).clamp(*SIZE_BYTES.start(), *SIZE_BYTES.end()) as u32
    }
}

/// Plays a [`FrameLadder`] at the target, at once and at an even pace. One frame in each second is
/// a key frame: the file has sizes and no types.
#[derive(Clone, Debug)]
pub struct Trace {
    schedule: Schedule,
    min_rate: DataRate,
    max_rate: DataRate,
    ladder: Arc<FrameLadder>,
}

impl Trace {
    /// Creates a source whose first frame is due at `start`.
    ///
    /// # Errors
    /// If frames per second are not 1 to 1,000, or the rates not `0 < min_rate <= max_rate <=
    /// 100 Gbit/s`.
    pub fn new(
        start: Instant,
        frames_per_second: u32,
        (min_rate, max_rate): (DataRate, DataRate),
        ladder: Arc<FrameLadder>,
    ) -> Result<Self, SourceConfigError> {
        check_rates(min_rate, max_rate)?;
        Ok(Trace {
            schedule: Schedule::new(start, frames_per_second)?,
            min_rate,
            max_rate,
            ladder,
        })
    }
}

impl FrameSource for Trace {
    fn next_at(&self) -> Option<Instant> {
        Some(self.schedule.next_at())
    }

    fn produce(&mut self, now: Instant, target: DataRate) -> FrameShape {
        let index = self.schedule.advance(now);
        let rate = target.clamp(self.min_rate, self.max_rate);
        FrameShape {
            bytes: self.ladder.frame_bytes(index, rate),
            importance: Importance::key_if(self.schedule.is_key(index)),
        }
    }

    fn max_rate(&self) -> Option<DataRate> {
        Some(self.max_rate)
    }

    fn is_adaptive(&self) -> bool {
        self.min_rate < self.max_rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn kilobits(rate: u64) -> DataRate {
        DataRate::from_kilobits_per_second(rate)
    }

    /// Returns a ladder in which frame n has 100 + n bytes at 200 kbit/s and 300 + n at 400 kbit/s.
    fn ladder(frame_count: u32) -> Result<FrameLadder, FrameLadderError> {
        let mut text = "# sizes\nframe, 200 kbit/s, 400 kbit/s\n\n".to_owned();
        for n in 0..frame_count {
            text.push_str(&format!("{n},{},{} # a frame\n", 100 + n, 300 + n));
        }
        FrameLadder::parse(&text)
    }

    #[test]
    fn sizes_are_interpolated_between_rates_and_scaled_beyond() {
        let ladder = ladder(30).unwrap();
        assert_eq!(ladder.range(), (kilobits(200), kilobits(400)));
        for (rate, bytes) in [
            (200, 107),
            (300, 207),
            (350, 257),
            (400, 307),
            (100, 54),
            (800, 614),
            (1, 10),
            (100_000_000, 1_000_000),
        ] {
            assert_eq!(
                ladder.frame_bytes(7, kilobits(rate)),
                bytes,
                "{rate} kbit/s"
            );
        }
    }

    #[test]
    fn after_the_last_frame_comes_the_twenty_first() {
        let ladder = Arc::new(ladder(30).unwrap());
        let rates = (kilobits(200), kilobits(400));
        let mut source = Trace::new(Instant::ZERO, 25, rates, ladder).unwrap();
        let frames: Vec<FrameShape> = (0..60)
            .map(|_| source.produce(source.next_at().unwrap(), kilobits(150)))
            .collect();
        let sizes: Vec<u32> = frames.iter().map(|frame| frame.bytes).collect();
        let expected = (0..30).chain((0..30).map(|n| 20 + n % 10)).map(|n| 100 + n);
        assert_eq!(sizes, expected.collect::<Vec<u32>>());
        let keys: Vec<usize> = (0..60)
            .filter(|index| frames[*index].importance.is_key())
            .collect();
        assert_eq!(keys, [0, 25, 50]);
    }

    #[test]
    fn a_wrong_line_is_named() {
        assert_eq!(ladder(20), Err(FrameLadderError::TooShort(20)));
        for (text, message) in [
            ("", "first line"),
            ("frames,1 Mbit/s\n", "first line"),
            ("frame\n", "first line"),
            ("frame,1 MB\n", "a bitrate that cannot be read"),
            ("frame,2 Mbit/s,1 Mbit/s\n", "ascend"),
            (
                "frame,1 Mbit/s\n\n0,5,6\n",
                "line 3: expected frame 0 and 1 sizes",
            ),
            ("frame,1 Mbit/s\n0,5\n2,5\n", "line 3: expected frame 1"),
            ("frame,1 Mbit/s\n0,0\n", "line 2"),
            ("frame,1 Mbit/s\n0,much\n", "line 2"),
        ] {
            let error = FrameLadder::parse(text).unwrap_err().to_string();
            assert!(error.contains(message), "{text:?}: {error}");
        }
    }
}
