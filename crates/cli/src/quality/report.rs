//! The report on a comparison.

use core::fmt::{self, Write};
use std::path::PathBuf;

use anabranch_units::Duration;
use anabranch_video::alignment::{Alignment, Basis};
use anabranch_video::fidelity::{Fidelity, Spread};
use serde_json::{Value, json};

use super::film::Film;
use super::{Compared, State};

/// Square of the largest luma.
const PEAK_SQUARE: f64 = 255.0 * 255.0;
/// PSNR of equal pictures in dB.
const EQUAL_PSNR: f64 = 100.0;

/// Result of a comparison of source and received video.
#[derive(Debug)]
pub(super) struct Report {
    source: PathBuf,
    received: PathBuf,
    /// Width and height in pixels.
    size: (usize, usize),
    duration: Duration,
    received_count: usize,
    /// Number of received pictures that are not in the source.
    foreign_count: usize,
    basis: Basis,
    same_count: usize,
    pictures: Vec<Compared>,
}

fn row(name: &str, of: Spread, digits: usize) -> String {
    let Spread {
        mean,
        percentile_5,
        least,
    } = of;
    format!("{name:<20}{mean:>10.digits$}{percentile_5:>14.digits$}{least:>10.digits$}")
}

impl Report {
    pub(super) fn new(
        source: &Film,
        received: &Film,
        size: (usize, usize),
        alignment: &Alignment,
        pictures: Vec<Compared>,
    ) -> Report {
        let foreign = alignment.source_of.iter().filter(|of| of.is_none());
        Report {
            source: source.path.clone(),
            received: received.path.clone(),
            size,
            duration: source.duration,
            received_count: alignment.source_of.len(),
            foreign_count: foreign.count(),
            basis: alignment.basis,
            same_count: alignment.same_count,
            pictures,
        }
    }

    pub(super) fn count(&self, state: State) -> usize {
        self.pictures
            .iter()
            .filter(|picture| picture.state == state)
            .count()
    }

    fn compared(&self) -> impl Iterator<Item = Fidelity> {
        self.pictures.iter().filter_map(|picture| picture.fidelity)
    }

    fn equal_count(&self) -> usize {
        self.compared().filter(|of| of.psnr >= EQUAL_PSNR).count()
    }

    /// Returns the PSNR of the mean square error over all pictures, in which equal pictures do not
    /// dominate. Returns `None` if all are equal.
    fn overall_psnr(&self) -> Option<f64> {
        let errors: f64 = self
            .compared()
            .map(|of| {
                if of.psnr >= EQUAL_PSNR {
                    0.0
                } else {
                    PEAK_SQUARE / libm::pow(10.0, of.psnr / 10.0)
                }
            })
            .sum();
        let mean = errors / self.compared().count() as f64;
        (errors > 0.0).then(|| 10.0 * libm::log10(PEAK_SQUARE / mean))
    }

    /// Returns the longest still: the number of consecutive pictures that were not shown.
    fn longest_still(&self) -> usize {
        let mut longest = 0;
        let mut current = 0;
        for picture in &self.pictures {
            current = match picture.state {
                State::Missing | State::Undecodable => current + 1,
                State::Shown | State::Outside => 0,
            };
            longest = longest.max(current);
        }
        longest
    }

    fn interval(&self) -> Duration {
        self.duration / self.pictures.len().max(1) as u64
    }

    /// Returns the report for people.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        self.write_to(&mut text).expect("a String takes everything");
        text
    }

    fn write_to(&self, text: &mut String) -> fmt::Result {
        let (width, height) = self.size;
        let (count, duration) = (self.pictures.len(), self.duration.as_secs_f64());
        writeln!(
            text,
            "source    {}: {width}x{height}, {count} pictures in {duration:.2} s",
            self.source.display()
        )?;
        let known_by = match self.basis {
            Basis::Content => format!("{} of them byte for byte the source's", self.same_count),
            Basis::Timestamps => "re-encoded, matched by their timestamps".to_owned(),
            Basis::Order => {
                "re-encoded and without timestamps: they are counted, and a\n          lost one \
                 shifts all that follow"
                    .to_owned()
            }
        };
        writeln!(
            text,
            "received  {}: {} pictures, {known_by}",
            self.received.display(),
            self.received_count
        )?;
        if self.foreign_count > 0 {
            writeln!(
                text,
                "          {} of them are nowhere in the source, and left out",
                self.foreign_count
            )?;
        }
        let still = self.longest_still();
        writeln!(
            text,
            "pictures  {} shown, {} missing, {} received but not decodable; {}",
            self.count(State::Shown),
            self.count(State::Missing),
            self.count(State::Undecodable),
            match still {
                0 => "the picture never stood still".to_owned(),
                _ => format!(
                    "at most {still} in a row, {}",
                    self.interval() * still as u64
                ),
            }
        )?;
        let outside = self.count(State::Outside);
        if outside > 0 {
            writeln!(
                text,
                "          {outside} before the first received one or behind the last, left out"
            )?;
        }
        self.write_measures(text)
    }

    fn write_measures(&self, text: &mut String) -> fmt::Result {
        let psnr = Spread::of(self.compared().map(|of| of.psnr));
        let ssim = Spread::of(self.compared().map(|of| of.ssim));
        let (Some(psnr), Some(ssim)) = (psnr, ssim) else {
            return writeln!(text, "\nNothing was shown that could be compared.");
        };
        writeln!(
            text,
            "\n{:<20}{:>10}{:>14}{:>10}",
            "", "mean", "5th per cent", "least"
        )?;
        writeln!(text, "{}", row("PSNR of luma, dB", psnr, 2))?;
        writeln!(text, "{}", row("SSIM of luma", ssim, 4))?;
        let compared = self.compared().count();
        let overall = match self.overall_psnr() {
            None => String::new(),
            Some(psnr) => format!(" The mean square error\nof all is {psnr:.2} dB."),
        };
        writeln!(
            text,
            "\n{} of {compared} compared pictures are equal, which counts as 100 dB.{overall}",
            self.equal_count()
        )?;
        let rest = self.pictures.len() - self.count(State::Outside) - compared;
        if rest > 0 {
            writeln!(
                text,
                "{rest} had nothing on the screen to be compared with."
            )?;
        }
        Ok(())
    }

    /// Returns a measure's spread over the compared pictures; `None` without any.
    fn spread(&self, of: fn(Fidelity) -> f64) -> Option<Value> {
        let spread = Spread::of(self.compared().map(of))?;
        Some(json!({
            "mean": spread.mean,
            "percentile_5": spread.percentile_5,
            "min": spread.least,
        }))
    }

    /// Returns the report for programs.
    pub(super) fn json(&self) -> String {
        let document = json!({
            "source": {
                "file": self.source.display().to_string(),
                "width": self.size.0,
                "height": self.size.1,
                "pictures": self.pictures.len(),
                "duration_seconds": self.duration.as_secs_f64(),
            },
            "received": {
                "file": self.received.display().to_string(),
                "pictures": self.received_count,
                "same_bytes": self.same_count,
                "foreign": self.foreign_count,
                "known_by": match self.basis {
                    Basis::Content => "content",
                    Basis::Timestamps => "timestamps",
                    Basis::Order => "order",
                },
            },
            "shown": self.count(State::Shown),
            "missing": self.count(State::Missing),
            "undecodable": self.count(State::Undecodable),
            "outside": self.count(State::Outside),
            "longest_still": self.longest_still(),
            "compared": self.compared().count(),
            "equal": self.equal_count(),
            "psnr_db": self.spread(|of| of.psnr),
            "psnr_of_mean_square_error_db": self.overall_psnr(),
            "ssim": self.spread(|of| of.ssim),
        });
        let mut text = serde_json::to_string_pretty(&document).expect("keys are texts");
        text.push('\n');
        text
    }

    /// Returns a line for each picture of the source.
    pub(super) fn pictures_csv(&self) -> String {
        let mut text = "picture,time,state,psnr,ssim\n".to_owned();
        for (number, picture) in (0_u64..).zip(&self.pictures) {
            let at = (self.interval() * number).as_secs_f64();
            let state = match picture.state {
                State::Shown => "shown",
                State::Missing => "missing",
                State::Undecodable => "undecodable",
                State::Outside => "outside",
            };
            let measures = picture.fidelity.map_or(",".to_owned(), |of| {
                format!("{:.4},{:.6}", of.psnr, of.ssim)
            });
            writeln!(text, "{number},{at:.6},{state},{measures}").expect("a String takes it");
        }
        text
    }
}
