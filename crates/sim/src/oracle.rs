//! `oracle`: the scheduler with knowledge that no sender can have, as a bound for real ones.
//!
//! Before each decision the world reports, for every link of every path, its backlog, its rate, its
//! delay, and whether it is down. Each packet goes to the path on which it arrives first, behind
//! all packets that are assigned to the path and unsent. As with all schedulers, the user's weights
//! shorten times, and metered paths stand by. The oracle does not know random losses, jitter,
//! future outages or future packets of other flows.

use std::sync::{Arc, Mutex, PoisonError};

use anabranch_core::scheduler::{
    Assignment, PacketView, Scheduler, SchedulerEvent, SchedulerFactory, SendQueue,
};
use anabranch_core::{Config, PathId, PathSet, PathState, PathView, SessionView};
use anabranch_units::{DataRate, Duration, Instant};

use crate::network::RouteForecast;

/// The scheduler's name.
pub const ORACLE: &str = "oracle";

/// Returns the scheduler that a [`World`](crate::World) informs about the state of the sender's
/// paths. Outside of a world, it assigns no packets.
pub fn oracle() -> SchedulerFactory {
    SchedulerFactory::new(ORACLE, || Box::new(Untold))
}

/// Interval at which it checks for a path that is up, while none is. Chosen.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);
/// Size of the pieces in which assigned packets are assumed to leave, as their true sizes are no
/// longer known. About one full packet.
const PIECE_BYTES: u64 = 1_300;

/// Forecasts by path number; `None` for a path that is down.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedTruth(Arc<Mutex<Vec<Option<RouteForecast>>>>);

/// Connects the set-up's oracle to the world, which writes the returned truth. `None` if the set-up
/// has another scheduler.
pub(crate) fn listen(config: &mut Arc<Config>) -> Option<SharedTruth> {
    if config.scheduler.name() != ORACLE {
        return None;
    }
    let truth = SharedTruth::default();
    let shared = truth.clone();
    Arc::make_mut(config).scheduler =
        SchedulerFactory::new(ORACLE, move || -> Box<dyn Scheduler> {
            Box::new(Oracle::new(shared.clone()))
        });
    Some(truth)
}

/// Reports the state of the paths.
pub(crate) fn publish(truth: &SharedTruth, paths: impl Iterator<Item = Option<RouteForecast>>) {
    let mut shared = truth.0.lock().unwrap_or_else(PoisonError::into_inner);
    shared.clear();
    shared.extend(paths);
}

/// The oracle outside of a world.
#[derive(Debug)]
struct Untold;

impl Scheduler for Untold {
    fn schedule(
        &mut self,
        _now: Instant,
        _queue: &SendQueue<'_>,
        _session: &SessionView,
        _paths: &[PathView],
        _out: &mut Vec<Assignment>,
    ) {
    }
}

#[derive(Debug)]
struct Oracle {
    truth: SharedTruth,
    /// Pacers by path number.
    pacers: Vec<Pacer>,
    wake_at: Option<Instant>,
}

impl Oracle {
    fn new(truth: SharedTruth) -> Self {
        Oracle {
            truth,
            pacers: Vec::new(),
            wake_at: None,
        }
    }
}

/// A path's pacing: the time at which its next packet may leave.
#[derive(Clone, Copy, Debug, Default)]
struct Pacer {
    rate: Option<DataRate>,
    ready_at: Instant,
}

impl Pacer {
    /// Records that a packet of `bytes` leaves, at `now` or later. Returns its departure.
    fn let_go(&mut self, now: Instant, bytes: u64) -> Instant {
        let leaves_at = self.ready_at.max(now);
        let gap = self
            .rate
            .map_or(Duration::ZERO, |rate| rate.time_for(bytes));
        self.ready_at = leaves_at + gap;
        leaves_at
    }
}

/// Predicted state of a path after all its assigned packets have left.
#[derive(Debug)]
struct Outlook<'a> {
    id: PathId,
    weight: f64,
    pacer: Pacer,
    forecast: &'a mut RouteForecast,
}

impl Outlook<'_> {
    /// Returns the delay of a packet that is assigned now, divided by the user's weight.
    fn arrival(&self, now: Instant, packet: &PacketView) -> Option<Duration> {
        let leaves_at = self.pacer.ready_at.max(now);
        let at = self.forecast.exit_at(leaves_at, packet.bytes)?;
        Some((at - now).mul_f64(1.0 / self.weight))
    }

    fn bind(&mut self, now: Instant, bytes: u64) {
        let leaves_at = self.pacer.let_go(now, bytes);
        self.forecast.pass(leaves_at, bytes as u32);
    }
}

impl Scheduler for Oracle {
    fn schedule(
        &mut self,
        now: Instant,
        queue: &SendQueue<'_>,
        _session: &SessionView,
        paths: &[PathView],
        out: &mut Vec<Assignment>,
    ) {
        fn is_first_choice(path: &PathView) -> bool {
            path.state.is_usable() && !stands_by(path)
        }

        fn stands_by(path: &PathView) -> bool {
            path.is_standby && path.state == PathState::Active
        }

        self.pacers.resize(paths.len(), Pacer::default());
        let mut truth = self.truth.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut outlooks = Vec::new();
        let up = paths.iter().zip(truth.iter());
        let has_first_choice = up
            .filter(|(_, forecast)| forecast.is_some())
            .any(|(path, _)| is_first_choice(path));
        let shared = paths.iter().zip(&mut self.pacers).zip(truth.iter_mut());
        for ((path, pacer), forecast) in shared {
            pacer.rate = path.pacing_rate;
            let is_asked = if has_first_choice {
                is_first_choice(path)
            } else {
                path.state.is_usable()
            };
            if !is_asked {
                continue;
            }
            let Some(forecast) = forecast.as_mut() else {
                continue;
            };
            let mut outlook = Outlook {
                id: path.id,
                weight: path.weight,
                pacer: *pacer,
                forecast,
            };
            let mut bound_bytes = path.queued_bytes;
            while bound_bytes > 0 {
                let piece = bound_bytes.min(PIECE_BYTES);
                outlook.bind(now, piece);
                bound_bytes -= piece;
            }
            outlooks.push(outlook);
        }
        for (index, packet) in queue.iter() {
            // A full queue is better than none: it may have room when the packet arrives.
            let best = outlooks
                .iter_mut()
                .min_by_key(|outlook| outlook.arrival(now, packet).unwrap_or(Duration::MAX));
            let Some(outlook) = best else { break };
            outlook.bind(now, u64::from(packet.bytes));
            out.push(Assignment {
                index,
                paths: PathSet::only(outlook.id),
            });
        }
        self.wake_at = outlooks.is_empty().then(|| now + RETRY_INTERVAL);
    }

    fn on_event(&mut self, now: Instant, event: &SchedulerEvent) {
        if let SchedulerEvent::Sent { path, bytes, .. } = *event
            && let Some(pacer) = self.pacers.get_mut(path.index())
        {
            pacer.let_go(now, u64::from(bytes));
        }
    }

    fn wake_at(&self) -> Option<Instant> {
        self.wake_at
    }
}
