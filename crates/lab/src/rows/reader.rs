//! Rows, read line by line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::{RowsHeader, RunRow};

/// Longest line. A run of 10,000 flows, the most that a scenario may have, has 60 MB.
const MAX_LINE_BYTES: u64 = 256 << 20;

/// A line that is not the expected one. The message names file and line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct RowError {
    place: String,
    reason: String,
}

/// The lines of a file of rows.
#[derive(Debug)]
pub struct RowReader<R> {
    input: R,
    name: String,
    line: Vec<u8>,
    line_number: u64,
    offset: u64,
}

impl RowReader<BufReader<File>> {
    /// Opens a file.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path) -> Result<Self, RowError> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Ok(RowReader::new(BufReader::new(file), name)),
            Err(error) => Err(RowError {
                place: name,
                reason: format!("cannot be read: {error}"),
            }),
        }
    }
}

impl<R: BufRead> RowReader<R> {
    /// Returns a reader of the lines of a file with this name.
    pub fn new(input: R, name: String) -> Self {
        RowReader {
            input,
            name,
            line: Vec::new(),
            line_number: 0,
            offset: 0,
        }
    }

    /// Returns the number of bytes read, up to the end of the last line.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the last line, with its end.
    pub fn last_line(&self) -> &[u8] {
        &self.line
    }

    /// Reads the first line.
    ///
    /// # Errors
    /// It is no header.
    pub fn header(&mut self) -> Result<RowsHeader, RowError> {
        self.read_line()?;
        RowsHeader::parse(&self.line).map_err(|reason| RowError {
            place: self.name.clone(),
            reason,
        })
    }

    /// Reads the row of a run.
    ///
    /// # Errors
    /// The next line is another one, or damaged.
    pub fn row(&mut self, header: &RowsHeader, run: u64) -> Result<RunRow, RowError> {
        self.read_line()?;
        if self.line.is_empty() {
            return Err(self.error(format!("the file ends before run {run}")));
        }
        RunRow::parse(header, run, &self.line).map_err(|reason| self.error(reason))
    }

    /// Checks that the file ends here.
    ///
    /// # Errors
    /// More lines follow.
    pub fn end(&mut self) -> Result<(), RowError> {
        self.read_line()?;
        if self.line.is_empty() {
            Ok(())
        } else {
            Err(self.error("more lines than the shard has runs".to_owned()))
        }
    }

    fn read_line(&mut self) -> Result<(), RowError> {
        self.line.clear();
        self.line_number += 1;
        let mut input = (&mut self.input).take(MAX_LINE_BYTES);
        match input.read_until(b'\n', &mut self.line) {
            Ok(count) => {
                self.offset += count as u64;
                Ok(())
            }
            Err(error) => Err(self.error(format!("cannot be read: {error}"))),
        }
    }

    fn error(&self, reason: String) -> RowError {
        RowError {
            place: format!("{}:{}", self.name, self.line_number),
            reason,
        }
    }
}
