//! The receiver of TFRC, run at the sender from the arrival times in the reports: loss events (RFC
//! 5348 §5), receive rate and times of reports (§6).

use std::collections::VecDeque;

use anabranch_core::recovery::AckedPacket;
use anabranch_units::{Duration, Instant};

use super::Profile;
use super::equation::Equation;
use super::loss_history::LossHistory;

/// Path parameters that the receiver learns from data packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    /// `R`, in seconds.
    pub(super) rtt: f64,
    /// `t_RTO`, in seconds.
    pub(super) timeout: f64,
    pub(super) equation: Equation,
}

/// Contents of one report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Report {
    /// `p`.
    pub(super) loss_event_rate: f64,
    /// `X_recv`, in bytes per second.
    pub(super) receive_rate: f64,
    /// Packets found lost since the last report.
    pub(super) lost_count: u64,
    /// Whether a loss event has begun since the last report, or `p` has risen.
    pub(super) is_loss_new: bool,
}

/// Missing packets that may still arrive.
#[derive(Clone, Copy, Debug)]
struct Hole {
    first: u64,
    /// Number after the last one.
    until: u64,
    /// Received packets around the hole when it was first seen, and their arrivals.
    before: (u64, Instant),
    after: (u64, Instant),
    /// Packets of higher numbers received.
    later_count: u64,
    /// Whether an outage caused it.
    is_outage: bool,
}

impl Hole {
    /// Returns the time at which the packet would have arrived (§5.2).
    fn nominal_arrival(&self, packet_number: u64) -> Instant {
        let gap = self.after.1.saturating_since(self.before.1);
        let share = (packet_number - self.before.0) as f64 / (self.after.0 - self.before.0) as f64;
        self.before.1 + gap.mul_f64(share)
    }
}

#[derive(Debug)]
pub(super) struct Receiver {
    profile: &'static Profile,
    history: LossHistory,
    /// Numbers of the first packets that left after each report since the last loss event.
    rounds: VecDeque<u64>,
    highest: Option<(u64, Instant)>,
    holes: VecDeque<Hole>,
    /// Time of the newest loss event.
    event_at: Option<Instant>,
    /// Whether the next hole consists of packets lost in an outage.
    is_after_outage: bool,
    /// Arrival times of the packets of the last `R`, and their bytes.
    arrived: VecDeque<(Instant, u32)>,
    arrived_bytes: u64,
    unreported_bytes: u64,
    reported_at: Option<Instant>,
    max_receive_rate: f64,
    lost_count: u64,
    has_new_event: bool,
    last_loss_event_rate: f64,
    /// Departure and arrival of a packet, each by its host's clock.
    clocks: Option<(Instant, Instant)>,
}

impl Receiver {
    pub(super) fn new(profile: &'static Profile) -> Self {
        Receiver {
            profile,
            history: LossHistory::new(profile.discount_floor),
            rounds: VecDeque::new(),
            highest: None,
            holes: VecDeque::new(),
            event_at: None,
            is_after_outage: false,
            arrived: VecDeque::new(),
            arrived_bytes: 0,
            unreported_bytes: 0,
            reported_at: None,
            max_receive_rate: 0.0,
            lost_count: 0,
            has_new_event: false,
            last_loss_event_rate: 0.0,
            clocks: None,
        }
    }

    /// Handles an outage: all losses of the next hole are one loss event.
    pub(super) fn on_outage(&mut self) {
        self.is_after_outage = true;
    }

    /// Handles a report that has reached the sender, whose next packet will have this number.
    pub(super) fn on_round(&mut self, next_packet_number: u64) {
        const MEMORY: usize = 64;
        if self.rounds.len() == MEMORY {
            self.rounds.pop_front();
        }
        self.rounds.push_back(next_packet_number);
    }

    pub(super) fn loss_event_rate(&self) -> f64 {
        self.history.loss_event_rate()
    }

    /// Takes the packets that a report acknowledges, in the order of packet numbers.
    pub(super) fn on_received(&mut self, acked: &AckedPacket, path: Option<&Path>) {
        let number = acked.sent.packet_number;
        let at = self.arrival(acked);
        self.count(at, acked.sent.bytes, path);
        match self.highest {
            Some((highest, highest_at)) if number > highest => {
                if number > highest + 1 {
                    self.holes.push_back(Hole {
                        first: highest + 1,
                        until: number,
                        before: (highest, highest_at),
                        after: (number, at),
                        later_count: 0,
                        is_outage: self.is_after_outage,
                    });
                }
                self.is_after_outage = false;
                self.highest = Some((number, at));
            }
            None => self.highest = Some((number, at)),
            Some(_) => self.fill(number),
        }
        for hole in &mut self.holes {
            hole.later_count += u64::from(hole.until <= number);
        }
        while let Some(hole) = self.holes.front()
            && hole.later_count >= u64::from(self.profile.loss_threshold)
        {
            let hole = *hole;
            self.holes.pop_front();
            self.on_lost(&hole, path);
        }
        if let Some((highest, _)) = self.highest {
            self.history.on_received(highest);
        }
    }

    /// Returns the receiver's report, if it is due: a round trip after the last one, at once when a
    /// loss event has begun, and always while no round-trip time is known.
    pub(super) fn report(&mut self, now: Instant, path: Option<&Path>) -> Option<Report> {
        let since_last = self.reported_at.map(|at| now.saturating_since(at));
        let is_due = match (since_last, path) {
            (Some(span), Some(path)) => is_round_trip(span, path.rtt),
            _ => true,
        };
        if !is_due && !self.has_new_event {
            return None;
        }
        let receive_rate = path.map_or(0.0, |path| self.receive_rate(now, path.rtt));
        self.max_receive_rate = self.max_receive_rate.max(receive_rate);
        self.reported_at = Some(now);
        self.unreported_bytes = 0;
        let loss_event_rate = self.loss_event_rate();
        let is_loss_new =
            core::mem::take(&mut self.has_new_event) || loss_event_rate > self.last_loss_event_rate;
        self.last_loss_event_rate = loss_event_rate;
        Some(Report {
            loss_event_rate,
            receive_rate,
            lost_count: core::mem::take(&mut self.lost_count),
            is_loss_new,
        })
    }

    fn arrival(&mut self, acked: &AckedPacket) -> Instant {
        let sent_at = acked.sent.sent_at;
        if let Some(received_at) = acked.received_at {
            self.clocks = Some((sent_at, received_at));
            return received_at;
        }
        // The report with its arrival time was lost. Its delay is assumed to be that of the last
        // packet.
        self.clocks.map_or(sent_at, |(sent, received)| {
            received + sent_at.saturating_since(sent)
        })
    }

    fn count(&mut self, at: Instant, bytes: u32, path: Option<&Path>) {
        self.unreported_bytes += u64::from(bytes);
        self.arrived.push_back((at, bytes));
        self.arrived_bytes += u64::from(bytes);
        let span = path.map_or(Duration::from_secs(1), |path| {
            Duration::from_secs_f64(path.rtt)
        });
        while let Some(&(oldest_at, bytes)) = self.arrived.front()
            && oldest_at + span <= at
        {
            self.arrived_bytes -= u64::from(bytes);
            self.arrived.pop_front();
        }
    }

    /// Returns `X_recv` since the last report, or over the last round trip if that is longer (RFC
    /// 5348 §6.2, ns-2).
    fn receive_rate(&self, now: Instant, rtt: f64) -> f64 {
        let since_last = self.reported_at.map_or(0.0, |reported_at| {
            now.saturating_since(reported_at).as_secs_f64()
        });
        if since_last >= rtt {
            self.unreported_bytes as f64 / since_last
        } else {
            self.arrived_bytes as f64 / rtt
        }
    }

    /// Removes a late packet from its hole.
    fn fill(&mut self, number: u64) {
        let Some(index) = self
            .holes
            .iter()
            .position(|hole| hole.first <= number && number < hole.until)
        else {
            return;
        };
        let hole = self.holes[index];
        self.holes.remove(index);
        let above = Hole {
            first: number + 1,
            ..hole
        };
        let below = Hole {
            until: number,
            ..hole
        };
        for part in [above, below] {
            if part.first < part.until {
                self.holes.insert(index, part);
            }
        }
    }

    /// Handles lost packets. By §5.2 a lost packet begins a loss event if it would have arrived
    /// more than `R` after the first of the last one.
    fn on_lost(&mut self, hole: &Hole, path: Option<&Path>) {
        self.lost_count += hole.until - hole.first;
        let until = if hole.is_outage {
            hole.first + 1
        } else {
            hole.until
        };
        let rtt = path.map_or(Duration::ZERO, |path| Duration::from_secs_f64(path.rtt));
        for number in hole.first..until {
            let at = hole.nominal_arrival(number);
            let is_apart = self.event_at.is_none_or(|event_at| at > event_at + rtt);
            let is_new = is_apart && (self.event_at.is_none() || self.has_round(hole.after.0));
            if !is_new {
                continue;
            }
            self.event_at = Some(at);
            self.has_new_event = true;
            self.rounds.retain(|&first| first > hole.after.0);
            if self.history.has_loss() {
                self.history.on_event(number);
            } else {
                let interval = path.map_or(1.0, |path| self.initial_interval(path, hole.after.1));
                self.history.on_first_event(number, interval);
            }
        }
    }

    fn has_round(&self, packet_number: u64) -> bool {
        let is_begun = self
            .rounds
            .front()
            .is_some_and(|&first| first <= packet_number);
        !self.profile.is_round_needed || is_begun
    }

    /// Returns the interval at which the equation gives the largest receive rate so far (RFC 5348
    /// §6.3.1; ns-2: the present one), at least half a packet per round trip.
    fn initial_interval(&self, path: &Path, now: Instant) -> f64 {
        let least = 0.5 * path.equation.segment_bytes / path.rtt;
        let mut rate = self.receive_rate(now, path.rtt).max(least);
        if self.profile.is_first_interval_by_largest_rate {
            rate = rate.max(self.max_receive_rate);
        }
        1.0 / path.equation.loss_event_rate(rate, path.rtt, path.timeout)
    }
}

/// Whether `span` is the time between two reports, which come a round trip apart. The peer learns
/// only of changes above an eighth.
pub(super) fn is_round_trip(span: Duration, rtt: f64) -> bool {
    const MIN_SHARE: f64 = 0.85;
    span.as_secs_f64() >= MIN_SHARE * rtt
}
