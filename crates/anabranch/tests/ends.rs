//! Both ends by threads and by tasks, and the reasons for which sessions end.

use std::error::Error;
use std::time::Duration;

use anabranch::{
    ConnectError, DataRate, Ended, Event, Events, Importance, PublicKey, Receiver, Reception,
    Receptions, SecretKey, SendError, Sender, ServerBuilder, StartError,
};

/// Returns a receiver that admits one sender, and the keys of both.
fn studio() -> (ServerBuilder<Receiver>, SecretKey, PublicKey) {
    let (camera, studio) = (SecretKey::generate(), SecretKey::generate());
    let studio_name = studio.public_key();
    let builder = Receiver::builder()
        .key(studio)
        .allow(camera.public_key())
        .listen("127.0.0.1:0");
    (builder, camera, studio_name)
}

fn session() -> (Receiver, Receptions, Sender, Events) {
    let (builder, camera, studio_name) = studio();
    let (receiver, sessions) = builder.start().expect("loopback");
    let builder = Sender::builder()
        .key(camera)
        .peer(studio_name)
        .to(receiver.local_addr());
    let (sender, events) = builder.connect().expect("the receiver answers");
    (receiver, sessions, sender, events)
}

#[test]
fn threads_and_tasks_may_share_and_move_both_ends() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<(Sender, Events)>();
    is_shared::<(Receiver, Receptions, Reception)>();
    fn is_sent<T: Send>(_: T) {}
    let (builder, ..) = studio();
    let (_receiver, sessions) = builder.start().expect("loopback");
    is_sent(sessions.recv_async());
    is_sent(Sender::builder().connect_async());
}

#[test]
fn tasks_send_and_receive_frames() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let received = runtime.block_on(async {
        let (builder, camera, studio_name) = studio();
        let (receiver, sessions) = builder.latency(Duration::from_secs(3)).start()?;
        let megabits = DataRate::from_megabits_per_second;
        let builder = Sender::builder()
            .key(camera)
            .peer(studio_name)
            .to(receiver.local_addr())
            .via("127.0.0.1")
            .bitrate(megabits(1)..=megabits(8));
        let (sender, _events) = builder.connect_async().await?;
        let session = sessions.recv_async().await?;
        assert_eq!(
            session.latency().map(Duration::from),
            Some(Duration::from_secs(3))
        );
        let target = sender.target_bitrate();
        assert!((megabits(1)..=megabits(8)).contains(&target), "{target}");
        assert_eq!(target, sender.snapshot().target_bitrate);

        let mut received = Vec::new();
        for number in 0..10 {
            sender.send(vec![number; 3_000], Importance::key_if(number == 0))?;
            received.push(session.recv_frame_async().await?.bytes);
        }
        assert_eq!(sender.finish_async().await, Ended::Closed);
        let over = session.recv_frame_async().await.expect_err("it is over");
        assert_eq!(over.ended, Some(Ended::ClosedByPeer));
        Ok::<_, Box<dyn Error>>(received)
    });
    let expected: Vec<Vec<u8>> = (0..10).map(|number| vec![number; 3_000]).collect();
    assert_eq!(received.expect("a session"), expected);
}

#[test]
fn an_end_keeps_its_reason() {
    let (receiver, _sessions, sender, events) = session();
    sender.close();
    assert_eq!(
        events.iter().find(|event| matches!(event, Event::Ended(_))),
        Some(Event::Ended(Ended::Closed))
    );
    // Though the sender lives, its events are over, and its calls give the reason.
    let over = events.recv().expect_err("it is over");
    assert_eq!(over.ended, Some(Ended::Closed));
    assert_eq!(sender.ended(), Some(Ended::Closed));
    let refused = sender
        .send(b"a picture".as_slice(), Importance::Key)
        .expect_err("it is over");
    assert_eq!(refused, SendError::Ended(Ended::Closed));
    let source = refused.source().expect("the reason").to_string();
    assert_eq!(source, Ended::Closed.to_string());
    drop(receiver);
}

#[test]
fn a_connection_without_an_answer_gives_the_reason() {
    let connected = Sender::builder()
        .key(SecretKey::generate())
        .peer(SecretKey::generate().public_key())
        // The port for discarded data, where nobody answers.
        .to("127.0.0.1:9")
        .connect_timeout(Duration::from_millis(100))
        .connect();
    let error = connected.map(|_| ()).expect_err("nobody answers");
    assert!(
        matches!(&error, ConnectError::Ended(Ended::NoAnswer { .. })),
        "{error}"
    );
    assert!(error.to_string().contains("127.0.0.1:9"), "{error}");
}

#[test]
fn a_start_keeps_the_cause_of_its_failure() {
    let (builder, ..) = studio();
    let (receiver, _sessions) = builder.start().expect("loopback");
    let (builder, ..) = studio();
    let taken = builder.listen(receiver.local_addr()).start();
    let error = taken.map(|_| ()).expect_err("the port is in use");
    assert!(matches!(&error, StartError::Listen { .. }), "{error}");
    let cause = error
        .source()
        .expect("the system's error")
        .downcast_ref::<std::io::Error>()
        .map(std::io::Error::kind);
    assert_eq!(cause, Some(std::io::ErrorKind::AddrInUse));
}
