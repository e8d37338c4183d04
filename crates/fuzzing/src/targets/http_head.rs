//! Any bytes of an application instead of a request: a head that is passed on to the target has one
//! meaning. Neither memory nor time grows faster than the bytes.

use anabranch_cli::fuzzing::{http_head, prepare};

use crate::{Bound, Meter, Target};

/// Memory of a head, which is read twice, whole and cut, and is held as read, as written, and while
/// it grows.
const BOUND: Bound = Bound {
    fixed_bytes: 32 << 10,
    bytes_per_byte: 16,
};

fn seeds() -> Vec<Vec<u8>> {
    let heads = [
        "CONNECT a.b:443 HTTP/1.1\r\nHost: a.b:443\r\n\r\nhello",
        "GET http://a.b/ HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n",
        "POST http://u:p@a.b:81?q HTTP/1.1\r\nContent-Length: 2\r\nConnection: x-y, close\r\n\
         X-Y: 1\r\n\r\nok",
        "PUT http://[2001:db8::1]/p HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\
         TE: trailers\r\n\r\n0\r\n\r\n",
        "GET http://a.b HTTP/1.0\r\nProxy-Authorization: Basic eA==\r\nUpgrade: h2c\r\n\r\n",
    ];
    let mut seeds: Vec<_> = heads
        .map(|head| [b"\x05\x00", head.as_bytes()].concat())
        .into();
    // The second byte is the number of repetitions of the rest's middle.
    seeds.push(b"\x3f\x40GET http://a.b/ HTTP/1.1\r\n|X-Field: some-value\r\n|\r\n".to_vec());
    seeds
}

/// Returns the head with its middle, between two bars, repeated: long heads are short inputs.
fn repeated(bytes: &[u8], count: usize) -> Vec<u8> {
    let mut parts = bytes.splitn(3, |byte| *byte == b'|');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(first), Some(middle), Some(last)) if count > 0 => {
            [first, &middle.repeat(count), last].concat()
        }
        _ => bytes.to_vec(),
    }
}

/// The target.
pub const TARGET: Target = Target {
    name: "http_head",
    bound: BOUND,
    prepare,
    seeds,
    run,
};

fn run(input: &[u8]) {
    let [piece_bytes, count, bytes @ ..] = input else {
        return;
    };
    let bytes = repeated(bytes, usize::from(*count));
    let meter = Meter::begin(BOUND);
    http_head(&bytes, usize::from(*piece_bytes) + 1);
    meter.check(bytes.len());
}
