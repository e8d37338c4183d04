//! The responder's cost of each kind of first message, in microseconds of CPU time. The cost of a
//! flood is this times its rate.
//!
//! Run it by `make bench`. Machines are noisy: compare ratios of one run.

use std::hint::black_box;

use anabranch_secure::{INITIATION_BYTES, Initiator, ParameterBlock, Responder, SecretKey};
use rustix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 7;
const NANOS_PER_ROUND: f64 = 20e6;

fn cpu_nanos() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Nanoseconds of CPU time of some calls.
fn round(repetitions: u32, work: &mut impl FnMut()) -> f64 {
    let start = cpu_nanos();
    (0..repetitions).for_each(|_| work());
    cpu_nanos() - start
}

/// Microseconds of CPU time per call, of the best of some rounds.
fn measure(mut work: impl FnMut()) -> f64 {
    let mut repetitions = 1;
    while round(repetitions, &mut work) < NANOS_PER_ROUND {
        repetitions *= 2;
    }
    let best = (0..ROUNDS)
        .map(|_| round(repetitions, &mut work))
        .fold(f64::MAX, f64::min);
    best / f64::from(repetitions) / 1e3
}

fn main() {
    let (local, peer) = (SecretKey::generate(), SecretKey::generate());
    let key = local.public_key();
    let source = ([192, 0, 2, 1], 7_000).into();
    let mut responder = Responder::new(local, [peer.public_key()]);
    let parameters = ParameterBlock::default();
    let stranger = Initiator::new(&SecretKey::generate(), &key, 1, parameters);
    let marked = stranger.message().to_vec();
    let mut random = [0; INITIATION_BYTES];
    random[0] = 1;

    println!("| first message | microseconds |");
    println!("|---|---|");
    let refused = measure(|| {
        let _ = black_box(responder.screen(black_box(&random)));
    });
    println!("| without the first mark: refused | {refused:.2} |");
    let answered = measure(|| {
        let is_proven = responder.proves_address(source, black_box(&marked));
        assert!(!is_proven);
        black_box(responder.cookie_reply(source, &marked));
    });
    println!("| marked, under load: answered by a cookie | {answered:.2} |");
    let read = measure(|| {
        let _ = black_box(responder.read_initiation(black_box(&marked)));
    });
    println!("| marked, by a key that is not allowed: two X25519 | {read:.2} |");
    let initiator = Initiator::new(&peer, &key, 1, parameters);
    let allowed = initiator.message();
    let shaken = measure(|| {
        let request = responder.read_initiation(black_box(allowed));
        black_box(responder.accept(request.expect("an allowed peer"), 1, false, parameters));
    });
    println!("| by an allowed key, or a replay: the handshake | {shaken:.2} |");
}
