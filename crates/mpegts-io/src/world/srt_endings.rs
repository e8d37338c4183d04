//! Outputs before receivers that discard packets which are not due when the shutdown arrives, as
//! libsrt's do, and that lose every tenth packet.

use anabranch_srt::{CloseReason, Settings};
use anabranch_units::Duration;

use super::peer::{Behaviour, Peer};
use super::{Bed, Source, line, millis, packet};
use crate::srt::{PAYLOAD_BYTES, SrtReceiver};

const LATENCY: Duration = Duration::from_millis(400);
const COUNT: u32 = 100;
const LOSSY: Behaviour = Behaviour {
    loses_each: Some(10),
    ends_at_once: true,
};

fn settings() -> Settings {
    Settings {
        receive_latency: LATENCY,
        ..Settings::default()
    }
}

/// Lets time pass until the only receiver is as wanted.
fn wait_for(bed: &Bed, source: &Source, is_wanted: impl Fn(&SrtReceiver) -> bool) -> SrtReceiver {
    for _ in 0..1_000 {
        bed.world.run_for(millis(10));
        let all = source.output.receivers().get();
        if let [receiver] = &all[..]
            && is_wanted(receiver)
        {
            return receiver.clone();
        }
    }
    panic!("{:?}", source.output.receivers().get());
}

/// Streams to the only receiver, and ends at once. Returns all that was sent.
fn stream(bed: &Bed, mut source: Source, stream_id: Option<&str>) -> Vec<u8> {
    wait_for(bed, &source, |_| true);
    let half = u64::from(COUNT / 2);
    for _ in 0..half {
        source.write();
    }
    let receiver = wait_for(bed, &source, |its| {
        its.statistics.sent_packets == half && its.statistics.retransmitted_packets > 0
    });
    let counted = receiver.statistics;
    assert_eq!(counted.sent_bytes, half * PAYLOAD_BYTES as u64);
    let again = counted.retransmitted_packets * PAYLOAD_BYTES as u64;
    assert_eq!(counted.retransmitted_bytes, again);
    assert!(counted.reported_lost_packets > 0 && counted.rtt.is_some());
    assert_eq!((receiver.latency, receiver.is_ending), (LATENCY, false));
    assert_eq!(receiver.stream_id.as_deref(), stream_id);
    for _ in 0..half {
        source.write();
    }
    let receivers = source.output.receivers();
    drop(source);
    assert!(receivers.get().is_empty());
    assert_eq!(receivers.count(), 1);
    (0..COUNT).flat_map(packet).collect()
}

#[test]
fn a_caller_gets_the_last_packets_of_an_output() {
    for seed in 0..5 {
        let bed = Bed::new(seed, &[line(100, 5)]);
        let at = bed.lines[0].at(9_000);
        let source = bed.output(&format!("srt://{at}?mode=listener"));
        assert!(!source.output.receivers().calls());
        let peer = Peer::call(&bed.studio, at, Some("front"), settings(), LOSSY);
        let sent = stream(&bed, source, Some("front"));
        bed.world.run_for(millis(100));
        let end = peer.state();
        assert!(end.received == sent, "{} bytes", end.received.len());
        assert_eq!(end.closed, Some(CloseReason::Peer));
        // The port is free again.
        drop(bed.output(&format!("srt://{at}?mode=listener")));
    }
}

#[test]
fn a_listener_gets_the_last_packets_of_an_output() {
    for seed in 0..5 {
        let bed = Bed::new(seed, &[line(100, 5)]);
        let peer = Peer::listen(&bed.studio, bed.at(9_000), settings(), LOSSY);
        let source = bed.output(&format!("srt://{}?streamid=secret/key", bed.at(9_000)));
        assert!(source.output.receivers().calls());
        // The ID may be a key of the service.
        let sent = stream(&bed, source, None);
        assert!(peer.end().received == sent);
    }
}

#[test]
fn an_output_without_receivers_ends_at_once() {
    let bed = Bed::new(1, &[line(100, 5)]);
    for (place, mode) in [
        (bed.at(9_000), "caller"),
        (bed.lines[0].at(9_000), "listener"),
    ] {
        let output = bed.output(&format!("srt://{place}?mode={mode}&latency=60000"));
        output.output.write(&[1; PAYLOAD_BYTES]);
        bed.world.run_for(millis(100));
        let began_at = bed.world.now();
        drop(output);
        let took = bed.world.now().saturating_since(began_at);
        assert!(took < Duration::from_secs(1), "{mode}: {took:?}");
    }
}
