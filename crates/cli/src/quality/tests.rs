use anabranch_mpegts_io::testing::{encoded, ffmpeg, has_ffmpeg, transport_stream};
use anabranch_units::Duration;
use tempfile::TempDir;

use super::*;

/// A folder with films.
struct Bed(TempDir);

impl Bed {
    fn new() -> Bed {
        Bed(TempDir::new().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("a text").to_owned()
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        std::fs::write(self.path(name), bytes).expect("a film");
        self.path(name)
    }
}

fn numbered(count: u32) -> Vec<(usize, Vec<u8>)> {
    encoded(count).into_iter().enumerate().collect()
}

/// Returns the numbers of shown, missing and undecodable pictures.
fn counts(report: &Report) -> [usize; 3] {
    [State::Shown, State::Missing, State::Undecodable].map(|state| report.count(state))
}

fn json(report: &Report) -> serde_json::Value {
    serde_json::from_str(&report.json()).expect("JSON")
}

fn psnr_mean(report: &Report) -> f64 {
    json(report)["psnr_db"]["mean"].as_f64().expect("a number")
}

#[test]
fn a_film_is_equal_to_itself() {
    let bed = Bed::new();
    let pictures = numbered(40);
    let stream = bed.write("film.ts", &transport_stream(&pictures, Duration::ZERO));
    let bytes: Vec<u8> = pictures.into_iter().flat_map(|(_, bytes)| bytes).collect();
    let plain = bed.write("film.h264", &bytes);
    // The plain stream, and MPEG-TS as `send` makes it.
    for (source, received) in [(&stream, &stream), (&plain, &plain), (&plain, &stream)] {
        let report = compare(source, received).expect("two films");
        assert_eq!(counts(&report), [40, 0, 0]);
        let said = report.text();
        for expected in [
            "640x360, 40 pictures in 1.60 s",
            "40 pictures, 40 of them byte for byte the source's",
            "the picture never stood still",
            "PSNR of luma, dB        100.00        100.00    100.00",
            "SSIM of luma            1.0000        1.0000    1.0000",
            "40 of 40 compared pictures are equal",
        ] {
            assert!(said.contains(expected), "{expected}: {said}");
        }
    }
}

#[test]
fn a_missing_picture_is_the_one_before_it_and_breaks_the_chain_until_a_key_frame() {
    let bed = Bed::new();
    let pictures = numbered(60);
    let source = bed.write("film.ts", &transport_stream(&pictures, Duration::ZERO));
    // The key frames are 0, 25 and 50. The clock differs, as after a demo.
    let mut kept = pictures.clone();
    kept.remove(40);
    kept.drain(10..12);
    let stream = transport_stream(&kept, Duration::from_secs(7));
    let plain: Vec<u8> = kept.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
    let films = [
        bed.write("kept.ts", &stream),
        bed.write("kept.h264", &plain),
    ];
    for received in films {
        let report = compare(&source, &received).expect("two films");
        // 10 and 11 are missing and 12 to 24 refer to them. 40 is missing and 41 to 49 refer to it.
        assert_eq!(counts(&report), [35, 3, 22]);
        assert!(
            report.text().contains("at most 15 in a row, 600 ms"),
            "{}",
            report.text()
        );
        assert!(
            report
                .text()
                .contains("35 of 60 compared pictures are equal")
        );
        assert!(
            (50.0..80.0).contains(&psnr_mean(&report)),
            "{}",
            report.text()
        );
        let csv = report.pictures_csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines[10], "9,0.360000,shown,100.0000,1.000000");
        assert!(
            lines[11].starts_with("10,0.400000,missing,"),
            "{}",
            lines[11]
        );
        assert!(
            lines[13].starts_with("12,0.480000,undecodable,"),
            "{}",
            lines[13]
        );
        assert_eq!(lines[26], "25,1.000000,shown,100.0000,1.000000");
    }
}

#[test]
fn untransmitted_pictures_are_not_compared() {
    let bed = Bed::new();
    let pictures = numbered(60);
    let source = bed.write("film.ts", &transport_stream(&pictures, Duration::ZERO));
    let received = transport_stream(&pictures[20..57], Duration::from_secs(1));
    let report = compare(&source, &bed.write("part.ts", &received)).expect("two films");
    // Before the key frame 25 the pictures have no reference.
    assert_eq!(counts(&report), [32, 0, 5]);
    let said = report.text();
    assert!(
        said.contains("23 before the first received one or behind the last"),
        "{said}"
    );
    assert!(
        said.contains("32 of 32 compared pictures are equal"),
        "{said}"
    );
    assert!(said.contains("5 had nothing on the screen"), "{said}");
    let json = json(&report);
    assert_eq!(
        (&json["outside"], &json["compared"]),
        (&23.into(), &32.into())
    );
    assert_eq!(json["psnr_db"]["min"], 100.0);
    assert_eq!(
        json["psnr_of_mean_square_error_db"],
        serde_json::Value::Null
    );
    assert_eq!(json["received"]["known_by"], "content");
    assert!(report.pictures_csv().contains("\n58,2.320000,outside,,\n"));
}

#[test]
fn a_damaged_picture_is_worse_than_the_source() {
    let bed = Bed::new();
    let pictures = numbered(30);
    let source = bed.write("film.ts", &transport_stream(&pictures, Duration::ZERO));
    let mut damaged = pictures.clone();
    let bytes = &mut damaged[12].1;
    let middle = bytes.len() / 2;
    bytes[middle..middle + 20]
        .iter_mut()
        .for_each(|byte| *byte ^= 0x55);
    let stream = transport_stream(&damaged, Duration::ZERO);
    let report = compare(&source, &bed.write("damaged.ts", &stream)).expect("two films");
    let [shown, missing, undecodable] = counts(&report);
    assert_eq!((missing, shown + undecodable), (0, 30));
    let said = report.text();
    assert!(said.contains("29 of them byte for byte"), "{said}");
    assert!(psnr_mean(&report) < 90.0, "{said}");
}

#[test]
fn incomparable_files_are_errors() {
    let bed = Bed::new();
    let film = bed.write("film.ts", &transport_stream(&numbered(5), Duration::ZERO));
    let error = compare(&film, &bed.write("empty.h264", &[]))
        .unwrap_err()
        .to_string();
    assert!(error.contains("empty.h264"), "{error}");
    let error = compare(&bed.path("nowhere.ts"), &film)
        .unwrap_err()
        .to_string();
    assert!(error.contains("nowhere.ts"), "{error}");
    // A P picture, then a B picture, without times.
    let b_pictures = [0, 0, 1, 0x65, 0x88, 0x80, 0, 0, 1, 0x01, 0b1001_1110, 0x80];
    let error = compare(&bed.write("b.h264", &b_pictures), &film)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("has B pictures") && error.contains("-c copy"),
        "{error}"
    );
}

/// Source of a test picture with noise, which makes coarse coding measurable.
const NOISE: &str = "testsrc2=size=320x180:rate=25:duration=2,noise=alls=20:all_seed=1";

/// Returns the number that follows `before` in ffmpeg's lines.
fn number(lines: &str, before: &str) -> f64 {
    let (_, rest) = lines.split_once(before).expect("a measure");
    rest.split_whitespace()
        .next()
        .and_then(|number| number.parse().ok())
        .expect("a number")
}

#[test]
fn reencoded_pictures_measure_as_in_ffmpeg() {
    if !has_ffmpeg("libx264") {
        return;
    }
    let bed = Bed::new();
    let (film, coarse) = (bed.text("film.mp4"), bed.text("coarse.mkv"));
    // With B pictures, whose coding order differs from the display order; 180 is no multiple of 16.
    let made = [
        "-f", "lavfi", "-i", NOISE, "-c:v", "libx264", "-pix_fmt", "yuv420p",
    ];
    ffmpeg(
        "error",
        &[
            &made[..],
            &[
                "-bf",
                "2",
                "-g",
                "25",
                "-sc_threshold",
                "0",
                "-crf",
                "18",
                &film,
            ],
        ]
        .concat(),
    );
    let re_encoded = [
        "-i", &film, "-c:v", "libx264", "-crf", "35", "-bf", "3", &coarse,
    ];
    ffmpeg("error", &re_encoded);
    let itself = compare(film.as_ref(), film.as_ref()).expect("two films");
    assert_eq!(counts(&itself), [50, 0, 0], "{}", itself.text());
    assert_eq!(psnr_mean(&itself), 100.0);
    let late = bed.text("late.ts");
    ffmpeg("error", &["-ss", "1", "-i", &film, "-c", "copy", &late]);
    let late = compare(film.as_ref(), late.as_ref()).expect("two films");
    assert_eq!(counts(&late), [25, 0, 0], "{}", late.text());
    assert_eq!(psnr_mean(&late), 100.0);
    let report = compare(film.as_ref(), coarse.as_ref()).expect("two films");
    let said = report.text();
    assert_eq!(counts(&report), [50, 0, 0], "{said}");
    assert!(said.contains("matched by their timestamps"), "{said}");
    let filter = [
        "-i",
        &coarse,
        "-i",
        &film,
        "-lavfi",
        "psnr;[0][1]ssim",
        "-f",
        "null",
        "-",
    ];
    let theirs = ffmpeg("info", &filter);
    let json = json(&report);
    let psnr = json["psnr_of_mean_square_error_db"]
        .as_f64()
        .expect("a number");
    assert!(
        (psnr - number(&theirs, "PSNR y:")).abs() < 0.01,
        "{psnr}: {theirs}"
    );
    // ffmpeg's windows overlap, ours do not.
    let ssim = json["ssim"]["mean"].as_f64().expect("a number");
    assert!(
        (ssim - number(&theirs, "SSIM Y:")).abs() < 0.01,
        "{ssim}: {theirs}"
    );
}

#[test]
fn other_sizes_and_codecs_are_refused() {
    if !has_ffmpeg("libx264") || !has_ffmpeg("libx265") {
        return;
    }
    let bed = Bed::new();
    let (film, small, hevc) = (
        bed.text("film.ts"),
        bed.text("small.ts"),
        bed.text("hevc.ts"),
    );
    ffmpeg(
        "error",
        &[
            "-f", "lavfi", "-i", NOISE, "-pix_fmt", "yuv420p", "-c:v", "libx264", &film,
        ],
    );
    ffmpeg(
        "error",
        &[
            "-i",
            &film,
            "-vf",
            "scale=160:90",
            "-c:v",
            "libx264",
            &small,
        ],
    );
    ffmpeg(
        "error",
        &[
            "-i",
            &film,
            "-c:v",
            "libx265",
            "-x265-params",
            "log-level=none",
            &hevc,
        ],
    );
    let error = compare(film.as_ref(), small.as_ref())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("320x180") && error.contains("160x90"),
        "{error}"
    );
    assert!(error.contains("scale=320:180"), "{error}");
    let error = compare(film.as_ref(), hevc.as_ref())
        .unwrap_err()
        .to_string();
    assert!(error.contains("hevc.ts is not H.264"), "{error}");
}
