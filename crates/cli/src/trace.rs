//! `anabranch trace`: a film's frames without their content, for scenarios.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anabranch_net::Clock;
use anabranch_units::Duration;
use anabranch_video::annex_b::{self, AccessUnitSplitter};
use anabranch_video::frame_trace::{FrameTrace, PictureType, TracedFrame};
use anabranch_video::input::InputKind;
use anabranch_video::mpeg_ts::{PictureExtractor, TransportUnitSplitter};
use anyhow::{Context, bail};

use crate::io::{Bytes, READ_BYTES, Source};
use crate::print;
use crate::stop::Stop;

/// Writes the sizes, times and types of a film's frames, and tells what they are like.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
MPEG-TS and H.264 byte streams are read as they are, other files by way of ffmpeg. Sizes are those
of the coded pictures, without what the container adds. A scenario plays the frames with

  source = { kind = \"trace\", file = \"sizes.csv\" }

where sizes.csv lies beside the scenario; with `min` and `max` their sizes follow the network.")]
pub(crate) struct Arguments {
    /// The film.
    file: PathBuf,
    /// Where to write the frames: index, time in seconds, bytes, type (I, P, B or ?), importance.
    #[arg(long, value_name = "FILE.csv")]
    output: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let trace = read(&arguments.file)?;
    if let Some(output) = &arguments.output {
        let shown = output.display();
        File::create(output)
            .and_then(|mut file| file.write_all(trace.to_csv().as_bytes()))
            .with_context(|| format!("cannot write {shown}"))?;
    }
    print::text(summary(&arguments.file.display().to_string(), &trace))
}

/// The frames of the film at `path`.
fn read(path: &Path) -> anyhow::Result<FrameTrace> {
    let stop = Stop::new()?;
    let clock = Clock::start();
    let shown = path.display();
    let (mut source, kind, first) = Source::open_file(path)?;
    let mut pictures = Pictures::new(kind);
    pictures.push(&first);
    let mut buffer = vec![0; READ_BYTES];
    let patience = Duration::from_secs(1);
    let mut waited = Duration::ZERO;
    let mut frames = Vec::new();
    let mut has_ended = false;
    while !has_ended {
        let read = source.read(&mut buffer, patience, &stop, &clock, &mut waited);
        match read.with_context(|| format!("cannot read {shown}"))? {
            Bytes::Some(bytes) => pictures.push(&buffer[..bytes]),
            Bytes::NoneYet => continue,
            Bytes::End => has_ended = true,
        }
        while let Some(frame) = pictures.next(has_ended) {
            frames.push(frame);
        }
    }
    // Times count from the first picture, whatever the stream began with.
    let Some(first) = frames.first().map(|frame: &TracedFrame| frame.at) else {
        bail!("{shown} holds no video");
    };
    frames.iter_mut().for_each(|frame| frame.at -= first);
    FrameTrace::new(frames).with_context(|| format!("{shown} holds no film"))
}

/// Cuts a stream into pictures.
enum Pictures {
    MpegTs {
        splitter: Box<TransportUnitSplitter>,
        extractor: PictureExtractor,
        last: Duration,
    },
    AnnexB {
        splitter: AccessUnitSplitter,
        next: Duration,
    },
}

impl Pictures {
    fn new(kind: InputKind) -> Self {
        match kind {
            InputKind::AnnexB => Pictures::AnnexB {
                splitter: AccessUnitSplitter::new(),
                next: Duration::ZERO,
            },
            InputKind::MpegTs | InputKind::Other => Pictures::MpegTs {
                splitter: Box::default(),
                extractor: PictureExtractor::new(),
                last: Duration::ZERO,
            },
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        match self {
            Pictures::MpegTs { splitter, .. } => splitter.push(bytes),
            Pictures::AnnexB { splitter, .. } => splitter.push(bytes),
        }
    }

    /// The next picture; where the film `has_ended`, also the last one.
    fn next(&mut self, has_ended: bool) -> Option<TracedFrame> {
        match self {
            Pictures::MpegTs {
                splitter,
                extractor,
                last,
            } => loop {
                let unit = match has_ended {
                    true => splitter.finish(),
                    false => splitter.next_unit(),
                }?;
                *last = unit.clock.unwrap_or(*last);
                // Some units hold tables or sound alone.
                let Some(picture) = extractor.extract(&unit.bytes) else {
                    continue;
                };
                let kind = match picture.is_h264 {
                    true => annex_b::picture_type(&picture.bytes),
                    false => unit.importance.is_key().then_some(PictureType::I),
                };
                return Some(TracedFrame {
                    at: *last,
                    bytes: picture.bytes.len() as u32,
                    kind,
                    importance: unit.importance,
                });
            },
            Pictures::AnnexB { splitter, next } => {
                let unit = match splitter.next_unit() {
                    None if has_ended => splitter.finish(),
                    unit => unit,
                }?;
                let at = *next;
                *next += splitter.frame_interval();
                Some(TracedFrame {
                    at,
                    bytes: unit.annex_b.len() as u32,
                    kind: annex_b::picture_type(&unit.annex_b),
                    importance: unit.importance,
                })
            }
        }
    }
}

/// Bars of the histogram, and the longest one's length.
const BARS: u32 = 10;
const BAR_LEN: usize = 40;

/// What a film is like, as text.
fn summary(name: &str, trace: &FrameTrace) -> String {
    let frames = trace.frames();
    let mut text = format!(
        "{name}: {} frames in {:.2} s, {:.2} frames/s, {}\n",
        frames.len(),
        trace.duration().as_secs_f64(),
        trace.frames_per_second(),
        trace.mean_rate(),
    );
    let mut line = |line: String| writeln!(text, "{line}").expect("a String takes everything");
    line(match trace.key_frame_interval() {
        Some(interval) => format!("a key frame every {interval:.1} frames"),
        None => "fewer than two key frames".to_owned(),
    });
    let types = PictureType::ALL.map(|kind| (kind, trace.of_type(kind)));
    let unit = types.iter().rev().find_map(|(_, of)| *of);
    for (kind, of) in types {
        if let (Some((count, mean)), Some((_, unit))) = (of, unit) {
            let ratio = mean / unit;
            line(format!(
                "{kind}: {count} frames, {mean:.0} B in the mean, ratio {ratio:.2}"
            ));
        }
    }
    let disposable = anabranch_units::Importance::Disposable;
    let count = frames
        .iter()
        .filter(|frame| frame.importance == disposable)
        .count();
    line(format!("{count} frames are disposable"));
    let largest = frames.iter().map(|frame| frame.bytes).max().unwrap_or(1);
    let width = largest.div_ceil(BARS).max(1);
    let mut counts = [0_usize; BARS as usize];
    for frame in frames {
        counts[((frame.bytes - 1) / width).min(BARS - 1) as usize] += 1;
    }
    let most = counts.iter().copied().max().unwrap_or(1).max(1);
    for (bar, count) in (1..).zip(counts) {
        let length = (count * BAR_LEN).div_ceil(most);
        let up_to = bar * width;
        line(
            format!("up to {up_to:>8} B  {count:>6}  {}", "#".repeat(length))
                .trim_end()
                .to_owned(),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use anabranch_units::{DataRate, Importance, Seed};
    use anabranch_video::camera::{Camera, FRAMES_PER_SECOND, HEIGHT, WIDTH};
    use anabranch_video::encoder::{EncoderConfig, H264Encoder};
    use anabranch_video::mpeg_ts::TransportStreamWriter;
    use tempfile::TempDir;

    use super::*;

    /// Pictures of the built-in camera.
    fn encoded(count: u32) -> Vec<Vec<u8>> {
        let mut camera = Camera::new(Seed(1));
        let config = EncoderConfig {
            width: WIDTH,
            height: HEIGHT,
            frames_per_second: FRAMES_PER_SECOND,
            bitrate: DataRate::from_megabits_per_second(1),
            key_frame_interval: 25,
        };
        let mut encoder = H264Encoder::new(config).expect("an encoder");
        let pictures = (0..count).map(|number| {
            let picture = camera.render(number, Duration::ZERO);
            encoder.encode(picture).expect("a frame").annex_b
        });
        pictures.collect()
    }

    /// The trace of a file in these bytes, read back from what was written of it.
    fn traced(bytes: &[u8]) -> (FrameTrace, TempDir) {
        let folder = TempDir::new().expect("a folder");
        let file = folder.path().join("film");
        std::fs::write(&file, bytes).expect("a film");
        let output = folder.path().join("sizes.csv");
        let arguments = Arguments {
            file,
            output: Some(output.clone()),
        };
        run(&arguments).expect("a trace");
        let text = std::fs::read_to_string(output).expect("what was written");
        (FrameTrace::parse(&text).expect("a trace"), folder)
    }

    fn check(trace: &FrameTrace, pictures: &[Vec<u8>], delimiter: usize) {
        assert_eq!(trace.frames().len(), pictures.len());
        for (index, (frame, picture)) in trace.frames().iter().zip(pictures).enumerate() {
            let (kind, importance) = match index % 25 {
                0 => (PictureType::I, Importance::Key),
                _ => (PictureType::P, Importance::Reference),
            };
            assert_eq!((frame.kind, frame.importance), (Some(kind), importance));
            assert_eq!(frame.bytes as usize, picture.len() + delimiter, "{index}");
            assert_eq!(frame.at, Duration::from_millis(40 * index as u64));
        }
    }

    #[test]
    fn a_byte_streams_frames_have_their_sizes_and_types() {
        let pictures = encoded(60);
        check(&traced(&pictures.concat()).0, &pictures, 0);
    }

    #[test]
    fn a_transport_streams_frames_are_those_of_its_video_and_play_in_a_scenario() {
        let pictures = encoded(60);
        let mut writer = TransportStreamWriter::new(Vec::new());
        for (number, picture) in (0..).zip(&pictures) {
            let at = Duration::from_millis(40 * number);
            writer.write(picture, at, number % 25 == 0).expect("memory");
        }
        let (trace, folder) = traced(&writer.into_inner());
        // The writer puts an access unit delimiter of 6 B in front.
        check(&trace, &pictures, 6);
        let text = "duration = \"2 s\"\nlinks.a.delay = \"10 ms\"\nlinks.b.delay = \"10 ms\"\n\
             routes.r = { forward = [\"a\"], reverse = [\"b\"] }\n[[flows]]\npaths = [\"r\"]\n\
             source = { kind = \"trace\", file = \"sizes.csv\" }\n";
        let file = folder.path().join("test.toml").display().to_string();
        anabranch_lab::Scenario::parse(&file, text, &[]).expect("a scenario");
    }

    #[test]
    fn the_summary_tells_rate_types_and_sizes() {
        let text = "index,time,bytes,type,importance\n0,0.00,6000,I,key\n1,0.04,2000,P,reference\n\
             2,0.08,1000,B,disposable\n3,0.12,1000,B,disposable\n4,0.16,6000,I,key\n";
        let summary = summary("film.ts", &FrameTrace::parse(text).expect("a trace"));
        for expected in [
            "film.ts: 5 frames in 0.20 s, 25.00 frames/s, 640 kbit/s",
            "a key frame every 4.0 frames",
            "I: 2 frames, 6000 B in the mean, ratio 6.00",
            "P: 1 frames, 2000 B in the mean, ratio 2.00",
            "B: 2 frames, 1000 B in the mean, ratio 1.00",
            "2 frames are disposable",
            "up to     1200 B       2  ########################################",
        ] {
            assert!(summary.contains(expected), "{expected}: {summary}");
        }
    }

    #[test]
    fn what_is_no_film_is_told() {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("empty.ts");
        let mut packet = [0xff_u8; 4 * 188];
        for start in (0..packet.len()).step_by(188) {
            packet[start..start + 4].copy_from_slice(&[0x47, 0x1f, 0xff, 0x10]);
        }
        std::fs::write(&path, packet).expect("a file");
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("holds no video"), "{error}");
        assert!(read(Path::new("/nowhere.ts")).is_err());
    }
}
