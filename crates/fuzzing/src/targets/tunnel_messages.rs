//! Any datagrams and requests of a peer in a tunnel have one meaning or none, no session sends from
//! another's address, and memory does not grow.

use anabranch_cli::fuzzing::{TunServer, prepare, request, udp_message};

use crate::{Bound, Meter, Reader, Target, Writer};

/// Memory of claims, each with at most two addresses in addition to the reserved ones, of about 200
/// bytes with their nodes in trees.
const BOUND: Bound = Bound {
    fixed_bytes: 16 << 10,
    bytes_per_byte: 16,
};

fn claim(v4: [u8; 4], v6_host: u8) -> Vec<u8> {
    [&[6][..], &v4, &[0xfd], &[0; 14], &[v6_host]].concat()
}

fn packet(from: [u8; 4], to: [u8; 4]) -> Vec<u8> {
    let head = [0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0];
    [&[5][..], &head, &from, &to].concat()
}

fn seeds() -> Vec<Vec<u8>> {
    let (one, two) = ([10, 99, 0, 2], [10, 99, 0, 3]);
    let sessions = Writer::default().raw([0, 0, 0, 1]);
    let claims = sessions
        .raw([1, 0])
        .bytes(claim(one, 2))
        .raw([1, 1])
        .bytes(claim(two, 0));
    let packets = claims
        .raw([1, 0])
        .bytes(packet(one, two))
        .raw([1, 1])
        .bytes(packet(one, two));
    let other = packets
        .raw([1, 0])
        .bytes(claim([10, 99, 0, 77], 9))
        .raw([3, 5])
        .raw([2, 0]);
    let udp_messages: [&[u8]; 5] = [
        b"\0\0\0\0\x07abc",
        b"\x01\0\0\0\x07\0\x05a.b:9abc",
        b"\x02\0\0\0\x07",
        b"\x03\0\0\0\x07",
        b"\x04\0\0\0\x07\x01",
    ];
    let udp = udp_messages
        .into_iter()
        .fold(Writer::default(), |seed, it| seed.raw([4]).bytes(it));
    let places: [&[u8]; 3] = [b"\0\0", b"\0\x0fexample.org:443", b"\0\x10[2001:db8::1]:80"];
    let requests = places
        .into_iter()
        .fold(Writer::default(), |seed, it| seed.raw([5]).bytes(it));
    vec![other.done(), udp.done(), requests.done()]
}

/// Takes one step; `None` at the end.
fn step(input: &mut Reader<'_>, server: &mut TunServer, sessions: &mut Vec<u64>) -> Option<()> {
    match input.u8()? % 6 {
        0 if sessions.len() < 8 => sessions.push(server.open(input.u8()?.into())),
        0 => {}
        1 => {
            let which = usize::from(input.u8()?);
            let datagram = input.bytes()?;
            if let Some(session) = sessions.get(which % sessions.len().max(1)) {
                server.take(*session, datagram);
            }
        }
        2 => {
            let which = usize::from(input.u8()?);
            if !sessions.is_empty() {
                server.close(sessions.swap_remove(which % sessions.len()));
            }
        }
        3 => {
            let keys = input.u8()?;
            server.set_keys([keys & 1 != 0, keys & 2 != 0, keys & 4 != 0]);
        }
        4 => udp_message(input.bytes()?),
        _ => request(input.bytes()?),
    }
    Some(())
}

/// The target.
pub const TARGET: Target = Target {
    name: "tunnel_messages",
    bound: BOUND,
    prepare,
    seeds,
    run,
};

fn run(bytes: &[u8]) {
    let meter = Meter::begin(BOUND);
    let (mut server, mut sessions) = (TunServer::default(), Vec::new());
    let mut input = Reader::new(bytes);
    while step(&mut input, &mut server, &mut sessions).is_some() {}
    meter.check(bytes.len());
}
