//! Strangers at a port of SRT.

use anabranch_net::testing::Machine;
use anabranch_srt::{Caller, Entropy, Settings};

use super::peer::{Behaviour, Peer};
use super::{Bed, address, line, millis, on, seconds};
use crate::srt::SrtInput;

const SECRET: &str = "passphrase=correct horse";

fn stranger(bed: &Bed) -> Machine {
    let stranger = bed.world.machine("stranger");
    stranger.attach("eth0", &line(100, 1));
    stranger
}

/// One host that has an address, and no passphrase, sends conclusions without end.
#[test]
fn conclusions_of_a_stranger_keep_no_caller_out() {
    for seed in 0..3 {
        let bed = Bed::behind_translators(seed, 1);
        let stranger = stranger(&bed);
        let at = bed.at(9_000);
        let mut sink = bed.input(&format!("srt://{at}?mode=listener&{SECRET}"));
        let mut source = bed.output(&format!("srt://{at}?{SECRET}"));
        let mut peers = Vec::new();
        for _ in 0..200 {
            for _ in 0..3 {
                let (settings, behaviour) = (Settings::default(), Behaviour::default());
                peers.push(Peer::call(&stranger, at, None, settings, behaviour));
            }
            bed.run(&mut [&mut source], &mut [&mut sink], millis(10));
        }
        bed.run(&mut [&mut source], &mut [&mut sink], seconds(2));
        assert!(peers.iter().all(|peer| !peer.state().is_connected));
        sink.assert_whole(0, 350);
    }
}

/// Inductions cost the sender of one next to nothing, and may come from anywhere.
#[test]
fn inductions_of_strangers_keep_no_caller_out() {
    let bed = Bed::behind_translators(4, 1);
    let at = bed.at(9_000);
    let mut sink = bed.input(&format!("srt://{at}?mode=listener&{SECRET}"));
    let anybody = bed.world.stranger(4_000);
    let (settings, entropy) = (Settings::default(), Entropy::new(&[7; 32]));
    let mut caller = Caller::new(bed.world.now(), at, None, settings, entropy);
    let induction = caller.poll_transmit(bed.world.now()).expect("an induction");
    let mut source = bed.output(&format!("srt://{at}?{SECRET}"));
    for _ in 0..300 {
        for _ in 0..30 {
            anybody.send(at, &induction);
        }
        bed.run(&mut [&mut source], &mut [&mut sink], millis(10));
    }
    sink.assert_whole(0, 250);
    let answers = anybody.take();
    let answered: usize = answers.iter().map(Vec::len).sum();
    assert!(answered <= 300 * 30 * induction.len(), "{answered} bytes");
}

/// Nobody else's datagrams reach a connection, and a stranger's nonsense stops nothing.
#[test]
fn nonsense_of_strangers_changes_nothing() {
    let bed = Bed::behind_translators(6, 1);
    let at = bed.at(9_000);
    let mut sink = bed.input(&format!("srt://{at}?mode=listener"));
    let mut source = bed.output(&format!("srt://{at}"));
    let (anybody, mut rng) = (bed.world.stranger(4_000), bed.world.seed("nonsense").rng());
    for _ in 0..300 {
        for _ in 0..5 {
            let length = rng.below(200) as usize;
            let bytes: Vec<u8> = (0..length).map(|_| rng.below(256) as u8).collect();
            anybody.send(at, &bytes);
        }
        bed.run(&mut [&mut source], &mut [&mut sink], millis(10));
    }
    sink.assert_whole(0, 250);
    let twice = SrtInput::open(
        &address(&format!("srt://{at}?mode=listener")),
        &on(&bed.studio),
    );
    assert!(twice.is_err());
}
