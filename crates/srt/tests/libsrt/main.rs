//! Our ends against Debian's libsrt (`srt-live-transmit` of srt-tools), over loopback. `make
//! test-real` runs them.

mod bed;

use std::collections::BTreeMap;

use anabranch_srt::{
    Caller, CloseReason, Connection, ConnectionId, Event, KeyLength, KeyRefresh, Listener,
    Passphrase, Rejection, Request, Settings,
};
use anabranch_units::Duration;

use bed::{Lossy, Tool, Wire, entropy, free_port, numbered};

const COUNT: u64 = 1_000;
/// Bytes that the tool may keep in its output's buffer.
const KEPT_BYTES: usize = 8_192;
const BYTES: usize = 1_316 * COUNT as usize;
/// Limit of a run; a busy machine takes longer than the stream.
const PATIENCE: Duration = Duration::from_secs(240);
const SECRET: &str = "correct horse";

fn settings(passphrase: Option<&str>) -> Settings {
    Settings {
        passphrase: passphrase.map(|text| Passphrase::new(text).unwrap()),
        receive_latency: Duration::from_secs(2),
        peer_latency: Duration::from_secs(2),
        ..Settings::default()
    }
}

/// Parameters of the tool for a passphrase.
fn parameters(passphrase: Option<&str>) -> String {
    let secret = passphrase.map(|text| format!("&passphrase={text}"));
    format!("latency=2000{}", secret.unwrap_or_default())
}

/// Returns the first `count` payloads.
fn stream(count: u64) -> Vec<u8> {
    (0..count).flat_map(numbered).collect()
}

/// Returns the connections that have begun.
fn connected(listener: &mut Listener) -> Vec<(ConnectionId, Option<String>)> {
    let events = core::iter::from_fn(|| listener.poll_event());
    let connected = events.filter_map(|event| match event {
        Event::Connected(id, request) => Some((id, request.stream_id)),
        _ => None,
    });
    connected.collect()
}

/// Receives a stream from the tool, which calls our listener over a network that loses `loss` of
/// all datagrams.
fn called_by_libsrt(passphrase: Option<&str>, more: &str, loss: f64) {
    let wire = Wire::open();
    let network = Lossy::start(wire.port(), loss);
    let (port, parameters) = (network.port(), parameters(passphrase));
    let url = format!("srt://127.0.0.1:{port}?streamid=cam&{parameters}{more}");
    let mut tool = Tool::to(&url);
    let mut listener = Listener::new(wire.now(), entropy(1));
    let (mut received, mut sent, mut id) = (Vec::new(), 0, None);
    let mut admit = |request: &Request| {
        assert_eq!(request.stream_id.as_deref(), Some("cam"));
        Ok(settings(passphrase))
    };
    let until = wire.now() + PATIENCE;
    while received.len() < BYTES && wire.now() < until {
        wire.serve(&mut listener, &mut admit);
        id = id.or(connected(&mut listener).first().map(|(id, _)| *id));
        let Some(connection) = id.and_then(|id| listener.connection(id)) else {
            continue;
        };
        if sent < COUNT && wire.is_time() {
            tool.feed(&numbered(sent));
            sent += 1;
        }
        let due = core::iter::from_fn(|| connection.poll_payload(wire.now()));
        received.extend(due.flat_map(|delivered| delivered.payload));
    }
    let connection = listener.connection(id.expect("connected")).unwrap();
    let statistics = connection.statistics();
    assert!(received == stream(COUNT), "{statistics:?}");
    assert_eq!(connection.is_encrypted(), passphrase.is_some());
    assert_eq!(statistics.missing_packets > 0, loss > 0.0, "{statistics:?}");
}

#[test]
#[ignore = "needs srt-live-transmit (Debian: srt-tools); make test-real runs it"]
fn libsrt_calls_our_listener() {
    called_by_libsrt(None, "", 0.0);
    called_by_libsrt(Some(SECRET), "", 0.0);
    called_by_libsrt(Some(SECRET), "&pbkeylen=24", 0.0);
    // Four keys.
    let refresh = "&pbkeylen=32&kmrefreshrate=300&kmpreannounce=100";
    called_by_libsrt(Some(SECRET), refresh, 0.0);
}

#[test]
#[ignore = "needs srt-live-transmit (Debian: srt-tools); make test-real runs it"]
fn libsrt_calls_our_listener_with_loss() {
    called_by_libsrt(None, "", 0.02);
    called_by_libsrt(Some(SECRET), "", 0.02);
}

/// Sends a stream to the tool, by our caller over a network that loses `loss` of all datagrams.
fn we_call_libsrt(settings: Settings, passphrase: Option<&str>, loss: f64) {
    let port = free_port();
    let parameters = parameters(passphrase);
    let mut tool = Tool::from(&format!(
        "srt://127.0.0.1:{port}?mode=listener&{parameters}"
    ));
    tool.wait_for_listener(port);
    let (network, wire) = (Lossy::start(port, loss), Wire::open());
    let to = ([127, 0, 0, 1], network.port()).into();
    let mut caller = Caller::new(wire.now(), to, Some("cam"), settings, entropy(2));
    let (mut sent, until) = (0, wire.now() + PATIENCE);
    while tool.written_bytes() + KEPT_BYTES < BYTES && wire.now() < until {
        wire.call(&mut caller, to);
        assert_eq!(caller.closed(), None);
        if let Some(connection) = caller.connection()
            && sent < COUNT
            && wire.is_time()
        {
            connection.send(wire.now(), &numbered(sent)).unwrap();
            sent += 1;
        }
    }
    let statistics = caller.connection().expect("connected").statistics();
    let written = tool.written();
    let is_whole = stream(COUNT).starts_with(&written) && written.len() + KEPT_BYTES >= BYTES;
    assert!(is_whole, "{} bytes, {statistics:?}", written.len());
    let has_repeated = statistics.retransmitted_packets > 0;
    assert!(has_repeated || loss == 0.0, "{statistics:?}");
    assert!(statistics.rtt.is_some());
}

#[test]
#[ignore = "needs srt-live-transmit (Debian: srt-tools); make test-real runs it"]
fn we_call_libsrts_listener() {
    we_call_libsrt(settings(None), None, 0.0);
    let refreshing = Settings {
        key_length: Some(KeyLength::Aes256),
        key_refresh: KeyRefresh {
            packets: 300,
            announced_before: 100,
        },
        ..settings(Some(SECRET))
    };
    we_call_libsrt(refreshing, Some(SECRET), 0.0);
}

#[test]
#[ignore = "needs srt-live-transmit (Debian: srt-tools); make test-real runs it"]
fn we_call_libsrts_listener_with_loss() {
    we_call_libsrt(settings(None), None, 0.02);
    we_call_libsrt(settings(Some(SECRET)), Some(SECRET), 0.02);
}

/// Sends the next payload if it is time, and finishes the connection after the last one.
fn send_or_finish(connection: &mut Connection, wire: &Wire, sent: &mut u64) {
    if *sent < COUNT && wire.is_time() {
        connection.send(wire.now(), &numbered(*sent)).unwrap();
        *sent += 1;
    } else if *sent == COUNT {
        connection.finish(wire.now());
    }
}

/// Ends a connection to the tool with its last payload, over a network with loss.
#[test]
#[ignore = "needs srt-live-transmit (Debian: srt-tools); make test-real runs it"]
fn libsrts_listener_writes_the_last_payload_before_we_end() {
    let (port, parameters) = (free_port(), parameters(None));
    let mut tool = Tool::once_from(&format!(
        "srt://127.0.0.1:{port}?mode=listener&{parameters}"
    ));
    tool.wait_for_listener(port);
    let (network, wire) = (Lossy::start(port, 0.02), Wire::open());
    let to = ([127, 0, 0, 1], network.port()).into();
    let mut caller = Caller::new(wire.now(), to, None, settings(None), entropy(5));
    let (mut sent, until) = (0, wire.now() + PATIENCE);
    while !caller.is_drained() && wire.now() < until {
        wire.call(&mut caller, to);
        let Some(connection) = caller.connection() else {
            continue;
        };
        send_or_finish(connection, &wire, &mut sent);
    }
    // The shutdown leaves.
    wire.call(&mut caller, to);
    let statistics = caller.connection().expect("connected").statistics();
    let written = tool.whole();
    assert!(
        written == stream(COUNT),
        "{} bytes, {statistics:?}",
        written.len()
    );
}

#[test]
#[ignore = "needs srt-live-transmit (Debian: srt-tools); make test-real runs it"]
fn libsrt_as_caller_writes_the_last_payload_before_we_end() {
    let wire = Wire::open();
    let network = Lossy::start(wire.port(), 0.02);
    let (port, parameters) = (network.port(), parameters(None));
    let tool = Tool::once_from(&format!("srt://127.0.0.1:{port}?{parameters}"));
    let mut listener = Listener::new(wire.now(), entropy(6));
    let (mut sent, mut id, mut is_over) = (0, None, false);
    let until = wire.now() + PATIENCE;
    while !is_over && wire.now() < until {
        wire.serve(&mut listener, &mut |_| Ok(settings(None)));
        id = id.or(connected(&mut listener).first().map(|(id, _)| *id));
        let Some(connection) = id.and_then(|id| listener.connection(id)) else {
            is_over = id.is_some();
            continue;
        };
        send_or_finish(connection, &wire, &mut sent);
    }
    let written = tool.whole();
    assert!(written == stream(COUNT), "{} bytes", written.len());
}

#[test]
#[ignore = "needs srt-live-transmit (Debian: srt-tools); make test-real runs it"]
fn we_fetch_a_stream_from_libsrts_listener() {
    let port = free_port();
    let parameters = parameters(Some(SECRET));
    let mut tool = Tool::to(&format!(
        "srt://127.0.0.1:{port}?mode=listener&{parameters}"
    ));
    tool.wait_for_listener(port);
    let wire = Wire::open();
    let to = ([127, 0, 0, 1], port).into();
    let mut caller = Caller::new(wire.now(), to, None, settings(Some(SECRET)), entropy(3));
    let (mut received, mut sent) = (Vec::new(), 0);
    let until = wire.now() + PATIENCE;
    while received.len() < BYTES && wire.now() < until {
        wire.call(&mut caller, to);
        let Some(connection) = caller.connection() else {
            continue;
        };
        if sent < COUNT && wire.is_time() {
            tool.feed(&numbered(sent));
            sent += 1;
        }
        let due = core::iter::from_fn(|| connection.poll_payload(wire.now()));
        received.extend(due.flat_map(|delivered| delivered.payload));
    }
    assert!(received == stream(COUNT));
}

#[test]
#[ignore = "needs srt-live-transmit (Debian: srt-tools); make test-real runs it"]
fn callers_are_routed_and_strangers_refused() {
    let wire = Wire::open();
    let calls = [
        ("a", Some("secret of a")),
        ("b", Some("secret of b")),
        ("c", None),
        ("b", Some("wrong horses")),
    ];
    let tools = calls.map(|(name, secret)| {
        let (port, parameters) = (wire.port(), parameters(secret));
        Tool::to(&format!(
            "srt://127.0.0.1:{port}?streamid={name}&{parameters}"
        ))
    });
    let [mut a, mut b, _c, _d] = tools;
    let mut listener = Listener::new(wire.now(), entropy(4));
    let mut refused = Vec::new();
    let mut ids = BTreeMap::new();
    let mut admit = |request: &Request| match request.stream_id.as_deref() {
        Some(name @ ("a" | "b")) => Ok(settings(Some(&format!("secret of {name}")))),
        _ => Err(Rejection::NotFound),
    };
    let wanted = [("b", Rejection::BadSecret), ("c", Rejection::NotFound)]
        .map(|(name, rejection)| (Some(name.to_owned()), rejection));
    let mut received = BTreeMap::<String, Vec<u8>>::new();
    let (mut sent, until) = (0, wire.now() + PATIENCE);
    let expected = stream(100);
    let is_all = |received: &BTreeMap<String, Vec<u8>>| {
        received.len() == 2 && received.values().all(|its| *its == expected)
    };
    while !(is_all(&received) && wanted.iter().all(|its| refused.contains(its))) {
        assert!(wire.now() < until, "{refused:?}");
        wire.serve(&mut listener, &mut admit);
        while let Some(event) = listener.poll_event() {
            match event {
                Event::Connected(id, request) => drop(ids.insert(id, request.stream_id.unwrap())),
                Event::Refused(request, rejection) => refused.push((request.stream_id, rejection)),
                Event::Closed(..) => {}
            }
        }
        if ids.len() == 2 && sent < 100 && wire.is_time() {
            a.feed(&numbered(sent));
            b.feed(&numbered(sent));
            sent += 1;
        }
        for (id, name) in &ids {
            let connection = listener.connection(*id).unwrap();
            let due = core::iter::from_fn(|| connection.poll_payload(wire.now()));
            let its = received.entry(name.clone()).or_default();
            its.extend(due.flat_map(|delivered| delivered.payload));
        }
    }
}

#[test]
#[ignore = "needs srt-live-transmit (Debian: srt-tools); make test-real runs it"]
fn libsrt_refuses_a_wrong_passphrase_by_its_reason() {
    for (ours, its, rejection) in [
        (Some("wrong horses"), Some(SECRET), Rejection::BadSecret),
        (None, Some(SECRET), Rejection::Unsecure),
        (Some(SECRET), None, Rejection::Unsecure),
    ] {
        let port = free_port();
        let parameters = parameters(its);
        let mut tool = Tool::from(&format!(
            "srt://127.0.0.1:{port}?mode=listener&{parameters}"
        ));
        tool.wait_for_listener(port);
        let wire = Wire::open();
        let to = ([127, 0, 0, 1], port).into();
        let mut caller = Caller::new(wire.now(), to, None, settings(ours), entropy(5));
        while caller.closed().is_none() {
            wire.call(&mut caller, to);
        }
        assert_eq!(caller.closed(), Some(CloseReason::Refused(rejection)));
    }
}

/// Streams four seconds of MPEG-TS from ffmpeg, which ends the connection.
#[test]
#[ignore = "needs ffmpeg (Debian: ffmpeg); make test-real runs it"]
fn ffmpeg_calls_our_listener() {
    let wire = Wire::open();
    // Its latency is in microseconds.
    let parameters = format!("streamid=cam&latency=2000000&passphrase={SECRET}&pkt_size=1316");
    let _ffmpeg = bed::ffmpeg(&format!("srt://127.0.0.1:{}?{parameters}", wire.port()));
    let mut listener = Listener::new(wire.now(), entropy(6));
    let mut admit = |_: &Request| Ok(settings(Some(SECRET)));
    let (mut received, mut end) = (Vec::new(), None);
    let until = wire.now() + PATIENCE;
    while end.is_none() && wire.now() < until {
        wire.serve(&mut listener, &mut admit);
        for id in listener.connection_ids() {
            let connection = listener.connection(id).unwrap();
            let due = core::iter::from_fn(|| connection.poll_payload(wire.now()));
            received.extend(due.flat_map(|delivered| delivered.payload));
        }
        while let Some(event) = listener.poll_event() {
            if let Event::Closed(_, statistics, reason) = event {
                end = Some((statistics, reason));
            }
        }
    }
    let (statistics, reason) = end.expect("it ends");
    assert_eq!(reason, CloseReason::Peer);
    assert_eq!(statistics.dropped_packets, 0, "{statistics:?}");
    let mut packets = received.chunks(188);
    assert!(received.len() > 100_000, "{} bytes", received.len());
    assert!(packets.all(|packet| packet.len() == 188 && packet[0] == 0x47));
}
