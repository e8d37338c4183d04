//! Sessions in worlds in memory.

mod receiver_events;
mod srt;

use std::net::SocketAddr;
use std::time::Duration;

use anabranch_net::testing::{Interface, Line, Machine, World};
use anabranch_units::{DataRate, Importance};

use crate::{ErrorCode, Event, Receiver, Sender, Session};

/// Returns a line of 10 Mbit/s with this one-way delay.
fn line(millis: u64) -> Line {
    let rate = DataRate::from_megabits_per_second(10);
    Line::new(rate, Duration::from_millis(millis))
}

/// A camera with two lines and a studio.
struct Bed {
    world: World,
    camera: Machine,
    studio: Machine,
    lines: [Interface; 2],
    address: SocketAddr,
}

impl Bed {
    fn new(seed: u64) -> Bed {
        let world = World::new(seed);
        let (camera, studio) = (world.machine("camera"), world.machine("studio"));
        let lines = [
            camera.attach("wlan0", &line(20)),
            camera.attach("wwan0", &line(40)),
        ];
        let address = studio.attach("eth0", &line(1)).at(7_000);
        Bed {
            world,
            camera,
            studio,
            lines,
            address,
        }
    }

    fn secret(&self, name: &str) -> String {
        self.world.key(name).to_text().to_string()
    }

    fn receiver(&self) -> Receiver {
        let text = format!(
            "listen = '{}'\nkey = '{}'\nallow = ['{}']\nlatency = '1 s'\n",
            self.address,
            self.secret("studio"),
            self.world.key("camera").public_key()
        );
        let receiver = Receiver::new_in(&text, &self.studio.network()).expect("it is complete");
        receiver.start().expect("the address is free");
        receiver
    }

    fn sender(&self, more: &str) -> Sender {
        let text = format!(
            "to = '{}'\nkey = '{}'\npeer = '{}'\n{more}\n",
            self.address,
            self.secret("camera"),
            self.world.key("studio").public_key()
        );
        Sender::new_in(&text, &self.camera.network()).expect("it is complete")
    }

    /// Sends frames of 10 kB, 25 a second, each of which is needed.
    async fn stream(&self, sender: &Sender, numbers: core::ops::Range<u8>) {
        for number in numbers {
            let pts = i64::from(number) * 40_000;
            let sent = sender.send_frame(&[number; 10_000], Some(pts), Importance::Key);
            sent.expect("the session takes it");
            self.world.sleep(Duration::from_millis(40)).await;
        }
    }
}

/// Takes all frames of a session. Returns their first bytes.
async fn numbers(session: &Session) -> Vec<u8> {
    let mut numbers = Vec::new();
    while let Ok(frame) = session.next_frame_async().await {
        assert_eq!(frame.bytes, [frame.bytes[0]; 10_000]);
        numbers.push(frame.bytes[0]);
    }
    numbers
}

fn states(sender: &Sender) -> Vec<&'static str> {
    sender
        .statistics()
        .paths
        .iter()
        .map(|path| path.state)
        .collect()
}

#[test]
fn nothing_is_lost_over_two_paths_of_which_one_fails() {
    let bed = Bed::new(1);
    let (receiver, sender) = (bed.receiver(), bed.sender("via = ['wlan0', 'wwan0']"));
    assert_eq!(
        sender
            .send_frame(&[1], None, Importance::Key)
            .unwrap_err()
            .code,
        ErrorCode::State
    );
    sender.start().expect("it can start");
    assert_eq!(sender.start().unwrap_err().code, ErrorCode::State);
    let sending = async {
        sender
            .wait_connected_async()
            .await
            .expect("the studio answers");
        bed.stream(&sender, 0..50).await;
        bed.lines[0].unplug();
        bed.stream(&sender, 50..150).await;
        assert_eq!(states(&sender), ["out", "active"]);
        sender.close_async().await.expect("all has arrived");
    };
    let receiving = async {
        let session = receiver.accept_async().await.expect("the camera comes");
        numbers(&session).await
    };
    let ((), numbers) = bed
        .world
        .block_on(async { tokio::join!(sending, receiving) });
    assert_eq!(numbers, (0..150).collect::<Vec<u8>>());
    let statistics = sender.statistics();
    assert_eq!(
        (statistics.frames_sent, statistics.frames_acked),
        (150, 150)
    );
    assert!(
        statistics.to_json().contains(r#""name":"wlan0""#),
        "{}",
        statistics.to_json()
    );
    let error = sender.send_frame(&[1], None, Importance::Key).unwrap_err();
    assert_eq!(error.code, ErrorCode::Ended, "{error}");
}

#[test]
fn paths_come_and_go_while_it_runs() {
    let bed = Bed::new(2);
    let (receiver, sender) = (bed.receiver(), bed.sender("via = []"));
    assert_eq!(
        sender.start().unwrap_err().code,
        ErrorCode::Path,
        "it has no path"
    );
    assert_eq!(sender.add_path("wlan0", None), Ok(0));
    assert_eq!(
        sender.add_path("wlan0", None).unwrap_err().code,
        ErrorCode::Path
    );
    sender.start().expect("it has a path");
    let sending = async {
        sender
            .wait_connected_async()
            .await
            .expect("the studio answers");
        bed.stream(&sender, 0..25).await;
        assert_eq!(sender.add_path("wwan0,weight=2", None), Ok(1));
        bed.stream(&sender, 25..50).await;
        assert_eq!(states(&sender), ["active", "active"]);
        sender.remove_path(0).expect("it is there");
        bed.stream(&sender, 50..100).await;
        assert_eq!(states(&sender), ["removed", "active"]);
        assert_eq!(sender.add_path("wlan0", None), Ok(0), "the number is free");
        bed.stream(&sender, 100..150).await;
        assert_eq!(states(&sender), ["active", "active"]);
        assert_eq!(sender.remove_path(2).unwrap_err().code, ErrorCode::Path);
        sender.close_async().await.expect("all has arrived");
    };
    let receiving = async {
        let session = receiver.accept_async().await.expect("the camera comes");
        numbers(&session).await
    };
    let ((), numbers) = bed
        .world
        .block_on(async { tokio::join!(sending, receiving) });
    assert_eq!(numbers, (0..150).collect::<Vec<u8>>());
}

#[test]
fn paired_sender_needs_only_the_link() {
    let bed = Bed::new(3);
    let receiver = bed.receiver();
    let host = bed.address.to_string();
    let link = receiver
        .pairing_link(&host, Duration::from_secs(60))
        .expect("it runs");
    let sender = Sender::new_in(&link, &bed.camera.network()).expect("it is complete");
    sender.start().expect("it can start");
    bed.world
        .block_on(sender.wait_connected_async())
        .expect("the code is good");
    bed.world.block_on(bed.stream(&sender, 0..5));
    let name = receiver.public_key();
    assert_eq!(sender.statistics().peer, Some(name));
    bed.world
        .block_on(sender.close_async())
        .expect("all has arrived");
    let events: Vec<Event> = bed.world.block_on(async {
        let mut events = Vec::new();
        while let Ok(event) = sender.next_event_async().await {
            events.push(event);
        }
        events
    });
    let reason = "closed".to_owned();
    assert_eq!(events.last(), Some(&Event::Ended { reason }));
}
