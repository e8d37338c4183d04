//! Limits on the number of streams of each end.

use anabranch_mux::{Budget, Limits, Mux, OpenError, Role};

#[test]
fn streams_of_the_peer_leave_an_ends_own_limit_untouched() {
    let limits = Limits {
        max_streams: 2,
        ..Limits::default()
    };
    let mut mux = Mux::new(Role::Server, limits, Budget::new(0));
    for stream in [0, 2] {
        assert_eq!(mux.handle_message(vec![0, stream, 0, 7].into()), Ok(()));
        assert!(mux.accept().is_some());
    }
    for _ in 0..2 {
        assert!(mux.open().is_ok());
    }
    assert_eq!(mux.open(), Err(OpenError::TooMany { max: 2 }));
    assert_eq!(mux.stream_count(), 4);
}
