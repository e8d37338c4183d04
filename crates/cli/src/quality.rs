//! `anabranch quality`: the quality of a film's pictures after a transmission.

mod film;
mod report;

use std::path::{Path, PathBuf};

use anabranch_terminal::print;
use anabranch_video::alignment::align;
use anabranch_video::fidelity::{self, Fidelity};
use anyhow::{Context, bail, ensure};
use clap::ValueEnum;

use film::{Film, Luma, Track};
use report::Report;

/// Compare a received video with its source: PSNR, SSIM and missing pictures.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Compare the input of `send` with the output of `recv`, or the demo's input with its output:

  anabranch demo --input film.ts && anabranch quality film.ts demo.ts
  anabranch quality film.ts received.ts --format json --pictures pictures.csv

Both are H.264 in MPEG-TS, as byte streams, or in files that ffmpeg can remux. Each picture of the
source is compared with the one on the viewer's screen at its time. If it is missing or cannot be
decoded, that is the last picture before it. Pictures are matched by their bytes, and re-encoded
pictures by their timestamps. Pictures before the first received one and after the last are left
out. The luma is compared; 100 dB stand for equal pictures. OpenH264 decodes.")]
pub(crate) struct Arguments {
    /// The sent video.
    source: PathBuf,
    /// The received video.
    received: PathBuf,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Output file with a line for each picture of the source: number, time in seconds, state
    /// (shown, missing, undecodable, outside), PSNR in dB, SSIM.
    #[arg(long, value_name = "FILE.csv")]
    pictures: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Format {
    /// A report for people.
    #[default]
    Text,
    /// JSON for programs.
    Json,
}

/// Outcome of a picture of the source.
///
/// Pictures before the first received one and after the last are outside: the films do not show
/// whether they were lost or not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Received and decoded.
    Shown,
    /// Not received.
    Missing,
    /// Received, but damaged, or dependent on missing pictures.
    Undecodable,
    /// Before the first or after the last received picture.
    Outside,
}

/// A picture of the source, in the order of display.
#[derive(Clone, Copy, Debug)]
struct Compared {
    state: State,
    /// Similarity of the displayed picture. It is `None` outside of the received range, before the
    /// first displayed picture, and if the source itself cannot be decoded.
    fidelity: Option<Fidelity>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let report = compare(&arguments.source, &arguments.received)?;
    if let Some(path) = &arguments.pictures {
        std::fs::write(path, report.pictures_csv())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    match arguments.format {
        Format::Text => print::text(report.text()),
        Format::Json => print::text(report.json()),
    }
}

/// Compares two films. Reads both twice: first to match the pictures, then to decode them side by
/// side, so that only a few pictures are in memory.
fn compare(source: &Path, received: &Path) -> anyhow::Result<Report> {
    let (source, received) = (Film::scan(source)?, Film::scan(received)?);
    let ranks = source.ranks()?;
    let alignment = align(&source.marks, &received.marks);
    let received_ranks: Vec<Option<usize>> = alignment
        .source_of
        .iter()
        .map(|of| of.map(|index| ranks[index]))
        .collect();
    let mut is_received = vec![false; ranks.len()];
    for rank in received_ranks.iter().flatten() {
        is_received[*rank] = true;
    }
    let first = is_received.iter().position(|is_received| *is_received);
    let last = is_received.iter().rposition(|is_received| *is_received);
    let (Some(first), Some(last)) = (first, last) else {
        bail!(
            "no picture of {} has a place in {}: their times are different; is it another film?",
            received.path.display(),
            source.path.display()
        );
    };
    let mut source_track = Track::open(&source, ranks.iter().copied().map(Some).collect())?;
    let mut received_track = Track::open(&received, received_ranks)?;
    let mut screen: Option<Luma> = None;
    let mut pictures = Vec::new();
    let mut size = None;
    for (rank, is_received) in is_received.into_iter().enumerate() {
        let original = source_track.picture(rank)?;
        let state = if is_received {
            match received_track.picture(rank)? {
                None => State::Undecodable,
                Some(picture) => {
                    screen = Some(picture);
                    State::Shown
                }
            }
        } else if (first..=last).contains(&rank) {
            State::Missing
        } else {
            State::Outside
        };
        size = size.or(original.as_ref().map(Luma::size));
        let fidelity = match (&original, &screen) {
            (Some(original), Some(screen)) if state != State::Outside => {
                Some(near(&source, original, &received, screen)?)
            }
            _ => None,
        };
        pictures.push(Compared { state, fidelity });
    }
    let Some(size) = size else {
        bail!("no picture of {} can be decoded", source.path.display());
    };
    Ok(Report::new(&source, &received, size, &alignment, pictures))
}

fn near(
    source: &Film,
    original: &Luma,
    received: &Film,
    screen: &Luma,
) -> anyhow::Result<Fidelity> {
    let ((width, height), (other_width, other_height)) = (original.size(), screen.size());
    ensure!(
        original.size() == screen.size(),
        "{} has pictures of {width}x{height} and {} of {other_width}x{other_height}, which cannot \
         be compared pixel by pixel: bring one to the size of the other first, as in `ffmpeg -i \
         {} -vf scale={width}:{height} -c:v libx264 -qp 0 scaled.ts`",
        source.path.display(),
        received.path.display(),
        received.path.display()
    );
    Ok(fidelity::compare(&original.bytes, &screen.bytes, width))
}

#[cfg(test)]
mod tests;
