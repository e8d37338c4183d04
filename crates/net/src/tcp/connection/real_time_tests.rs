use super::*;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

/// Returns a server's connection, and the stream at its other end.
fn pair() -> (Connection, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
    let other = TcpStream::connect(listener.local_addr().unwrap()).expect("loopback");
    other.set_nodelay(true).unwrap();
    other
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let (stream, peer) = listener.accept().expect("connected");
    let (stream, local) = Stream::accepted(stream).expect("a connection");
    let connection = Connection::accepted(stream, local, peer);
    (connection, other)
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

/// Serves the connection until `is_enough`, as the peer's bytes take some time.
fn serve(connection: &Connection, mut is_enough: impl FnMut(&[Vec<u8>]) -> bool) -> Vec<Vec<u8>> {
    let (clock, mut buffers, mut taken) = (Clock::start(), ReceiveBuffers::new(), Vec::new());
    for _ in 0..5_000 {
        connection.serve(7, &clock, &mut buffers, |arrival, datagram| {
            assert_eq!((arrival.socket, arrival.from), (7, connection.peer()));
            taken.push(datagram.to_vec());
        });
        if connection.is_broken() || is_enough(&taken) {
            break;
        }
        let (_keep, never) = std::sync::mpsc::channel::<()>();
        let _ = never.recv_timeout(Duration::from_millis(1));
    }
    taken
}

/// Reads `count` datagrams from the stream.
fn read(stream: &mut TcpStream, count: usize) -> Vec<Vec<u8>> {
    let (mut deframer, mut datagrams, mut buffer) = (Deframer::default(), vec![], [0; 50_000]);
    while datagrams.len() < count {
        let size = stream.read(&mut buffer).expect("datagrams in time");
        assert_ne!(size, 0, "{} datagrams", datagrams.len());
        let take = |datagram: &mut [u8]| datagrams.push(datagram.to_vec());
        deframer
            .push(&mut buffer[..size], take)
            .expect("our stream");
    }
    datagrams
}

#[test]
fn a_batch_comes_as_the_datagrams_it_was_made_of() {
    let (connection, mut other) = pair();
    let bytes: Vec<u8> = (0..2_500_u32).map(|at| (at / 1_000) as u8).collect();
    for _ in 0..2 {
        connection
            .send(&batch(connection.peer(), &bytes, 1_000))
            .expect("room");
    }
    let sizes: Vec<_> = read(&mut other, 6).iter().map(Vec::len).collect();
    assert_eq!(sizes, [1_000, 1_000, 500, 1_000, 1_000, 500]);
}

#[test]
fn a_reader_that_stands_still_costs_datagrams_and_never_half_of_one() {
    let (connection, mut other) = pair();
    let (mut sent_count, mut full_count) = (0, 0);
    for number in 0_u32.. {
        let bytes: Vec<u8> = number.to_be_bytes().repeat(300).repeat(8);
        match connection.send(&batch(connection.peer(), &bytes, 1_200)) {
            Ok(()) => sent_count += 8,
            Err((dropped_count, error)) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                sent_count += 8 - dropped_count;
                full_count += 1;
            }
        }
        assert!(
            connection.outgoing.borrow().rest.len() <= 1_202,
            "one datagram at most"
        );
        if full_count == 3 {
            break;
        }
    }
    let reader = std::thread::spawn(move || (read(&mut other, sent_count), other));
    let is_flushed = |connection: &Connection| connection.outgoing.borrow().rest.is_empty();
    serve(&connection, |_| is_flushed(&connection));
    let (read, _other) = reader.join().expect("all came");
    assert!(is_flushed(&connection));
    for datagram in read {
        assert_eq!(datagram, datagram[..4].repeat(300), "whole");
    }
}

#[test]
fn pieces_of_any_size_are_put_together() {
    let (connection, mut other) = pair();
    let mut stream = STREAM_PREAMBLE.to_vec();
    let datagrams = [vec![1; 1], vec![2; 700], vec![3; 9_000]];
    for datagram in &datagrams {
        assert!(append_framed(&mut stream, datagram));
    }
    let writer = std::thread::spawn(move || {
        for piece in stream.chunks(333) {
            other.write_all(piece).expect("taken");
        }
        other
    });
    let taken = serve(&connection, |taken| taken.len() == 3);
    let _other = writer.join();
    assert_eq!(taken, datagrams);
    assert!(!connection.is_broken());
}

#[test]
fn another_protocol_or_an_impossible_length_ends_it() {
    let too_long = [&STREAM_PREAMBLE[..], &[0xff, 0xff]].concat();
    for bytes in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0x16, 3, 1],
        too_long,
    ] {
        let (connection, mut other) = pair();
        other.write_all(&bytes).expect("taken");
        assert!(serve(&connection, |_| false).is_empty());
        assert!(connection.is_broken(), "{bytes:?}");
    }
}

#[test]
fn a_peer_that_is_gone_ends_it() {
    let (connection, other) = pair();
    drop(other);
    serve(&connection, |_| false);
    assert!(connection.is_broken());
    let (count, error) = connection
        .send(&batch(connection.peer(), &[1; 30], 10))
        .expect_err("nobody");
    assert_eq!((count, error.kind()), (3, ErrorKind::NotConnected));
}

#[test]
fn a_client_connects_without_waiting() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
    let target = listener.local_addr().unwrap();
    let connection =
        Connection::dial(&Network::default(), &Via::DefaultRoute, target).expect("loopback");
    assert!(!connection.is_open());
    assert_eq!(
        connection.polled().map(|(_, flags)| flags),
        Some(PollFlags::OUT)
    );
    let (mut stream, _) = listener.accept().expect("connected");
    serve(&connection, |_| connection.is_open());
    assert!(connection.is_open());
    connection.send(&batch(target, &[5; 40], 40)).expect("room");
    assert_eq!(read(&mut stream, 1), [vec![5; 40]]);
}
