//! `anabranch-lab trace`: a film's frames without their content, for scenarios.

mod probe;

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anabranch_mpegts_io::PictureReader;
use anabranch_terminal::print;
use anabranch_units::Duration;
use anabranch_video::frame_trace::{FrameTrace, PictureType, TracedFrame};
use anabranch_video::input::InputKind;
use anabranch_video::picture_types::PictureTypes;
use anyhow::{Context, bail};

/// Write the sizes, times and types of a film's frames, and print statistics about them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
MPEG-TS and H.264 byte streams are read as they are. H.264, HEVC and MPEG-2 in other files (MP4,
Matroska, bare streams) need ffmpeg, and other codecs (AV1, VP9) ffprobe. Sizes are those of the
coded pictures, without the container. Bare streams (.h264, .hevc, .m2v) have no times: their
pictures have the frame rate that the stream names, else 25 per second, or that of --fps.

A scenario plays the frames with

  source = { kind = \"trace\", file = \"sizes.csv\" }

with sizes.csv beside the scenario. With `min` and `max` the sizes follow the network.")]
pub(crate) struct Arguments {
    /// Film to read.
    file: PathBuf,
    /// Output file of the frames: index, time in seconds, bytes, type (I, P, B or ?), importance.
    #[arg(long, value_name = "FILE.csv")]
    output: Option<PathBuf>,
    /// Frames per second at even intervals, instead of the film's times: `25`, `29.97` or
    /// `30000/1001`.
    #[arg(long, value_name = "RATE", value_parser = frame_rate)]
    fps: Option<f64>,
}

/// Parses a number or a ratio, in frames per second.
fn frame_rate(text: &str) -> Result<f64, String> {
    let (number, divisor) = text.split_once('/').unwrap_or((text, "1"));
    let rate = number.parse::<f64>().ok().zip(divisor.parse::<f64>().ok());
    rate.map(|(number, divisor)| number / divisor)
        .filter(|rate| (0.01..=1_000.0).contains(rate))
        .ok_or_else(|| "frames per second are from 0.01 to 1000, as in 25 or 30000/1001".to_owned())
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let trace = read(&arguments.file, arguments.fps)?;
    if let Some(output) = &arguments.output {
        let shown = output.display();
        File::create(output)
            .and_then(|mut file| file.write_all(trace.to_csv().as_bytes()))
            .with_context(|| format!("cannot write {shown}"))?;
    }
    print::text(summary(&arguments.file.display().to_string(), &trace))
}

/// Returns the frames of the film at `path`, at `fps` frames per second if that is given.
fn read(path: &Path, fps: Option<f64>) -> anyhow::Result<FrameTrace> {
    let shown = path.display();
    let listed = match probe::kind(path)? {
        InputKind::Other => probe::frames(path)?,
        InputKind::MpegTs | InputKind::AnnexB | InputKind::Elementary => None,
    };
    let mut frames = match listed {
        Some(frames) => frames,
        None => split(path)?,
    };
    if let Some(fps) = fps {
        for (index, frame) in frames.iter_mut().enumerate() {
            frame.at = Duration::from_secs_f64(index as f64 / fps);
        }
    }
    // Times count from the first picture, whatever the stream's clock starts with.
    let Some(first) = frames.first().map(|frame: &TracedFrame| frame.at) else {
        bail!("{shown} holds no video");
    };
    frames.iter_mut().for_each(|frame| frame.at -= first);
    if frames.len() > 1 && frames.iter().all(|frame| frame.at.is_zero()) {
        bail!("{shown} does not say when its pictures are due: give their rate, as in --fps 25");
    }
    FrameTrace::new(frames).with_context(|| format!("{shown} holds no film"))
}

/// Returns the frames of a film that can be read as a byte stream.
fn split(path: &Path) -> anyhow::Result<Vec<TracedFrame>> {
    let mut reader = PictureReader::open(path)?;
    let mut types = PictureTypes::new();
    let mut frames = Vec::new();
    while let Some(picture) = reader.next_picture()? {
        let kind = types.of(picture.codec, &picture.bytes);
        frames.push(TracedFrame {
            at: picture.due,
            bytes: picture.bytes.len() as u32,
            kind: kind.or(picture.importance.is_key().then_some(PictureType::I)),
            importance: picture.importance,
        });
    }
    Ok(frames)
}

/// Number of bars in the histogram, and the length of the longest.
const BARS: u32 = 10;
const BAR_LEN: usize = 40;

/// Returns statistics of a film as text.
fn summary(name: &str, trace: &FrameTrace) -> String {
    fn line(line: String, text: &mut String) {
        writeln!(text, "{line}").expect("a String takes everything")
    }

    let frames = trace.frames();
    let mut text = format!(
        "{name}: {} frames in {:.2} s, {:.2} frames/s, {}\n",
        frames.len(),
        trace.duration().as_secs_f64(),
        trace.frames_per_second(),
        trace.mean_rate(),
    );
    line(
        match trace.key_frame_interval() {
            Some(interval) => format!("a key frame every {interval:.1} frames"),
            None => "fewer than two key frames".to_owned(),
        },
        &mut text,
    );
    let types = PictureType::ALL.map(|kind| (kind, trace.of_type(kind)));
    let unit = types.iter().rev().find_map(|(_, of)| *of);
    for (kind, of) in types {
        if let (Some((count, mean)), Some((_, unit))) = (of, unit) {
            let ratio = mean / unit;
            line(
                format!("{kind}: {count} frames, {mean:.0} B on average, ratio {ratio:.2}"),
                &mut text,
            );
        }
    }
    let disposable = anabranch_units::Importance::Disposable;
    let count = frames
        .iter()
        .filter(|frame| frame.importance == disposable)
        .count();
    line(format!("{count} frames are disposable"), &mut text);
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
            &mut text,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use anabranch_units::Importance;
    use tempfile::TempDir;

    use super::*;
    use anabranch_mpegts_io::testing::{
        KEY_FRAME_INTERVAL, encoded, ffmpeg, has_ffmpeg, transport_stream,
    };

    /// Writes these bytes to a file, and returns its trace, read back from the written one.
    fn traced(bytes: &[u8]) -> (FrameTrace, TempDir) {
        let folder = TempDir::new().expect("a folder");
        let file = folder.path().join("film");
        std::fs::write(&file, bytes).expect("a film");
        let output = folder.path().join("sizes.csv");
        let arguments = Arguments {
            file,
            output: Some(output.clone()),
            fps: None,
        };
        run(&arguments).expect("a trace");
        let text = std::fs::read_to_string(output).expect("what was written");
        (FrameTrace::parse(&text).expect("a trace"), folder)
    }

    fn check(trace: &FrameTrace, pictures: &[Vec<u8>], delimiter: usize) {
        assert_eq!(trace.frames().len(), pictures.len());
        for (index, (frame, picture)) in trace.frames().iter().zip(pictures).enumerate() {
            let (kind, importance) = match index % KEY_FRAME_INTERVAL {
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
        let numbered: Vec<_> = pictures.iter().cloned().enumerate().collect();
        let (trace, folder) = traced(&transport_stream(&numbered, Duration::ZERO));
        // The writer adds an access unit delimiter of 6 B.
        check(&trace, &pictures, 6);
        let text = "duration = \"2 s\"\nlinks.a.delay = \"10 ms\"\nlinks.b.delay = \"10 ms\"\n\
             routes.r = { forward = [\"a\"], reverse = [\"b\"] }\n[[flows]]\npaths = [\"r\"]\n\
             source = { kind = \"trace\", file = \"sizes.csv\" }\n";
        let file = folder.path().join("test.toml").display().to_string();
        anabranch_lab::Scenario::parse(&file, text, &[]).expect("a scenario");
    }

    #[test]
    fn summary_shows_rate_types_and_sizes() {
        let text = "index,time,bytes,type,importance\n0,0.00,6000,I,key\n1,0.04,2000,P,reference\n\
             2,0.08,1000,B,disposable\n3,0.12,1000,B,disposable\n4,0.16,6000,I,key\n";
        let summary = summary("film.ts", &FrameTrace::parse(text).expect("a trace"));
        for expected in [
            "film.ts: 5 frames in 0.20 s, 25.00 frames/s, 640 kbit/s",
            "a key frame every 4.0 frames",
            "I: 2 frames, 6000 B on average, ratio 6.00",
            "P: 1 frames, 2000 B on average, ratio 2.00",
            "B: 2 frames, 1000 B on average, ratio 1.00",
            "2 frames are disposable",
            "up to     1200 B       2  ########################################",
        ] {
            assert!(summary.contains(expected), "{expected}: {summary}");
        }
    }

    #[test]
    fn files_without_video_are_refused() {
        let folder = TempDir::new().expect("a folder");
        let path = folder.path().join("empty.ts");
        let mut packet = [0xff_u8; 4 * 188];
        for start in (0..packet.len()).step_by(188) {
            packet[start..start + 4].copy_from_slice(&[0x47, 0x1f, 0xff, 0x10]);
        }
        std::fs::write(&path, packet).expect("a file");
        let error = read(&path, None).unwrap_err().to_string();
        assert!(error.contains("holds no video"), "{error}");
        assert!(read(Path::new("/nowhere.ts"), None).is_err());
    }

    /// Encodes a test picture with ffmpeg, with this codec and file name.
    fn made_by_ffmpeg(fps: u32, codec: &[&str], name: &str) -> (PathBuf, TempDir) {
        let folder = TempDir::new().expect("a folder");
        let file = folder.path().join(name);
        let source = format!("testsrc2=size=320x180:rate={fps}:duration=2");
        let source = ["-f", "lavfi", "-i", &source];
        let output = [file.to_str().expect("a text")];
        ffmpeg("error", &[&source[..], codec, &output].concat());
        (file, folder)
    }

    fn traced_from_ffmpeg(codec: &[&str], name: &str) -> FrameTrace {
        let (file, _folder) = made_by_ffmpeg(25, codec, name);
        read(&file, None).expect("a trace")
    }

    #[test]
    fn bare_streams_have_the_frame_rate_that_they_name_or_are_given() {
        let quiet = ["-x265-params", "log-level=none:bframes=3:open-gop=0"];
        for (encoder, more, names) in [
            ("libx264", &["-bf", "2"][..], &["film.h264", "film.mp4"][..]),
            ("libx265", &quiet, &["film.hevc", "film.h265", "film.mp4"]),
            ("mpeg2video", &[], &["film.m2v", "film.ts"]),
            ("libvpx", &[], &["film.ivf"]),
        ] {
            if !has_ffmpeg(encoder) {
                continue;
            }
            let codec = ["-c:v", encoder, "-g", "30", "-pix_fmt", "yuv420p"];
            let codec = [&codec[..], more].concat();
            for name in names {
                let (file, _folder) = made_by_ffmpeg(30, &codec, name);
                let trace = read(&file, None).expect("a trace");
                assert_eq!(trace.frames().len(), 60, "{name}");
                let fps = trace.frames_per_second();
                assert!((fps - 30.0).abs() < 0.01, "{name}: {fps}");
                assert_eq!(trace.key_frame_interval(), Some(30.0), "{name}");
                let trace = read(&file, Some(50.0)).expect("a trace");
                assert_eq!(trace.frames()[59].at, Duration::from_millis(59 * 20));
                let kinds = PictureType::ALL.map(|kind| count(&trace, kind));
                assert_eq!(kinds.iter().sum::<usize>(), 60, "{name}");
            }
        }
    }

    #[test]
    fn frame_rates_are_numbers_or_ratios() {
        assert_eq!(frame_rate("25"), Ok(25.0));
        assert_eq!(frame_rate("30000/1001"), Ok(30_000.0 / 1_001.0));
        for wrong in ["0", "-25", "25/0", "fast", "1/", "1e9", "NaN"] {
            assert!(frame_rate(wrong).is_err(), "{wrong}");
        }
    }

    fn count(trace: &FrameTrace, kind: PictureType) -> usize {
        trace.of_type(kind).map_or(0, |(count, _)| count)
    }

    #[test]
    fn films_in_other_containers_are_traced_as_the_stream_they_hold() {
        fn kinds(trace: &FrameTrace) -> Vec<(Option<PictureType>, Importance)> {
            let frames = trace.frames().iter();
            frames.map(|frame| (frame.kind, frame.importance)).collect()
        }

        for codec in ["libx264", "libx265"] {
            if !has_ffmpeg(codec) {
                continue;
            }
            // A hierarchy of B pictures. The lowest have no references in either direction.
            let quiet = [
                "-x265-params",
                "log-level=none:bframes=3:b-adapt=0:open-gop=0:scenecut=0",
            ];
            let plain = [
                "-x264-params",
                "bframes=3:b-adapt=0:scenecut=0",
                "-pix_fmt",
                "yuv420p",
            ];
            let more = if codec == "libx265" {
                &quiet[..]
            } else {
                &plain[..]
            };
            let codec = [&["-c:v", codec, "-g", "25"], more].concat();
            let traces =
                ["film.ts", "film.mp4", "film.mkv"].map(|name| traced_from_ffmpeg(&codec, name));
            assert_eq!(traces[0].frames().len(), 50);
            assert_eq!(count(&traces[0], PictureType::I), 2);
            let sum = PictureType::ALL
                .map(|kind| count(&traces[0], kind))
                .iter()
                .sum::<usize>();
            assert_eq!(sum, 50, "all types are known");
            assert!((25..40).contains(&count(&traces[0], PictureType::B)));
            assert_eq!(traces[0].key_frame_interval(), Some(25.0));
            let disposable = traces[0]
                .frames()
                .iter()
                .filter(|frame| frame.importance == Importance::Disposable);
            assert!((20..40).contains(&disposable.clone().count()));
            assert!(
                disposable
                    .clone()
                    .all(|frame| frame.kind == Some(PictureType::B))
            );
            for other in &traces[1..] {
                assert_eq!(kinds(other), kinds(&traces[0]));
                // The difference is the parameter sets, which MP4 stores elsewhere.
                let (ours, theirs) = (other.total_bytes(), traces[0].total_bytes());
                assert!(ours.abs_diff(theirs) < theirs / 20, "{ours} {theirs}");
            }
        }
    }

    #[test]
    fn mpeg2s_b_pictures_and_no_others_are_disposable() {
        if !has_ffmpeg("mpeg2video") {
            return;
        }
        let codec = ["-c:v", "mpeg2video", "-g", "12", "-bf", "2"];
        for name in ["film.ts", "film.m2v", "film.mkv"] {
            let trace = traced_from_ffmpeg(&codec, name);
            assert!(count(&trace, PictureType::B) >= 25, "{name}");
            for frame in trace.frames() {
                let expected = match frame.kind {
                    Some(PictureType::I) => Importance::Key,
                    Some(PictureType::P) => Importance::Reference,
                    Some(PictureType::B) => Importance::Disposable,
                    None => panic!("{name}: a picture of no type"),
                };
                assert_eq!(frame.importance, expected, "{name}");
            }
        }
    }

    #[test]
    fn av1_has_sizes_and_key_frames_whatever_decodes_it() {
        if !has_ffmpeg("libaom-av1") {
            return;
        }
        let codec = [
            "-c:v",
            "libaom-av1",
            "-cpu-used",
            "8",
            "-g",
            "25",
            "-usage",
            "realtime",
        ];
        let (file, _folder) = made_by_ffmpeg(25, &codec, "film.ivf");
        let trace = read(&file, None).expect("a trace");
        assert_eq!(trace.frames().len(), 50);
        assert_eq!(trace.key_frame_interval(), Some(25.0));
        assert_eq!(trace.frames_per_second().round(), 25.0);
    }

    #[test]
    fn codecs_that_are_not_cut_here_are_listed_by_ffprobe() {
        if !has_ffmpeg("libvpx-vp9") {
            return;
        }
        let codec = [
            "-c:v",
            "libvpx-vp9",
            "-deadline",
            "realtime",
            "-cpu-used",
            "8",
            "-g",
            "25",
        ];
        let trace = traced_from_ffmpeg(&codec, "film.webm");
        assert_eq!(trace.frames().len(), 50);
        assert_eq!(trace.key_frame_interval(), Some(25.0));
        assert_eq!(count(&trace, PictureType::I), 2);
        assert_eq!(trace.frames_per_second().round(), 25.0);
    }
}
