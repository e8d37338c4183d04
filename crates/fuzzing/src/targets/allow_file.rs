//! A file of `--allow-from` with any text is read, or refused with a reason that repeats no secret.
//! Time and memory grow no faster than the file.

use anabranch_cli::fuzzing::allow_file;
use anabranch_secure::SecretKey;

use crate::{Bound, Meter, Target};

/// Memory of lines: a key of 49 characters; names, limits and rules take about 300 bytes; the
/// shortest rule has ten characters.
const BOUND: Bound = Bound {
    fixed_bytes: 32 << 10,
    bytes_per_byte: 64,
};

/// Returns a secret key that is always the same.
fn secret(number: u8) -> SecretKey {
    let digits = format!("{}{}A", "A".repeat(41), char::from(b'B' + number % 25));
    SecretKey::from_text(&format!("absec_{digits}")).expect("a secret key")
}

fn key(number: u8) -> String {
    secret(number).public_key().to_string()
}

fn seeds() -> Vec<Vec<u8>> {
    let [a, b, c] = [key(0), key(1), key(2)];
    let secret = secret(3).to_text();
    let files = [
        format!("# senders\n{a} front\n{b}  roof max=8Mbit/s # the second\n\n{c}\n"),
        format!("{a} crew streams=2\n{b} crew\n{c} crew\n"),
        format!("{a} van connect=a.b:22 connect=[fc00::/7]:*\n{b} bus connect=none\n"),
        format!("{a} front\n{}\n", secret.as_str()),
    ];
    let mut seeds: Vec<_> = files.map(|file| [b"\x00", file.as_bytes()].concat()).into();
    seeds.push([b"\x01", files_of_many().as_bytes()].concat());
    seeds
}

/// Returns all keys that seeds can make, of one name.
fn files_of_many() -> String {
    (0..25)
        .map(|number| format!("{} crew streams=25\n", key(number)))
        .collect()
}

/// The target.
pub const TARGET: Target = Target {
    name: "allow_file",
    bound: BOUND,
    prepare: || (),
    seeds,
    run,
};

fn run(input: &[u8]) {
    let Some((is_for_serve, text)) = input.split_first() else {
        return;
    };
    let Ok(text) = str::from_utf8(text) else {
        return;
    };
    let meter = Meter::begin(BOUND);
    allow_file(text, is_for_serve % 2 == 1);
    meter.check(input.len());
}
