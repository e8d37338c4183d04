//! Streams as their drivers see them: two endpoints over a small network.

use anabranch_core::recovery::LossDetection;
use anabranch_core::{
    Config, ConfigError, Content, DatagramMeta, Event, Frame, Laboratory, Media, MediaSession,
    PathId, PathOptions, PathState, SendReason, Session, Stream, StreamConfig, StreamSession,
    WriteStreamError,
};
use anabranch_units::{DataRate, Duration, Ecn, Importance, Instant, Seed};
use proptest::prelude::*;

use crate::support::{self, OVERHEAD_BYTES, TestPath};

type Network = support::Network<Stream>;

const RULES: [LossDetection; 4] = [
    LossDetection::TcpCumulative,
    LossDetection::TcpSack,
    LossDetection::PerPacket,
    LossDetection::GapImmediate,
];

/// Segments of 1000 bytes.
const SEGMENT: usize = 1_000;

fn config(loss_detection: LossDetection, controller: &str) -> Config {
    Config {
        controller: support::controller(controller),
        laboratory: Laboratory {
            fixed_rate: DataRate::from_megabits_per_second(4),
            loss_detection: Some(loss_detection),
            ..Laboratory::default()
        },
        fragment_bytes: SEGMENT as u16,
        ..support::usual()
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| (index * 7 + index / 251) as u8)
        .collect()
}

/// Transfers `segments` segments over `path`, within `seconds`.
fn transfer(config: Config, path: TestPath, segments: usize, seconds: u64) -> Network {
    let mut network = Network::of_stream(config, path);
    let bytes = pattern(segments * SEGMENT);
    network.transfer(&bytes, Instant::from_secs(seconds));
    assert!(network.sender.is_drained() && network.is_stream_finished);
    assert_eq!(network.stream, bytes);
    network
}

fn bed() -> TestPath {
    TestPath::new(8, 25)
}

fn losing(lost_there: &[u64]) -> TestPath {
    TestPath {
        lost_there: lost_there.to_vec(),
        ..bed()
    }
}

fn retransmissions_and_timeouts(network: &Network) -> (u64, u64) {
    let counters = network.sender.path_counters(PathId(0)).unwrap();
    (
        counters.retransmitted_packets,
        counters.retransmission_timeouts,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_byte_arrives_in_order_whatever_the_network_does(
        rule in 0..RULES.len(),
        is_windowed in any::<bool>(),
        loss in 0.0..0.15,
        duplication in 0.0..0.2,
        jitter_millis in 0..30_u64,
        length in 0..80_000_usize,
        window in 65_536..100_000_u64,
    ) {
        let controller = if is_windowed { "new-reno" } else { "fixed" };
        let mut config = config(RULES[rule], controller);
        config.stream.receive_window_bytes = window;
        config.stream.send_buffer_bytes = 20_000;
        let path = TestPath {
            loss,
            duplication,
            jitter: Duration::from_millis(jitter_millis),
            ..TestPath::new(8, 10)
        };
        let mut network = Network::of_stream(config, path);
        let bytes = pattern(length + 1);
        network.transfer(&bytes, Instant::from_secs(600));
        prop_assert!(network.sender.is_drained());
        prop_assert!(network.is_stream_finished);
        prop_assert!(network.receiver.is_complete());
        prop_assert!(network.stream == bytes);
        prop_assert_eq!(network.receiver.counters().malformed_datagrams, 0);
        prop_assert_eq!(network.sender.counters().malformed_datagrams, 0);
    }

    #[test]
    fn nothing_that_happens_to_datagrams_panics(seed in any::<u64>(), rule in 0..RULES.len()) {
        let mut network = Network::of_stream(config(RULES[rule], "new-reno"), bed());
        network.reseed(Seed(seed));
        network.tamper = Some(|rng, bytes| {
            if rng.chance(0.3) && !bytes.is_empty() {
                let index = rng.below(bytes.len() as u64) as usize;
                bytes[index] = rng.next_u64() as u8;
            }
            if rng.chance(0.1) {
                bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
            }
        });
        network.transfer(&pattern(50_000), Instant::from_secs(5));
    }
}

#[test]
fn full_packets_have_one_size_and_acknowledgements_without_ranges_ten_bytes() {
    let network = transfer(
        config(LossDetection::TcpCumulative, "new-reno"),
        bed(),
        20,
        5,
    );
    let size = SEGMENT as u64 + 10 + OVERHEAD_BYTES;
    assert!(network.sent.iter().all(|(_, bytes)| *bytes == size));
    assert!(
        network
            .answered
            .iter()
            .all(|(_, bytes)| *bytes == 10 + OVERHEAD_BYTES)
    );
}

#[test]
fn rfc5681_4_2_every_second_segment_is_acknowledged_and_one_alone_after_the_delay() {
    for rule in RULES {
        let mut network = Network::of_stream(config(rule, "fixed"), bed());
        network
            .sender
            .write(network.now, &pattern(10 * SEGMENT))
            .unwrap();
        network.run_until(Instant::from_millis(500));
        assert_eq!(network.answered.len(), 5, "{rule:?}");
        network
            .sender
            .write(network.now, &pattern(SEGMENT))
            .unwrap();
        network.run_until(Instant::from_secs(1));
        let (acked_at, _) = network.answered[5];
        // 25 ms of propagation, 1 ms of serialization, 40 ms of delay.
        let expected = Instant::from_micros(500_000 + 25_000 + 1_038 + 40_000);
        assert_eq!(acked_at, expected, "{rule:?}");
    }
}

#[test]
fn rfc5681_4_2_segments_out_of_order_and_those_that_fill_a_gap_are_acknowledged_at_once() {
    let config = config(LossDetection::TcpCumulative, "fixed");
    let mut network = Network::of_stream(config, losing(&[2]));
    network.transfer(&pattern(8 * SEGMENT), Instant::from_secs(1));
    // Segments 0 and 1 together, 3 to 7 one by one as duplicates, then 2 sent again.
    let spacing: Vec<u64> = network
        .answered
        .windows(2)
        .map(|two| (two[1].0 - two[0].0).as_millis())
        .collect();
    assert_eq!(network.answered.len(), 7, "{spacing:?}");
    assert!(
        spacing[1..5].iter().all(|millis| *millis <= 3),
        "{spacing:?}"
    );
    assert_eq!(retransmissions_and_timeouts(&network), (1, 0));
}

#[test]
fn rfc3042_limited_transmit_then_fast_retransmit_then_the_pipe() {
    let config = config(LossDetection::TcpCumulative, "new-reno");
    let mut network = Network::of_stream(config, losing(&[0]));
    network
        .sender
        .write(network.now, &pattern(60 * SEGMENT))
        .unwrap();
    // Ten segments leave. Two duplicates let one new segment each leave, the third the lost one.
    // The window is halved to five segments; twelve are out, and nine duplicates come: the last two
    // let a segment leave each.
    network.run_until(Instant::from_millis(75));
    let late = network.sent.iter().filter(|(at, _)| *at > Instant::ZERO);
    let at: Vec<u64> = late
        .map(|(at, _)| (at.as_micros() + 1_000 - 50_000) / 1_038)
        .collect();
    assert_eq!(network.sent.len(), 15, "{at:?}");
    assert_eq!(at, [2, 3, 4, 9, 10]);
    assert_eq!(retransmissions_and_timeouts(&network), (1, 0));
}

#[test]
fn a_partial_acknowledgement_takes_three_more_duplicates_or_the_timer() {
    // With two losses in a window, Reno needs a second fast retransmission or a timeout.
    let config = config(LossDetection::TcpCumulative, "new-reno");
    let network = transfer(config, losing(&[20, 24]), 60, 10);
    let (retransmissions, timeouts) = retransmissions_and_timeouts(&network);
    assert_eq!((retransmissions >= 2, timeouts <= 1), (true, true));
}

#[test]
fn timeout_goes_back_and_skips_arrived_segments() {
    let config = config(LossDetection::TcpCumulative, "new-reno");
    // Two duplicates are too few. The acknowledgement of the one sent again covers all.
    let network = transfer(config.clone(), losing(&[5]), 8, 5);
    assert_eq!(retransmissions_and_timeouts(&network), (1, 1));
    // The last three: no duplicates at all.
    let network = transfer(config, losing(&[7, 8, 9]), 10, 5);
    assert_eq!(retransmissions_and_timeouts(&network), (3, 1));
}

#[test]
fn rfc8985_7_a_probe_repairs_a_lost_tail_before_the_timer() {
    for (rule, timeouts) in [(LossDetection::TcpSack, 0), (LossDetection::PerPacket, 1)] {
        let network = transfer(config(rule, "new-reno"), losing(&[9]), 10, 5);
        assert_eq!(
            retransmissions_and_timeouts(&network).1,
            timeouts,
            "{rule:?}"
        );
    }
    // The probe is the last segment; the two before it are then lost by RACK.
    let config = config(LossDetection::TcpSack, "new-reno");
    let network = transfer(config, losing(&[7, 8, 9]), 10, 5);
    assert_eq!(retransmissions_and_timeouts(&network), (3, 0));
}

/// The fourth and the last packet are lost, and so is the first retransmission, the eleventh.
#[test]
fn rfc9002_6_2_a_tail_that_is_lost_in_recovery_is_found_by_a_probe() {
    for controller in ["new-reno", "cubic", "bbr-linux"] {
        let config = config(LossDetection::TcpSack, controller);
        let network = transfer(config, losing(&[3, 9, 10]), 10, 5);
        let counts = retransmissions_and_timeouts(&network);
        assert_eq!(counts, (3, 0), "{controller}");
    }
}

#[test]
fn rfc8985_6_reordering_within_a_quarter_round_trip_is_learnt() {
    let path = TestPath {
        jitter: Duration::from_millis(8),
        ..bed()
    };
    let network = transfer(
        config(LossDetection::TcpSack, "fixed"),
        path.clone(),
        2_000,
        20,
    );
    let (repeated, _) = retransmissions_and_timeouts(&network);
    assert!(repeated <= 20, "{repeated} of 2000");
    let network = transfer(
        config(LossDetection::GapImmediate, "fixed"),
        path,
        2_000,
        20,
    );
    assert!(
        retransmissions_and_timeouts(&network).0 > 200,
        "the jitter does reorder"
    );
}

#[test]
fn silence_is_the_timers_affair_and_backs_it_off() {
    for rule in RULES {
        let path = TestPath {
            outage: Some((Instant::from_secs(1), Instant::from_secs(21))),
            ..bed()
        };
        let mut network = Network::of_stream(config(rule, "new-reno"), path);
        network.transfer(&pattern(5_000_000), Instant::from_secs(60));
        assert!(network.sender.is_drained(), "{rule:?}");
        let states: Vec<_> = network
            .path_states
            .iter()
            .map(|(_, _, state)| *state)
            .collect();
        assert_eq!(states, [PathState::Active], "{rule:?}");
        // Of at least 0.2 s, doubled each time: 0.2 + 0.4 + … + 12.8 > 20.
        let (_, timeouts) = retransmissions_and_timeouts(&network);
        assert!((4..=7).contains(&timeouts), "{rule:?}: {timeouts}");
    }
}

/// RFC 5681 §3.1: the window after a timeout is a segment, and excludes earlier bytes in flight.
#[test]
fn a_timer_that_expires_again_and_again_sends_a_segment_each_time() {
    for controller in [
        "new-reno",
        "cubic",
        "bic",
        "vegas",
        "bbr-linux",
        "bbr-linux-4.9",
        "bbr3",
    ] {
        let path = TestPath {
            outage: Some((Instant::from_secs(4), Instant::from_secs(20))),
            ..bed()
        };
        let mut network = Network::of_stream(config(LossDetection::TcpSack, controller), path);
        network.transfer(&pattern(10_000_000), Instant::from_millis(4_500));
        let before = *network.sender.path_counters(PathId(0)).unwrap();
        network.run_until(Instant::from_secs(19));
        let after = network.sender.path_counters(PathId(0)).unwrap();
        let timeouts = after.retransmission_timeouts - before.retransmission_timeouts;
        let sent = after.sent_packets - before.sent_packets;
        assert!(timeouts >= 3, "{controller}: {timeouts}");
        assert_eq!(sent, timeouts, "{controller}");
    }
}

#[test]
fn flow_control_nothing_is_sent_past_the_window_and_a_lost_update_is_asked_for() {
    let mut config = config(LossDetection::TcpSack, "fixed");
    config.stream.receive_window_bytes = StreamConfig::INITIAL_WINDOW_BYTES;
    let mut network = Network::of_stream(config, bed());
    network.is_reading = false;
    let bytes = pattern(200_000);
    network.sender.write(network.now, &bytes).unwrap();
    network.sender.finish().unwrap();
    network.run_until(Instant::from_secs(10));
    let sent = network
        .sender
        .path_counters(PathId(0))
        .unwrap()
        .sent_packets;
    assert_eq!(sent, 65);
    assert_eq!(network.receiver.counters().stream_bytes_received, 65_000);
    // The update that reading prompts is lost, and so are those after it for 3 s.
    network.paths[0].outage = Some((network.now, network.now + Duration::from_secs(3)));
    network.is_reading = true;
    network.settle();
    network.run_until(Instant::from_secs(13));
    assert_eq!(network.stream.len(), 65_000);
    network.run_until(Instant::from_secs(40));
    assert_eq!(network.stream, bytes);
    assert!(network.sender.is_drained());
}

#[test]
fn a_segment_without_packet_number_is_malformed_and_asks_for_no_report() {
    let now = Instant::ZERO;
    let config = config(LossDetection::TcpCumulative, "new-reno");
    let mut receiver = StreamSession::new(config, Seed(1), now).unwrap();
    let path = receiver.add_path(now, PathOptions::default()).unwrap();
    let meta = DatagramMeta {
        path,
        received_at: now,
        ecn: Ecn::NotEct,
    };
    receiver.handle_datagram(now, meta, &[0x40, 0x10, 0, 0, 0, 0, 1]);
    assert_eq!(receiver.counters().malformed_datagrams, 1);
    assert_eq!(receiver.poll_transmit(now, &mut Vec::new()), None);
    assert_eq!(receiver.poll_timeout(), None);
}

/// Returns the first datagram that a session sends.
fn sent_by<C: Content>(session: &mut Session<C>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let sent = session.poll_transmit(Instant::ZERO, &mut bytes);
    assert_eq!(sent.map(|transmit| transmit.reason), Some(SendReason::New));
    bytes
}

fn session<C: Content>() -> Session<C> {
    let mut session = Session::new(
        config(LossDetection::PerPacket, "fixed"),
        Seed(1),
        Instant::ZERO,
    )
    .unwrap();
    session
        .add_path(Instant::ZERO, PathOptions::default())
        .unwrap();
    while session.poll_event().is_some() {}
    session
}

/// Returns the number of malformed datagrams that a new session counts, and its event.
fn take_in<C: Content>(bytes: &[u8]) -> (u64, Option<Event>) {
    let mut session = session::<C>();
    let meta = DatagramMeta {
        path: PathId(0),
        received_at: Instant::ZERO,
        ecn: Ecn::NotEct,
    };
    session.handle_datagram(Instant::ZERO, meta, bytes);
    (session.counters().malformed_datagrams, session.poll_event())
}

#[test]
fn packets_of_the_other_kind_are_malformed() {
    fn received(event: Option<Event>) -> bool {
        matches!(event, Some(Event::FrameReceived(_)))
    }

    let mut media = session::<Media>();
    let frame = Frame {
        bytes: pattern(10).into(),
        importance: Importance::Key,
        captured_at: Instant::ZERO,
        lifetime: None,
    };
    media.send_frame(Instant::ZERO, &frame).unwrap();
    let of_media = sent_by(&mut media);
    let mut stream = session::<Stream>();
    stream.write(Instant::ZERO, &pattern(10)).unwrap();
    let of_stream = sent_by(&mut stream);

    let (malformed, event) = take_in::<Media>(&of_media);
    assert_eq!((malformed, received(event)), (0, true));
    assert_eq!(take_in::<Stream>(&of_media), (1, None));
    assert_eq!(
        take_in::<Stream>(&of_stream),
        (0, Some(Event::StreamReadable))
    );
    assert_eq!(take_in::<Media>(&of_stream), (1, None));
}

#[test]
fn a_full_send_buffer_takes_no_more_and_says_when_it_does() {
    let mut config = config(LossDetection::TcpCumulative, "new-reno");
    config.stream.send_buffer_bytes = 10_000;
    let mut network = Network::of_stream(config, bed());
    let now = network.now;
    assert_eq!(network.sender.write(now, &pattern(12_000)), Ok(10_000));
    assert_eq!(network.sender.write(now, &pattern(1)), Ok(0));
    network.run_until(Instant::from_millis(40));
    assert!(!network.is_writable_reported);
    network.run_until(Instant::from_millis(100));
    assert!(network.is_writable_reported);
    assert_eq!(network.stream, pattern(10_000));
}

/// The retransmission timer alone would wait for up to a minute more.
#[test]
fn a_stream_goes_on_soon_after_a_long_outage_of_its_only_path() {
    fn run_until(network: &mut Network, end: Instant, rest: &mut &[u8]) {
        while network.now < end {
            *rest = &rest[network.sender.write(network.now, rest).unwrap()..];
            network.run_until(network.now + Duration::from_millis(10));
        }
    }

    for (outage, is_of_way_back) in [(5, false), (20, true), (60, false), (300, false)] {
        let mut config = config(LossDetection::TcpSack, "cubic");
        config.stream.silence_question_interval = Some(Duration::from_secs(1));
        let back_at = Instant::from_secs(1 + outage);
        let times = Some((Instant::from_secs(1), back_at));
        let mut path = bed();
        if is_of_way_back {
            path.outage_back = times;
        } else {
            path.outage = times;
        }
        let mut network = Network::of_stream(config, path);
        let data = pattern(3_000_000);
        let mut rest = &data[..];
        run_until(&mut network, back_at, &mut rest);
        let (sent, arrived) = (network.sent.len(), network.stream.len());
        let late = Instant::from_secs(4);
        let during = network.sent.iter().filter(|(at, _)| *at > late);
        let bytes: u64 = during.map(|(_, bytes)| bytes).sum();
        assert!(bytes < 150 * outage + 10_000, "{bytes} B in {outage} s");
        run_until(
            &mut network,
            back_at + Duration::from_millis(1_300),
            &mut rest,
        );
        assert!(network.stream.len() > arrived || is_of_way_back);
        let count = network.sent.len() - sent;
        assert!(count > 20, "{count} packets after {outage} s");
        run_until(&mut network, back_at + Duration::from_secs(30), &mut rest);
        assert!(network.stream == data);
    }
}

#[test]
fn impossible_writes_are_refused() {
    let now = Instant::ZERO;
    let config = config(LossDetection::TcpSack, "new-reno");
    let mut stream = StreamSession::new(config.clone(), Seed(1), now).unwrap();
    assert!(stream.add_path(now, PathOptions::default()).is_some());
    stream.finish().unwrap();
    assert_eq!(stream.write(now, b"x"), Err(WriteStreamError::Finished));
    stream.close(now);
    assert_eq!(stream.write(now, b"x"), Err(WriteStreamError::Closed));
    let refused = MediaSession::new(config.clone(), Seed(1), now).map(drop);
    assert_eq!(refused, Err(ConfigError::LossDetection));
    // The stream's offset does not say which path lost what.
    let mut cumulative = config.clone();
    cumulative.laboratory.loss_detection = Some(LossDetection::TcpCumulative);
    let mut stream = StreamSession::new(cumulative, Seed(1), now).unwrap();
    assert!(stream.add_path(now, PathOptions::default()).is_some());
    assert!(stream.add_path(now, PathOptions::default()).is_none());
    let mut small = config;
    small.stream.receive_window_bytes = 1_000;
    let refused = StreamSession::new(small, Seed(1), now).map(drop);
    assert_eq!(refused, Err(ConfigError::ReceiveWindow { bytes: 1_000 }));
}
