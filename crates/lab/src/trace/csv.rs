//! Rows as CSV: files that stream to disk, or texts in memory.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::rows::{FlowRow, FrameRow, LinkRow, PacketRow, PathRow, TraceSink, Wants};
use super::{TraceError, TraceOptions};

/// The tables of one run, and their destinations.
#[derive(Debug)]
pub(crate) struct CsvTables<W: Write> {
    paths: Csv<W>,
    flows: Csv<W>,
    links: Csv<W>,
    frames: Csv<W>,
    packets: Option<Csv<W>>,
}

/// Tables as files.
pub(crate) type CsvFiles = CsvTables<BufWriter<File>>;

/// Texts of CSV files in memory, made by a run as their [`TraceSink`].
///
/// ```
/// use anabranch_lab::{LiveRun, Scenario, TraceOptions, RunHooks, trace::CsvTexts};
///
/// let text = r#"
/// duration = "1 s"
/// links.uplink = { rate = "5 Mbit/s", delay = "20 ms" }
/// routes.uplink = { forward = ["uplink"], reverse = ["uplink"] }
/// [[flows]]
/// kind = "bulk"
/// paths = ["uplink"]
/// "#;
/// let scenario = Scenario::parse("download.toml", text, &[])?;
/// let mut texts = CsvTexts::new(TraceOptions::default());
/// let hooks = RunHooks { sink: Some(&mut texts), ..RunHooks::default() };
/// LiveRun::new(&scenario, 1, hooks)?.finish()?;
/// let [(name, links), ..] = &texts.into_texts()[2..] else { unreachable!() };
/// assert_eq!(*name, "links.csv");
/// assert!(links.starts_with("time_s,link,delivered_bps"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CsvTexts(CsvTables<Vec<u8>>);

#[derive(Debug)]
struct Csv<W: Write> {
    path: PathBuf,
    writer: csv::Writer<W>,
}

impl Csv<BufWriter<File>> {
    fn create(folder: &Path, name: &str) -> Result<Self, TraceError> {
        let path = folder.join(name);
        match File::create(&path) {
            Ok(file) => Ok(Csv {
                path,
                writer: csv::Writer::from_writer(BufWriter::new(file)),
            }),
            Err(error) => Err(TraceError::new(path, error.into())),
        }
    }
}

impl Csv<Vec<u8>> {
    fn text(name: &str) -> Self {
        Csv {
            path: name.into(),
            writer: csv::Writer::from_writer(Vec::new()),
        }
    }

    fn into_text(self) -> String {
        let bytes = self.writer.into_inner().expect("memory takes all rows");
        String::from_utf8(bytes).expect("rows are texts and numbers")
    }
}

impl<W: Write> Csv<W> {
    fn write(&mut self, row: &impl Serialize) -> Result<(), TraceError> {
        let written = self.writer.serialize(row);
        written.map_err(|error| TraceError::new(self.path.clone(), error))
    }

    fn finish(&mut self) -> Result<(), TraceError> {
        let flushed = self.writer.flush();
        flushed.map_err(|error| TraceError::new(self.path.clone(), error.into()))
    }
}

const PATHS: &str = "paths.csv";
const FLOWS: &str = "flows.csv";
const LINKS: &str = "links.csv";
const FRAMES: &str = "frames.csv";
const PACKETS: &str = "packets.csv";

impl CsvFiles {
    /// Creates the files in `folder`, which is made if it is missing.
    pub(crate) fn create(folder: &Path, options: TraceOptions) -> Result<CsvFiles, TraceError> {
        std::fs::create_dir_all(folder)
            .map_err(|error| TraceError::new(folder.to_owned(), error.into()))?;
        let packets = options.has_packets.then(|| Csv::create(folder, PACKETS));
        Ok(CsvTables {
            paths: Csv::create(folder, PATHS)?,
            flows: Csv::create(folder, FLOWS)?,
            links: Csv::create(folder, LINKS)?,
            frames: Csv::create(folder, FRAMES)?,
            packets: packets.transpose()?,
        })
    }
}

impl CsvTexts {
    /// Returns empty texts.
    pub fn new(options: TraceOptions) -> CsvTexts {
        CsvTexts(CsvTables {
            paths: Csv::text(PATHS),
            flows: Csv::text(FLOWS),
            links: Csv::text(LINKS),
            frames: Csv::text(FRAMES),
            packets: options.has_packets.then(|| Csv::text(PACKETS)),
        })
    }

    /// Returns the names of the files and their texts: paths, flows, links, frames, and packets if
    /// these were asked for.
    pub fn into_texts(self) -> Vec<(&'static str, String)> {
        let CsvTexts(tables) = self;
        let mut texts = vec![
            (PATHS, tables.paths.into_text()),
            (FLOWS, tables.flows.into_text()),
            (LINKS, tables.links.into_text()),
            (FRAMES, tables.frames.into_text()),
        ];
        let packets = tables.packets.map(Csv::into_text);
        texts.extend(packets.map(|text| (PACKETS, text)));
        texts
    }
}

impl<W: Write + core::fmt::Debug + Send> TraceSink for CsvTables<W> {
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
        ]
        .into_iter()
        .chain(&mut self.packets);
        files.into_iter().try_for_each(Csv::finish)
    }
}

impl TraceSink for CsvTexts {
    fn wants(&self) -> Wants {
        self.0.wants()
    }

    fn on_path(&mut self, row: &PathRow<'_>) -> Result<(), TraceError> {
        self.0.on_path(row)
    }

    fn on_flow(&mut self, row: &FlowRow<'_>) -> Result<(), TraceError> {
        self.0.on_flow(row)
    }

    fn on_link(&mut self, row: &LinkRow<'_>) -> Result<(), TraceError> {
        self.0.on_link(row)
    }

    fn on_frame(&mut self, row: &FrameRow<'_>) -> Result<(), TraceError> {
        self.0.on_frame(row)
    }

    fn on_packet(&mut self, row: &PacketRow<'_>) -> Result<(), TraceError> {
        self.0.on_packet(row)
    }

    fn finish(&mut self) -> Result<(), TraceError> {
        self.0.finish()
    }
}
