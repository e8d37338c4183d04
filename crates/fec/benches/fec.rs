//! Cost of forward error correction: Gbit/s of protected media, in blocks of `k` symbols with `m`
//! repair symbols, encoded and with `m` losses decoded; and the cost of the decision.
//!
//! Run it by `make bench`. Machines are noisy: compare ratios of one run.

use std::hint::black_box;

use anabranch_fec::{
    Decoder, KEY_FRAME_RESIDUAL, LossModel, LossProcess, RepairHeader, encode, repair_count,
};
use anabranch_units::{Duration, Instant};
use rustix::time::{ClockId, clock_gettime};

const SYMBOL_BYTES: usize = 1_316;
const ROUNDS: usize = 7;
const NANOS_PER_ROUND: f64 = 20e6;

fn cpu_nanos() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Nanoseconds of CPU time per call, of the best of some rounds.
fn measure(mut work: impl FnMut()) -> f64 {
    let mut repetitions = 1;
    let mut round = |repetitions: u32| {
        let start = cpu_nanos();
        (0..repetitions).for_each(|_| work());
        cpu_nanos() - start
    };
    while round(repetitions) < NANOS_PER_ROUND {
        repetitions *= 2;
    }
    let best = (0..ROUNDS)
        .map(|_| round(repetitions))
        .fold(f64::MAX, f64::min);
    best / f64::from(repetitions)
}

/// A block and its repair symbols.
struct Block {
    sources: Vec<Vec<u8>>,
    repairs: Vec<Vec<u8>>,
}

fn header(first: u64, k: usize, row: usize) -> RepairHeader {
    RepairHeader {
        first,
        count: k as u16,
        row: row as u8,
    }
}

impl Block {
    fn new(k: usize, m: usize) -> Self {
        let source = |index: usize| (0..SYMBOL_BYTES).map(move |i| (i * i * (index + 3)) as u8);
        let mut block = Block {
            sources: (0..k).map(|index| source(index).collect()).collect(),
            repairs: vec![Vec::new(); m],
        };
        block.encode();
        block
    }

    fn encode(&mut self) {
        for (row, repair) in self.repairs.iter_mut().enumerate() {
            repair.clear();
            let parts = self.sources.iter().map(|bytes| bytes.split_at(20).into());
            encode(header(0, self.sources.len(), row), parts, repair);
        }
    }

    /// Receives the block, less its first symbols, under the numbers from `first` on.
    fn decode(&self, decoder: &mut Decoder, first: u64, lost: usize) {
        let sources = (first..).zip(&self.sources).skip(lost);
        for (number, bytes) in sources {
            decoder.on_source(number, bytes.split_at(20).into());
        }
        for (row, bytes) in self.repairs.iter().enumerate() {
            decoder.on_repair(header(first, self.sources.len(), row), bytes);
        }
        let mut recovered_count = 0;
        while let Some(symbol) = decoder.next_recovered() {
            black_box(symbol);
            recovered_count += 1;
        }
        assert_eq!(recovered_count, lost);
    }
}

fn measure_block(k: usize, m: usize) {
    fn decoding(lost: usize, block: &Block, k: usize) -> f64 {
        let mut decoder = Decoder::new();
        let mut first = 0;
        measure(|| {
            block.decode(&mut decoder, first, lost);
            first += k as u64;
        })
    }

    let mut block = Block::new(k, m);
    let gigabits = (k * SYMBOL_BYTES * 8) as f64;
    let encoding = measure(|| block.encode());
    let (intact, repaired) = (decoding(0, &block, k), decoding(m, &block, k));
    println!(
        "k {k:>3}, m {m:>2}: encode {:>6.2} Gbit/s, decode {:>6.2}, without losses {:>6.1}",
        gigabits / encoding,
        gigabits / repaired,
        gigabits / intact,
    );
}

fn main() {
    for k in [5, 10, 20, 50] {
        for m in [k / 10, k / 4] {
            measure_block(k, m.max(1));
        }
    }
    for (k, burst_packets) in [(20, 1.0), (50, 1.0), (50, 4.0)] {
        let loss = LossModel {
            ratio: 0.05,
            burst_packets,
        };
        let m = repair_count(k, loss, KEY_FRAME_RESIDUAL);
        let nanos = measure(|| {
            black_box(repair_count(
                black_box(k),
                black_box(loss),
                KEY_FRAME_RESIDUAL,
            ));
        });
        println!(
            "repair count of k {k}, loss 5 % in bursts of {burst_packets}: {m}, {nanos:.0} ns"
        );
    }
    let mut process = LossProcess::new();
    let (mut now, mut number) = (Instant::default(), 0_u64);
    let nanos = measure(|| {
        now += Duration::from_micros(500);
        number += 1;
        process.on_outcome(now, number % 20 == 0);
    });
    println!("a packet's fate: {nanos:.0} ns");
}
