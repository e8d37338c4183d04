//! One emulated link of IP: the interfaces at its ends, and the two directions between them.

use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch_link::{DropCause, LinkChange, LinkConfig, LinkConfigError};
use anabranch_units::{Duration, Instant, Seed};

use crate::clock::Clock;
use crate::config::{LinkDirection, RelayError};
use crate::damage::{Damage, Damager};
use crate::direction::{Arrived, Direction, RelayLinkStatistics};
use crate::interface::Frames;
use crate::ip::{IpHeader, set_ecn, too_big};
use crate::port::{MAX_BATCH_COUNT, build_links};
use crate::recorder::{LinkRecorder, PacketFate};
use crate::release_error::Histogram;
use crate::socket::MAX_DATAGRAM_BYTES;
use crate::worker::Port;

/// A link between two interfaces.
#[derive(Debug)]
pub struct PacketLink {
    /// The link's name in errors.
    pub name: String,
    /// Interface at which the forward direction begins.
    pub sender: Box<dyn Frames>,
    /// Interface at which it ends.
    pub receiver: Box<dyn Frames>,
    /// Direction from the sender to the receiver.
    pub forward: LinkConfig,
    /// Direction from the receiver to the sender.
    pub reverse: LinkConfig,
    /// Seed of both directions' random numbers.
    pub seed: Seed,
    /// Whether packets above the link's MTU are answered, as by a router. Otherwise the link is a
    /// black hole for them.
    pub reports_mtu: bool,
    /// Damage to packets of both directions.
    pub damage: Damage,
}

/// The interfaces are outside of the lock, since the worker waits for them without it.
#[derive(Debug)]
pub(crate) struct PacketPort {
    sender: Box<dyn Frames>,
    receiver: Box<dyn Frames>,
    clock: Clock,
    reports_mtu: bool,
    traffic: Mutex<Traffic>,
}

impl PacketPort {
    pub(crate) fn new(
        link: PacketLink,
        clock: Clock,
        recorder: Option<LinkRecorder>,
    ) -> Result<Self, RelayError> {
        let configs = [&link.forward, &link.reverse];
        let [forward, reverse] = build_links(&link.name, configs, link.seed, Duration::ZERO)?;
        Ok(PacketPort {
            sender: link.sender,
            receiver: link.receiver,
            clock,
            reports_mtu: link.reports_mtu,
            // The headers of IP are part of each packet.
            traffic: Mutex::new(Traffic {
                forward: Direction::new(forward, 0),
                reverse: Direction::new(reverse, 0),
                release_errors: Histogram::default(),
                recorder,
                damager: Damager::new(link.damage, link.seed.derive("damage")),
            }),
        })
    }

    /// Returns the interfaces at which a direction begins and ends.
    fn ends(&self, direction: LinkDirection) -> [&dyn Frames; 2] {
        match direction {
            LinkDirection::Forward => [&*self.sender, &*self.receiver],
            LinkDirection::Reverse => [&*self.receiver, &*self.sender],
        }
    }

    /// Locks the traffic. Counters stay readable after a panic of the worker, which `Relay::stop`
    /// passes on.
    fn lock(&self) -> MutexGuard<'_, Traffic> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Port for PacketPort {
    fn sources(&self) -> [BorrowedFd<'_>; 2] {
        [self.sender.source(), self.receiver.source()]
    }

    fn serve(&self, scratch: &mut [u8; MAX_DATAGRAM_BYTES]) -> Option<Instant> {
        let traffic = &mut *self.lock();
        for direction in [LinkDirection::Forward, LinkDirection::Reverse] {
            let [from, _] = self.ends(direction);
            for _ in 0..MAX_BATCH_COUNT {
                let Ok(packet) = from.receive(&mut scratch[..]) else {
                    break;
                };
                // The clock is read under the lock: a link's time must not go back.
                let answer = traffic.receive(self.clock.now(), direction, packet);
                if self.reports_mtu
                    && let Some(answer) = answer
                {
                    // A lost answer is one that a router was not permitted to send.
                    let _ = from.send(&answer);
                }
            }
        }
        let now = self.clock.now();
        for direction in [LinkDirection::Forward, LinkDirection::Reverse] {
            let [_, to] = self.ends(direction);
            traffic.send_due(now, direction, |packet| {
                to.send(packet).ok().map(|()| self.clock.now())
            });
        }
        traffic.next_at()
    }

    fn change(
        &self,
        link_direction: LinkDirection,
        change: LinkChange,
    ) -> Result<(), LinkConfigError> {
        let traffic = &mut *self.lock();
        let now = self.clock.now();
        traffic.direction(link_direction).change(now, change)
    }

    fn statistics(&self) -> RelayLinkStatistics {
        let traffic = &mut *self.lock();
        let now = self.clock.now();
        RelayLinkStatistics {
            forward: traffic.forward.statistics(now),
            reverse: traffic.reverse.statistics(now),
        }
    }

    fn add_release_errors(&self, sum: &mut Histogram) {
        sum.add(&self.lock().release_errors);
    }
}

/// Both directions, without interfaces and clocks.
#[derive(Debug)]
struct Traffic {
    forward: Direction,
    reverse: Direction,
    release_errors: Histogram,
    recorder: Option<LinkRecorder>,
    damager: Damager,
}

impl Traffic {
    fn direction(&mut self, direction: LinkDirection) -> &mut Direction {
        match direction {
            LinkDirection::Forward => &mut self.forward,
            LinkDirection::Reverse => &mut self.reverse,
        }
    }

    /// Takes in a packet at the beginning of a direction. Returns the router's answer to its
    /// source, if there is one.
    fn receive(
        &mut self,
        now: Instant,
        direction: LinkDirection,
        packet: &[u8],
    ) -> Option<Vec<u8>> {
        let header = IpHeader::parse(packet).filter(IpHeader::is_forwarded)?;
        self.record(
            now,
            direction,
            PacketFate::Entered,
            packet.len() as u32,
            packet,
        );
        let link = self.direction(direction);
        let cause = link.receive(now, &Arrived::of_ip(packet, &header))?;
        let mtu = link.mtu(now);
        self.record(
            now,
            direction,
            PacketFate::Dropped(cause),
            packet.len() as u32,
            &[],
        );
        match (cause, mtu) {
            (DropCause::TooLarge, Some(mtu)) => too_big(packet, mtu),
            _ => None,
        }
    }

    /// Hands all packets of a direction that are due by `now` to `send`. It returns the time at
    /// which a packet was sent; `None` if the operating system refused it.
    fn send_due(
        &mut self,
        now: Instant,
        direction: LinkDirection,
        mut send: impl FnMut(&[u8]) -> Option<Instant>,
    ) {
        let Traffic {
            forward,
            reverse,
            release_errors,
            recorder,
            damager,
        } = self;
        let link = match direction {
            LinkDirection::Forward => forward,
            LinkDirection::Reverse => reverse,
        };
        link.send_due(now, |due| {
            if IpHeader::parse(due.payload).is_some_and(|header| header.ecn != due.ecn) {
                set_ecn(due.payload, due.ecn);
            }
            let arrives_twice = damager.apply(due.payload);
            let Some(sent_at) = send(due.payload) else {
                return false;
            };
            if arrives_twice {
                let _ = send(due.payload);
            }
            release_errors.record(sent_at.saturating_since(due.due_at));
            if let Some(recorder) = recorder {
                let delay = sent_at.saturating_since(due.arrived_at);
                let fate = PacketFate::Left { delay };
                let size_bytes = due.payload.len() as u32;
                recorder.record(sent_at, direction, fate, size_bytes, due.payload);
            }
            true
        });
        while let Some(dropped) = self.direction(direction).take_dropped() {
            let fate = PacketFate::Dropped(dropped.cause);
            self.record(dropped.at, direction, fate, dropped.packet.size_bytes, &[]);
        }
    }

    fn next_at(&self) -> Option<Instant> {
        let next = [self.forward.next_at(), self.reverse.next_at()];
        next.into_iter().flatten().min()
    }

    fn record(
        &self,
        at: Instant,
        direction: LinkDirection,
        fate: PacketFate,
        size_bytes: u32,
        packet: &[u8],
    ) {
        if let Some(recorder) = &self.recorder {
            recorder.record(at, direction, fate, size_bytes, packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_link::{Discipline, LossModel, QueueLimit};
    use anabranch_units::{DataRate, Ecn};

    use super::*;
    use crate::ip::tests::{v4, v6};
    use crate::recorder::{PacketEvent, Recorder};

    const FORWARD: LinkDirection = LinkDirection::Forward;

    fn traffic(forward: LinkConfig, recorder: Option<LinkRecorder>) -> Traffic {
        let configs = [&forward, &LinkConfig::default()];
        let links = build_links("wifi", configs, Seed(1), Duration::ZERO).expect("valid");
        let [forward, reverse] = links.map(|link| Direction::new(link, 0));
        Traffic {
            forward,
            reverse,
            release_errors: Histogram::default(),
            recorder,
            damager: Damager::new(Damage::default(), Seed(1)),
        }
    }

    /// Returns a link of 1 Mbit/s and 20 ms.
    fn slow() -> LinkConfig {
        LinkConfig {
            rate: Some(DataRate::from_megabits_per_second(1)),
            delay: Duration::from_millis(20),
            ..LinkConfig::default()
        }
    }

    fn sent(traffic: &mut Traffic, now: Instant) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        traffic.send_due(now, FORWARD, |packet| {
            packets.push(packet.to_vec());
            Some(now)
        });
        packets
    }

    #[test]
    fn a_packet_is_as_long_on_the_link_as_it_is() {
        for packet in [v4(7, Ecn::Ect0, &[1; 1_222]), v6(7, Ecn::Ect0, &[1; 1_202])] {
            assert_eq!(packet.len(), 1_250);
            let mut traffic = traffic(slow(), None);
            assert_eq!(traffic.receive(Instant::ZERO, FORWARD, &packet), None);
            // 10 ms for its 10,000 bits.
            assert_eq!(traffic.next_at(), Some(Instant::from_millis(30)));
            assert!(sent(&mut traffic, Instant::from_millis(29)).is_empty());
            assert_eq!(sent(&mut traffic, Instant::from_millis(31)), [packet]);
            let errors = traffic.release_errors.summary();
            assert_eq!(
                (errors.packet_count, errors.max),
                (1, Duration::from_millis(1))
            );
        }
    }

    #[test]
    fn a_long_packet_is_answered_by_the_mtu_of_the_moment() {
        let config = LinkConfig {
            mtu_schedule: vec![(Instant::from_secs(1), 1_280)],
            ..LinkConfig::default()
        };
        let mut traffic = traffic(config, None);
        for packet in [
            v4(7, Ecn::NotEct, &[1; 1_300]),
            v6(7, Ecn::NotEct, &[1; 1_300]),
        ] {
            assert_eq!(traffic.receive(Instant::ZERO, FORWARD, &packet), None);
        }
        assert_eq!(sent(&mut traffic, Instant::ZERO).len(), 2);
        let at = Instant::from_secs(1);
        let answer = traffic.receive(at, FORWARD, &v4(7, Ecn::NotEct, &[1; 1_300]));
        assert_eq!(answer.unwrap()[26..28], 1_280_u16.to_be_bytes());
        let answer = traffic.receive(at, FORWARD, &v6(7, Ecn::NotEct, &[1; 1_300]));
        assert_eq!(answer.unwrap()[44..48], 1_280_u32.to_be_bytes());
        let dropped = traffic.forward.statistics(at).link.dropped;
        assert_eq!(dropped.of(DropCause::TooLarge), 2);
    }

    #[test]
    fn a_queue_marks_packets_of_transports_that_know_ecn() {
        let threshold = QueueLimit::Packets(1);
        let config = LinkConfig {
            discipline: Discipline::DropTail {
                mark_above: Some(threshold),
            },
            ..slow()
        };
        let mut traffic = traffic(config, None);
        for _ in 0..2 {
            traffic.receive(Instant::ZERO, FORWARD, &v4(7, Ecn::Ect0, b"x"));
            traffic.receive(Instant::ZERO, FORWARD, &v6(7, Ecn::Ect1, b"x"));
        }
        let at = Instant::from_secs(1);
        let packets = sent(&mut traffic, at);
        let fields = packets
            .iter()
            .map(|packet| IpHeader::parse(packet).unwrap().ecn);
        assert_eq!(
            fields.collect::<Vec<_>>(),
            [Ecn::Ect0, Ecn::Ce, Ecn::Ce, Ecn::Ce]
        );
    }

    #[test]
    fn other_frames_and_packets_for_one_link_do_not_enter() {
        let mut traffic = traffic(slow(), None);
        let mut report = v6(7, Ecn::NotEct, b"x");
        report[24..26].copy_from_slice(&[0xff, 0x02]);
        for packet in [&report[..], b"", b"neither"] {
            assert_eq!(traffic.receive(Instant::ZERO, FORWARD, packet), None);
        }
        let statistics = traffic.forward.statistics(Instant::ZERO);
        assert_eq!(statistics.link.offered_packets, 0);
    }

    #[test]
    fn each_packet_has_its_fate_recorded() {
        let (recorder, events) = Recorder::new(true);
        let config = LinkConfig {
            queue: QueueLimit::Packets(1),
            ..slow()
        };
        let mut traffic = traffic(config, Some(recorder.of_link(3)));
        let packet = v4(7, Ecn::NotEct, &[1; 1_222]);
        traffic.receive(Instant::ZERO, FORWARD, &packet);
        traffic.receive(Instant::ZERO, FORWARD, &packet);
        sent(&mut traffic, Instant::from_millis(30));
        let events: Vec<PacketEvent> = events.try_iter().collect();
        let fates: Vec<PacketFate> = events.iter().map(|event| event.fate).collect();
        let delay = Duration::from_millis(30);
        let expected = [
            PacketFate::Entered,
            PacketFate::Entered,
            PacketFate::Dropped(DropCause::QueueFull),
            PacketFate::Left { delay },
        ];
        assert_eq!(fates, expected);
        assert!(
            events
                .iter()
                .all(|event| event.link_index == 3 && event.size_bytes == 1_250)
        );
        assert_eq!(events[3].packet, packet);
        assert_eq!(recorder.lost_count(), 0);
    }

    #[test]
    fn a_lost_packet_is_recorded_when_it_would_have_entered_the_air() {
        let (recorder, events) = Recorder::new(false);
        let config = LinkConfig {
            loss: LossModel::Bernoulli { probability: 1.0 },
            ..slow()
        };
        let mut traffic = traffic(config, Some(recorder.of_link(0)));
        traffic.receive(Instant::ZERO, FORWARD, &v4(7, Ecn::NotEct, &[1; 1_222]));
        assert!(sent(&mut traffic, Instant::from_millis(10)).is_empty());
        let last = events.try_iter().last().unwrap();
        assert_eq!(last.fate, PacketFate::Dropped(DropCause::RandomLoss));
        assert_eq!(
            (last.at, last.size_bytes),
            (Instant::from_millis(10), 1_250)
        );
        assert!(last.packet.is_empty());
    }
}
