//! Drives a sender and a receiver without sockets, over two simulated paths: the loop that a driver
//! of one's own has. Time is virtual, so that the run takes milliseconds and always gives the same
//! result.
//!
//! `cargo run --example sans_io_loopback`

use std::collections::VecDeque;
use std::error::Error;

use anabranch::sans_io::{Config, DatagramMeta, Event, MediaSession};
use anabranch::units::{Duration, Ecn, Instant, Seed};
use anabranch::{Frame, Importance, PathId, PathOptions, controller, scheduler};

/// One-way delays of the paths.
const DELAYS: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(50)];
/// Every tenth datagram to the receiver is lost.
const LOSS_INTERVAL: u64 = 10;
const FRAME_COUNT: u64 = 50;
const FRAME_INTERVAL: Duration = Duration::from_millis(40);

/// Datagrams that travel in one direction by one path.
#[derive(Default)]
struct Pipe(VecDeque<(Instant, Vec<u8>)>);

/// One end, and the datagrams on their way to it by each path.
struct End {
    session: MediaSession,
    arriving: [Pipe; 2],
}

impl End {
    fn new(seed: u64) -> Result<End, Box<dyn Error>> {
        let config = Config::new(
            controller::default_controller(),
            scheduler::default_scheduler(),
        );
        let mut session = MediaSession::new(config, Seed(seed), Instant::ZERO)?;
        for _ in DELAYS {
            let path = session.add_path(Instant::ZERO, PathOptions::default());
            path.ok_or("no room for a path")?;
        }
        Ok(End {
            session,
            arriving: Default::default(),
        })
    }

    /// Hands the session its arrivals and timers.
    fn handle(&mut self, now: Instant) {
        for (path, pipe) in (0..).map(PathId).zip(&mut self.arriving) {
            while pipe.0.front().is_some_and(|(at, _)| *at <= now) {
                let Some((received_at, datagram)) = pipe.0.pop_front() else {
                    break;
                };
                let meta = DatagramMeta {
                    path,
                    received_at,
                    ecn: Ecn::NotEct,
                };
                self.session.handle_datagram(now, meta, &datagram);
            }
        }
        self.session.handle_timeout(now);
    }

    /// Returns the time of the next arrival or timer.
    fn next_at(&self) -> Option<Instant> {
        let arrivals = self
            .arriving
            .iter()
            .filter_map(|pipe| pipe.0.front())
            .map(|(at, _)| *at);
        let timer = self.session.poll_timeout().map(|(at, _timer)| at);
        arrivals.chain(timer).min()
    }
}

/// A network that drops every tenth datagram to the receiver.
#[derive(Default)]
struct Network {
    to_receiver_count: u64,
    lost_count: u64,
}

impl Network {
    /// Returns whether the next datagram to the receiver is lost.
    fn loses_next(&mut self) -> bool {
        self.to_receiver_count += 1;
        let is_lost = self.to_receiver_count.is_multiple_of(LOSS_INTERVAL);
        self.lost_count += u64::from(is_lost);
        is_lost
    }
}

/// Moves all datagrams that may leave now to the other end's pipes, unless they are lost.
fn transmit(now: Instant, from: &mut End, to: &mut End, mut is_lost: impl FnMut() -> bool) {
    let mut datagram = Vec::new();
    while let Some(transmit) = from.session.poll_transmit(now, &mut datagram) {
        let datagram = std::mem::take(&mut datagram);
        if !is_lost() {
            let path = transmit.path.index();
            let arrival = (now + DELAYS[path], datagram);
            to.arriving[path].0.push_back(arrival);
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut sender, mut receiver) = (End::new(1)?, End::new(2)?);
    let mut network = Network::default();
    let (mut now, mut frames_sent, mut frames_settled) = (Instant::ZERO, 0, 0);
    let mut delays = Vec::new();
    while frames_settled < FRAME_COUNT {
        // 1. Input: frames, datagrams and timers.
        let frame_due_at = Instant::ZERO + FRAME_INTERVAL * frames_sent;
        if frames_sent < FRAME_COUNT && now >= frame_due_at {
            let importance = Importance::key_if(frames_sent == 0);
            let frame = Frame::new(vec![frames_sent as u8; 2_000], importance, now);
            sender.session.send_frame(now, &frame)?;
            frames_sent += 1;
        }
        sender.handle(now);
        receiver.handle(now);
        // 2. Datagrams.
        transmit(now, &mut sender, &mut receiver, || network.loses_next());
        transmit(now, &mut receiver, &mut sender, || false);
        // 3. Events.
        while sender.session.poll_event().is_some() {}
        while let Some(event) = receiver.session.poll_event() {
            match event {
                Event::FrameReceived(frame) => {
                    assert_eq!(frame.bytes, [frame.id.0 as u8; 2_000]);
                    delays.push(frame.completed_at - frame.captured_at);
                    frames_settled += 1;
                }
                Event::FrameDropped { .. } => frames_settled += 1,
                _ => {}
            }
        }
        // 4. The next moment at which anything can happen.
        let frame_due_at = Instant::ZERO + FRAME_INTERVAL * frames_sent;
        let next_frame = (frames_sent < FRAME_COUNT).then_some(frame_due_at);
        let next = [next_frame, sender.next_at(), receiver.next_at()];
        now = now.max(
            next.into_iter()
                .flatten()
                .min()
                .ok_or("nothing can happen")?,
        );
    }
    delays.sort();
    println!(
        "{} of {FRAME_COUNT} frames arrived; {} of {} datagrams were lost; delays from {} to {}",
        delays.len(),
        network.lost_count,
        network.to_receiver_count,
        delays[0],
        delays[delays.len() - 1],
    );
    Ok(())
}
