//! Rows as CSV files that stream to disk.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::rows::{FlowRow, FrameRow, LinkRow, PacketRow, PathRow, TraceSink, Wants};
use super::{TraceError, TraceOptions};

/// The files of one run.
#[derive(Debug)]
pub(crate) struct CsvFiles {
    paths: Csv,
    flows: Csv,
    links: Csv,
    frames: Csv,
    packets: Option<Csv>,
}

#[derive(Debug)]
struct Csv {
    path: PathBuf,
    writer: csv::Writer<BufWriter<File>>,
}

impl Csv {
    fn create(folder: &Path, name: &str) -> Result<Csv, TraceError> {
        let path = folder.join(name);
        match File::create(&path) {
            Ok(file) => Ok(Csv {
                path,
                writer: csv::Writer::from_writer(BufWriter::new(file)),
            }),
            Err(error) => Err(TraceError::new(path, error.into())),
        }
    }

    fn write(&mut self, row: &impl Serialize) -> Result<(), TraceError> {
        let written = self.writer.serialize(row);
        written.map_err(|error| TraceError::new(self.path.clone(), error))
    }

    fn finish(&mut self) -> Result<(), TraceError> {
        let flushed = self.writer.flush();
        flushed.map_err(|error| TraceError::new(self.path.clone(), error.into()))
    }
}

impl CsvFiles {
    /// Creates the files in `folder`, which is made if it is missing.
    pub(crate) fn create(folder: &Path, options: TraceOptions) -> Result<CsvFiles, TraceError> {
        std::fs::create_dir_all(folder)
            .map_err(|error| TraceError::new(folder.to_owned(), error.into()))?;
        let packets = options
            .has_packets
            .then(|| Csv::create(folder, "packets.csv"));
        Ok(CsvFiles {
            paths: Csv::create(folder, "paths.csv")?,
            flows: Csv::create(folder, "flows.csv")?,
            links: Csv::create(folder, "links.csv")?,
            frames: Csv::create(folder, "frames.csv")?,
            packets: packets.transpose()?,
        })
    }
}

impl TraceSink for CsvFiles {
    fn wants(&self) -> Wants {
        Wants {
            samples: true,
            packets: self.packets.is_some(),
        }
    }

    fn on_path(&mut self, row: &PathRow<'_>) -> Result<(), TraceError> {
        self.paths.write(row)
    }

    fn on_flow(&mut self, row: &FlowRow<'_>) -> Result<(), TraceError> {
        self.flows.write(row)
    }

    fn on_link(&mut self, row: &LinkRow<'_>) -> Result<(), TraceError> {
        self.links.write(row)
    }

    fn on_frame(&mut self, row: &FrameRow<'_>) -> Result<(), TraceError> {
        self.frames.write(row)
    }

    fn on_packet(&mut self, row: &PacketRow<'_>) -> Result<(), TraceError> {
        match &mut self.packets {
            Some(file) => file.write(row),
            None => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<(), TraceError> {
        let files = [
            &mut self.paths,
            &mut self.flows,
            &mut self.links,
            &mut self.frames,
        ];
        let files = files.into_iter().chain(&mut self.packets);
        files.into_iter().try_for_each(Csv::finish)
    }
}
