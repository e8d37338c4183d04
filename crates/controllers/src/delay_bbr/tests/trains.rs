//! Rate samples of packets that are sent without a pause between them.

use anabranch_core::PathState;

use super::*;

const SOURCE: DataRate = DataRate::from_kilobits_per_second(2_000);

/// A picture of eight packets.
#[derive(Clone, Copy, Debug)]
struct Picture {
    /// Time between two packets.
    sent_apart: Duration,
    received_apart: Duration,
    /// Index of the lost packet, and of the one whose report with its arrival time is lost.
    lost: Option<usize>,
    untimed: Option<usize>,
}

impl Picture {
    const PACKETS: u64 = 8;

    /// Returns a picture sent at one rate, and received at another.
    fn of(sent: DataRate, received: DataRate) -> Self {
        Picture {
            sent_apart: sent.time_for(PACKET_BYTES.into()),
            received_apart: received.time_for(PACKET_BYTES.into()),
            lost: None,
            untimed: None,
        }
    }
}

/// Sender of pictures, which is application-limited between them.
struct Pictures {
    rig: Rig,
    train: u8,
    rtt: RttEstimator,
    paths: Vec<PathView>,
}

impl Pictures {
    /// Returns a sender in Startup, after a round trip of 60 ms with 1 Mbit/s.
    fn new(profile: &'static Profile, source_rate: DataRate) -> Self {
        let mut rig = Rig::new(profile);
        rig.bbr.on_source_rate(source_rate);
        rig.app_limited_round(60, kbps(1_000));
        rig.app_limited_round(60, kbps(1_000));
        assert_eq!(rig.bbr.bandwidth.max(), kbps(1_000));
        let rtt = RttEstimator::default();
        let paths = vec![PathView::default()];
        Pictures {
            rig,
            train: 1,
            rtt,
            paths,
        }
    }

    /// Sends a picture, and reports it at once; its rate sample contains the pause before it.
    fn go_round(&mut self, picture: Picture) {
        self.send(picture);
        self.report(picture, 0..Picture::PACKETS as usize);
    }

    fn send(&mut self, picture: Picture) {
        let began_at = self.rig.now;
        for index in 0..Picture::PACKETS {
            self.rig.now = began_at + picture.sent_apart * index;
            self.rig.send(1);
            let packet = self.rig.flying.last_mut().expect("sent");
            packet.delivery.train = self.train;
        }
        self.rig.now = began_at + millis(100);
    }

    /// Reports these of its packets, the oldest in flight.
    fn report(&mut self, picture: Picture, which: core::ops::Range<usize>) {
        let acked: Vec<AckedPacket> = which
            .zip(self.rig.flying.clone())
            .filter(|(index, _)| picture.lost != Some(*index))
            .map(|(index, sent)| {
                let received_at = Instant::from_secs(500) + picture.received_apart * index as u64;
                AckedPacket {
                    sent,
                    received_at: (picture.untimed != Some(index)).then_some(received_at),
                    rtt: Some(millis(60)),
                    delivered_bytes: 0,
                }
            })
            .collect();
        let last = acked.last().expect("a packet").sent.packet_number;
        self.rig.flying.retain(|sent| sent.packet_number > last);
        let rate = kbps(1_000);
        let feedback = Feedback {
            path: PathId(0),
            acked: &acked,
            lost: &[],
            spurious: &[],
            rtt: &self.rtt,
            delivery: Some(RateSample {
                delivery_rate: rate,
                min_of_send_and_ack_rate: rate,
                delivered_bytes: u64::from(PACKET_BYTES),
                prior_delivered_bytes: 0,
                interval: millis(60),
                is_full_round: true,
                is_app_limited: true,
                is_first_flight: false,
            }),
            prior_bytes_in_flight: 0,
            bytes_in_flight: 0,
            delivered_bytes: 0,
            lost_bytes: 0,
            is_app_limited: true,
            is_window_limited: false,
            reported_at: self.rig.now,
            ce_count: 0,
        };
        let (session, now) = (SessionView::default(), self.rig.now);
        let paths = &self.paths;
        self.rig.bbr.on_feedback(now, &feedback, &session, paths);
    }

    fn estimate(&self) -> f64 {
        self.rig.bbr.bandwidth.max().megabits_per_second()
    }
}

/// Returns the estimate after one picture of a source with a rate of its own.
fn after(picture: Picture) -> f64 {
    let mut pictures = Pictures::new(&live::PROFILE, SOURCE);
    pictures.go_round(picture);
    pictures.estimate()
}

/// Returns the rate of `packets` of 1000 bytes behind the first one, in `span_millis` and one for
/// doubt.
fn megabits(packets: f64, span_millis: f64) -> f64 {
    packets * 8.0 / (span_millis + 1.0)
}

#[track_caller]
fn assert_near(actual: f64, expected: f64) {
    assert!((actual / expected - 1.0).abs() < 0.001, "{actual}");
}

#[test]
fn a_train_shows_its_bytes_in_the_longer_of_the_times_of_sending_and_arriving() {
    // At 4 Mbit/s a packet takes 2 ms, at 8 one.
    let (slow, quick) = (kbps(4_000), kbps(8_000));
    assert_near(after(Picture::of(slow, slow)), megabits(7.0, 14.0));
    assert_near(after(Picture::of(quick, slow)), megabits(7.0, 14.0));
    assert_near(after(Picture::of(slow, quick)), megabits(7.0, 14.0));
}

#[test]
fn bursts_show_no_more_than_the_slower_side() {
    let at_once = DataRate::from_bits_per_second(u64::MAX);
    let slow = kbps(4_000);
    assert_near(after(Picture::of(slow, at_once)), megabits(7.0, 14.0));
    assert_near(after(Picture::of(at_once, slow)), megabits(7.0, 14.0));
}

#[test]
fn a_lost_packet_counts_for_its_time_and_not_for_its_bytes() {
    let picture = Picture {
        lost: Some(3),
        ..Picture::of(kbps(4_000), kbps(4_000))
    };
    assert_near(after(picture), megabits(6.0, 14.0));
}

#[test]
fn bytes_whose_arrival_times_are_unknown_count_with_the_next_packet() {
    let picture = Picture::of(kbps(4_000), kbps(4_000));
    for (index, expected) in [(3, megabits(7.0, 14.0)), (7, megabits(6.0, 12.0))] {
        let untimed = Some(index);
        assert_near(after(Picture { untimed, ..picture }), expected);
    }
}

#[test]
fn several_reports_describe_one_train() {
    let picture = Picture::of(kbps(4_000), kbps(4_000));
    let mut pictures = Pictures::new(&live::PROFILE, SOURCE);
    pictures.send(picture);
    pictures.report(picture, 0..5);
    assert_near(pictures.estimate(), megabits(4.0, 8.0));
    pictures.report(picture, 5..8);
    assert_near(pictures.estimate(), megabits(7.0, 14.0));
}

#[test]
fn the_pause_between_trains_belongs_to_none() {
    let picture = Picture::of(kbps(4_000), kbps(4_000));
    for (next_train, expected) in [(2, megabits(7.0, 14.0)), (1, megabits(8.0, 34.0))] {
        let mut pictures = Pictures::new(&live::PROFILE, SOURCE);
        // A retransmission, and a picture later.
        pictures.rig.send(1);
        pictures.rig.flying[0].delivery.train = 1;
        pictures.report(picture, 0..1);
        pictures.rig.now += millis(20);
        pictures.train = next_train;
        pictures.go_round(picture);
        assert_near(pictures.estimate(), expected);
    }
}

#[test]
fn jitter_may_have_shortened_a_train() {
    let mut pictures = Pictures::new(&live::PROFILE, SOURCE);
    let now = pictures.rig.now;
    for index in 0..2_000 {
        let rtt = millis(60 + index % 2 * 6);
        pictures.rtt.on_sample(now, rtt);
        pictures.rtt.on_packet(Instant::from_millis(index), rtt);
    }
    assert_eq!(pictures.rtt.jitter(), millis(6));
    pictures.go_round(Picture::of(kbps(4_000), kbps(4_000)));
    assert_near(pictures.estimate(), 7.0 * 8.0 / (14.0 + 6.0));
}

#[test]
fn only_a_source_with_a_rate_of_its_own_learns_of_trains_and_only_in_our_form() {
    for (profile, source_rate) in [
        (&live::PROFILE, DataRate::ZERO),
        (&v5::PROFILE, SOURCE),
        (&text::PROFILE, SOURCE),
    ] {
        let mut pictures = Pictures::new(profile, source_rate);
        pictures.go_round(Picture::of(kbps(4_000), kbps(4_000)));
        assert_eq!(pictures.estimate(), 1.0);
    }
}

#[test]
fn beside_another_path_in_use_nothing_is_learnt_of_trains() {
    for (state, expected) in [(PathState::Active, 1.0), (PathState::Out, 7.0 * 8.0 / 15.0)] {
        let mut pictures = Pictures::new(&live::PROFILE, SOURCE);
        pictures.paths.push(PathView {
            id: PathId(1),
            state,
            ..PathView::default()
        });
        pictures.go_round(Picture::of(kbps(4_000), kbps(4_000)));
        assert_near(pictures.estimate(), expected);
    }
}

#[test]
fn trains_that_come_out_slower_than_they_are_sent_end_startup() {
    // The last one is within the doubt of 1 ms in 14.
    for (received, state) in [(4_000, "ProbeBW"), (5_000, "Startup"), (4_600, "Startup")] {
        let mut pictures = Pictures::new(&live::PROFILE, SOURCE);
        for _ in 0..8 {
            pictures.train = (pictures.train + 1) % 4;
            pictures.go_round(Picture::of(kbps(5_000), kbps(received)));
        }
        assert_eq!(pictures.rig.bbr.state(), state, "{received}");
    }
}
