//! The memory that a hostile peer can take.

use core::task::Poll;

use anabranch_mux::{Budget, Limits, Mux, Role, StreamId, Violation};
use bytes::Bytes;

const SESSION_WINDOW_BYTES: u64 = 10_000;

fn server() -> Mux {
    let limits = Limits {
        session_window_bytes: SESSION_WINDOW_BYTES,
        max_session_window_bytes: SESSION_WINDOW_BYTES,
        ..Limits::default()
    };
    Mux::new(Role::Server, limits, Budget::new(0))
}

/// Returns data of one of the first 32 streams that a client opens.
fn data(stream: u8, offset: u16, bytes: &[u8]) -> Bytes {
    let mut message = vec![0, 2 * stream];
    message.extend_from_slice(&(offset | 0x4000).to_be_bytes());
    message.extend_from_slice(bytes);
    message.into()
}

fn accept_all(mux: &mut Mux) -> Vec<StreamId> {
    core::iter::from_fn(|| mux.accept()).collect()
}

/// Returns the server's last credit for all streams.
fn session_credit(mux: &mut Mux) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    let mut last = None;
    while mux.next_message(100, &mut head).is_some() {
        last = (head[0] == 6).then(|| head[1..].to_vec()).or(last);
    }
    last
}

#[test]
fn all_streams_together_hold_no_more_than_the_sessions_window() {
    let mut mux = server();
    for stream in 0..10 {
        assert_eq!(mux.handle_message(data(stream, 0, &[1; 1_000])), Ok(()));
    }
    assert_eq!(mux.held_bytes(), SESSION_WINDOW_BYTES);
    assert_eq!(
        mux.handle_message(data(10, 0, b"x")),
        Err(Violation::WindowExceeded)
    );
}

#[test]
fn reading_or_resetting_frees_credit() {
    let mut mux = server();
    for round in 0..30 {
        assert_eq!(mux.handle_message(data(round, 0, &[1; 6_000])), Ok(()));
        let ids = accept_all(&mut mux);
        match round % 3 {
            0 => assert!(matches!(mux.read(ids[0]), Poll::Ready(Ok(Some(_))))),
            // The reader releases it unread, or the peer gives it up.
            1 => mux.release(ids[0]),
            _ => {
                let reset = Bytes::copy_from_slice(&[3, 2 * round]);
                assert_eq!(mux.handle_message(reset), Ok(()));
            }
        }
        assert_eq!(mux.held_bytes(), 0);
        assert!(session_credit(&mut mux).is_some(), "{round}");
    }
}

#[test]
fn a_sender_whose_session_credit_has_ended_goes_on_when_there_is_more() {
    fn sent(mux: &mut Mux) -> usize {
        core::iter::from_fn(|| mux.next_message(400, &mut Vec::new()))
            .map(|bytes| bytes.len())
            .sum::<usize>()
    }

    let limits = Limits {
        session_window_bytes: 1_000,
        ..Limits::default()
    };
    let mut mux = Mux::new(Role::Client, limits, Budget::new(10_000));
    let ids = [(); 3].map(|()| mux.open().unwrap());
    for id in ids {
        assert_eq!(mux.write(id, &[7; 500]), Poll::Ready(Ok(500)));
    }
    assert_eq!(mux.sendable_bytes(), 1_000);
    assert_eq!(sent(&mut mux), 1_000);
    assert_eq!((mux.has_message(), mux.sendable_bytes()), (false, 0));
    // Up to 1,200 bytes.
    let credit = Bytes::from_static(&[6, 0x44, 0xb0]);
    assert_eq!(mux.handle_message(credit), Ok(()));
    assert_eq!(sent(&mut mux), 200);
    let credit = Bytes::from_static(&[6, 0x60, 0]);
    assert_eq!(mux.handle_message(credit), Ok(()));
    assert_eq!(sent(&mut mux), 300);
}

#[test]
fn gaps_within_streams_are_bounded() {
    let mut mux = Mux::new(Role::Server, Limits::default(), Budget::new(0));
    let gaps = (0..32).flat_map(|stream| (0..8_000).map(move |index| (stream, 1 + 2 * index)));
    let taken = gaps
        .map(|(stream, offset)| mux.handle_message(data(stream, offset, b"x")))
        .take_while(Result::is_ok)
        .count();
    assert_eq!(taken, 1 << 16);
}

#[test]
fn a_peer_that_takes_no_notice_cannot_open_streams_for_ever() {
    let limits = Limits {
        max_streams: 20,
        ..Limits::default()
    };
    let mut mux = Mux::new(Role::Server, limits, Budget::new(0));
    let mut taken = Ok(());
    for stream in 0..4_000_u16 {
        let id = ((2 * stream) | 0x4000).to_be_bytes();
        taken = taken.and(mux.handle_message([&[0][..], &id, &[0, 1]].concat().into()));
        for id in accept_all(&mut mux) {
            mux.release(id);
        }
    }
    assert_eq!(taken, Err(Violation::TooManyStreams));
}
