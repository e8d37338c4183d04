//! Our transport streams in ffmpeg and ffmpeg's in ours. Without ffmpeg, each test reports it and
//! checks nothing.

use std::process::{Command, Stdio};

use anabranch_units::{Duration, Importance};
use anabranch_video::annex_b::{self, AccessUnitSplitter};
use anabranch_video::input::{self, InputKind};
use anabranch_video::mpeg_ts::{TransportUnit, TransportUnitSplitter};

use crate::installed::has_ffmpeg;

/// Pictures in each of ffmpeg's streams.
const FRAME_COUNT: usize = 75;
const SOURCE: [&str; 4] = [
    "-f",
    "lavfi",
    "-i",
    "testsrc=size=320x240:rate=25:duration=3",
];
const AUDIO: [&str; 4] = ["-f", "lavfi", "-i", "sine=frequency=440:duration=3"];
const H264: [&str; 8] = [
    "-c:v",
    "libx264",
    "-preset",
    "ultrafast",
    "-g",
    "25",
    "-pix_fmt",
    "yuv420p",
];

/// Runs ffmpeg and returns its standard output; it must not print errors.
fn ffmpeg<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Vec<u8> {
    let output = Command::new("ffmpeg")
        .stdin(Stdio::null())
        .args(arguments)
        .output()
        .expect("it starts");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && complaints.is_empty(),
        "{complaints}"
    );
    output.stdout
}

/// Returns a stream of ffmpeg's making, in the given format, of 3 s at 25 frames per second.
fn made(codec: &[&str], format: &[&str]) -> Vec<u8> {
    let quiet = ["-v", "error"];
    ffmpeg(&[&quiet[..], &SOURCE, &AUDIO, codec, format, &["-"]].concat())
}

fn split(stream: &[u8]) -> Vec<TransportUnit> {
    let mut splitter = TransportUnitSplitter::new();
    let mut units = Vec::new();
    for datagram in stream.chunks(1_316) {
        splitter.push(datagram);
        units.extend(core::iter::from_fn(|| splitter.next_unit()));
    }
    units.extend(core::iter::from_fn(|| splitter.finish()));
    assert_eq!(splitter.skipped_bytes(), 0);
    units
}

fn check_units(stream: &[u8], units: &[TransportUnit]) {
    let joined: Vec<u8> = units.iter().flat_map(|unit| unit.bytes.clone()).collect();
    assert!(joined == stream, "the units are the stream");
    assert_eq!(units.len(), FRAME_COUNT);
    for (index, unit) in units.iter().enumerate() {
        assert_eq!(unit.importance.is_key(), index % 25 == 0, "{index}");
        let at = Duration::from_millis(40) * index as u64;
        assert!(
            unit.clock.unwrap().abs_diff(at) < Duration::from_millis(1),
            "{index}"
        );
    }
}

#[test]
fn h264_with_audio_is_split_into_its_pictures() {
    if has_ffmpeg("libx264") {
        // With and without B pictures, whose timestamps are out of order.
        for b_pictures in ["0", "2"] {
            let codec = [&H264[..], &["-bf", b_pictures, "-c:a", "mp2"]].concat();
            let stream = made(&codec, &["-f", "mpegts"]);
            assert_eq!(input::probe(&stream[..input::PROBE_LEN]), InputKind::MpegTs);
            check_units(&stream, &split(&stream));
        }
    }
}

#[test]
fn mpeg2_and_hevc_are_split_into_their_pictures() {
    if has_ffmpeg("mpeg2video") {
        let stream = made(&["-c:v", "mpeg2video", "-g", "25"], &["-f", "mpegts"]);
        check_units(&stream, &split(&stream));
    }
    if has_ffmpeg("libx265") {
        let hevc = ["-c:v", "libx265", "-preset", "ultrafast", "-g", "25"];
        let quiet = [
            "-x265-params",
            "log-level=none:keyint=25:scenecut=0:bframes=0",
        ];
        let stream = made(&[&hevc[..], &quiet].concat(), &["-f", "mpegts"]);
        check_units(&stream, &split(&stream));
    }
}

#[test]
fn audio_alone_is_cut_by_its_clock() {
    if has_ffmpeg("mp2") {
        let stream = ffmpeg(
            &[
                &["-v", "error"][..],
                &AUDIO,
                &["-c:a", "mp2", "-f", "mpegts", "-"],
            ]
            .concat(),
        );
        let units = split(&stream);
        assert!((20..=80).contains(&units.len()), "{}", units.len());
        assert!(units.is_sorted_by_key(|unit| unit.clock));
        let last = units.last().unwrap().clock.unwrap();
        assert!(last > Duration::from_millis(2_000), "{last}");
    }
}

#[test]
fn a_bare_byte_stream_is_split_into_its_pictures() {
    if has_ffmpeg("libx264") {
        for slices in ["1", "4"] {
            let codec = [&H264[..], &["-slices", slices]].concat();
            let stream = made(&codec, &["-an", "-f", "h264"]);
            assert_eq!(input::probe(&stream[..input::PROBE_LEN]), InputKind::AnnexB);
            let mut splitter = AccessUnitSplitter::new();
            let mut units = Vec::new();
            for chunk in stream.chunks(4_096) {
                splitter.push(chunk);
                units.extend(core::iter::from_fn(|| splitter.next_unit()));
            }
            units.extend(splitter.finish());
            assert_eq!(units.len(), FRAME_COUNT);
            assert_eq!(splitter.frame_interval(), Duration::from_millis(40));
            for (index, unit) in units.iter().enumerate() {
                assert_eq!(unit.importance.is_key(), index % 25 == 0, "{index}");
                assert_eq!(annex_b::is_key(&unit.annex_b), unit.importance.is_key());
            }
            let joined: Vec<u8> = units.into_iter().flat_map(|unit| unit.annex_b).collect();
            assert!(joined == stream);
        }
    }
}

#[test]
fn an_mp4_file_is_remuxed_by_the_arguments_given() {
    if has_ffmpeg("libx264") {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("-a film:1.mp4");
        let codec = [&H264[..], &["-c:a", "aac", "-shortest"]].concat();
        let mut arguments: Vec<_> = [&["-v", "error"][..], &SOURCE, &AUDIO, &codec]
            .concat()
            .iter()
            .map(Into::into)
            .collect();
        arguments.push(std::ffi::OsString::from(
            "file:".to_owned() + path.to_str().unwrap(),
        ));
        ffmpeg(&arguments);
        let head = std::fs::read(&path).unwrap();
        assert_eq!(input::probe(&head[..input::PROBE_LEN]), InputKind::Other);
        let stream = ffmpeg(&input::remux_arguments(&path, InputKind::Other));
        check_units(&stream, &split(&stream));
    }
}

/// Returns the camera's pictures in a transport stream.
#[cfg(feature = "codec")]
fn camera_stream() -> Vec<u8> {
    use anabranch_units::{DataRate, Seed};
    use anabranch_video::camera::{Camera, FRAMES_PER_SECOND, HEIGHT, WIDTH};
    use anabranch_video::encoder::{EncoderConfig, H264Encoder};
    use anabranch_video::mpeg_ts::TransportStreamWriter;

    let mut camera = Camera::new(Seed(1));
    let mut encoder = H264Encoder::new(EncoderConfig {
        width: WIDTH,
        height: HEIGHT,
        frames_per_second: FRAMES_PER_SECOND,
        bitrate: DataRate::from_megabits_per_second(4),
        key_frame_interval: 25,
    })
    .unwrap();
    let mut writer = TransportStreamWriter::new(Vec::new());
    for number in 0..FRAME_COUNT {
        let at = Duration::from_millis(40) * number as u64;
        let picture = encoder.encode(camera.render(number as u32, at)).unwrap();
        writer.write(&picture.annex_b, at, picture.is_key).unwrap();
    }
    writer.into_inner()
}

#[test]
#[cfg(feature = "codec")]
fn ffmpeg_plays_the_written_stream() {
    let stream = camera_stream();
    check_units(&stream, &split(&stream));
    if has_ffmpeg("mp2") {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("camera.ts");
        std::fs::write(&path, &stream).unwrap();
        decode_all(&path);
    }
}

/// Decodes all of the file by ffmpeg and counts the pictures.
#[cfg(feature = "codec")]
fn decode_all(path: &std::path::Path) {
    let path = path.to_str().unwrap();
    let hashes = ffmpeg(&["-v", "warning", "-i", path, "-f", "framemd5", "-"]);
    let hashes = String::from_utf8(hashes).unwrap();
    let pictures: Vec<_> = hashes
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    assert_eq!(pictures.len(), FRAME_COUNT, "{hashes}");
}

#[test]
fn a_film_refreshed_by_columns_can_be_entered_at_its_recovery_points() {
    fn keys(units: &[Importance]) -> Vec<usize> {
        let numbered = units.iter().enumerate();
        let keys = numbered.filter(|(_, importance)| importance.is_key());
        keys.map(|(number, _)| number).collect()
    }

    if !has_ffmpeg("libx264") {
        return;
    }
    let codec = ["-x264-params", "intra-refresh=1:keyint=25:bframes=0"];
    let codec = [&H264[..], &codec, &["-an"]].concat();
    let byte_stream = made(&codec, &["-f", "h264"]);
    let mut splitter = AccessUnitSplitter::new();
    splitter.push(&byte_stream);
    let mut units: Vec<_> = core::iter::from_fn(|| splitter.next_unit()).collect();
    units.extend(splitter.finish());
    let idr = units.iter().filter(|unit| annex_b::is_key(&unit.annex_b));
    assert_eq!(idr.count(), 1, "one IDR picture, at the start");
    let of_bytes: Vec<_> = units.iter().map(|unit| unit.importance).collect();
    assert_eq!(of_bytes.len(), FRAME_COUNT);
    assert_eq!(keys(&of_bytes), [0, 25, 50]);
    let of_packets: Vec<_> = split(&made(&codec, &["-f", "mpegts"]))
        .iter()
        .map(|unit| unit.importance)
        .collect();
    assert_eq!(of_packets, of_bytes);
    // Even frames are the purpose of the refresh.
    let largest = units[1..].iter().map(|unit| unit.annex_b.len()).max();
    let mean = units[1..]
        .iter()
        .map(|unit| unit.annex_b.len())
        .sum::<usize>()
        / 74;
    assert!(largest.unwrap() < 4 * mean, "{largest:?} of {mean}");

    // A stream that begins at a recovery point plays, once the columns are through.
    let rest: Vec<u8> = units[25..]
        .iter()
        .flat_map(|unit| unit.annex_b.clone())
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rest.h264");
    std::fs::write(&path, rest).unwrap();
    let decoded = ffmpeg(&[
        "-v",
        "fatal",
        "-i",
        path.to_str().unwrap(),
        "-f",
        "rawvideo",
        "-pix_fmt",
        "gray",
        "-",
    ]);
    assert!(decoded.len() / (320 * 240) >= FRAME_COUNT - 2 * 25);
}
