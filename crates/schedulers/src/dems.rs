//! `dems`: decoupled multipath scheduling, a chunk from both its ends.
//!
//! Source: Guo, Nikravesh, Mao, Qian & Sen, "Accelerating multipath transport through balanced
//! subflow completion", MobiCom 2017. One path sends a chunk from its beginning and the other from
//! its end backwards. So both finish at the same time without an agreement on their shares. Near
//! their meeting point up to R = c·σ bytes go over both, in case one is slower than expected.
//!
//! Read for frames over push queues: a frame is the chunk. Its packets are bound when it comes, up
//! to the point where the two would meet: always to the path that would have sent its next packet
//! first. All paths but the first send from the end, so more than two can take part.
//!
//! *Deviations*: σ is the mean deviation of the round-trip time (RFC 6298). Only the path of the
//! largest c·σ has its last packets repeated, on the path that finishes first of the others. At
//! most one packet in ten is repeated (the paper adapts this number). A queue has one order, so
//! repeating on both sides would delay both. Frames below 10 packets go to the path that delivers
//! them first. Retransmissions follow the session's rules.

use anabranch_core::scheduler::{Assignment, PacketKind, Scheduler, SendQueue, usable};
use anabranch_core::{PathId, PathSet, PathView, SessionView};
use anabranch_units::Instant;

use super::binding::Binding;
use super::transfer_cost;

/// Packets from which a chunk is split; the gain of shorter ones is too small.
const MIN_SPLIT_PACKETS: usize = 10;
/// Inverse of the largest share of repeated packets.
const MAX_COPY_FRACTION: usize = 10;

#[derive(Debug, Default)]
struct Dems {
    binding: Binding,
    /// The packets of the chunk in the order of sending, with their paths.
    split: Vec<(usize, PathId)>,
}

pub(super) fn build() -> Box<dyn Scheduler> {
    Box::new(Dems::default())
}

impl Scheduler for Dems {
    fn schedule(
        &mut self,
        _now: Instant,
        queue: &SendQueue<'_>,
        _session: &SessionView,
        paths: &[PathView],
        out: &mut Vec<Assignment>,
    ) {
        self.binding.begin(paths);
        let mut start = 0;
        while let Some(first) = queue.packet(start) {
            let end = start
                + (start..)
                    .take_while(|index| {
                        queue.packet(*index).is_some_and(|packet| {
                            packet.frame == first.frame && packet.kind() == PacketKind::Source
                        })
                    })
                    .count();
            if end == start {
                if let Some(id) = self.binding.by_rule(first) {
                    self.binding.bind(start, first, PathSet::only(id), out);
                }
                start += 1;
                continue;
            }
            self.send_chunk(queue, start, end, out);
            start = end;
        }
    }
}

impl Dems {
    /// Binds the packets `start..end` of the queue.
    fn send_chunk(
        &mut self,
        queue: &SendQueue<'_>,
        start: usize,
        end: usize,
        out: &mut Vec<Assignment>,
    ) {
        let chunk_bytes = (start..end)
            .map(|index| {
                queue
                    .packet(index)
                    .map_or(0, |packet| u64::from(packet.bytes))
            })
            .sum();
        let Some(best) = usable(&self.binding.paths)
            .min_by_key(|path| path.preferred(transfer_cost(path, chunk_bytes)))
        else {
            return;
        };
        let best = best.id;
        if end - start < MIN_SPLIT_PACKETS || usable(&self.binding.paths).count() == 1 {
            for index in start..end {
                let packet = queue.packet(index).expect("it is of the chunk");
                self.binding.bind(index, packet, PathSet::only(best), out);
            }
            return;
        }
        self.split(queue, start, end);
        let repetition = self.repetition(queue, end - start);
        // Repeated packets are last on both paths.
        for is_last in [false, true] {
            for place in 0..self.split.len() {
                let (index, id) = self.split[place];
                let copy_on = repetition.and_then(|repetition| repetition.copy_on(place, id));
                if copy_on.is_some() != is_last {
                    continue;
                }
                let set = [id].into_iter().chain(copy_on).collect();
                let packet = queue.packet(index).expect("it is of the chunk");
                self.binding.bind(index, packet, set, out);
            }
        }
    }

    /// Assigns packets to paths: the path of the least delay sends from the beginning, all others
    /// from the end. Each packet goes to the path that would finish its next packet first.
    fn split(&mut self, queue: &SendQueue<'_>, mut start: usize, mut end: usize) {
        self.split.clear();
        let mut bytes_on = [0; PathId::LIMIT];
        let paths = &self.binding.paths;
        let forward = usable(paths)
            .min_by_key(|path| path.preferred(path.rtt.latest.unwrap_or(PathView::UNKNOWN_RTT)))
            .map(|path| path.id);
        while start < end {
            let Some(path) = usable(paths).min_by_key(|path| {
                let next = if Some(path.id) == forward {
                    start
                } else {
                    end - 1
                };
                let bytes = bytes_on[path.id.index()] + bytes_at(queue, next);
                path.preferred(transfer_cost(path, bytes))
            }) else {
                return;
            };
            let id = path.id;
            let index = if Some(id) == forward { start } else { end - 1 };
            bytes_on[id.index()] += bytes_at(queue, index);
            self.split.push((index, id));
            if Some(id) == forward {
                start += 1
            } else {
                end -= 1
            }
        }
    }

    /// Returns the repetition of the split's last packets, if any.
    fn repetition(&self, queue: &SendQueue<'_>, packet_count: usize) -> Option<Repetition> {
        fn in_doubt(path: &PathView) -> u64 {
            path.drain_rate().bytes_in(path.rtt.variation)
        }

        let paths = &self.binding.paths;
        let late = usable(paths)
            .filter(|path| self.split.iter().any(|(_, id)| *id == path.id))
            .max_by_key(|path| in_doubt(path))?;
        let others = usable(paths).filter(|path| path.id != late.id);
        let on = others
            .min_by_key(|path| path.preferred(transfer_cost(path, 0)))?
            .id;
        let mut left_bytes = in_doubt(late);
        let mut left_packets = (packet_count - 1) / MAX_COPY_FRACTION;
        let mut from_place = usize::MAX;
        for (place, (index, id)) in self.split.iter().enumerate().rev() {
            if *id != late.id {
                continue;
            }
            let bytes = u64::from(queue.packet(*index)?.bytes);
            if left_packets == 0 || left_bytes < bytes {
                break;
            }
            left_packets -= 1;
            left_bytes -= bytes;
            from_place = place;
        }
        let late = late.id;
        Some(Repetition {
            late,
            from_place,
            on,
        })
    }
}

/// Repetition of the packets of `late`, from a place of the split on, over path `on`.
#[derive(Clone, Copy, Debug)]
struct Repetition {
    late: PathId,
    from_place: usize,
    on: PathId,
}

impl Repetition {
    fn copy_on(&self, place: usize, id: PathId) -> Option<PathId> {
        (id == self.late && place >= self.from_place).then_some(self.on)
    }
}

fn bytes_at(queue: &SendQueue<'_>, index: usize) -> u64 {
    let packet = queue.packet(index);
    packet.map_or(0, |packet| u64::from(packet.bytes))
}

#[cfg(test)]
mod tests {
    use anabranch_core::scheduler::PacketView;
    use anabranch_units::{DataRate, Duration};

    use super::super::testing::{Bed, path};
    use super::*;

    /// Sends 800 packets of 1250 B over 8 Mbit/s with 20 ms and 3 Mbit/s with 100 ms, one way.
    fn megabyte_chunk(rtt_variation: Duration) -> (Bed, Vec<(PacketView, PathSet)>) {
        let mut bed = Bed::new(build(), vec![path(0, 40, 8), path(1, 200, 3)]);
        for path in &mut bed.paths {
            path.rtt.variation = rtt_variation;
        }
        let bound = bed.schedule(&Bed::frame(800, 1250));
        (bed, bound)
    }

    fn on(bound: &[(PacketView, PathSet)], path: u8) -> Vec<u16> {
        let of_path = bound.iter().filter(|(_, set)| set.contains(PathId(path)));
        of_path.map(|(packet, _)| packet.fragment).collect()
    }

    #[test]
    fn a_chunk_is_sent_from_both_ends() {
        let (_, bound) = megabyte_chunk(Duration::ZERO);
        let (first, second) = (on(&bound, 0), on(&bound, 1));
        assert!(first.is_sorted() && second.is_sorted_by(|a, b| a > b));
        assert_eq!((first[0], second[0]), (0, 799));
        assert_eq!(first.last().unwrap() + 1, *second.last().unwrap());
    }

    #[test]
    fn both_paths_finish_within_a_round_trip_of_the_faster() {
        fn finish(path: &PathView) -> Duration {
            transfer_cost(path, 0)
        }

        let (bed, _) = megabyte_chunk(Duration::ZERO);
        let apart = finish(&bed.paths[0]).abs_diff(finish(&bed.paths[1]));
        assert!(apart <= Duration::from_millis(40), "{apart}");
        // In fact within a packet of the slower one.
        assert!(apart <= DataRate::from_megabits_per_second(3).time_for(1250));
    }

    #[test]
    fn shares_match_the_common_finish() {
        let (bed, _) = megabyte_chunk(Duration::ZERO);
        // 8 (T - 20 ms) + 3 (T - 100 ms) = 8 Mbit: T = 769 ms.
        let finish = (8.0 + 8.0 * 0.02 + 3.0 * 0.1) / 11.0;
        let expected = 8.0 * (finish - 0.02) / (3.0 * (finish - 0.1));
        let measured = bed.paths[0].queued_bytes as f64 / bed.paths[1].queued_bytes as f64;
        assert!(
            (measured / expected - 1.0).abs() < 0.05,
            "{measured} {expected}"
        );
    }

    #[test]
    fn nothing_is_repeated_while_sigma_is_zero() {
        let (_, bound) = megabyte_chunk(Duration::ZERO);
        assert!(bound.iter().all(|(_, set)| set.len() == 1));
        assert_eq!(bound.len(), 800);
    }

    #[test]
    fn rate_times_sigma_bytes_are_repeated_where_the_paths_meet_and_last() {
        fn twice((_, set): &(PacketView, PathSet)) -> bool {
            set.len() == 2
        }

        // 8 Mbit/s for 20 ms are 16 packets.
        let (_, bound) = megabyte_chunk(Duration::from_millis(20));
        assert_eq!(bound.iter().filter(|one| twice(one)).count(), 16);
        assert!(bound[784..].iter().all(twice));
        let meeting = on(&bound, 0).last().copied().unwrap();
        assert!((0..16).all(|back| {
            bound
                .iter()
                .any(|one| twice(one) && one.0.fragment == meeting - back)
        }));
    }

    #[test]
    fn less_than_ten_percent_is_wasted_however_unsteady_the_paths_are() {
        let mut bed = Bed::new(build(), vec![path(0, 40, 8), path(1, 200, 3)]);
        for path in &mut bed.paths {
            path.rtt.variation = Duration::from_secs(9);
        }
        for packet_count in [10, 11, 57, 100] {
            let bound = bed.schedule(&Bed::frame(packet_count, 1250));
            let copies = bound.iter().filter(|(_, set)| set.len() == 2).count();
            assert!(
                copies * 10 < usize::from(packet_count),
                "{copies} {packet_count}"
            );
        }
    }

    #[test]
    fn a_chunk_of_five_packets_uses_the_best_path_alone() {
        let mut bed = Bed::new(build(), vec![path(0, 40, 8), path(1, 50, 30)]);
        for (_, set) in bed.schedule(&Bed::frame(5, 1250)) {
            // 20 ms and 6.25 ms of queue against 25 ms and 1.7 ms.
            assert_eq!(set, PathSet::only(PathId(0)));
        }
    }

    #[test]
    fn three_paths_finish_together_too() {
        let paths = vec![path(0, 40, 8), path(1, 60, 3), path(2, 100, 5)];
        let mut bed = Bed::new(build(), paths);
        bed.schedule(&Bed::frame(200, 1250));
        let finishes = bed.paths.iter().map(|path| transfer_cost(path, 0));
        let (min, max) = (finishes.clone().min().unwrap(), finishes.max().unwrap());
        assert!(max - min <= DataRate::from_megabits_per_second(3).time_for(1250));
    }
}
