//! Sessions of streams.

use anabranch_link::LinkConfig;
use anabranch_net::testing::Line;
use anabranch_net::{Accepted, ByteStream, Event, Events, Refused, StreamClient, StreamServer};
use anabranch_secure::Refusal;
use anabranch_units::{DataRate, Duration, Instant, Seed};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::bed::there_and_back;

use super::bed::{Bed, drain, line, millis};

fn server(bed: &Bed) -> (StreamServer, UnboundedReceiver<Accepted>, Events) {
    let server = StreamServer::builder()
        .key(bed.world.key("studio"))
        .allow(bed.world.key("camera").public_key())
        .network(bed.studio.network())
        .listen(bed.address());
    server.start().expect("the address is free")
}

async fn client(bed: &Bed) -> (StreamClient, Events) {
    let mut client = StreamClient::builder()
        .key(bed.world.key("camera"))
        .peer(bed.world.key("studio").public_key())
        .network(bed.camera.network())
        .to(bed.address());
    for index in 0..bed.lines.len() {
        client = client.via(format!("line{index}").as_str());
    }
    client.connect_async().await.expect("the studio answers")
}

/// Returns the MTU of each path, in bytes.
fn mtus(client: &StreamClient) -> Vec<Option<u32>> {
    let paths = client.snapshot().paths;
    paths.iter().map(|path| path.view.mtu).collect()
}

fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = Seed(seed).rng();
    (0..length).map(|_| rng.next_u64() as u8).collect()
}

/// Sends back the bytes of each stream.
async fn echo(mut accepted: UnboundedReceiver<Accepted>) {
    let mut echoes = Vec::new();
    loop {
        tokio::select! {
            next = accepted.recv() => match next {
                Some(Accepted { stream, .. }) => echoes.push(Box::pin(echo_one(stream))),
                None => return,
            },
            () = all(&mut echoes), if !echoes.is_empty() => echoes.clear(),
        }
    }
}

async fn echo_one(mut stream: ByteStream) {
    let (mut reader, mut writer) = tokio::io::split(&mut stream);
    // A session that ends breaks its streams.
    let _ = tokio::io::copy(&mut reader, &mut writer).await;
    let _ = writer.shutdown().await;
}

/// Waits for all tasks, side by side.
pub async fn all<F: Future<Output = ()> + Unpin>(tasks: &mut Vec<F>) {
    std::future::poll_fn(|context| {
        tasks.retain_mut(|task| std::pin::Pin::new(task).poll(context).is_pending());
        if tasks.is_empty() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
}

/// Runs a client's task beside a server that echoes.
fn beside_echo<T>(bed: &Bed, task: impl Future<Output = T>) -> T {
    let (_server, accepted, _events) = server(bed);
    bed.world.block_on(async {
        tokio::select! {
            done = task => done,
            () = echo(accepted) => panic!("the server has ended"),
        }
    })
}

#[test]
fn a_hundred_streams_come_back_byte_by_byte_over_lossy_paths() {
    let lines = [line(40, 2).with_loss(0.01), line(40, 20).with_loss(0.01)];
    let bed = Bed::new(1, &lines);
    beside_echo(&bed, async {
        let (client, _events) = client(&bed).await;
        let mut streams: Vec<_> = (0..100)
            .map(|number| {
                let stream = client.open().expect("it is connected");
                Box::pin(async move {
                    let bytes = pattern(number, 1 + number as usize * 997);
                    let back = there_and_back(stream, &bytes).await.expect("an echo");
                    assert!(back == bytes, "stream {number}");
                })
            })
            .collect();
        all(&mut streams).await;
        for path in &client.snapshot().paths {
            assert!(path.counters.acked_packets > 100, "{path:?}");
        }
    });
}

#[test]
fn a_stream_does_not_notice_that_a_path_dies() {
    let bed = Bed::new(2, &[line(8, 10), line(8, 10)]);
    beside_echo(&bed, async {
        let (client, _events) = client(&bed).await;
        let begun_at = bed.world.now();
        let bytes = pattern(7, 4_000_000);
        let stream = client.open().expect("it is connected");
        let dies = async {
            bed.world.sleep(millis(1_000)).await;
            bed.lines[0].block_udp(true);
        };
        let (back, ()) = tokio::join!(there_and_back(stream, &bytes), dies);
        assert!(back.expect("an echo") == bytes);
        let took = bed.world.now() - begun_at;
        assert!(took > Duration::from_millis(1_500), "it died after the end");
    });
}

/// Gives one path a smaller MTU than the other, whose MTU then falls silently.
#[test]
fn packets_grow_and_every_byte_outlives_an_mtu_that_falls() {
    let link = LinkConfig {
        rate: Some(DataRate::from_megabits_per_second(8)),
        delay: Duration::from_millis(10),
        ..LinkConfig::default()
    };
    let narrow = LinkConfig {
        mtu: Some(1_492),
        ..link.clone()
    };
    let falls = LinkConfig {
        mtu_schedule: vec![(Instant::from_secs(10), 1_400)],
        ..link
    };
    let lines = [falls, narrow].map(|link| Line {
        up: link.clone(),
        down: link,
        ..line(8, 10)
    });
    let bed = Bed::new(3, &lines);
    beside_echo(&bed, async {
        let (client, _events) = client(&bed).await;
        bed.world.sleep(millis(5_000)).await;
        assert_eq!(mtus(&client), [Some(1_500), Some(1_492)]);
        bed.world.sleep(millis(5_000)).await;
        // Only the loss of packets reveals an MTU that falls.
        let bytes = pattern(7, 1_000_000);
        while mtus(&client) != [Some(1_400), Some(1_492)] {
            let now = bed.world.now();
            assert!(now < Instant::from_secs(60), "{:?}", mtus(&client));
            let stream = client.open().expect("it is connected");
            let back = there_and_back(stream, &bytes).await;
            assert!(back.expect("an echo") == bytes);
        }
    });
}

#[test]
fn a_restarted_server_ends_streams_and_takes_new_ones() {
    let bed = Bed::new(4, &[line(10, 10), line(10, 20)]);
    let (client, events) = beside_echo(&bed, async {
        let (client, events) = client(&bed).await;
        let mut stream = client.open().expect("it is connected");
        stream.write_all(b"before").await.expect("there is room");
        let mut back = [0; 6];
        stream.read_exact(&mut back).await.expect("an echo");
        bed.studio.kill();
        (client, events)
    });
    beside_echo(&bed, async {
        bed.world.sleep(millis(3_000)).await;
        let bytes = pattern(9, 100_000);
        let stream = client.open().expect("it is connected again");
        let back = there_and_back(stream, &bytes).await.expect("an echo");
        assert!(back == bytes);
    });
    assert!(
        drain(&events)
            .iter()
            .any(|event| matches!(event, Event::Reconnected { .. }))
    );
}

#[test]
fn several_clients_have_sessions_at_once_and_no_more_than_have_places() {
    let bed = Bed::new(5, &[line(10, 10)]);
    let keys = ["a", "b", "c"].map(|name| bed.world.key(name));
    let mut builder = StreamServer::builder().key(bed.world.key("studio"));
    for key in &keys {
        builder = builder.allow(key.public_key());
    }
    let (server, accepted, _events) = builder
        .network(bed.studio.network())
        .listen(bed.address())
        .max_sessions(2)
        .start()
        .expect("a free address");
    let [a, b, c] = keys.map(|key| {
        StreamClient::builder()
            .key(key)
            .peer(bed.world.key("studio").public_key())
            .network(bed.camera.network())
            .to(bed.address())
            .via("line0")
    });
    let there_and_back = async |client: &StreamClient, seed| {
        let bytes = pattern(seed, 10_000);
        let stream = client.open().expect("it is connected");
        assert!(there_and_back(stream, &bytes).await.expect("an echo") == bytes);
    };
    let task = async {
        let (a, _events) = a.connect_async().await.expect("a place");
        let (b, _more_events) = b.connect_async().await.expect("a place");
        there_and_back(&a, 1).await;
        there_and_back(&b, 2).await;
        assert_eq!(server.snapshots().len(), 2);
        let (c, events) = c.start().expect("a set-up");
        bed.world.sleep(millis(5_000)).await;
        // The receiver reports it, and gives it no place later either.
        let no_place = Event::Refused(Refused::ByReceiver(Refusal::NoPlace));
        assert_eq!(drain(&events), [no_place]);
        assert!(c.open().is_err());
        there_and_back(&a, 3).await;
    };
    bed.world.block_on(async {
        tokio::select! {
            () = task => {}
            () = echo(accepted) => panic!("the server has ended"),
        }
    });
}
