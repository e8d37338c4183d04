//! A receiver's view of its sender's links, over emulated links and in real time.
//!
//! Needs a clock: a session's threads send over real sockets.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration as StdDuration;

use anabranch_core::{Frame, PathId, PathState};
use anabranch_emu::LinkDirection;
use anabranch_link::{LinkChange, LinkConfig};
use anabranch_net::{
    ClientConfig, Clock, Event, LinkCap, LinkReport, PathSnapshot, Receiver, Reception, Sender,
    ServerConfig,
};
use anabranch_secure::SecretKey;
use anabranch_units::{DataRate, Duration, Importance};

use crate::bed::{PATIENCE, client_config, copy, link, loopback, relay, wait_for};

const CAP: LinkCap = LinkCap {
    used_bytes: 3_000_000,
    limit_bytes: 10_000_000,
};
const DELAY: Duration = Duration::from_millis(20);

/// Waits until the receiver reports its paths in these states. Returns the paths.
fn wait_for_states(reception: &Reception, states: &[PathState]) -> Vec<PathSnapshot> {
    let (_keep, never) = mpsc::channel::<()>();
    let mut seen = Vec::new();
    for _ in 0..PATIENCE.as_millis() / 20 {
        seen = reception.snapshot().paths;
        if seen
            .iter()
            .map(PathSnapshot::state)
            .eq(states.iter().copied())
        {
            return seen;
        }
        let _ = never.recv_timeout(StdDuration::from_millis(20));
    }
    panic!("{states:?} in time, not {seen:?}");
}

/// Waits until the sender has reported all properties of its links.
fn wait_for_reports(reception: &Reception) {
    let (_keep, never) = mpsc::channel::<()>();
    let is_whole = |path: &PathSnapshot| path.link.as_ref().is_some_and(|link| link.rtt.is_some());
    for _ in 0..PATIENCE.as_millis() / 20 {
        let paths = reception.snapshot().paths;
        let has_cap = paths
            .iter()
            .any(|path| path.link.as_ref().is_some_and(|it| it.cap.is_some()));
        if paths.len() == 2 && paths.iter().all(is_whole) && has_cap {
            return;
        }
        let _ = never.recv_timeout(StdDuration::from_millis(20));
    }
    panic!("no reports in time: {:?}", reception.snapshot().paths);
}

fn reported(path: &PathSnapshot) -> &LinkReport {
    path.link.as_ref().expect("it was reported")
}

#[test]
fn a_receiver_sees_its_senders_links_by_name_and_notices_those_that_carry_nothing() {
    let keys = [SecretKey::generate(), SecretKey::generate()];
    let allowed = vec![keys[0].public_key()];
    let config = ServerConfig::new(loopback(0), copy(&keys[1]), allowed);
    let (receiver, receptions) = Receiver::start(config).expect("a port of loopback");
    let clock = Clock::start();
    let direction = LinkConfig {
        delay: DELAY,
        ..LinkConfig::default()
    };
    let target = receiver.local_addr();
    let links = ["first", "second"].map(|name| link(name, target, direction.clone()));
    let relay = relay(links.into(), &clock);
    let take_down = |index| {
        for direction in [LinkDirection::Forward, LinkDirection::Reverse] {
            relay.change(index, direction, LinkChange::Down).unwrap();
        }
    };
    let remotes = [relay.listen_addr(0), relay.listen_addr(1)];
    let mut config = {
        let usual = ClientConfig::new(copy(&keys[0]), keys[1].public_key(), Vec::new());
        client_config([&keys[0], &keys[1]], &remotes, usual.transport)
    };
    config.paths[1].options.max_rate = Some(DataRate::from_megabits_per_second(3));
    let (sender, events) = Sender::start(config).expect("loopback");
    wait_for(&events, |event| matches!(event, Event::Connected { .. }));
    sender.set_cap(PathId(1), Some(CAP));
    thread::scope(|scope| {
        let (stop, is_over) = mpsc::channel::<()>();
        scope.spawn({
            let sender = &sender;
            move || {
                let turn = StdDuration::from_millis(20);
                while is_over.recv_timeout(turn) == Err(RecvTimeoutError::Timeout) {
                    let frame = Frame {
                        bytes: vec![7; 4_000].into(),
                        importance: Importance::Key,
                        captured_at: clock.now(),
                        lifetime: None,
                    };
                    let _ = sender.send_frame(&frame);
                }
            }
        });
        let reception = receptions.recv_timeout(PATIENCE).expect("a session");
        wait_for_reports(&reception);
        wait_for_states(&reception, &[PathState::Active; 2]);
        take_down(1);
        let paths = wait_for_states(&reception, &[PathState::Active, PathState::Out]);
        for path in &paths {
            let link = reported(path);
            assert_eq!(link.name, "127.0.0.1");
            let rtt = link.rtt.expect("it was measured");
            assert!(rtt >= DELAY * 2, "{rtt}");
        }
        assert_eq!(reported(&paths[0]).max_rate, None);
        assert_eq!(reported(&paths[0]).cap, None);
        let max_rate = Some(DataRate::from_megabits_per_second(3));
        assert_eq!(reported(&paths[1]).max_rate, max_rate);
        assert_eq!(reported(&paths[1]).cap, Some(CAP));
        take_down(0);
        // No path can report that any more.
        wait_for_states(&reception, &[PathState::Out; 2]);
        let seen = reception.snapshot();
        let until = seen.media_until.expect("frames have come");
        assert!(until < seen.at, "{until}");
        drop(stop);
    });
}
