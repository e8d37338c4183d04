//! Bystanders that see, copy and pass on the datagrams of a session.

use std::net::SocketAddr;
use std::time::Duration;

use anabranch_net::Ended;
use anabranch_net::testing::{Bystander, Hands, Packet};
use anabranch_units::Instant;

use super::bed::{Bed, line, millis, receive};

/// Detour of the datagrams that the bystander sees.
const HELD: Duration = Duration::from_millis(15);

/// A bystander that copies the datagrams of the camera from an address of its own, and passes some
/// of the answers on to the camera.
struct Copier {
    studio: SocketAddr,
    camera: Option<SocketAddr>,
    begins_at: Instant,
    /// Delay of the copies.
    copies_after: Duration,
    /// Whether it passes a datagram of this length on now.
    passes: Box<dyn Fn(Instant, usize) -> bool + Send>,
    /// Source of those; `None`: the studio's address, forged.
    source: Option<SocketAddr>,
}

impl Copier {
    fn own() -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 66], 5_000))
    }
}

impl Bystander for Copier {
    fn see(&mut self, now: Instant, packet: &Packet, hands: &mut Hands) {
        hands.hold(HELD.into());
        if packet.to == self.studio {
            self.camera = Some(packet.from);
            if now >= self.begins_at {
                let from = Copier::own();
                hands.inject(
                    self.copies_after.into(),
                    Packet {
                        from,
                        ..packet.clone()
                    },
                );
            }
        }
    }

    fn receive(&mut self, now: Instant, packet: &Packet, hands: &mut Hands) {
        if let Some(to) = self.camera
            && (self.passes)(now, packet.bytes.len())
        {
            let from = self.source.unwrap_or(packet.from);
            hands.inject(
                millis(0).into(),
                Packet {
                    from,
                    to,
                    ..packet.clone()
                },
            );
        }
    }
}

/// Streams 300 frames beside a bystander. Returns the number of received frames, and whether the
/// server took the bystander's address for the camera's at the end.
fn frames_beside(seed: u64, change: impl FnOnce(&mut Copier)) -> (usize, bool) {
    let bed = Bed::new(seed, &[line(10, 10)]);
    let mut copier = Copier {
        studio: bed.address(),
        camera: None,
        begins_at: Instant::ZERO,
        copies_after: millis(0),
        passes: Box::new(|_, _| false),
        source: None,
    };
    change(&mut copier);
    bed.world.set_bystander(copier);
    let (receiver, sessions) = bed.receiver();
    let sending = async {
        let (sender, _events) = bed.connect().await;
        bed.stream(&sender, 0, 300).await;
        let is_misled = receiver.snapshot().paths[0].peer == Some(Copier::own());
        assert_eq!(sender.finish_async().await, Ended::Closed);
        is_misled
    };
    let receiving = async {
        let session = sessions.recv_async().await.expect("the camera comes");
        receive(&session).await
    };
    let both = async { tokio::join!(sending, receiving) };
    let (is_misled, (numbers, _)) = bed.world.block_on(both);
    (numbers.len(), is_misled)
}

#[test]
fn copies_take_no_session() {
    for begins_at in [Instant::ZERO, Instant::from_secs(3)] {
        for copies_after in [0, 20].map(millis) {
            let beside = frames_beside(1, |copier| {
                copier.begins_at = begins_at;
                copier.copies_after = copies_after;
            });
            assert_eq!(beside, (300, false), "{begins_at:?} {copies_after:?}");
        }
    }
}

#[test]
fn challenges_that_are_passed_on_take_no_session() {
    let own = Some(SocketAddr::from(([192, 0, 2, 99], 6_000)));
    for begins_at in [Instant::ZERO, Instant::from_secs(3)] {
        for copies_after in [0, 20].map(millis) {
            for source in [own, None] {
                let beside = frames_beside(1, |copier| {
                    copier.begins_at = begins_at;
                    copier.copies_after = copies_after;
                    copier.passes = Box::new(|_, length| length == 35);
                    copier.source = source;
                });
                let case = (begins_at, copies_after, source);
                assert_eq!(beside, (300, false), "{case:?}");
            }
        }
    }
}

/// Passes on everything that is short, challenges and reports alike, until it is taken for the
/// camera, and nothing from then on.
#[test]
fn a_bystander_that_turns_silent_stops_no_stream() {
    for limit in [35, 60, 120, 1_500] {
        let (received, is_misled) = frames_beside(2, |copier| {
            copier.passes =
                Box::new(move |now, length| now < Instant::from_secs(4) && length <= limit);
        });
        assert_eq!((received, is_misled), (300, false), "{limit}");
    }
}

/// Passes everything on from an address of its own, and is the faster way.
#[test]
fn a_way_from_another_address_is_not_taken() {
    for begins_at in [Instant::ZERO, Instant::from_secs(3)] {
        let beside = frames_beside(3, |copier| {
            copier.begins_at = begins_at;
            copier.passes = Box::new(|_, _| true);
            copier.source = Some(SocketAddr::from(([192, 0, 2, 99], 6_000)));
        });
        assert_eq!(beside, (300, false), "{begins_at:?}");
    }
}
