//! Paths over IPv6, and names with addresses of both families.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use anabranch_net::{ClientPath, Ended, Event, Receiver, Sender, Via};

use super::bed::{Bed, drain, line, millis, receive};

/// Least MTU of IPv6 (RFC 8200 §5).
const LEAST_MTU: u32 = 1_280;

/// Returns a camera with a line of each family, and the addresses of a studio with both.
fn both_families(seed: u64) -> (Bed, [SocketAddr; 2]) {
    let bed = Bed::new(seed, &[line(10, 10).over_ipv6(), line(10, 20)]);
    let over_ipv6 = bed.studio.attach("eth1", &line(100, 1).over_ipv6());
    let addresses = [over_ipv6.at(7_000), bed.address()];
    (bed, addresses)
}

#[test]
fn a_receiver_of_both_families_serves_a_session_with_a_path_of_each() {
    let (bed, [over_ipv6, over_ipv4]) = both_families(1);
    let server = Receiver::builder()
        .key(bed.world.key("studio"))
        .allow(bed.world.key("camera").public_key())
        .network(bed.studio.network())
        .listen(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 7_000)));
    let (receiver, sessions) = server.start().expect("the address is free");
    let client = Sender::builder()
        .key(bed.world.key("camera"))
        .peer(bed.world.key("studio").public_key())
        .network(bed.camera.network())
        .path(ClientPath::new(Via::from("line0"), over_ipv6.into()))
        .path(ClientPath::new(Via::from("line1"), over_ipv4.into()))
        .scheduler_named("wrr");
    let sending = async {
        let (sender, _events) = client.connect_async().await.expect("an answer");
        bed.stream(&sender, 0, 100).await;
        bed.lines[1].unplug();
        bed.stream(&sender, 100, 100).await;
        let peers: Vec<_> = receiver.snapshot().paths;
        let families = peers.iter().map(|path| {
            let peer = path.peer.expect("it was heard").ip().to_canonical();
            peer.is_ipv4()
        });
        assert_eq!(families.collect::<Vec<_>>(), [false, true]);
        sender.finish_async().await
    };
    let receiving = async { receive(&sessions.recv_async().await.expect("a session")).await };
    let both = async { tokio::join!(sending, receiving) };
    let (ended, (numbers, _)) = bed.world.block_on(both);
    assert_eq!((ended, numbers.len()), (Ended::Closed, 200));
}

#[test]
fn a_session_keeps_to_the_least_mtu_of_ipv6() {
    let mut bed = Bed::new(2, &[line(10, 10).over_ipv6()]);
    bed.studio_line = bed.studio.attach("eth1", &line(100, 1).over_ipv6());
    bed.lines[0].set_mtu(LEAST_MTU);
    assert_eq!(bed.carry(200).len(), 200);
}

/// The first address of the name is one of IPv6, by a line that carries nothing.
#[test]
fn a_name_of_both_families_is_reached_by_the_one_that_answers() {
    let (bed, [over_ipv6, over_ipv4]) = both_families(3);
    bed.lines[0].block_udp(true);
    let addresses = vec![over_ipv6.ip(), over_ipv4.ip()];
    bed.world.set_name("studio.example", Ok(addresses));
    let (receiver, _sessions) = bed.receiver();
    let client = Sender::builder()
        .key(bed.world.key("camera"))
        .peer(bed.world.key("studio").public_key())
        .network(bed.camera.network())
        .to("studio.example:7000");
    let connected = bed.world.block_on(client.connect_async());
    let (sender, _events) = connected.expect("an answer over IPv4");
    bed.send_for(&sender, millis(2_000));
    bed.world.run_for(millis(500));
    assert_eq!(receiver.snapshot().session.frames_received, 100);
    assert_eq!(sender.finish(), Ended::Closed);
}

#[test]
fn each_path_takes_an_address_that_it_has_a_route_to() {
    let (bed, [over_ipv6, over_ipv4]) = both_families(6);
    let server = Receiver::builder()
        .key(bed.world.key("studio"))
        .allow(bed.world.key("camera").public_key())
        .network(bed.studio.network())
        .listen(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 7_000)));
    let (_receiver, _sessions) = server.start().expect("the address is free");
    let addresses = vec![over_ipv6.ip(), over_ipv4.ip()];
    bed.world.set_name("studio.example", Ok(addresses));
    let client = bed
        .client_by(&["line1", "line0"])
        .to("studio.example:7000")
        .scheduler_named("wrr");
    let connected = bed.world.block_on(client.connect_async());
    let (sender, _events) = connected.expect("an answer");
    bed.send_for(&sender, millis(2_000));
    let paths = sender.snapshot().paths;
    let peers = paths.iter().map(|path| path.peer);
    assert!(peers.eq([Some(over_ipv4), Some(over_ipv6)]));
    assert!(paths.iter().all(|path| path.counters.received_packets > 0));
    assert_eq!(sender.finish(), Ended::Closed);
}

/// Returns the number of acknowledged packets of each of two paths.
fn acked(sender: &Sender) -> [u64; 2] {
    let paths = sender.snapshot().paths;
    [0, 1].map(|index| paths[index].counters.acked_packets)
}

#[test]
fn a_slow_resolver_holds_up_its_own_path_alone() {
    let bed = Bed::new(4, &[line(10, 10), line(10, 20)]);
    let known = bed.address();
    bed.world.set_name("studio.example", Ok(vec![known.ip()]));
    bed.world.set_resolver_delay(millis(5_000));
    let (_receiver, _sessions) = bed.receiver();
    let named = "studio.example:7000".parse().expect("a name");
    let client = bed
        .client_by(&["line0"])
        .path(ClientPath::new(Via::from("line1"), named));
    let (sender, _events) = client.start().expect("the set-up works");
    bed.world.run_for(millis(500));
    bed.send_for(&sender, millis(2_000));
    let [first, second] = acked(&sender);
    assert!(first > 100, "{first}");
    assert_eq!(second, 0);
    bed.send_for(&sender, millis(5_000));
    assert!(acked(&sender)[1] > 0);
    assert_eq!(sender.finish(), Ended::Closed);
}

/// The resolver's answer changes while its answers are slow: the address before leads nowhere.
#[test]
fn a_slow_resolver_whose_answer_changes_is_followed() {
    let bed = Bed::new(5, &[line(10, 10)]);
    let nobody = IpAddr::from([203, 0, 113, 9]);
    bed.world.set_name("studio.example", Ok(vec![nobody]));
    bed.world.set_resolver_delay(millis(2_000));
    let (_receiver, _sessions) = bed.receiver();
    let client = bed.client().to("studio.example:7000");
    let (sender, events) = client.start().expect("the set-up works");
    bed.world.run_for(millis(2_500));
    let failed = Err("the server fails".to_owned());
    bed.world.set_name("studio.example", failed);
    bed.world.run_for(millis(4_000));
    assert_eq!(sender.snapshot().peer, None);
    let answer = Ok(vec![bed.address().ip()]);
    bed.world.set_name("studio.example", answer);
    bed.world.run_for(millis(8_000));
    let seen = drain(&events);
    assert!(
        seen.iter()
            .any(|event| matches!(event, Event::Connected { .. })),
        "{seen:?}"
    );
    assert_eq!(sender.finish(), Ended::Closed);
}
