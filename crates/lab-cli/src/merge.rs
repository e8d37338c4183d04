//! `anabranch-lab merge`: the shards of a sweep in one file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anabranch_lab::{RowReader, RowsHeader, Shard};
use anabranch_terminal::print;
use anyhow::{Context, bail, ensure};

use crate::rows::{Counts, Staged};

/// Join the shards of a sweep into one file.
///
/// The result is the same file, byte for byte, that `run --output` writes without --shard. The
/// order of the parts does not matter.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Every shard must be given once, from one scenario, one set of seeds and one version of the
program. A missing or wrong shard is named, and nothing is written.

  anabranch-lab merge part-*.jsonl --output all.jsonl

docs/cluster.md describes the rows, and arrays of jobs that write the parts. In Python,
`anabranch.Result.load(\"all.jsonl\")` has their tables.")]
pub(crate) struct Arguments {
    /// Files that `anabranch-lab run --shard K/N --output FILE` has written.
    #[arg(required = true, value_name = "PART")]
    parts: Vec<PathBuf>,
    /// File for all rows. It must not exist.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

/// A part's reader.
type Part = RowReader<BufReader<Reopened>>;

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let output = &arguments.output;
    let exists = format!(
        "{} exists: remove it, or choose another --output",
        output.display()
    );
    ensure!(!output.exists(), exists);
    let (header, mut parts) = opened(&arguments.parts)?;
    let mut staged = Staged::open(output)?;
    staged.cut(0)?;
    let counts = match joined(&header, &mut parts, &mut staged) {
        Ok(counts) => counts,
        Err(error) => {
            staged.discard();
            return Err(error);
        }
    };
    staged.finish()?;
    print::note(format_args!(
        "{}: {} of {} points with {} seeds, from {} shards",
        output.display(),
        counts.in_words(),
        header.point_count,
        header.seed_count,
        parts.len()
    ));
    Ok(())
}

/// Opens all parts, and returns the header of their join.
///
/// # Errors
/// They do not belong together, or one is missing or there twice.
fn opened(paths: &[PathBuf]) -> anyhow::Result<(RowsHeader, BTreeMap<Shard, Part>)> {
    let mut first: Option<(RowsHeader, &Path)> = None;
    let mut parts: BTreeMap<Shard, (Part, &Path)> = BTreeMap::new();
    for path in paths {
        let mut part = Reopened::reader(path, paths.len());
        let header = part.header()?;
        let (own, other) = first.get_or_insert_with(|| (header.clone(), path));
        if let Some(difference) = header.difference(own) {
            let (path, other) = (path.display(), other.display());
            bail!("{path} is of {difference} as {other}: only shards of one sweep can be merged");
        }
        if let Some((_, other)) = parts.get(&header.shard) {
            let (shard, path, other) = (header.shard, path.display(), other.display());
            bail!("shard {shard} is given twice: {other} and {path}");
        }
        parts.insert(header.shard, (part, path));
    }
    let (header, _) = first.context("no part is named")?;
    let header = RowsHeader {
        shard: Shard::WHOLE,
        ..header
    };
    if let Some(missing) = missing(parts.keys()) {
        bail!("{missing}; make them with run --shard, then merge again");
    }
    let parts = parts.into_iter().map(|(shard, (part, _))| (shard, part));
    Ok((header, parts.collect()))
}

/// Returns a sentence that names the missing shards, if there are any: `shards 2, 5-7 of 40 …`.
fn missing<'a>(found: impl Iterator<Item = &'a Shard>) -> Option<String> {
    let mut gaps: Vec<(u64, u64)> = Vec::new();
    let (mut next, mut count) = (1, 0);
    for shard in found {
        if shard.number() > next {
            gaps.push((next, shard.number() - 1));
        }
        (next, count) = (shard.number() + 1, shard.count());
    }
    if next <= count {
        gaps.push((next, count));
    }
    let (is, what) = match gaps[..] {
        [] => return None,
        [(from, to)] if from == to => ("is", "shard"),
        _ => ("are", "shards"),
    };
    let gaps: Vec<String> = gaps
        .iter()
        .map(|(from, to)| {
            if from == to {
                from.to_string()
            } else {
                format!("{from}-{to}")
            }
        })
        .collect();
    Some(format!(
        "{what} {} of {count} {is} missing",
        gaps.join(", ")
    ))
}

/// Writes the rows of all parts in the order of runs.
fn joined(
    header: &RowsHeader,
    parts: &mut BTreeMap<Shard, Part>,
    staged: &mut Staged,
) -> anyhow::Result<Counts> {
    let any = *parts.keys().next().context("no part is named")?;
    let mut counts = Counts::default();
    let mut output = io::BufWriter::with_capacity(1 << 20, Appender(staged));
    let cannot_write = "the rows cannot be written";
    output
        .write_all(header.line().as_bytes())
        .context(cannot_write)?;
    for run in 0..header.run_count() {
        let shard = any.with_run(run);
        let part = parts.get_mut(&shard).context("all shards are given")?;
        let row = part.row(header, run).with_context(|| remedy(shard))?;
        counts.add(&row);
        output.write_all(part.last_line()).context(cannot_write)?;
    }
    for (shard, part) in parts {
        part.end().with_context(|| remedy(*shard))?;
    }
    output.flush().context(cannot_write)?;
    Ok(counts)
}

fn remedy(shard: Shard) -> String {
    format!("shard {shard} is damaged: remove its file, make it again with run --shard {shard}")
}

/// Writer of a staged file.
struct Appender<'a>(&'a mut Staged);

impl Write for Appender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Most bytes of all parts in memory. Chosen: little beside a run, and reads stay long.
const BUFFERED_BYTES: usize = 64 << 20;

/// A file that is open only while it is read: there may be more parts than files may be open.
#[derive(Debug)]
struct Reopened {
    path: PathBuf,
    offset: u64,
}

impl Reopened {
    /// Returns a reader of one of `count` parts.
    fn reader(path: &Path, count: usize) -> Part {
        let capacity = (BUFFERED_BYTES / count).clamp(4 << 10, 256 << 10);
        let file = Reopened {
            path: path.to_owned(),
            offset: 0,
        };
        let input = BufReader::with_capacity(capacity, file);
        RowReader::new(input, path.display().to_string())
    }
}

impl Read for Reopened {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let count = file.read(buffer)?;
        self.offset += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_shards_are_named_in_ranges() {
        fn named(found: &[&str]) -> Option<String> {
            let found: Vec<Shard> = found.iter().map(|text| text.parse().unwrap()).collect();
            missing(found.iter())
        }
        let expected = "shards 1, 3-6, 8-9 of 9 are missing";
        assert_eq!(named(&["2/9", "7/9"]).as_deref(), Some(expected));
        assert_eq!(named(&["1/2"]).as_deref(), Some("shard 2 of 2 is missing"));
        assert_eq!(named(&["1/1"]), None);
    }
}
