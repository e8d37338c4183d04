//! `poise`: a model of the path by one-way delays and arrival rates, for a short queue and a full
//! link.
//!
//! # Design
//!
//! c is the capacity that is left for this flow, q the standing queue ([`standing_queue`]), q' its
//! growth, T the round-trip time, J the jitter, M a packet; S and R are the rates at which the
//! packets of the last max(T, 100 ms) + 4 J left and arrived ([`rates`]). `docs/poise.md` derives
//! the rules and has their effects.
//!
//! 1. The queue's target is q* = 2 ms + 0.75 M/c + J/2. Packets of each flow make shares equal, as
//!    in Vegas and Copa: flows of a link see one queue, so the smaller one has the longer target.
//! 2. The rate is c (1 - (q + q' 150 ms - q*)/D), between a half of c and what rule 4 adds: the
//!    excess that will have come drains within D = 200 ms, or a round trip.
//! 3. While a queue stands, R bounds c: from above while the queue grows (S > R), from below while
//!    it shrinks. c moves to the bound within a round trip, and at once if R is below 0.9 c by more
//!    than jitter explains. More than 1.02 c is a burst of others.
//! 4. While none stands and four fifths of the rate are used, c grows by 0.4 packets a round trip;
//!    after three round trips with an empty queue, or twelve without a standing one, by 6 % of
//!    itself, and twice as fast each round trip, up to a quarter. Both times by what q leaves of
//!    q*.
//! 5. Above a tenth of losses in half a second, c is R, or a half of itself. A share m of marks
//!    (smoothed as by DCTCP) takes m/2 of c.
//! 6. Ten seconds without a look at the path's bare delay: 0.6 c for two round trips and the queue.
//! 7. A delay that has stepped up and is level is the path's ([`floors`]).
//! 8. The encoder gets 0.92 of the rate. The session takes from it what drains the sender's
//!    backlog; a controller that does so, too, makes encoders swing.
//! 9. Until the first excess, c grows by a half each round trip, and pacing is at twice the rate.
//!    It begins with the rate of a source that does not follow.
//!
//! 10. A queue that keeps growing although the rate has yielded is filled by elastic cross traffic
//!     ([`cross_traffic`]). Beside it, c grows by a packet a round trip and is multiplied by 0.7
//!     after losses. Each 8 s half of c for two queues and a round trip shows whether others fill
//!     the queue still.
//!
//! Limits: BBR holds a short queue level; that looks like a path of small capacity.

mod cross_traffic;
mod floors;
mod losses;
mod options;
mod rates;
mod standing_queue;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use anabranch_core::control::{CongestionController, ControlParameters, ControllerConfig, Timeout};
use anabranch_core::recovery::{Feedback, FeedbackSchedule};
use anabranch_core::{PathView, SessionView};
use anabranch_units::{DataRate, Duration, Ecn, Instant};

use super::one_way_delay::one_way_delay_millis;
use cross_traffic::{CrossTraffic, Sight};
use floors::Step;
use losses::{Marks, RoundOfLosses};
use options::Settings;
use rates::{Arrived, Rates, Recent};
use standing_queue::StandingQueue;

pub(super) use options::OPTIONS;

/// Least span of rates: two and a half frames.
const RATE_SPAN: Duration = Duration::from_millis(100);
/// The same in jitters, beyond that or a round trip.
const RATE_SPAN_JITTERS: u64 = 4;
/// Least round trip that counts.
const LEAST_ROUND_TRIP: Duration = Duration::from_millis(5);
/// R/c below which the capacity has fallen.
const FALLEN: f64 = 0.9;
/// Most that R counts, by c.
const MOST_FOUND: f64 = 1.02;
/// S/rate above which the source uses the rate.
const USED: f64 = 0.8;
/// The same of a source that does not follow: its repairs need room at any moment.
const USED_BY_FIXED: f64 = 0.4;
/// The same in Startup, before which an encoder has not followed.
const USED_AT_START: f64 = 0.6;
/// 1 - q/q* above which the queue is empty, and the round trips after which growth doubles.
const EMPTY: f64 = 0.7;
const EMPTY_ROUNDS: f64 = 3.0;
/// Most growth of c in a round trip.
const MOST_GROWTH: f64 = 0.25;
/// Span of a share of losses, at least and in round trips: a burst of a few packets is none.
const LOSS_SPAN: Duration = Duration::from_millis(500);
const LOSS_ROUNDS: u64 = 4;
/// Least rate by c, while a queue drains, and to look at the base.
const LEAST_GAIN: f64 = 0.5;
const DRAIN_GAIN: f64 = 0.6;
/// Growth of c in a round trip of Startup.
const START_GROWTH: f64 = 0.5;
/// Pacing by the rate in Startup.
const START_PACE: f64 = 2.0;
/// Longest time without a look at the base.
const BASE_UNSEEN: Duration = Duration::from_secs(10);
/// Room of the window beyond a round trip: reports are late by as much.
const WINDOW_ROOM: Duration = Duration::from_millis(100);
/// Longest step between two reports that growth counts.
const LONGEST_STEP: Duration = Duration::from_millis(200);
/// Rate by the largest c of the last two seconds, below which the sender has given way.
const YIELDED: f64 = 0.4;
const PAST_SPAN: Duration = Duration::from_secs(2);
const PAST_SPACING: Duration = Duration::from_millis(10);
/// Most that own packets explain beyond the jitter: a flow that has starved has a long target.
const MOST_OWN_MILLIS: f64 = 10.0;
/// Factor of c at a loss, and packets a round trip between losses, while others are elastic.
const COMPETING_DECREASE: f64 = 0.7;
const COMPETING_INCREASE: f64 = 1.0;
/// Time between two tests for elastic traffic that has ended.
const COMPETING_SPAN: Duration = Duration::from_secs(8);
/// The rate by c in such a test, its longest time, and the part of the queue that others leave.
const TEST_GAIN: f64 = 0.5;
const LONGEST_TEST: Duration = Duration::from_secs(2);
const LEFT_BY_OTHERS: f64 = 0.3;

pub(super) fn build(config: &ControllerConfig) -> Box<dyn CongestionController> {
    Box::new(Poise::new(config))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Startup,
    Steady,
    /// The queue drains until then, to show the path without it.
    Drain(Instant),
    /// Others are elastic, until a test at that time.
    Compete(Instant),
    /// A test whether they still are. The queue, in milliseconds, was that one before.
    Test {
        until: Instant,
        queue_millis: f64,
    },
}

#[derive(Debug)]
struct Poise {
    settings: Settings,
    /// M, in bits.
    packet_bits: f64,
    /// Rates in bits per second.
    min_rate: f64,
    max_rate: f64,
    is_ecn_capable: bool,
    /// Whether the source does not follow.
    has_fixed_source: bool,
    /// c, and the rate.
    capacity: f64,
    rate: f64,
    /// c over the last two seconds.
    past: VecDeque<(Instant, f64)>,
    phase: Phase,
    queue: StandingQueue,
    recent: Recent,
    /// Packets sent before say nothing of the present path or phase.
    counts_from: Instant,
    round_trip: Duration,
    jitter: Duration,
    updated_at: Option<Instant>,
    growth: Growth,
    losses: RoundOfLosses,
    marks: Marks,
    cross_traffic: CrossTraffic,
    /// End of the round trip that answers one loss.
    answered_until: Instant,
    stood_at: Instant,
}

/// State of rule 4, in round trips.
#[derive(Clone, Copy, Debug)]
struct Growth {
    empty_rounds: f64,
    /// Since a queue stood.
    calm_rounds: f64,
    /// Factor of growth; 1: not yet.
    boost: f64,
}

impl Growth {
    const NONE: Growth = Growth {
        empty_rounds: 0.0,
        calm_rounds: 0.0,
        boost: 1.0,
    };
}

impl Poise {
    fn new(config: &ControllerConfig) -> Self {
        let rate = config.initial_rate.bits_per_second() as f64;
        Poise {
            settings: Settings::of(&config.options),
            packet_bits: 8.0 * f64::from(config.max_packet_bytes),
            min_rate: (config.min_rate.bits_per_second() as f64).max(1.0),
            max_rate: config.max_rate.bits_per_second() as f64,
            is_ecn_capable: config.is_ecn_capable,
            has_fixed_source: false,
            capacity: rate,
            rate,
            past: VecDeque::new(),
            phase: Phase::Startup,
            queue: StandingQueue::default(),
            recent: Recent::default(),
            counts_from: Instant::ZERO,
            round_trip: RATE_SPAN,
            jitter: Duration::ZERO,
            updated_at: None,
            growth: Growth::NONE,
            losses: RoundOfLosses::default(),
            marks: Marks::default(),
            cross_traffic: CrossTraffic::default(),
            answered_until: Instant::ZERO,
            stood_at: Instant::ZERO,
        }
    }

    /// Returns q* in milliseconds (rule 1), which divides a queue: never zero.
    fn target_millis(&self) -> f64 {
        self.target_with(self.own_millis()).max(f64::MIN_POSITIVE)
    }

    fn target_with(&self, own_millis: f64) -> f64 {
        self.settings.queue_millis + own_millis + self.jitter.as_millis_f64() / 2.0
    }

    fn own_millis(&self) -> f64 {
        1e3 * self.settings.packets * self.packet_bits / self.capacity.max(1.0)
    }

    /// Returns by how much the queue will exceed q*, in milliseconds (rule 2).
    fn excess_millis(&self) -> f64 {
        let coming = (self.queue.growth() * self.settings.ahead_millis).max(0.0);
        self.queue.millis() + coming - self.target_millis()
    }

    fn rate_span(&self) -> Duration {
        self.round_trip.max(RATE_SPAN) + self.jitter * RATE_SPAN_JITTERS
    }

    /// Returns R and S.
    fn rates(&self) -> Option<Rates> {
        let newest = self.recent.newest()?;
        let from = newest.saturating_sub(self.rate_span());
        self.recent.rates(from.max(self.counts_from))
    }

    fn update(&mut self, now: Instant) {
        let elapsed = now.saturating_since(self.updated_at.unwrap_or(now));
        let rounds = elapsed.min(LONGEST_STEP).as_secs_f64() / self.round_trip.as_secs_f64();
        self.updated_at = Some(now);
        let rates = self.rates();
        let is_standing = self.queue.millis() > self.target_millis();
        if is_standing {
            self.stood_at = now;
        }
        match self.phase {
            Phase::Startup if self.excess_millis() > 0.0 => self.end_startup(rates),
            Phase::Startup => self.start(rounds, rates),
            Phase::Drain(until) if now < until => {}
            Phase::Drain(_) => self.phase = Phase::Steady,
            Phase::Compete(until) => self.compete(now, until, rounds, rates),
            Phase::Test {
                until,
                queue_millis,
            } => self.test(now, until, queue_millis),
            Phase::Steady if is_standing => self.follow(rounds, rates),
            Phase::Steady => self.grow(rounds, rates),
        }
        self.answer_losses(now, rates);
        self.answer_marks(now);
        self.look_at_base(now);
        self.look_at_cross_traffic(now);
        self.capacity = self.capacity.clamp(self.min_rate, self.max_rate);
        self.rate = (self.capacity * self.gain()).clamp(self.min_rate, self.max_rate);
        self.remember(now);
    }

    /// Rule 9.
    fn start(&mut self, rounds: f64, rates: Option<Rates>) {
        if rates.is_some_and(|rates| rates.sent > USED_AT_START * self.rate) {
            self.capacity *= 1.0 + START_GROWTH * rounds;
        }
    }

    fn end_startup(&mut self, rates: Option<Rates>) {
        if let Some(rates) = rates {
            self.capacity = rates.arrived.min(rates.sent);
        }
        self.phase = Phase::Steady;
        self.counts_from = self.recent.newest().unwrap_or(self.counts_from);
    }

    /// Rule 3.
    fn follow(&mut self, rounds: f64, rates: Option<Rates>) {
        self.growth = Growth::NONE;
        let Some(rates) = rates else { return };
        let found = rates.arrived.min(MOST_FOUND * self.capacity);
        let is_growing = rates.sent > rates.arrived;
        if self.settings.has_bounds && is_growing != (found < self.capacity) {
            return;
        }
        let jitter_share = self.jitter.as_secs_f64() / self.rate_span().as_secs_f64();
        let has_fallen = rates.arrived < (FALLEN - jitter_share) * self.capacity;
        let weight = if has_fallen { 1.0 } else { rounds.min(1.0) };
        self.capacity += weight * (found - self.capacity);
    }

    /// Rule 4.
    fn grow(&mut self, rounds: f64, rates: Option<Rates>) {
        let room = (1.0 - self.queue.millis() / self.target_millis()).clamp(0.0, 1.0);
        let growth = &mut self.growth;
        growth.calm_rounds += rounds;
        let is_calm = growth.calm_rounds > self.settings.calm_rounds;
        if room > EMPTY {
            growth.empty_rounds += rounds;
        } else if !is_calm {
            (growth.empty_rounds, growth.boost) = (0.0, 1.0);
        }
        let least_used = if self.has_fixed_source {
            USED_BY_FIXED
        } else {
            USED
        };
        if !rates.is_some_and(|rates| rates.sent > least_used * self.rate) {
            growth.boost = 1.0;
            return;
        }
        if growth.empty_rounds > EMPTY_ROUNDS || is_calm {
            let most = MOST_GROWTH / self.settings.growth;
            growth.boost = (growth.boost * libm::exp2(rounds)).min(most);
        }
        let step = if growth.boost > 1.0 {
            self.settings.growth * growth.boost * self.capacity
        } else {
            self.settings.increase * self.packet_bits / self.round_trip.as_secs_f64()
        };
        self.capacity += step * room * rounds;
    }

    /// Rule 5, losses.
    fn answer_losses(&mut self, now: Instant, rates: Option<Rates>) {
        let span = (self.round_trip * LOSS_ROUNDS).max(LOSS_SPAN);
        if !self.losses.end_round(now, span) {
            return;
        }
        let Some(rates) = rates else { return };
        let least = LEAST_GAIN * self.capacity;
        self.capacity = self.capacity.min(rates.arrived.max(least));
        if self.phase == Phase::Startup {
            self.phase = Phase::Steady;
        }
    }

    /// Rule 5, marks.
    fn answer_marks(&mut self, now: Instant) {
        let Some(share) = self.marks.end_round(now, self.round_trip) else {
            return;
        };
        self.capacity *= 1.0 - share / 2.0;
        self.growth = Growth::NONE;
        if self.phase == Phase::Startup {
            self.phase = Phase::Steady;
        }
    }

    /// Rule 6.
    fn look_at_base(&mut self, now: Instant) {
        let seen_at = self.queue.base_seen_at();
        if self.phase == Phase::Steady && seen_at.is_some_and(|at| now > at + BASE_UNSEEN) {
            let queue = Duration::from_nanos((self.queue.millis() * 1e6) as u64);
            self.phase = Phase::Drain(now + self.round_trip * 2 + queue);
            self.queue.on_drain(now);
        }
    }

    /// Rule 10.
    fn look_at_cross_traffic(&mut self, now: Instant) {
        if !self.settings.competes || !matches!(self.phase, Phase::Steady | Phase::Drain(_)) {
            return;
        }
        let most_own_millis = MOST_OWN_MILLIS + self.jitter.as_millis_f64();
        let sight = Sight {
            queue_millis: self.queue.millis(),
            target_millis: self.target_with(self.own_millis().min(most_own_millis)),
            capacity: self.capacity,
            rate: self.rate,
            min_rate: self.min_rate,
        };
        if self.cross_traffic.is_elastic(now, sight) {
            let former = self.cross_traffic.former_capacity().unwrap_or_default();
            self.capacity = self.capacity.max(former);
            self.phase = Phase::Compete(now + COMPETING_SPAN);
        }
    }

    /// Rule 10: growth as TCP's.
    fn compete(&mut self, now: Instant, until: Instant, rounds: f64, rates: Option<Rates>) {
        if now > self.stood_at + COMPETING_SPAN / 2 {
            self.end_competition();
        } else if now > until && self.stood_at == now {
            let two_queues = Duration::from_nanos((self.queue.millis() * 2e6) as u64);
            self.phase = Phase::Test {
                until: now + (self.round_trip + two_queues).min(LONGEST_TEST),
                queue_millis: self.queue.millis(),
            };
        } else if rates.is_some_and(|rates| rates.sent > USED * self.rate) {
            let packet_rate = self.packet_bits / self.round_trip.as_secs_f64();
            self.capacity += COMPETING_INCREASE * rounds * packet_rate;
        }
    }

    /// Rule 10: without elastic traffic the queue drains when this flow yields.
    fn test(&mut self, now: Instant, until: Instant, queue_millis: f64) {
        if self.queue.millis() < (LEFT_BY_OTHERS * queue_millis).max(self.target_millis()) {
            self.end_competition();
        } else if now > until {
            self.phase = Phase::Compete(now + COMPETING_SPAN);
        }
    }

    fn end_competition(&mut self) {
        self.phase = Phase::Steady;
        self.cross_traffic.on_end();
        self.counts_from = self.recent.newest().unwrap_or(self.counts_from);
    }

    /// Rule 10: one answer for the losses of a round trip.
    fn answer_loss_of_round(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Compete(_)) && now >= self.answered_until {
            self.answered_until = now + self.round_trip;
            self.capacity *= COMPETING_DECREASE;
        }
    }

    /// Rule 7. After a sudden step c has its former value: the delay's growth looked like a queue.
    fn follow_step(&mut self, now: Instant) {
        let (rate, past) = (self.rate, &self.past);
        let Some(Step { since, is_sudden }) = self.queue.follow_step(now, self.jitter, || {
            past.iter().any(|&(_, capacity)| rate < YIELDED * capacity)
        }) else {
            return;
        };
        self.counts_from = self.recent.newest().unwrap_or(self.counts_from);
        let before = since.saturating_sub(RATE_SPAN + self.round_trip);
        let index = self.past.partition_point(|&(at, _)| at < before);
        if let Some(&(_, capacity)) = self.past.get(index)
            && is_sudden
        {
            self.capacity = self.capacity.max(capacity);
        }
    }

    fn remember(&mut self, now: Instant) {
        if self
            .past
            .back()
            .is_none_or(|&(at, _)| at + PAST_SPACING <= now)
        {
            self.past.push_back((now, self.capacity));
        }
        while self
            .past
            .front()
            .is_some_and(|&(at, _)| at + PAST_SPAN < now)
        {
            self.past.pop_front();
        }
    }

    /// Returns the rate by c (rule 2).
    fn gain(&self) -> f64 {
        match self.phase {
            Phase::Startup | Phase::Compete(_) => 1.0,
            Phase::Test { .. } => TEST_GAIN,
            Phase::Drain(_) => DRAIN_GAIN,
            Phase::Steady => {
                let drain = self.settings.drain.max(self.round_trip).as_millis_f64();
                let most = 1.0 + self.settings.growth * self.growth.boost;
                (1.0 - self.excess_millis() / drain).clamp(LEAST_GAIN, most)
            }
        }
    }

    /// Returns whether padding may take what media leave: while the capacity is searched.
    fn is_probing(&self) -> bool {
        self.rate < self.max_rate && (self.phase == Phase::Startup || self.growth.boost > 1.0)
    }
}

impl CongestionController for Poise {
    /// A source that does not follow has to be carried from its first frame on.
    fn on_source_rate(&mut self, rate: DataRate) {
        self.has_fixed_source = true;
        if self.phase == Phase::Startup {
            let needed = rate.bits_per_second() as f64 / self.settings.share;
            self.capacity = self.capacity.max(needed).min(self.max_rate);
            self.rate = self.rate.max(self.capacity);
        }
    }

    fn looks_at_paths(&self) -> bool {
        false
    }

    fn on_feedback(
        &mut self,
        now: Instant,
        feedback: &Feedback<'_>,
        _session: &SessionView,
        _paths: &[PathView],
    ) {
        self.round_trip = feedback.rtt.smoothed().max(LEAST_ROUND_TRIP);
        self.jitter = feedback.rtt.jitter();
        if !feedback.lost.is_empty() {
            self.answer_loss_of_round(now);
        }
        self.losses
            .on_report(feedback.acked.len(), feedback.lost.len());
        self.marks
            .on_report(feedback.acked.len(), feedback.ce_count);
        for acked in feedback.acked {
            let (Some(delay_millis), Some(received_at)) =
                (one_way_delay_millis(acked), acked.received_at)
            else {
                continue;
            };
            let sent_at = acked.sent.sent_at;
            self.queue.on_packet(sent_at, delay_millis);
            self.recent.push(Arrived {
                sent_at,
                received_at,
                bytes: acked.sent.bytes,
            });
        }
        self.recent.keep(self.rate_span() * 2);
        self.queue.measure(now, self.jitter);
        if self.settings.has_steps {
            self.follow_step(now);
        }
        self.update(now);
    }

    fn on_timeout(&mut self, _now: Instant, cause: Timeout) {
        if cause == Timeout::Own {
            return;
        }
        // After an outage the path may be another one.
        self.capacity = (self.capacity * LEAST_GAIN).max(self.min_rate);
        self.rate = self.capacity;
        self.phase = Phase::Startup;
        self.queue = StandingQueue::default();
        self.recent = Recent::default();
        self.past.clear();
        self.growth = Growth::NONE;
    }

    fn control(&self) -> ControlParameters {
        let span = self.round_trip + self.jitter + WINDOW_ROOM;
        let window = self.capacity * span.as_secs_f64() / 8.0;
        let target = (self.settings.share * self.rate).max(self.min_rate);
        let is_starting = self.phase == Phase::Startup;
        let pace = if is_starting {
            START_PACE
        } else {
            self.settings.pace
        };
        ControlParameters {
            pacing_rate: Some(DataRate::from_bits_per_second((pace * self.rate) as u64)),
            congestion_window: (!is_starting).then_some(window.max(self.packet_bits / 2.0) as u64),
            padding_rate: if self.is_probing() {
                DataRate::from_bits_per_second(self.rate as u64)
            } else {
                DataRate::ZERO
            },
            ecn: if self.is_ecn_capable {
                Ecn::Ect1
            } else {
                Ecn::NotEct
            },
            ..ControlParameters::of(DataRate::from_bits_per_second(target as u64))
        }
    }

    fn feedback_schedule(&self) -> FeedbackSchedule {
        FeedbackSchedule {
            every_packets: 8,
            max_delay: Duration::from_millis(10),
            ..FeedbackSchedule::default()
        }
    }

    fn state(&self) -> &'static str {
        match self.phase {
            Phase::Startup => "Startup",
            Phase::Steady => "Steady",
            Phase::Drain(_) => "Drain",
            Phase::Compete(_) => "Compete",
            Phase::Test { .. } => "Test",
        }
    }
}
