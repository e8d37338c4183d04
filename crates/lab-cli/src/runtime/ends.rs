//! The sender and the receiver in their world.

use std::cell::RefCell;

use anabranch_core::media::DropReason;
use anabranch_core::{Frame, SessionCounters};
use anabranch_lab::{Outcome, Recording, RunError};
use anabranch_link::{LinkConfig, LinkStatistics};
use anabranch_net::testing::{Interface, Line, World};
use anabranch_net::{
    ClientConfig, ClientPath, Event, Events, Receiver, Reception, Receptions, Sender, ServerConfig,
    Via,
};
use anabranch_sim::{Direction, FrameOutcome};
use anabranch_units::{Duration, Instant, Seed};
use anabranch_video::source::FrameSource;
use anyhow::{Context, bail};

use super::carried::Carried;
use super::meter::{Counts, SharedMeter};

/// Port of the studio.
const PORT: u16 = 7_000;
/// Longest packets of IP, as of Ethernet. The scenario's links may have shorter ones.
const MTU: u32 = 1_500;

/// A session in a world, and the source of its frames.
pub(super) struct Ends<'a> {
    world: &'a World,
    carried: &'a Carried<'a>,
    meter: SharedMeter,
    /// The scenario's begin, by the world's clocks.
    zero: Instant,
    lines: Vec<Interface>,
    sender: Sender,
    events: Events,
    source: RefCell<Box<dyn FrameSource>>,
    _receiver: Receiver,
    receptions: Receptions,
    sessions: RefCell<Sessions>,
}

/// The sessions at the receiver.
#[derive(Default)]
struct Sessions {
    present: Option<Reception>,
    /// Number of those that are over.
    past_count: usize,
    past: SessionCounters,
}

impl<'a> Ends<'a> {
    /// Opens the session. Returns `None` if it does not begin within `preparation`.
    ///
    /// # Errors
    /// A part of the scenario is refused, or the receiver refuses the session.
    pub(super) fn connect(
        world: &'a World,
        carried: &'a Carried<'a>,
        recording: Recording,
        preparation: Duration,
        seed: Seed,
    ) -> anyhow::Result<Option<Ends<'a>>> {
        let (camera, studio) = (world.machine("camera"), world.machine("studio"));
        let zero = world.now() + preparation;
        let later = zero - Instant::ZERO;
        let lines: Vec<Interface> = carried
            .links
            .iter()
            .enumerate()
            .map(|(index, links)| {
                let [up, down] = links.map(|link| &carried.scenario.links[link].config);
                camera.attach(&interface(index), &line(up, down, later))
            })
            .collect();
        let perfect = LinkConfig::default();
        let address = studio
            .attach("eth0", &line(&perfect, &perfect, later))
            .at(PORT);
        let (camera_key, studio_key) = (world.key("camera"), world.key("studio"));
        let peer = studio_key.public_key();
        let meter = SharedMeter::new(recording, zero, lines.len());

        let allowed = vec![camera_key.public_key()];
        let mut config = ServerConfig::new(address, studio_key, allowed);
        config.network = studio.network();
        config.clock = studio.clock();
        config.transport = carried.media.config.clone();
        config.observer = Some(meter.tap(Direction::Reverse));
        let (receiver, receptions) = Receiver::start(config)?;

        let paths = carried
            .path_options()
            .enumerate()
            .map(|(index, options)| ClientPath {
                via: Via::Interface(interface(index)),
                remote: address.into(),
                options,
            });
        let mut config = ClientConfig::new(camera_key, peer, paths.collect());
        config.network = camera.network();
        config.clock = camera.clock();
        config.transport = carried.media.config.clone();
        config.connect_timeout = preparation + Duration::from_secs(10);
        config.observer = Some(meter.tap(Direction::Forward));
        let (sender, events) = Sender::start(config)?;
        let is_connected = world.block_on(async {
            tokio::select! {
                biased;
                connected = connected(&events) => connected.map(|()| true),
                () = world.sleep(preparation) => Ok(false),
            }
        });
        if !is_connected? {
            return Ok(None);
        }
        world.run_for(zero - world.now());
        // The same frames as in the simulator.
        let seed = seed.derive(&format!("flow/{}/source", carried.flow.name));
        let ends = Ends {
            world,
            carried,
            meter,
            zero,
            lines,
            sender,
            events,
            source: RefCell::new(carried.media.build(carried.flow.start, seed)?),
            _receiver: receiver,
            receptions,
            sessions: RefCell::default(),
        };
        ends.meter.lock().begin(&ends.counts(), &carried.links);
        Ok(Some(ends))
    }

    /// Advances to the next stop of the recorder. Returns its time from the scenario's begin;
    /// `None`: the run is over.
    ///
    /// # Errors
    /// The session has ended before the scenario does.
    pub(super) fn advance(&mut self) -> anyhow::Result<Option<Instant>> {
        let Some(stop) = self.meter.lock().next_stop() else {
            return Ok(None);
        };
        self.world.block_on(async {
            tokio::select! {
                biased;
                ended = self.watch() => ended,
                ended = self.listen() => ended,
                fed = self.feed(stop) => fed,
            }
        })?;
        let mut counts = self.counts();
        let now = counts.now;
        self.meter.lock().at_stop(&mut counts, &self.carried.links);
        Ok(Some(now))
    }

    /// Returns the results of the run, which is over.
    pub(super) fn finish(self) -> Outcome {
        self.meter.lock().finish(self.world.trace_hash())
    }

    /// Sends the source's frames until `stop`, that instant included.
    async fn feed(&self, stop: Instant) -> anyhow::Result<()> {
        let closes_at = self.carried.flow.stop.map(|at| self.world_time(at));
        let until = closes_at.map_or(stop, |closes_at| stop.min(closes_at));
        loop {
            let next_at = self.source.borrow_mut().next_at();
            let Some(next_at) = next_at else {
                break;
            };
            let due_at = self.world_time(next_at).max(self.world.now());
            if due_at > until || Some(due_at) == closes_at {
                break;
            }
            self.wait_until(due_at).await;
            self.send();
            self.check_limits()?;
        }
        self.wait_until(until).await;
        if closes_at == Some(until) {
            self.sender.close();
        }
        self.wait_until(stop).await;
        self.check_limits()
    }

    /// Returns an error if the run has taken more than its scenario allows.
    fn check_limits(&self) -> anyhow::Result<()> {
        let packets = self.world.packets_in_flight() as u64;
        let limits = self.carried.scenario.limits;
        match limits.reached(self.world.step_count(), packets) {
            Some(limit) => Err(RunError::Limit(limit).into()),
            None => Ok(()),
        }
    }

    /// Returns the world's time of an instant of the scenario.
    fn world_time(&self, at: Instant) -> Instant {
        self.zero + (at - Instant::ZERO)
    }

    /// Sends a frame that is due now.
    fn send(&self) {
        let now = self.world.now();
        let target = self.sender.target_bitrate();
        let due_at = Instant::ZERO + (now - self.zero);
        let shape = self.source.borrow_mut().produce(due_at, target);
        let frame = Frame {
            bytes: vec![0; shape.bytes as usize].into(),
            importance: shape.importance,
            captured_at: now,
            lifetime: None,
        };
        // As in the simulator, a refused frame has not been captured.
        if let Ok(id) = self.sender.send_frame(&frame) {
            let mut meter = self.meter.lock();
            meter.on_captured(now, id, shape.bytes, shape.importance);
        }
    }

    async fn wait_until(&self, at: Instant) {
        self.world
            .sleep(at.saturating_since(self.world.now()))
            .await;
    }

    /// Handles the sender's events. Returns when its session ends.
    async fn watch(&self) -> anyhow::Result<()> {
        loop {
            let event = self
                .events
                .recv_async()
                .await
                .context("the sender is over")?;
            let now = self.world.now();
            match event {
                Event::Reconnected { .. } => self.meter.lock().begin_session(),
                Event::FrameDropped { id, reason } => {
                    let mut meter = self.meter.lock();
                    if !meter.has_later_key(id) {
                        self.source.borrow_mut().on_frame_lost();
                    }
                    if reason == DropReason::Late {
                        meter.on_abandoned(now);
                    }
                }
                Event::Ended(_) if self.is_closed(now) => core::future::pending().await,
                Event::Ended(ended) => bail!("the session has ended: {ended}"),
                _ => {}
            }
        }
    }

    /// Returns whether the flow has its stop behind it.
    fn is_closed(&self, now: Instant) -> bool {
        let stop = self.carried.flow.stop;
        stop.is_some_and(|stop| now >= self.world_time(stop))
    }

    /// Handles the receiver's sessions.
    #[expect(
        clippy::await_holding_refcell_ref,
        reason = "no other task borrows while it waits"
    )]
    async fn listen(&self) -> anyhow::Result<()> {
        loop {
            let mut sessions = self.sessions.borrow_mut();
            let Sessions {
                present,
                past_count,
                past,
            } = &mut *sessions;
            let reception = match present {
                Some(reception) => reception,
                None => present.insert(self.receptions.recv_async().await?),
            };
            let event = reception.events().recv_async().await;
            let now = self.world.now();
            let (id, outcome) = match event {
                Ok(Event::FrameReceived(frame)) => {
                    let completed_at = frame.completed_at;
                    (frame.id, FrameOutcome::Complete { completed_at })
                }
                Ok(Event::FrameDropped {
                    id,
                    reason: DropReason::Incomplete,
                }) => (id, FrameOutcome::Incomplete),
                Ok(Event::FrameDropped {
                    id,
                    reason: DropReason::Missing,
                }) => (id, FrameOutcome::Missing),
                Ok(Event::Ended(_)) | Err(_) => {
                    *past = past.plus(&reception.snapshot().session);
                    *past_count += 1;
                    *present = None;
                    continue;
                }
                Ok(_) => continue,
            };
            self.meter.lock().on_outcome(now, *past_count, id, outcome);
        }
    }

    fn counts(&self) -> Counts {
        let now = Instant::ZERO + (self.world.now() - self.zero);
        let mut links = vec![LinkStatistics::default(); self.carried.scenario.links.len()];
        for (line, links_of_path) in self.lines.iter().zip(&self.carried.links) {
            for (link, statistics) in links_of_path.iter().zip(line.link_statistics()) {
                links[*link] = statistics;
            }
        }
        let sessions = self.sessions.borrow();
        let present = sessions.present.as_ref();
        let receiver = present.map_or(sessions.past, |reception| {
            sessions.past.plus(&reception.snapshot().session)
        });
        let sender_paths = self.sender.snapshot().paths;
        Counts {
            now,
            links,
            receiver,
            sender_paths: sender_paths.iter().map(|path| path.counters).collect(),
        }
    }
}

fn interface(index: usize) -> String {
    format!("path{index}")
}

fn line(up: &LinkConfig, down: &LinkConfig, later: Duration) -> Line {
    Line {
        up: up.postponed(later),
        down: down.postponed(later),
        nat: None,
        mtu: MTU,
        is_ipv6: false,
    }
}

/// Waits for the session.
async fn connected(events: &Events) -> anyhow::Result<()> {
    loop {
        match events.recv_async().await.context("the sender is over")? {
            Event::Connected { .. } => return Ok(()),
            Event::Ended(ended) => bail!("no session: {ended}"),
            _ => {}
        }
    }
}
