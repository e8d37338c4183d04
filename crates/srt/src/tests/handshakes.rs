//! Handshakes that succeed, fail and are repeated.

use anabranch_units::Duration;

use super::network::World;
use crate::settings::{Passphrase, Settings};
use crate::{CloseReason, Event, Rejection};

fn with(passphrase: Option<&str>) -> Settings {
    Settings {
        passphrase: passphrase.and_then(Passphrase::new),
        ..Settings::default()
    }
}

#[test]
fn passphrases_must_agree() {
    let (one, other) = (Some("correct horse"), Some("wrong horses"));
    for (calling, listening, refused) in [
        (None, None, None),
        (one, one, None),
        (one, other, Some(Rejection::BadSecret)),
        (one, None, Some(Rejection::Unsecure)),
        (None, one, Some(Rejection::Unsecure)),
    ] {
        let mut world = World::new(1, with(calling), with(listening));
        world.run_for(Duration::from_secs(1));
        assert_eq!(world.caller.closed(), refused.map(CloseReason::Refused));
        let count = usize::from(refused.is_none());
        assert_eq!(world.listener.connection_count(), count);
        let Some(rejection) = refused else {
            assert_eq!(world.calling().is_encrypted(), calling.is_some());
            continue;
        };
        assert!(
            world
                .events
                .iter()
                .all(|event| matches!(event, Event::Refused(_, its) if *its == rejection))
                && !world.events.is_empty()
        );
    }
}

#[test]
fn the_driver_decides_by_the_stream_id() {
    let mut world = World::new(1, with(None), with(None));
    world.admitted = Err(Rejection::NotFound);
    world.run_for(Duration::from_secs(1));
    let refused = CloseReason::Refused(Rejection::NotFound);
    assert_eq!(world.caller.closed(), Some(refused));
    let [Event::Refused(request, Rejection::NotFound)] = &world.events[..] else {
        panic!("{:?}", world.events);
    };
    assert_eq!(request.stream_id.as_deref(), Some("studio"));
}

#[test]
fn a_caller_gives_up_after_its_timeout() {
    let mut world = World::new(1, with(None), with(None));
    world.effects.loss = 1.0;
    world.run_for(Duration::from_millis(2_999));
    assert_eq!(world.caller.closed(), None);
    world.run_for(Duration::from_millis(2));
    assert_eq!(world.caller.closed(), Some(CloseReason::NoAnswer));
    // Each 250 ms.
    assert_eq!(world.lost, 12);
}

#[test]
fn lost_and_duplicated_handshakes_make_one_connection() {
    for seed in 0..100 {
        let settings = Settings {
            connect_timeout: Duration::from_secs(30),
            ..with(Some("correct horse"))
        };
        let mut world = World::new(seed, settings.clone(), settings);
        world.effects.loss = 0.4;
        world.effects.duplication = 0.4;
        world.effects.delay = Duration::from_millis(20);
        world.effects.jitter = Duration::from_millis(400);
        world.run_for(Duration::from_secs(4));
        world.effects.loss = 0.0;
        world.run_for(Duration::from_secs(3));
        assert!(world.caller.connection().is_some(), "seed {seed}");
        assert_eq!(world.listener.connection_count(), 1, "seed {seed}");
    }
}
