use super::tests::{loopback, received, single};
use super::*;
use anabranch_units::Duration;
use rustix::event::{Timespec, poll};

fn wait(millis: i64) {
    let wait = Timespec {
        tv_sec: 0,
        tv_nsec: millis * 1_000_000,
    };
    poll(&mut [], Some(&wait)).expect("a wait");
}

#[test]
fn arrivals_are_stamped_when_they_arrive_not_when_they_are_read() {
    let (from, to) = (loopback(), loopback());
    let clock = Clock::start();
    // The kernel starts to stamp some time after the first request.
    assert!((0..400).any(|_| is_stamped(&from, &to, &clock)));
    // A thread that is kept from reading changes no stamp.
    assert!(is_stamped(&from, &to, &clock));
}

/// Returns whether a datagram that is read late has the time at which it arrived.
fn is_stamped(from: &Socket, to: &Socket, clock: &Clock) -> bool {
    let datagram = single(to, Ecn::NotEct);
    from.send(&datagram).expect("loopback takes it");
    let sent_at = clock.now();
    wait(50);
    let (_, arrival) = received(to, clock, 1)[0];
    arrival.received_at < sent_at + Duration::from_millis(25)
}
