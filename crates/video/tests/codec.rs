//! The camera through encoder and decoder: every frame is coded, its burnt-in number survives, and
//! a new bitrate takes effect.
#![cfg(feature = "codec")]

use anabranch_units::{DataRate, Duration, Seed};
use anabranch_video::annex_b;
use anabranch_video::camera::{Camera, FRAMES_PER_SECOND, HEIGHT, WIDTH};
use anabranch_video::decoder::H264Decoder;
use anabranch_video::encoder::{EncodeError, EncodedPicture, EncoderConfig, H264Encoder};
use anabranch_video::picture::Picture;

const KEY_FRAME_INTERVAL: u32 = 50;

fn encoder(bitrate: DataRate) -> H264Encoder {
    H264Encoder::new(EncoderConfig {
        width: WIDTH,
        height: HEIGHT,
        frames_per_second: FRAMES_PER_SECOND,
        bitrate,
        key_frame_interval: KEY_FRAME_INTERVAL,
    })
    .unwrap()
}

fn encode(frame_count: u32, bitrate_of: impl Fn(u32) -> DataRate) -> Vec<EncodedPicture> {
    let mut camera = Camera::new(Seed(1));
    let mut encoder = encoder(bitrate_of(0));
    (0..frame_count)
        .map(|number| {
            encoder.set_bitrate(bitrate_of(number));
            let picture = camera.render(number, Duration::from_millis(40) * u64::from(number));
            encoder.encode(picture).unwrap()
        })
        .collect()
}

fn bitrate(pictures: &[EncodedPicture]) -> f64 {
    let bytes: usize = pictures.iter().map(|picture| picture.annex_b.len()).sum();
    (bytes * 8) as f64 * f64::from(FRAMES_PER_SECOND) / pictures.len() as f64
}

#[test]
fn the_number_burnt_in_survives_at_low_and_high_bitrate() {
    for kilobits in [300, 4_000] {
        let pictures = encode(100, |_| DataRate::from_kilobits_per_second(kilobits));
        let mut decoder = H264Decoder::new().unwrap();
        for (number, picture) in pictures.iter().enumerate() {
            let decoded = decoder.decode(&picture.annex_b).unwrap().expect("no delay");
            assert_eq!((decoded.width(), decoded.height()), (WIDTH, HEIGHT));
            assert_eq!(
                decoded.burnt_in_number(),
                Some(number as u32),
                "{kilobits} kbit/s"
            );
        }
    }
}

#[test]
fn the_bitrate_is_held_and_key_frames_stay_small() {
    for kilobits in [300, 1_000, 2_400, 4_000] {
        let pictures = encode(150, |_| DataRate::from_kilobits_per_second(kilobits));
        let asked = kilobits as f64 * 1e3;
        let ratio = bitrate(&pictures) / asked;
        assert!((0.88..1.03).contains(&ratio), "{kilobits} kbit/s: {ratio}");
        let second = FRAMES_PER_SECOND as usize;
        let worst = pictures.windows(second).map(bitrate).fold(0.0, f64::max) / asked;
        assert!(worst < 1.15, "{kilobits} kbit/s: {worst} over one second");
        let others = pictures.iter().filter(|picture| !picture.is_key);
        let (bytes, count) = others.fold((0, 0), |(bytes, count), other| {
            (bytes + other.annex_b.len(), count + 1_u32)
        });
        let keys = pictures.iter().filter(|picture| picture.is_key);
        let ratio =
            |key: &EncodedPicture| key.annex_b.len() as f64 * f64::from(count) / bytes as f64;
        let ratios: Vec<f64> = keys.map(ratio).collect();
        // The first is coded without knowledge.
        assert!(ratios[0] < 5.0, "{kilobits} kbit/s: {ratios:?}");
        let even = ratios[1..].iter().all(|ratio| (1.0..2.8).contains(ratio));
        assert!(even, "{kilobits} kbit/s: {ratios:?}");
    }
}

#[test]
fn a_new_bitrate_takes_effect_within_three_frames() {
    fn rate_of(number: u32, before: u64, after: u64) -> u64 {
        if number < 60 { before } else { after }
    }

    for (before, after) in [(4_000, 1_500), (4_000, 500), (1_000, 3_000)] {
        let pictures = encode(90, |number| {
            DataRate::from_kilobits_per_second(rate_of(number, before, after))
        });
        let ratio = bitrate(&pictures[62..87]) / (after as f64 * 1e3);
        assert!(
            (0.75..1.15).contains(&ratio),
            "{before} to {after} kbit/s: {ratio}"
        );
    }
}

#[test]
fn every_picture_is_coded_and_key_frames_come_at_the_interval() {
    // At a bitrate this low the encoder would skip pictures.
    let pictures = encode(120, |_| DataRate::from_kilobits_per_second(50));
    let mut decoder = H264Decoder::new().unwrap();
    for (number, picture) in pictures.iter().enumerate() {
        assert_eq!(
            picture.is_key,
            number % KEY_FRAME_INTERVAL as usize == 0,
            "{number}"
        );
        assert_eq!(annex_b::is_key(&picture.annex_b), picture.is_key);
        assert!(decoder.decode(&picture.annex_b).unwrap().is_some());
    }
}

#[test]
fn a_key_frame_comes_when_requested_and_can_be_decoded_alone() {
    let mut camera = Camera::new(Seed(1));
    let mut encoder = encoder(DataRate::from_megabits_per_second(1));
    let mut keys = Vec::new();
    for number in 0..70 {
        if number == 7 {
            encoder.request_key_frame();
        }
        let picture = encoder
            .encode(camera.render(number, Duration::ZERO))
            .unwrap();
        if picture.is_key {
            let mut decoder = H264Decoder::new().unwrap();
            let decoded = decoder.decode(&picture.annex_b).unwrap().unwrap();
            assert_eq!(decoded.burnt_in_number(), Some(number));
            keys.push(number);
        }
    }
    assert_eq!(keys, [0, 7, 57]);
}

#[test]
fn damaged_pictures_are_no_end_to_decoding() {
    let pictures = encode(60, |_| DataRate::from_megabits_per_second(1));
    let mut decoder = H264Decoder::new().unwrap();
    assert!(decoder.decode(&[]).unwrap().is_none());
    let mut rng = Seed(1).rng();
    for picture in &pictures[..KEY_FRAME_INTERVAL as usize] {
        let mut damaged = picture.annex_b.clone();
        for _ in 0..5 {
            let at = rng.below(damaged.len() as u64) as usize;
            damaged[at] = rng.below(256) as u8;
        }
        let _ = decoder.decode(&damaged);
    }
    for (number, picture) in pictures
        .iter()
        .enumerate()
        .skip(KEY_FRAME_INTERVAL as usize)
    {
        let decoded = decoder.decode(&picture.annex_b).unwrap().unwrap();
        assert_eq!(decoded.burnt_in_number(), Some(number as u32));
    }
}

#[test]
fn unfit_pictures_and_configs_are_refused() {
    let mut encoder = encoder(DataRate::from_megabits_per_second(1));
    let error = encoder.encode(&Picture::new(320, 240)).unwrap_err();
    assert!(matches!(
        error,
        EncodeError::Size {
            width: 320,
            height: 240
        }
    ));
    let valid = EncoderConfig {
        width: WIDTH,
        height: HEIGHT,
        frames_per_second: FRAMES_PER_SECOND,
        bitrate: DataRate::from_megabits_per_second(1),
        key_frame_interval: 1,
    };
    for config in [
        EncoderConfig { width: 0, ..valid },
        EncoderConfig {
            height: 361,
            ..valid
        },
        EncoderConfig {
            width: 1920,
            height: 1080,
            ..valid
        },
        EncoderConfig {
            frames_per_second: 0,
            ..valid
        },
        EncoderConfig {
            key_frame_interval: 0,
            ..valid
        },
    ] {
        assert!(
            matches!(H264Encoder::new(config), Err(EncodeError::Config(_))),
            "{config:?}"
        );
    }
}
