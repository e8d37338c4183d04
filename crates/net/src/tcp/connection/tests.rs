use super::*;
use crate::tcp::stream::Acceptor;
use crate::testing::{Line, Machine, World};
use anabranch_units::{DataRate, Duration};

/// A server and a client of TCP, 10 Mbit/s and 2 ms apart.
struct Bed {
    world: World,
    client: Machine,
    acceptor: Acceptor,
}

impl Bed {
    fn new() -> Bed {
        let world = World::new(1);
        let line = Line::new(
            DataRate::from_megabits_per_second(10),
            Duration::from_millis(1),
        );
        let (client, server) = (world.machine("client"), world.machine("server"));
        client.attach("eth0", &line);
        let at = server.attach("eth0", &line).at(443);
        let acceptor = server.network().listen_tcp(at).expect("a free port");
        Bed {
            world,
            client,
            acceptor,
        }
    }

    fn target(&self) -> SocketAddr {
        self.acceptor.local_addr().expect("an address")
    }

    fn run(&self, millis: u64) {
        self.world.run_for(Duration::from_millis(millis));
    }

    fn accept(&self) -> Connection {
        self.run(10);
        let (stream, local, peer) = self.acceptor.accept().expect("connected");
        Connection::accepted(stream, local, peer)
    }

    /// Returns a server's connection, and the stream at its other end.
    fn pair(&self) -> (Connection, Stream) {
        let other = self
            .client
            .network()
            .dial(&Via::DefaultRoute, self.target());
        (self.accept(), other.expect("a route"))
    }

    /// Serves the connection for a second, or until it is broken.
    fn serve(&self, connection: &Connection) -> Vec<Vec<u8>> {
        let (clock, mut buffers) = (self.client.clock(), ReceiveBuffers::new());
        let mut taken = Vec::new();
        for _ in 0..1_000 {
            connection.serve(7, &clock, &mut buffers, |arrival, datagram| {
                assert_eq!((arrival.socket, arrival.from), (7, connection.peer()));
                taken.push(datagram.to_vec());
            });
            if connection.is_broken() {
                break;
            }
            self.run(1);
        }
        taken
    }

    /// Writes all bytes in pieces.
    fn write(&self, stream: &Stream, bytes: &[u8], piece: usize) {
        for piece in bytes.chunks(piece) {
            assert_eq!(stream.write(piece).expect("room"), piece.len());
            self.run(1);
        }
    }
}

fn batch(to: SocketAddr, bytes: &[u8], datagram_bytes: usize) -> Batch<'_> {
    Batch {
        to,
        from: None,
        ecn: Ecn::NotEct,
        bytes,
        datagram_bytes,
    }
}

/// Takes the datagrams that have come to the stream.
fn read(stream: &Stream, deframer: &mut Deframer) -> Vec<Vec<u8>> {
    let (mut datagrams, mut buffer) = (vec![], [0; 50_000]);
    while let Ok(size @ 1..) = stream.read(&mut buffer) {
        deframer
            .push(&mut buffer[..size], |datagram| {
                datagrams.push(datagram.to_vec())
            })
            .expect("our stream");
    }
    datagrams
}

#[test]
fn a_batch_comes_as_the_datagrams_it_was_made_of() {
    let bed = Bed::new();
    let (connection, other) = bed.pair();
    let bytes: Vec<u8> = (0..2_500_u32).map(|at| (at / 1_000) as u8).collect();
    for _ in 0..2 {
        connection
            .send(&batch(connection.peer(), &bytes, 1_000))
            .expect("room");
    }
    bed.run(100);
    let read = read(&other, &mut Deframer::default());
    let sizes: Vec<_> = read.iter().map(Vec::len).collect();
    assert_eq!(sizes, [1_000, 1_000, 500, 1_000, 1_000, 500]);
}

#[test]
fn a_queue_that_is_full_costs_datagrams_and_never_half_of_one() {
    let bed = Bed::new();
    let (connection, other) = bed.pair();
    let (mut sent_count, mut full_count) = (0, 0);
    let (mut deframer, mut came) = (Deframer::default(), Vec::new());
    for number in 0_u32.. {
        let bytes: Vec<u8> = number.to_be_bytes().repeat(300).repeat(8);
        match connection.send(&batch(connection.peer(), &bytes, 1_200)) {
            Ok(()) => sent_count += 8,
            Err((dropped_count, error)) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                sent_count += 8 - dropped_count;
                full_count += 1;
                bed.run(3);
                came.extend(read(&other, &mut deframer));
            }
        }
        assert!(
            connection.outgoing.borrow().rest.len() <= 1_202,
            "one datagram at most"
        );
        if full_count == 30 {
            break;
        }
    }
    bed.serve(&connection);
    assert!(connection.outgoing.borrow().rest.is_empty());
    came.extend(read(&other, &mut deframer));
    assert_eq!(came.len(), sent_count);
    for datagram in came {
        assert_eq!(datagram, datagram[..4].repeat(300), "whole");
    }
}

#[test]
fn pieces_of_any_size_are_put_together() {
    let mut stream = STREAM_PREAMBLE.to_vec();
    let datagrams = [vec![1; 1], vec![2; 700], vec![3; 9_000]];
    for datagram in &datagrams {
        assert!(append_framed(&mut stream, datagram));
    }
    for piece in [1, 333, 5_000] {
        let bed = Bed::new();
        let (connection, other) = bed.pair();
        bed.write(&other, &stream, piece);
        assert_eq!(bed.serve(&connection), datagrams);
        assert!(!connection.is_broken());
    }
}

#[test]
fn another_protocol_or_an_impossible_length_ends_it() {
    let too_long = [&STREAM_PREAMBLE[..], &[0xff, 0xff]].concat();
    for bytes in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0x16, 3, 1],
        too_long,
    ] {
        let bed = Bed::new();
        let (connection, other) = bed.pair();
        bed.write(&other, &bytes, bytes.len());
        assert!(bed.serve(&connection).is_empty());
        assert!(connection.is_broken(), "{bytes:?}");
    }
}

#[test]
fn a_peer_that_is_gone_ends_it() {
    let bed = Bed::new();
    let (connection, other) = bed.pair();
    drop(other);
    bed.serve(&connection);
    assert!(connection.is_broken());
    let (count, error) = connection
        .send(&batch(connection.peer(), &[1; 30], 10))
        .expect_err("nobody");
    assert_eq!((count, error.kind()), (3, ErrorKind::NotConnected));
}

#[test]
fn a_client_connects_without_waiting() {
    let bed = Bed::new();
    let target = bed.target();
    let network = bed.client.network();
    let connection = Connection::dial(&network, &Via::DefaultRoute, target).expect("a route");
    assert!(!connection.is_open());
    let server = bed.accept();
    bed.serve(&connection);
    assert!(connection.is_open());
    connection.send(&batch(target, &[5; 40], 40)).expect("room");
    assert_eq!(bed.serve(&server), [vec![5; 40]]);
}
