use super::tests::{input_and_sender, rtp_packet, transport_packet};
use super::*;
use anabranch_terminal::stop::Stop;

fn wait(clock: &Clock, until: Instant) {
    assert!(Stop::new().unwrap().wait_until(clock, until));
}

/// Waits until the kernel stamps datagrams, which it starts some time after the first request.
fn wait_for_stamps(input: &mut UdpInput, sender: &UdpSocket, clock: &Clock) {
    let give_up_at = clock.now() + Duration::from_secs(20);
    let mut is_stamped = false;
    while !is_stamped {
        assert!(clock.now() < give_up_at, "no stamps");
        sender.send(&transport_packet(0)).unwrap();
        let sent_at = clock.now();
        wait(clock, sent_at + Duration::from_millis(50));
        input.read(clock, &mut |at, _| is_stamped = at <= sent_at);
    }
}

#[test]
fn datagrams_are_dated_by_their_arrival_not_by_the_reading() {
    let (mut input, sender) = input_and_sender();
    let clock = Clock::start();
    wait_for_stamps(&mut input, &sender, &clock);
    let mut sent_at = Vec::new();
    for number in 0..3 {
        let before = clock.now();
        sender.send(&transport_packet(number)).unwrap();
        sent_at.push((before, clock.now()));
        wait(&clock, before + Duration::from_millis(400));
    }
    let mut read = Vec::new();
    assert!(input.read(&clock, &mut |at, bytes| read.push((at, bytes[1]))));
    assert_eq!(read.len(), sent_at.len());
    for ((arrived_at, number), (before, after)) in read.into_iter().zip(sent_at) {
        let [late, early] = [
            arrived_at.saturating_since(after),
            before.saturating_since(arrived_at),
        ];
        let error = late.max(early);
        assert!(error < Duration::from_millis(200), "{number}: {error}");
    }
}

#[test]
fn rtp_packets_that_wait_in_the_socket_are_not_given_up() {
    let (mut input, sender) = input_and_sender();
    let clock = Clock::start();
    wait_for_stamps(&mut input, &sender, &clock);
    for number in [1, 3] {
        sender.send(&rtp_packet(number)).unwrap();
    }
    let mut read = Vec::new();
    input.read(&clock, &mut |_, bytes| read.push(bytes[1]));
    assert_eq!(read, [1]);
    // The packet arrived in time, and this program was suspended until later.
    sender.send(&rtp_packet(2)).unwrap();
    wait(&clock, clock.now() + Duration::from_millis(200));
    input.read(&clock, &mut |_, bytes| read.push(bytes[1]));
    assert_eq!(read, [1, 2, 3]);
}
