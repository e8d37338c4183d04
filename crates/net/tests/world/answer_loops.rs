//! No datagram makes two servers answer each other.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use anabranch_net::testing::World;
use anabranch_net::{Receiver, SessionKind, SessionParameters};
use anabranch_secure::{Initiator, Kind};

use super::bed::{line, millis};

/// Returns a server's answers to these datagrams of a stranger.
fn answers_of(world: &World, port: u16, server: SocketAddr, datagrams: &[&[u8]]) -> Vec<Vec<u8>> {
    let stranger = world.stranger(port);
    for datagram in datagrams {
        stranger.send(server, datagram);
    }
    world.run_for(millis(1_000));
    stranger.take()
}

/// Starts two servers, to each of which somebody sends the answers of the first.
#[test]
fn no_server_answers_the_answers_of_a_server() {
    let world = World::new(1);
    let (sender, stranger) = (world.key("sender"), world.key("stranger"));
    let servers = ["first", "second"].map(|name| {
        let machine = world.machine(name);
        let address = machine.attach("eth0", &line(100, 1)).at(7_000);
        let server = Receiver::builder()
            .key(world.key(name))
            .allow(sender.public_key())
            .network(machine.network())
            .listen(address);
        (server.start().expect("the address is free"), address)
    });
    let first = world.key("first").public_key();
    let parameters = SessionParameters::of(SessionKind::Frames).to_block();
    let allowed = Initiator::new(&sender, &first, 7, parameters);
    let unknown = [&[Kind::Data as u8][..], &[0; 59]].concat();
    // More than are admitted without a cookie.
    let asking: Vec<Initiator> = (0..200)
        .map(|index| Initiator::new(&stranger, &first, index, parameters))
        .collect();
    let mut questions: Vec<&[u8]> = vec![allowed.message(), &unknown];
    questions.extend(asking.iter().map(Initiator::message));
    let answers = answers_of(&world, 1, servers[0].1, &questions);
    let kinds: BTreeSet<_> = answers.iter().map(|answer| answer[0]).collect();
    let expected = [Kind::Response, Kind::CookieReply, Kind::Reset].map(|kind| kind as u8);
    assert_eq!(kinds, expected.into());
    let sent_back: Vec<&[u8]> = answers.iter().map(Vec::as_slice).collect();
    for (port, (_, server)) in (2..).zip(&servers) {
        let again = answers_of(&world, port, *server, &sent_back);
        assert_eq!(again, Vec::<Vec<u8>>::new());
    }
}
