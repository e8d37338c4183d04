//! One link of a sender: its state, packets in flight and signs of life.

use std::collections::VecDeque;

use anabranch_units::{DataRate, Duration, Instant};

use super::rate::{Observed, Rate};
use super::rtt::Rtt;
use super::wire;
use crate::wire::SenderInfo;

/// Bytes of IP and UDP headers, which use the link's rate too.
const HEADER_BYTES: u64 = 28;
/// Share of the latency beyond the highest round trip after which a packet in flight counts as
/// late, and its bounds. To this comes a quarter of the queueing delay, which may grow. Chosen:
/// two such waits leave most of the latency for retransmissions.
const LATE_SHARE: u64 = 12;
const LEAST_LATE_SLACK: Duration = Duration::from_millis(30);
const MOST_LATE_SLACK: Duration = Duration::from_millis(120);
/// Queueing delay that the window leaves room for, beside packets that wait for an acknowledgement
/// of ten.
const WINDOW_SLACK: Duration = Duration::from_millis(60);
const WINDOW_BYTES: u64 = 12 * 1_360;
/// Time that a pacer may catch up on, as timers are late.
const MAX_CATCH_UP: Duration = Duration::from_millis(2);
/// Shortest interval of keepalives, and number of bytes in whose time one is sent: they take 1 % of
/// the rate at most.
const BUSY_KEEPALIVES: Duration = Duration::from_millis(50);
const KEEPALIVE_BYTES: usize = 6_600;
/// Intervals of keepalives without packets in flight, and on a metered link without.
const IDLE_KEEPALIVES: Duration = Duration::from_millis(200);
const METERED_KEEPALIVES: Duration = Duration::from_secs(1);
/// Maximum number of keepalives whose echo is awaited, and of packets in flight.
const MAX_ASKED: usize = 64;
const MAX_SENT: usize = 16_384;

/// Settings of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkOptions {
    /// Preference: a link of weight 2 is used if it delivers within twice the time of another.
    pub weight: f64,
    /// Whether the link is only used while the others do not suffice.
    pub is_metered: bool,
    /// Maximum rate, headers of IP and UDP included.
    pub max_rate: Option<DataRate>,
}

impl Default for LinkOptions {
    fn default() -> Self {
        LinkOptions {
            weight: 1.0,
            is_metered: false,
            max_rate: None,
        }
    }
}

/// State of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// It has not joined the group.
    Joining,
    /// It can be used.
    Up,
    /// It does not answer.
    Out,
}

/// Counters of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Number of datagrams sent, those of SRTLA included.
    pub sent_datagrams: u64,
    /// Their bytes, with headers of IP and UDP.
    pub sent_bytes: u64,
    /// Number of packets of media that were sent again by this link.
    pub sent_again: u64,
    /// Bytes of these packets.
    pub sent_again_bytes: u64,
    /// Number of datagrams received.
    pub received_datagrams: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Number of packets of media that have arrived by this link.
    pub delivered_packets: u64,
    /// Number of packets of media that were lost on it.
    pub lost_packets: u64,
}

/// A packet on its way.
#[derive(Clone, Copy, Debug)]
struct Sent {
    number: u64,
    at: Instant,
    bytes: u64,
    is_again: bool,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    InFlight,
    /// It counts as lost, and was sent again. It may only be late: then the link acknowledges it,
    /// even if SRT has acknowledged the other copy.
    Lost,
    /// SRT has acknowledged it. The link may still do so, which gives a round trip.
    Settled,
    Over,
}

impl Sent {
    fn is_open(&self) -> bool {
        self.fate == Fate::InFlight
    }
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) options: LinkOptions,
    pub(super) state: LinkState,
    pub(super) rtt: Rtt,
    pub(super) rate: Rate,
    pub(super) counters: LinkCounters,
    /// Time of the next request to join.
    pub(super) join_at: Instant,
    /// Time of the first request to join that is not answered.
    pub(super) join_sent_at: Option<Instant>,
    /// Whether packets have waited for it since the last update.
    pub(super) is_limited: bool,
    pacer_at: Instant,
    sent: VecDeque<Sent>,
    in_flight: u64,
    delivered: u64,
    /// Time of the last acknowledgement of such bytes.
    delivered_at: Instant,
    /// Keepalives without echo: their times in them and by the clock.
    asked: VecDeque<(u64, Instant)>,
    keepalive_at: Instant,
    /// Time of sending of the newest datagram that is known to have arrived.
    proven_at: Instant,
}

impl Link {
    pub(super) fn new(now: Instant, options: LinkOptions) -> Self {
        let rtt = Rtt::default();
        Link {
            options,
            state: LinkState::Joining,
            rate: Rate::new(now, rtt.base()),
            rtt,
            counters: LinkCounters::default(),
            join_at: now,
            join_sent_at: None,
            is_limited: false,
            pacer_at: now,
            sent: VecDeque::new(),
            in_flight: 0,
            delivered: 0,
            delivered_at: now,
            asked: VecDeque::new(),
            keepalive_at: now,
            proven_at: now,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.state == LinkState::Up
    }

    /// Makes the link usable.
    pub(super) fn raise(&mut self, now: Instant) {
        self.state = LinkState::Up;
        self.join_sent_at = None;
        self.rate.resume(now, self.rtt.base());
        self.delivered_at = now;
        self.pacer_at = now;
        self.keepalive_at = now;
        self.prove(now);
    }

    /// Takes the link out of use. Returns the numbers of the packets in flight.
    pub(super) fn lower(&mut self, now: Instant, state: LinkState) -> Vec<u64> {
        self.state = state;
        self.join_at = now;
        self.asked.clear();
        self.in_flight = 0;
        let open = self.sent.drain(..).filter(Sent::is_open);
        open.map(|sent| sent.number).collect()
    }

    /// Forgets the network of the link, for another one.
    pub(super) fn forget_network(&mut self, now: Instant) -> Vec<u64> {
        self.rtt.forget();
        self.rate = Rate::new(now, self.rtt.base());
        self.join_sent_at = None;
        self.lower(now, LinkState::Joining)
    }

    /// Returns the rate of the pacer.
    pub(super) fn pacing_rate(&self) -> DataRate {
        let most = self.options.max_rate.unwrap_or(DataRate::MAX);
        self.rate.get().min(most)
    }

    pub(super) fn in_flight_packets(&self) -> usize {
        self.sent.iter().filter(|sent| sent.is_open()).count()
    }

    /// Returns the window in bytes.
    pub(super) fn window(&self) -> u64 {
        self.pacing_rate().bytes_in(self.rtt.base() + WINDOW_SLACK) + WINDOW_BYTES
    }

    /// Returns the time at which the next packet may leave.
    pub(super) fn start(&self, now: Instant) -> Instant {
        let excess = (self.in_flight + WINDOW_BYTES / 12).saturating_sub(self.window());
        let start = self.pacer_at.max(now);
        match excess {
            0 => start,
            excess => start.max(now + self.pacing_rate().time_for(excess)),
        }
    }

    /// Returns the time that a datagram takes at the pacer's rate.
    pub(super) fn time_for(&self, bytes: usize) -> Duration {
        self.pacing_rate().time_for(bytes as u64 + HEADER_BYTES)
    }

    /// Counts a datagram that leaves by this link.
    pub(super) fn on_datagram(&mut self, bytes: usize) {
        self.counters.sent_datagrams += 1;
        self.counters.sent_bytes += bytes as u64 + HEADER_BYTES;
    }

    /// Counts a datagram that has arrived by this link.
    pub(super) fn on_received(&mut self, bytes: usize) {
        self.counters.received_datagrams += 1;
        self.counters.received_bytes += bytes as u64 + HEADER_BYTES;
    }

    /// Records a packet of media that leaves by this link.
    pub(super) fn on_media(&mut self, now: Instant, number: u64, bytes: usize, is_again: bool) {
        let took = self.time_for(bytes);
        let bytes = bytes as u64 + HEADER_BYTES;
        self.pacer_at = self.pacer_at.max(now.saturating_sub(MAX_CATCH_UP)) + took;
        self.in_flight += bytes;
        self.counters.sent_again += u64::from(is_again);
        self.counters.sent_again_bytes += if is_again { bytes } else { 0 };
        self.sent.push_back(Sent {
            number,
            at: now,
            bytes,
            is_again,
            fate: Fate::InFlight,
        });
        if self.sent.len() > MAX_SENT {
            self.close_front();
        }
    }

    /// Records that a packet has arrived by this link. Returns when it was sent if this was its
    /// first copy: the round trip of one of several copies is not known (Karn's algorithm).
    pub(super) fn on_delivered(&mut self, now: Instant, number: u64) -> Option<Instant> {
        // The last copy comes first.
        let mut known = self
            .sent
            .iter_mut()
            .rev()
            .filter(|sent| sent.fate != Fate::Over);
        let sent = known.find(|sent| sent.number == number)?;
        let fate = core::mem::replace(&mut sent.fate, Fate::Over);
        match fate {
            Fate::Lost => self.counters.lost_packets -= 1,
            Fate::InFlight => self.in_flight -= sent.bytes,
            Fate::Settled | Fate::Over => {}
        }
        let (at, bytes, is_again) = (sent.at, sent.bytes, sent.is_again);
        if fate != Fate::Settled {
            self.on_bytes(now, bytes);
        }
        self.prove(at);
        self.drop_over();
        (!is_again).then_some(at)
    }

    fn on_bytes(&mut self, now: Instant, bytes: u64) {
        self.delivered += bytes;
        self.delivered_at = now;
        self.counters.delivered_packets += 1;
    }

    /// Records that all packets before `next` have arrived or were given up. `is_last_copy` returns
    /// whether a packet's last copy went by this link: others may never have arrived by it.
    pub(super) fn on_settled(
        &mut self,
        now: Instant,
        next: u64,
        is_last_copy: impl Fn(u64) -> bool,
    ) {
        let mut delivered = Vec::new();
        for sent in &mut self.sent {
            if sent.number < next && sent.is_open() {
                self.in_flight -= sent.bytes;
                sent.fate = Fate::Over;
                if is_last_copy(sent.number) {
                    sent.fate = Fate::Settled;
                    delivered.push(sent.bytes);
                }
            }
        }
        for bytes in delivered {
            self.on_bytes(now, bytes);
        }
        self.drop_over();
    }

    /// Records that a packet is lost on this link.
    pub(super) fn on_lost(&mut self, number: u64) {
        let mut open = self.sent.iter_mut().filter(|sent| sent.is_open());
        if let Some(sent) = open.find(|sent| sent.number == number) {
            sent.fate = Fate::Lost;
            self.in_flight -= sent.bytes;
            self.counters.lost_packets += 1;
        }
    }

    /// Forgets all packets, as another stream begins.
    pub(super) fn forget_packets(&mut self) {
        self.sent.clear();
        self.in_flight = 0;
    }

    /// Forgets packets that were sent before `before`.
    pub(super) fn forget_before(&mut self, before: Instant) {
        while self.sent.front().is_some_and(|sent| sent.at < before) {
            self.close_front();
        }
    }

    fn drop_over(&mut self) {
        while self
            .sent
            .front()
            .is_some_and(|sent| sent.fate == Fate::Over)
        {
            self.sent.pop_front();
        }
    }

    fn close_front(&mut self) {
        if let Some(sent) = self.sent.pop_front().filter(Sent::is_open) {
            self.in_flight -= sent.bytes;
        }
    }

    /// Returns whether a packet that was sent at `sent_at` is lost: it is late, and a later
    /// datagram has arrived. While none has, the link's rate may have fallen. A link that is dead
    /// will be taken out of use.
    pub(super) fn has_lost(&self, now: Instant, sent_at: Instant, latency: Duration) -> bool {
        self.proven_at > sent_at && now >= self.late_at(sent_at, latency)
    }

    /// Returns the time at which a packet that was sent at `sent_at` counts as late.
    pub(super) fn late_at(&self, sent_at: Instant, latency: Duration) -> Instant {
        let highest = self.rtt.highest();
        let slack = (latency / LATE_SHARE).clamp(LEAST_LATE_SLACK, MOST_LATE_SLACK);
        sent_at + highest + slack + highest.saturating_sub(self.rtt.base()) / 4
    }

    /// Returns a keepalive if one is due.
    pub(super) fn keepalive(&mut self, now: Instant, index: u32) -> Option<Vec<u8>> {
        fn small(number: u64) -> u32 {
            u32::try_from(number).unwrap_or(u32::MAX)
        }

        if now < self.keepalive_at || self.state == LinkState::Joining {
            return None;
        }
        self.keepalive_at = now
            + match self.state {
                LinkState::Up if self.in_flight > 0 => {
                    let time = self.time_for(KEEPALIVE_BYTES);
                    time.clamp(BUSY_KEEPALIVES, IDLE_KEEPALIVES)
                }
                _ if self.options.is_metered => METERED_KEEPALIVES,
                _ => IDLE_KEEPALIVES,
            };
        let millis = now.as_micros() / 1_000;
        self.asked.push_back((millis, now));
        if self.asked.len() > MAX_ASKED {
            self.asked.pop_front();
        }
        fn whole(number: u64) -> i32 {
            i32::try_from(number).unwrap_or(i32::MAX)
        }
        let info = SenderInfo {
            window: whole(self.window() * 1_000 / 1_360),
            in_flight: whole(self.in_flight_packets() as u64),
            rtt_millis: small(self.rtt.latest().as_millis()),
            nak_count: small(self.counters.lost_packets),
            bytes_per_second: small(self.rate.delivered().bits_per_second() / 8),
        };
        Some(wire::keepalive(millis, index, &info))
    }

    /// Records the echo of a keepalive. Returns whether it was awaited.
    pub(super) fn on_echo(&mut self, now: Instant, millis: u64) -> bool {
        let Some(at) = self.asked.iter().position(|asked| asked.0 == millis) else {
            return false;
        };
        let (_, sent_at) = self.asked[at];
        self.asked.drain(..=at);
        self.rtt.on_sample(now, now.saturating_since(sent_at));
        self.prove(sent_at);
        true
    }

    fn prove(&mut self, sent_at: Instant) {
        self.proven_at = self.proven_at.max(sent_at);
    }

    /// Returns when the oldest datagram was sent whose answer is still awaited.
    fn unproven_since(&self) -> Option<Instant> {
        let mut unproven = self.asked.iter().filter(|asked| asked.1 > self.proven_at);
        unproven.next().map(|&(_, at)| at)
    }

    /// Returns whether an answer is overdue by more than `patience`.
    pub(super) fn is_silent(&self, now: Instant, patience: Duration) -> bool {
        let oldest = self.unproven_since();
        let queueing = self.rtt.highest().saturating_sub(self.rtt.base());
        let longest = self.rtt.highest() + queueing / 4 + LEAST_LATE_SLACK;
        oldest.is_some_and(|at| now > at + longest + patience)
    }

    /// Returns the queueing delay: that of recent answers, or more if one is overdue. It may be a
    /// pause, for which an encoder waits but no rate is given up.
    fn queueing(&self, now: Instant) -> Duration {
        let overdue = self.unproven_since().map_or(Duration::ZERO, |at| {
            self.rtt.beyond_jitter(now.saturating_since(at))
        });
        self.rtt.queueing(self.rate.since()).max(overdue)
    }

    /// Returns the rate for an encoder.
    pub(super) fn usable_rate(&self, now: Instant) -> DataRate {
        let most = self.options.max_rate.unwrap_or(DataRate::MAX);
        self.rate.usable(now, self.queueing(now)).min(most)
    }

    /// Returns the bytes that wait in the network's queue.
    pub(super) fn queued_bytes(&self, now: Instant) -> u64 {
        let queued = self.rate.delivered().bytes_in(self.queueing(now));
        queued.min(self.in_flight)
    }

    /// Updates the rate if it is time.
    pub(super) fn update_rate(&mut self, now: Instant) {
        if !self.is_up() || !self.rate.is_due(now) {
            return;
        }
        let observed = Observed {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            queueing: self.rtt.queueing(self.rate.since()),
            is_limited: core::mem::take(&mut self.is_limited),
            base: self.rtt.base(),
        };
        self.rate.update(now, &observed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link_with(numbers: impl Iterator<Item = u64>) -> Link {
        let mut link = Link::new(Instant::ZERO, LinkOptions::default());
        link.raise(Instant::ZERO);
        for number in numbers {
            link.on_media(Instant::from_millis(number), number, 1_332, false);
        }
        link
    }

    #[test]
    fn a_late_packet_counts_although_its_copy_came_first() {
        let mut link = link_with(1..=2);
        link.on_lost(1);
        link.on_settled(Instant::from_millis(100), 2, |_| false);
        assert_eq!((link.delivered, link.in_flight), (0, 1_360));
        let sent_at = link.on_delivered(Instant::from_millis(200), 1);
        assert_eq!(sent_at, Some(Instant::from_millis(1)));
        assert_eq!((link.delivered, link.counters.lost_packets), (1_360, 0));
        assert_eq!(link.delivered_at, Instant::from_millis(200));
    }

    #[test]
    fn packet_counts_once_and_yields_its_round_trip() {
        let mut link = link_with(1..=3);
        link.on_settled(Instant::from_millis(100), 3, |number| number == 1);
        assert_eq!((link.delivered, link.in_flight), (1_360, 1_360));
        let sent_at = link.on_delivered(Instant::from_millis(110), 1);
        assert_eq!(sent_at, Some(Instant::from_millis(1)));
        assert_eq!(link.on_delivered(Instant::from_millis(120), 1), None);
        assert_eq!(
            (link.delivered, link.counters.delivered_packets),
            (1_360, 1)
        );
        assert_eq!(link.delivered_at, Instant::from_millis(100));
    }

    #[test]
    fn a_late_packet_is_lost_only_if_a_later_one_has_arrived() {
        fn is_lost(link: &Link, number: u64, late: Instant, latency: Duration) -> bool {
            let later = late + Duration::from_secs(1);
            link.has_lost(later, Instant::from_millis(number), latency)
        }

        let mut link = link_with(1..=3);
        let latency = Duration::from_secs(1);
        let late = link.late_at(Instant::from_millis(2), latency);
        assert!(
            !is_lost(&link, 2, late, latency),
            "the rate may have fallen"
        );
        link.on_delivered(Instant::from_millis(50), 2);
        assert!(
            is_lost(&link, 1, late, latency)
                && !is_lost(&link, 2, late, latency)
                && !is_lost(&link, 3, late, latency)
        );
        let early = Instant::from_millis(51);
        assert!(!link.has_lost(early, Instant::from_millis(1), latency));
    }

    #[test]
    fn the_round_trip_of_a_second_copy_is_unknown() {
        let mut link = link_with(1..=1);
        link.on_media(Instant::from_millis(50), 1, 1_332, true);
        assert_eq!(link.on_delivered(Instant::from_millis(90), 1), None);
        assert_eq!(link.delivered, 1_360);
    }
}
