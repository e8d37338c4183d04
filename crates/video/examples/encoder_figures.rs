//! Prints the encoder's output for the camera's pictures: sizes, rates and time per frame.

use anabranch_units::{DataRate, Duration, Seed};
use anabranch_video::camera::{Camera, FRAMES_PER_SECOND, HEIGHT, WIDTH};
use anabranch_video::decoder::H264Decoder;
use anabranch_video::encoder::{EncoderConfig, H264Encoder};

const FRAME_COUNT: u32 = 250;
const KEY_FRAME_INTERVAL: u32 = 50;

/// Sizes in bytes of each frame and whether it is a key frame.
struct Run {
    sizes: Vec<(usize, bool)>,
    misread_count: usize,
    encoding: std::time::Duration,
}

fn encode(bitrate_of: impl Fn(u32) -> DataRate) -> Run {
    let mut camera = Camera::new(Seed(1));
    let mut encoder = H264Encoder::new(EncoderConfig {
        width: WIDTH,
        height: HEIGHT,
        frames_per_second: FRAMES_PER_SECOND,
        bitrate: bitrate_of(0),
        key_frame_interval: KEY_FRAME_INTERVAL,
    })
    .expect("a valid configuration");
    let mut decoder = H264Decoder::new().expect("OpenH264 is built in");
    let mut run = Run {
        sizes: Vec::new(),
        misread_count: 0,
        encoding: Default::default(),
    };
    for number in 0..FRAME_COUNT {
        let at = Duration::from_secs(1) * u64::from(number) / u64::from(FRAMES_PER_SECOND);
        let picture = camera.render(number, at);
        encoder.set_bitrate(bitrate_of(number));
        #[allow(
            clippy::disallowed_methods,
            reason = "an example that measures this machine"
        )]
        let started = std::time::Instant::now();
        let encoded = encoder.encode(picture).expect("every picture is coded");
        run.encoding += started.elapsed();
        run.sizes.push((encoded.annex_b.len(), encoded.is_key));
        let decoded = decoder
            .decode(&encoded.annex_b)
            .expect("a valid access unit");
        let number_read = decoded.and_then(|decoded| decoded.burnt_in_number());
        run.misread_count += usize::from(number_read != Some(number));
    }
    run
}

fn mean_bitrate(sizes: &[(usize, bool)]) -> f64 {
    let bytes: usize = sizes.iter().map(|(bytes, _)| bytes).sum();
    bytes as f64 * 8.0 * f64::from(FRAMES_PER_SECOND) / sizes.len() as f64 / 1e6
}

fn main() {
    println!(
        "  asked      got  worst s   P mean    P max  key mean  key max  ratio  ms/frame  misread"
    );
    for kilobits in [300, 600, 1_000, 1_500, 2_400, 4_000] {
        let run = encode(|_| DataRate::from_kilobits_per_second(kilobits));
        let [others, keys] = [false, true].map(|wanted| -> Vec<usize> {
            let of_kind = run.sizes.iter().filter(|(_, is_key)| *is_key == wanted);
            of_kind.map(|(bytes, _)| *bytes).collect()
        });
        let second = FRAMES_PER_SECOND as usize;
        let worst = run
            .sizes
            .windows(second)
            .map(mean_bitrate)
            .fold(0.0, f64::max);
        let p_mean = others.iter().sum::<usize>() / others.len();
        let key_mean = keys.iter().sum::<usize>() / keys.len();
        let key_max = keys.into_iter().max().unwrap_or(0);
        println!(
            "{:7.3} {:8.3} {worst:8.3} {p_mean:8} {:8} {key_mean:9} {key_max:8} {:6.2} {:9.2} {:8}",
            kilobits as f64 / 1e3,
            mean_bitrate(&run.sizes),
            others.into_iter().max().unwrap_or(0),
            key_max as f64 / p_mean as f64,
            run.encoding.as_secs_f64() * 1e3 / f64::from(FRAME_COUNT),
            run.misread_count,
        );
    }
    println!("4 Mbit/s until frame 124, 1.5 Mbit/s from frame 125; kB per frame around it:");
    let run = encode(|number| {
        DataRate::from_kilobits_per_second(if number < 125 { 4_000 } else { 1_500 })
    });
    for (index, chunk) in run.sizes[110..170].chunks(20).enumerate() {
        print!("{:4}:", 110 + index * 20);
        for (bytes, is_key) in chunk {
            print!(
                " {:.1}{}",
                *bytes as f64 / 1e3,
                if *is_key { "K" } else { "" }
            );
        }
        println!();
    }
    println!(
        "after it: {:.3} Mbit/s over 25 frames",
        mean_bitrate(&run.sizes[125..150])
    );
}
