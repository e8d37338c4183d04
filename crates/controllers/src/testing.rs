//! A bed for controllers under test: flows with their own recovery over one drop-tail bottleneck.
//!
//! It is small and exact rather than complete: the return path is never congested, and no flow's
//! packets are reordered.

pub(super) mod beds;
mod conditions;
mod media_beds;
mod rig;
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use anabranch_core::SessionView;
use anabranch_core::control::{CongestionController, ControllerConfig, RateKind, Timeout};
use anabranch_core::recovery::{FeedbackSchedule, LossDetection};
use anabranch_core::testing::{PathReceiver, PathSender};
use anabranch_units::{DataRate, Duration, Ecn, Instant, Rng, Seed};

use super::registry::{UnknownController, by_name};
use conditions::{DelayWave, Policer};
pub(super) use media_beds::{CAPACITY, Measures, bed_config, run_flows, ten_megabits, with_flows};

pub(super) use rig::{Report, Rig};

/// 1000 bytes and their headers.
pub(super) const PACKET_BYTES: u32 = 1_030;
/// A path that has gone silent with nothing in flight.
pub(super) const SILENCE: Timeout = Timeout::FeedbackSilence {
    prior_bytes_in_flight: 0,
};
const CHALLENGE_BYTES: u32 = 60;
const CHALLENGE_INTERVAL: Duration = Duration::from_millis(100);
const TICK: Duration = Duration::from_millis(10);

/// Builds a controller for one path, by its name and options.
pub(super) fn build(
    name: &str,
    config: &ControllerConfig,
) -> Result<Box<dyn CongestionController>, UnknownController> {
    by_name(name).map(|controller| controller.build(config))
}

/// Link that all flows share.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// Rates with their start times; zero: everything is dropped.
    pub(super) rates: Vec<(Instant, DataRate)>,
    /// Delay in each direction.
    pub(super) delay: Duration,
    pub(super) queue_bytes: u64,
}

impl Link {
    /// Returns a link of constant rate whose queue holds `queue` of it.
    pub(super) fn new(rate: DataRate, delay: Duration, queue: Duration) -> Self {
        Link {
            rates: vec![(Instant::ZERO, rate)],
            delay,
            queue_bytes: rate.bytes_in(queue),
        }
    }

    /// Changes the rate at this moment.
    pub(super) fn then(mut self, at: Instant, rate: DataRate) -> Self {
        self.rates.push((at, rate));
        self
    }

    fn rate(&self, now: Instant) -> DataRate {
        let begun = self.rates.partition_point(|&(at, _)| at <= now);
        self.rates[begun - 1].1
    }
}

/// Data that a flow has to send.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// A source that never runs out.
    Greedy,
    /// Video at the encoder's share of the controller's target, up to a maximum; padding fills
    /// probes.
    Video { max: DataRate },
}

/// One flow's outcome.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Outcome {
    pub(super) sent_count: u64,
    pub(super) dropped_count: u64,
    /// Packets delivered with the mark Congestion Experienced.
    pub(super) marked_count: u64,
    /// Bytes delivered in each tenth of a second.
    pub(super) delivered_bytes: Vec<u64>,
    /// Packets dropped in each tenth of a second, by the queue, an outage or chance.
    dropped_counts: Vec<u64>,
    /// Packets delivered in each tenth of a second, and the sum of their one-way delays.
    delays: Vec<(u32, Duration)>,
    delivered_count: u64,
    one_way_delays: Duration,
}

impl Outcome {
    pub(super) fn mean_one_way_delay(&self) -> Duration {
        self.one_way_delays / self.delivered_count.max(1)
    }

    pub(super) fn delivered_between(&self, from_second: usize, to_second: usize) -> u64 {
        self.delivered_bytes
            .iter()
            .take(to_second * 10)
            .skip(from_second * 10)
            .sum()
    }

    /// Returns the mean rate between two seconds of the run.
    pub(super) fn rate_between(&self, from_second: usize, to_second: usize) -> DataRate {
        let span = Duration::from_secs((to_second - from_second) as u64);
        DataRate::from_bytes_per(self.delivered_between(from_second, to_second), span)
    }

    /// Returns the packets dropped between two seconds of the run.
    pub(super) fn dropped_between(&self, from_second: usize, to_second: usize) -> u64 {
        let slots = self.dropped_counts.iter();
        slots.take(to_second * 10).skip(from_second * 10).sum()
    }

    /// Returns the mean over the packets delivered between two seconds of the run.
    pub(super) fn one_way_delay_between(&self, from_second: usize, to_second: usize) -> Duration {
        let slots = self
            .delays
            .iter()
            .take(to_second * 10)
            .skip(from_second * 10);
        let (count, sum) = slots.fold((0, Duration::ZERO), |(count, sum), slot| {
            (count + slot.0, sum + slot.1)
        });
        sum / u64::from(count.max(1))
    }

    fn on_delivered(&mut self, now: Instant, packet: Packet) {
        let delay = now - packet.sent_at;
        self.marked_count += u64::from(packet.is_marked);
        *slot(&mut self.delivered_bytes, now) += u64::from(packet.bytes);
        let (count, sum) = slot(&mut self.delays, now);
        (*count, *sum) = (*count + 1, *sum + delay);
        self.delivered_count += 1;
        self.one_way_delays += delay;
    }

    fn on_dropped(&mut self, now: Instant) {
        self.dropped_count += 1;
        *slot(&mut self.dropped_counts, now) += 1;
    }
}

/// Returns the entry of this tenth of a second.
fn slot<T: Clone + Default>(slots: &mut Vec<T>, now: Instant) -> &mut T {
    let index = (now.as_micros() / 100_000) as usize;
    if slots.len() <= index {
        slots.resize(index + 1, T::default());
    }
    &mut slots[index]
}

/// Returns Jain's fairness index.
pub(super) fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    flow: usize,
    number: u64,
    bytes: u32,
    sent_at: Instant,
    is_marked: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Wake { flow: usize },
    Served,
    Arrived(Packet),
    ReportDue { flow: usize },
    Reported { flow: usize, report: Vec<u8> },
    Tick { flow: usize },
}

#[derive(Debug)]
struct Flow {
    controller: Box<dyn CongestionController>,
    sender: PathSender,
    source: Source,
    encoder_share: f64,
    /// Additional delay in each direction.
    extra_delay: Duration,
    starts_at: Instant,
    stops_at: Instant,
    next_send_at: Instant,
    next_media_at: Instant,
    wakes_at: Option<Instant>,
    is_out: bool,
    is_window_limited: bool,
    receiver: PathReceiver,
    outcome: Outcome,
}

/// Flows over a link.
#[derive(Debug)]
pub(super) struct Bed {
    link: Link,
    /// Schedule of the receivers' reports, if not the controllers' own.
    feedback: Option<FeedbackSchedule>,
    /// Chance by which a packet that has left the bottleneck does not arrive.
    loss_ratio: f64,
    rng: Rng,
    /// Queued bytes above which an arriving packet is marked, if its sender understands marks.
    mark_above_bytes: Option<u64>,
    policer: Option<Policer>,
    delay_wave: Option<DelayWave>,
    last_arrival_at: Instant,
    flows: Vec<Flow>,
    events: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    event_count: u64,
    queue: VecDeque<Packet>,
    queued_bytes: u64,
    is_serving: bool,
}

impl Bed {
    pub(super) fn new(link: Link) -> Self {
        Bed {
            link,
            feedback: None,
            loss_ratio: 0.0,
            rng: Seed::default().rng(),
            mark_above_bytes: None,
            policer: None,
            delay_wave: None,
            last_arrival_at: Instant::ZERO,
            flows: Vec::new(),
            events: BinaryHeap::new(),
            event_count: 0,
            queue: VecDeque::new(),
            queued_bytes: 0,
            is_serving: false,
        }
    }

    /// Sets the schedule by which all receivers report.
    pub(super) fn feedback(mut self, schedule: FeedbackSchedule) -> Self {
        self.feedback = Some(schedule);
        self
    }

    /// Loses this share of the packets behind the bottleneck, each independently.
    pub(super) fn random_loss(mut self, loss_ratio: f64, seed: Seed) -> Self {
        self.loss_ratio = loss_ratio;
        self.rng = seed.rng();
        self
    }

    /// Marks packets that find more than `queued_bytes` in the queue: the simplest form of an L4S
    /// queue's ramp.
    pub(super) fn marking_above(mut self, queued_bytes: u64) -> Self {
        self.mark_above_bytes = Some(queued_bytes);
        self
    }

    /// Polices all flows before the queue.
    pub(super) fn policer(mut self, rate: DataRate, bucket_bytes: u64) -> Self {
        self.policer = Some(Policer::new(rate, bucket_bytes));
        self
    }

    /// Adds `extra_delay` on the forward direction in every second half of the period.
    pub(super) fn delay_wave(mut self, extra_delay: Duration, period: Duration) -> Self {
        self.delay_wave = Some(DelayWave {
            extra_delay,
            period,
        });
        self
    }

    /// Delays the last flow by `extra_delay` more than the link in each direction.
    pub(super) fn extra_delay(mut self, extra_delay: Duration) -> Self {
        self.flows.last_mut().expect("a flow").extra_delay = extra_delay;
        self
    }

    /// Sets the share of the controller's target that the last flow's video takes.
    pub(super) fn with_encoder_share(mut self, share: f64) -> Self {
        self.flows.last_mut().expect("a flow").encoder_share = share;
        self
    }

    /// Adds a flow that sends from one moment to the other.
    pub(super) fn flow(
        mut self,
        controller: Box<dyn CongestionController>,
        source: Source,
        loss_detection: LossDetection,
        from: Instant,
        to: Instant,
    ) -> Self {
        let flow = self.flows.len();
        self.flows.push(Flow {
            controller,
            sender: PathSender::new(loss_detection, from),
            source,
            encoder_share: RateKind::Bandwidth.encoder_share(1.0),
            extra_delay: Duration::ZERO,
            starts_at: from,
            stops_at: to,
            next_send_at: from,
            next_media_at: from,
            wakes_at: None,
            is_out: false,
            is_window_limited: false,
            receiver: PathReceiver::default(),
            outcome: Outcome::default(),
        });
        self.wake(flow, from);
        self.at(from, Event::Tick { flow });
        self
    }

    /// Runs until that moment, and shows `observe` every flow's controller after each of its
    /// reports.
    pub(super) fn run_observed(
        mut self,
        until: Instant,
        mut observe: impl FnMut(Instant, usize, &dyn CongestionController),
    ) -> Vec<Outcome> {
        while let Some(Reverse((now, _, event))) = self.events.pop() {
            if now > until {
                break;
            }
            match event {
                Event::Wake { flow } => {
                    self.flows[flow].wakes_at = None;
                    self.send(now, flow);
                }
                Event::Served => self.on_served(now),
                Event::Arrived(packet) => self.on_arrived(now, packet),
                Event::ReportDue { flow } => self.on_report_due(now, flow),
                Event::Reported { flow, report } => {
                    self.on_reported(now, flow, &report);
                    observe(now, flow, &*self.flows[flow].controller);
                }
                Event::Tick { flow } => self.on_tick(now, flow),
            }
        }
        self.flows.into_iter().map(|flow| flow.outcome).collect()
    }

    pub(super) fn run(self, until: Instant) -> Vec<Outcome> {
        self.run_observed(until, |_, _, _| {})
    }

    fn at(&mut self, at: Instant, event: Event) {
        self.event_count += 1;
        self.events.push(Reverse((at, self.event_count, event)));
    }

    fn wake(&mut self, flow: usize, at: Instant) {
        if self.flows[flow]
            .wakes_at
            .is_none_or(|wakes_at| at < wakes_at)
        {
            self.flows[flow].wakes_at = Some(at);
            self.at(at, Event::Wake { flow });
        }
    }

    fn send(&mut self, now: Instant, index: usize) {
        loop {
            let flow = &mut self.flows[index];
            if now < flow.starts_at || now >= flow.stops_at || flow.is_out {
                return;
            }
            let control = flow.controller.control();
            if let Some(rate) = control.pacing_rate {
                assert!(!rate.is_zero(), "{} paces at zero", flow.controller.state());
                if flow.next_send_at > now {
                    let at = flow.next_send_at;
                    return self.wake(index, at);
                }
            }
            let in_flight = flow.sender.bytes_in_flight();
            if let Some(window) = control.congestion_window {
                assert!(window >= u64::from(PACKET_BYTES), "a window of {window} B");
                flow.is_window_limited = in_flight + u64::from(PACKET_BYTES) > window;
                if flow.is_window_limited {
                    return;
                }
            }
            if let Source::Video { max } = flow.source {
                if flow.next_media_at <= now {
                    let rate = control.target_rate.mul_f64(flow.encoder_share).min(max);
                    flow.next_media_at += rate.time_for(PACKET_BYTES.into());
                } else if control.padding_rate.is_zero() {
                    flow.sender.mark_app_limited();
                    let at = flow.next_media_at;
                    return self.wake(index, at);
                }
            }
            if let Some(rate) = control.pacing_rate {
                flow.next_send_at = now + rate.time_for(PACKET_BYTES.into());
            }
            self.put(now, index, PACKET_BYTES);
        }
    }

    /// Puts a packet into the bottleneck.
    fn put(&mut self, now: Instant, index: usize, bytes: u32) {
        let flow = &mut self.flows[index];
        let packet = flow.sender.on_sent(now, bytes);
        flow.controller.on_sent(now, &packet);
        flow.outcome.sent_count += 1;
        let is_full = self.queued_bytes + u64::from(bytes) > self.link.queue_bytes;
        let is_policed = self
            .policer
            .as_mut()
            .is_some_and(|policer| !policer.passes(now, bytes.into()));
        if is_policed || is_full || self.link.rate(now).is_zero() {
            flow.outcome.on_dropped(now);
            return;
        }
        let is_marked = self
            .mark_above_bytes
            .is_some_and(|bytes| self.queued_bytes > bytes)
            && flow.controller.control().ecn != Ecn::NotEct;
        let number = packet.packet_number;
        self.queued_bytes += u64::from(bytes);
        self.queue.push_back(Packet {
            flow: index,
            number,
            bytes,
            sent_at: now,
            is_marked,
        });
        self.serve(now);
    }

    fn serve(&mut self, now: Instant) {
        if self.is_serving {
            return;
        }
        let Some(head) = self.queue.front() else {
            return;
        };
        // A packet caught in the queue by an outage leaves at a trickle.
        let rate = self
            .link
            .rate(now)
            .max(DataRate::from_kilobits_per_second(100));
        let bytes = head.bytes.into();
        self.is_serving = true;
        self.at(now + rate.time_for(bytes), Event::Served);
    }

    fn on_served(&mut self, now: Instant) {
        let packet = self.queue.pop_front().expect("a packet in service");
        self.queued_bytes -= u64::from(packet.bytes);
        self.is_serving = false;
        // No draw without random loss, so that other runs stay the same.
        let is_unlucky = self.loss_ratio > 0.0 && self.rng.chance(self.loss_ratio);
        let flow = &mut self.flows[packet.flow];
        if self.link.rate(now).is_zero() || is_unlucky {
            flow.outcome.on_dropped(now);
        } else {
            let mut at = now + self.link.delay + flow.extra_delay;
            if let Some(wave) = self.delay_wave {
                at = (at + wave.extra_delay(now)).max(self.last_arrival_at);
                self.last_arrival_at = at;
            }
            self.at(at, Event::Arrived(packet));
        }
        self.serve(now);
    }

    fn on_arrived(&mut self, now: Instant, packet: Packet) {
        let flow = &mut self.flows[packet.flow];
        flow.outcome.on_delivered(now, packet);
        let schedule = self
            .feedback
            .unwrap_or_else(|| flow.controller.feedback_schedule());
        flow.receiver.set_schedule(schedule);
        let was_due_at = flow.receiver.due_at();
        flow.receiver
            .on_received(now, packet.number, packet.is_marked);
        match flow.receiver.due_at() {
            Some(at) if at <= now => self.report(now, packet.flow),
            Some(at) if was_due_at != Some(at) => {
                self.at(at, Event::ReportDue { flow: packet.flow });
            }
            _ => {}
        }
    }

    fn on_report_due(&mut self, now: Instant, flow: usize) {
        let due_at = self.flows[flow].receiver.due_at();
        if due_at.is_some_and(|at| at <= now) {
            self.report(now, flow);
        }
    }

    fn report(&mut self, now: Instant, index: usize) {
        let flow = &mut self.flows[index];
        let Some(report) = flow.receiver.report(now) else {
            return;
        };
        let at = now + self.link.delay + flow.extra_delay;
        self.at(
            at,
            Event::Reported {
                flow: index,
                report,
            },
        );
    }

    fn on_reported(&mut self, now: Instant, index: usize, bytes: &[u8]) {
        let flow = &mut self.flows[index];
        if flow.sender.on_report(now, bytes) {
            if flow.is_out {
                flow.is_out = false;
                flow.next_send_at = now;
                flow.next_media_at = now;
            }
            flow.notify_controller(now);
        }
        self.send(now, index);
    }

    fn on_tick(&mut self, now: Instant, index: usize) {
        let flow = &mut self.flows[index];
        if flow.sender.on_loss_timer(now) {
            flow.notify_controller(now);
        }
        if flow.controller.next_timeout().is_some_and(|at| at <= now) {
            flow.controller.on_timeout(now, Timeout::Own);
        }
        let patience = (flow.sender.rtt().smoothed() * 3).max(Duration::from_millis(200));
        if flow
            .sender
            .silent_since()
            .is_some_and(|since| since + patience < now)
        {
            let prior_bytes_in_flight = flow.sender.bytes_in_flight();
            flow.sender.on_silence(now);
            let cause = Timeout::FeedbackSilence {
                prior_bytes_in_flight,
            };
            flow.controller.on_timeout(now, cause);
            flow.is_out = true;
            flow.next_send_at = now;
        }
        if flow.controller.next_timeout().is_some_and(|at| at <= now) {
            flow.controller.on_timeout(now, Timeout::Own);
        }
        if flow.is_out && flow.next_send_at <= now && now < flow.stops_at {
            flow.next_send_at = now + CHALLENGE_INTERVAL;
            self.put(now, index, CHALLENGE_BYTES);
        }
        self.send(now, index);
        self.at(now + TICK, Event::Tick { flow: index });
    }
}

impl Flow {
    fn notify_controller(&mut self, now: Instant) {
        let feedback = self.sender.feedback(self.is_window_limited);
        self.controller
            .on_feedback(now, &feedback, &SessionView::default(), &[]);
    }
}
