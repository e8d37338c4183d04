//! Events of a receiver and its sessions.

use super::*;
use crate::ReceiverEvent;

/// Takes all events of a receiver that is closed.
async fn all_events(receiver: &Receiver) -> Vec<ReceiverEvent> {
    let mut events = Vec::new();
    while let Ok(event) = receiver.next_event_async().await {
        events.push(event);
    }
    events
}

/// Returns the states of one path, in order.
fn states_of(events: &[ReceiverEvent], wanted: &str) -> Vec<&'static str> {
    let states = events.iter().filter_map(|event| match &event.event {
        Event::PathState { name, state, .. } if name == wanted => Some(*state),
        _ => None,
    });
    states.collect()
}

#[test]
fn a_session_its_paths_and_its_end_are_reported_with_its_peer() {
    let bed = Bed::new(4);
    let (receiver, sender) = (bed.receiver(), bed.sender("via = ['wlan0', 'wwan0']"));
    sender.start().expect("it can start");
    let sending = async {
        let connected = sender.wait_connected_async().await;
        connected.expect("the studio answers");
        bed.stream(&sender, 0..50).await;
        bed.lines[0].unplug();
        bed.stream(&sender, 50..100).await;
        bed.lines[0].plug();
        bed.stream(&sender, 100..150).await;
        sender.remove_path(1).expect("it is there");
        bed.stream(&sender, 150..200).await;
        sender.close_async().await.expect("all has arrived");
    };
    let receiving = async {
        let session = receiver.accept_async().await.expect("the camera comes");
        assert_eq!(session.number(), 0);
        numbers(&session).await
    };
    let ((), numbers) = bed
        .world
        .block_on(async { tokio::join!(sending, receiving) });
    assert_eq!(numbers.len(), 200);
    receiver.close().expect("it is started");
    let events = bed.world.block_on(all_events(&receiver));
    let peer = bed.world.key("camera").public_key().to_string();
    for event in &events {
        assert_eq!(event.session, Some(0), "{event:?}");
        assert_eq!(event.peer.as_ref(), Some(&peer), "{event:?}");
    }
    assert_eq!(events[0].event, Event::SessionBegan);
    let last = events.last().map(|event| &event.event);
    assert!(matches!(last, Some(Event::SessionEnded { .. })), "{last:?}");
    let of_first = states_of(&events, "wlan0");
    assert_eq!(of_first.first(), Some(&"active"), "{of_first:?}");
    assert!(of_first.contains(&"out"), "{of_first:?}");
    assert_eq!(of_first.last(), Some(&"active"), "{of_first:?}");
    let of_second = states_of(&events, "wwan0");
    assert_eq!(of_second, ["active", "out"], "its sender has removed it");
}

/// A line that loses much, with less latency than a retransmission takes.
#[test]
fn frames_that_are_lost_are_reported_as_the_statistics_count_them() {
    let world = World::new(5);
    let (camera, studio) = (world.machine("camera"), world.machine("studio"));
    let first = camera.attach("wlan0", &line(60).with_loss(0.05));
    let second = camera.attach("wwan0", &line(60).with_loss(0.05));
    let address = studio.attach("eth0", &line(1)).at(7_000);
    let bed = Bed {
        world,
        camera,
        studio,
        lines: [first, second],
        address,
    };
    let text = format!(
        "listen = '{}'\nkey = '{}'\nallow = ['{}']\nlatency = '20 ms'\n",
        bed.address,
        bed.secret("studio"),
        bed.world.key("camera").public_key()
    );
    let receiver = Receiver::new_in(&text, &bed.studio.network()).expect("it is complete");
    receiver.start().expect("the address is free");
    let sender = bed.sender("via = ['wlan0', 'wwan0']\nlatency = '20 ms'");
    sender.start().expect("it can start");
    let sending = async {
        let connected = sender.wait_connected_async().await;
        connected.expect("the studio answers");
        for number in 0..200_i64 {
            let pts = Some(number * 40_000);
            let sent = sender.send_frame(&[7; 10_000], pts, Importance::Disposable);
            sent.expect("the session takes it");
            bed.world.sleep(Duration::from_millis(40)).await;
        }
        sender.close_async().await.expect("the studio is there");
    };
    let receiving = async {
        let session = receiver.accept_async().await.expect("the camera comes");
        while session.next_frame_async().await.is_ok() {}
        session.statistics().frames_dropped
    };
    let ((), dropped) = bed
        .world
        .block_on(async { tokio::join!(sending, receiving) });
    receiver.close().expect("it is started");
    let events = bed.world.block_on(all_events(&receiver));
    let reported = events
        .iter()
        .filter(|event| matches!(event.event, Event::FrameDropped { .. }));
    assert!(dropped > 0, "a hard line");
    assert_eq!(reported.count() as u64, dropped);
}

#[test]
fn a_sender_that_is_not_let_in_is_reported() {
    let bed = Bed::new(6);
    let receiver = bed.receiver();
    let text = format!(
        "to = '{}'\nkey = '{}'\npeer = '{}'\nvia = 'wlan0'\n",
        bed.address,
        bed.secret("stranger"),
        bed.world.key("studio").public_key()
    );
    let stranger = Sender::new_in(&text, &bed.camera.network()).expect("it is complete");
    stranger.start().expect("it can start");
    let taken = bed.world.block_on(receiver.next_event_async());
    let event = taken.expect("the receiver runs");
    let peer = bed.world.key("stranger").public_key().to_string();
    assert_eq!((event.session, event.peer), (None, Some(peer)));
    let Event::SenderRefused { reason, from } = event.event else {
        panic!("{:?}", event.event);
    };
    assert_eq!(reason, "its key is not allowed");
    assert!(
        from.starts_with(&bed.lines[0].address().to_string()),
        "{from}"
    );
}
