//! Tests of whole runs, too short for the outage. They check content but not delay, because the
//! machine may be busy.

use super::super::ledger::Check;
use super::*;
use anabranch_video::camera::{Camera, FRAMES_PER_SECOND, HEIGHT, WIDTH};
use anabranch_video::encoder::{EncoderConfig, H264Encoder};
use anabranch_video::mpeg_ts::{PACKET_LEN, SYNC_BYTE, TransportStreamWriter};
use std::fs;
use std::io::Write as _;
use tempfile::TempDir;

fn plan(seconds: u64, input: Option<PathBuf>, folder: &TempDir) -> Plan {
    Plan {
        duration: Duration::from_secs(seconds),
        seed: Seed(1),
        input,
        output: folder.path().join("demo.ts"),
        fec: anabranch_schedulers::FEC_DEFAULT.to_owned(),
        // No frame is late on a busy machine.
        deadline: Duration::from_secs(2),
        loss_percent: 0.0,
    }
}

fn run_for(seconds: u64, input: Option<PathBuf>, folder: &TempDir) -> (Recording, Vec<u8>) {
    let plan = plan(seconds, input, folder);
    let recording = run(&plan, &mut View::Hidden, &Stop::new().expect("a stop")).expect("a run");
    let output = fs::read(&plan.output).expect("the video");
    (recording, output)
}

/// Returns whether `is_so`, or it cannot be judged on a machine that is too slow, which is printed.
fn allows(recording: &Recording, is_so: bool) -> bool {
    let is_slow = recording.slow_seconds > 0;
    if is_slow && !is_so {
        // `eprintln` would be shown only if the test failed.
        let note = "NOT JUDGED: the demo's frames: this machine is too slow to keep time";
        let _ = writeln!(std::io::stderr(), "{note}");
    }
    is_so || is_slow
}

/// Returns frames of the camera at about 1 Mbit/s.
fn encoded(count: u32) -> Vec<(Vec<u8>, bool)> {
    let mut camera = Camera::new(Seed(1));
    let mut encoder = H264Encoder::new(EncoderConfig {
        width: WIDTH,
        height: HEIGHT,
        frames_per_second: FRAMES_PER_SECOND,
        bitrate: anabranch_units::DataRate::from_megabits_per_second(1),
        key_frame_interval: 25,
    })
    .expect("an encoder");
    let frames = (0..count).map(|number| {
        let picture = camera.render(number, Duration::ZERO);
        let encoded = encoder.encode(picture).expect("a frame");
        (encoded.annex_b, encoded.is_key)
    });
    frames.collect()
}

#[test]
fn the_cameras_pictures_arrive_and_show_their_numbers() {
    let folder = TempDir::new().expect("a folder");
    let (recording, output) = run_for(5, None, &folder);
    let frames = &recording.frames;
    let is_whole = (100..=125).contains(&frames.len());
    assert!(allows(&recording, is_whole), "{}", frames.len());
    let right_count = frames
        .iter()
        .filter(|frame| frame.check == Some(Check::Right))
        .count();
    let are_most_right = right_count * 100 >= frames.len() * 95;
    assert!(allows(&recording, are_most_right), "{right_count}");
    assert!(frames.iter().all(|frame| frame.check != Some(Check::Wrong)));
    // The decoded picture matches the encoder's input and no other picture.
    let fidelities = frames.iter().filter_map(|frame| frame.fidelity);
    let psnr: Vec<f64> = fidelities.map(|fidelity| fidelity.psnr).collect();
    let are_all_compared = psnr.len() >= right_count;
    assert!(allows(&recording, are_all_compared), "{}", psnr.len());
    let mean = psnr.iter().sum::<f64>() / psnr.len() as f64;
    assert!((25.0..60.0).contains(&mean), "{mean} dB");
    let first = frames[0].delay().expect("the first frame came");
    assert!(first >= LINKS[0].delay, "no faster than the link");
    let last = recording.samples.last().expect("samples");
    assert!(last.received.iter().all(|path| path.media_bytes > 0));
    assert_eq!(output.len() % PACKET_LEN, 0);
    let mut packets = output.chunks(PACKET_LEN);
    assert!(packets.len() > 2 * right_count);
    assert!(packets.all(|packet| packet[0] == SYNC_BYTE));
}

#[test]
fn a_transport_stream_comes_out_as_it_went_in() {
    let folder = TempDir::new().expect("a folder");
    let mut writer = TransportStreamWriter::new(Vec::new());
    for (number, (annex_b, is_key)) in (0..).zip(encoded(50)) {
        let at = Duration::from_millis(40 * number);
        writer.write(&annex_b, at, is_key).expect("memory");
    }
    let sent = writer.into_inner();
    let input = folder.path().join("input.ts");
    fs::write(&input, &sent).expect("an input");
    let (recording, output) = run_for(10, Some(input), &folder);
    assert!(recording.ended_at < Instant::from_secs(8), "ends with it");
    assert!(!recording.is_interrupted);
    assert_eq!(recording.frames.len(), 50);
    assert!(
        recording
            .frames
            .iter()
            .all(|frame| frame.check == Some(Check::Right))
    );
    assert!(output == sent, "{} of {}", output.len(), sent.len());
}

#[test]
fn access_units_are_sent_one_by_one_and_muxed() {
    let folder = TempDir::new().expect("a folder");
    let sent = encoded(30);
    let input = folder.path().join("input.h264");
    let bytes: Vec<u8> = sent
        .iter()
        .flat_map(|(annex_b, _)| annex_b.clone())
        .collect();
    fs::write(&input, bytes).expect("an input");
    let (recording, output) = run_for(10, Some(input), &folder);
    let sizes = recording.frames.iter().map(|frame| frame.payload_bytes);
    let mut pairs = sizes.zip(&sent);
    // MPEG-TS adds headers, and stuffing to each picture.
    assert!(pairs.all(|(size, (annex_b, _))| size > annex_b.len() as u64));
    assert_eq!(recording.frames.len(), sent.len());
    assert!(
        recording
            .frames
            .iter()
            .all(|frame| frame.check == Some(Check::Right))
    );
    assert_eq!(output[0], SYNC_BYTE);
}

#[test]
fn an_interrupted_run_ends_in_order() {
    let folder = TempDir::new().expect("a folder");
    let plan = plan(30, None, &folder);
    let stop = Stop::new().expect("a stop");
    stop.stop();
    let recording = run(&plan, &mut View::Hidden, &stop).expect("a run");
    assert!(recording.ended_at < Instant::from_secs(10));
    assert!(recording.is_interrupted);
}
