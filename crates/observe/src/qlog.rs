//! `--qlog`: a log of packets and of the transport's state, in the format of qlog tools.
//!
//! Source: draft-ietf-quic-qlog-main-schema-04 (`qlog_version` 0.3) in its streaming form, JSON
//! text sequences (RFC 7464). Events are from draft-ietf-quic-qlog-quic-events-03 where ours mean
//! the same; others are in the namespace `anabranch`.
//!
//! Deviations: this protocol is not QUIC. `packet_number` counts the datagrams of one path in one
//! session, and `path` names the path. Tools identify packets by `group_id` and number, so each
//! path is a group, which qvis shows as a connection. qvis needs a group in all events. The
//! transport does not report which packets are lost, so `anabranch:packets_lost` with a count
//! replaces `recovery:packet_lost`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender, TrySendError};
use std::{io, thread};

use anabranch_net::SessionKind;
use anabranch_net::{Clock, PacketEvent, PacketEventKind, PacketObserver, PathSnapshot, Snapshot};
use anabranch_secure::PublicKey;
use anabranch_terminal::hangup::Reopen;
use anabranch_units::{Duration, Instant};
use serde_json::{Map, Value, json};

use super::StreamSnapshot;
use super::open_error::OpenError;
use super::stream_event::{TimedEvent, unix_time_s};
use crate::names::cargo_name;

/// First byte of each record (RFC 7464).
const RECORD_SEPARATOR: u8 = 0x1e;
/// Maximum number of events that wait for the disk. Further events are dropped, and their number is
/// logged.
const MAX_WAITING: usize = 65_536;
/// Time between writes of events.
const FLUSH_INTERVAL: core::time::Duration = core::time::Duration::from_millis(500);
/// Time after which events of several threads are in the order of their times.
const SETTLING: Duration = Duration::from_millis(100);

/// Entry of the log.
enum Entry {
    Packet(PacketEvent),
    Metrics(Box<Metrics>),
    Happened(Box<TimedEvent>),
    /// End of the log.
    End,
}

/// State of a path's recovery and controller.
struct Metrics {
    at: Instant,
    group: String,
    path: usize,
    data: Value,
}

/// Input of the log, which never waits for the disk.
#[derive(Clone, Debug)]
pub(super) struct Qlog {
    entries: SyncSender<Entry>,
    left_out: Arc<AtomicU64>,
}

impl PacketObserver for Qlog {
    fn on_packet(&self, event: &PacketEvent) {
        self.take(Entry::Packet(*event));
    }
}

/// An open file, for the thread that will write it.
#[derive(Debug)]
pub(super) struct OpenQlog {
    file: File,
    path: PathBuf,
    reopen: Reopen,
    qlog: Qlog,
    entries: mpsc::Receiver<Entry>,
}

impl OpenQlog {
    pub(super) fn open(path: &Path) -> Result<OpenQlog, OpenError> {
        let file = File::create(path).map_err(|source| OpenError::Qlog {
            name: path.display().to_string(),
            source,
        })?;
        let (sender, entries) = mpsc::sync_channel(MAX_WAITING);
        let qlog = Qlog {
            entries: sender,
            left_out: Arc::default(),
        };
        Ok(OpenQlog {
            file,
            path: path.to_owned(),
            reopen: Reopen::on_signal().map_err(OpenError::Signals)?,
            qlog,
            entries,
        })
    }

    pub(super) fn qlog(&self) -> Qlog {
        self.qlog.clone()
    }

    /// Starts the thread, which writes until [`Qlog::end`].
    pub(super) fn start(
        self,
        role: &'static str,
        clock: Clock,
    ) -> io::Result<thread::JoinHandle<()>> {
        let OpenQlog {
            file,
            path,
            reopen,
            qlog,
            entries,
        } = self;
        let left_out = qlog.left_out;
        let mut log = Log::new(BufWriter::new(file), &clock);
        thread::Builder::new()
            .name("qlog".to_owned())
            .spawn(move || {
                let written = log.head(role).and_then(|()| {
                    loop {
                        let end = write_all(&mut log, &entries, &clock, &reopen)?;
                        if end == WriteEnd::Over {
                            break;
                        }
                        log.output = BufWriter::new(File::create(&path)?);
                        // A file that begins has all metrics.
                        log.metrics.clear();
                        log.head(role)?;
                    }
                    log.left_out(clock.now(), left_out.load(Ordering::Relaxed))
                });
                if let Err(error) = written {
                    log::info!("the log {} ends here: {error}", path.display());
                }
            })
    }
}

impl Qlog {
    fn take(&self, entry: Entry) {
        if let Err(TrySendError::Full(_)) = self.entries.try_send(entry) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the log.
    pub(super) fn end(&self) {
        // The thread may have ended because the disk was full.
        let _ = self.entries.send(Entry::End);
    }

    pub(super) fn on_stream_event(&self, timed: &TimedEvent) {
        self.take(Entry::Happened(Box::new(timed.clone())));
    }

    /// Logs the state of the paths' recovery and controllers.
    pub(super) fn on_snapshots(&self, snapshots: &[StreamSnapshot]) {
        for Snapshot {
            at,
            peer,
            session_kind,
            paths,
            ..
        } in snapshots.iter().map(|sample| &sample.snapshot)
        {
            let (Some(peer), Some(session_kind)) = (peer, session_kind) else {
                continue;
            };
            for (path, seen) in paths.iter().enumerate() {
                self.take(Entry::Metrics(Box::new(Metrics {
                    at: *at,
                    group: group(peer, *session_kind),
                    path,
                    data: metrics(seen),
                })));
            }
        }
    }
}

/// Cause for which writing ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteEnd {
    /// The session is over.
    Over,
    /// The file is to be opened again.
    Reopen,
}

/// Writes until the end, or until the file is to be opened again.
fn write_all<W: Write>(
    log: &mut Log<W>,
    entries: &mpsc::Receiver<Entry>,
    clock: &Clock,
    reopen: &Reopen,
) -> io::Result<WriteEnd> {
    let mut waiting: Vec<(Instant, Entry)> = Vec::new();
    let mut flush_at = clock.now();
    loop {
        let is_over = match entries.recv_timeout(FLUSH_INTERVAL) {
            Ok(Entry::End) | Err(RecvTimeoutError::Disconnected) => true,
            Ok(entry) => {
                waiting.push((entry.at(), entry));
                false
            }
            Err(RecvTimeoutError::Timeout) => false,
        };
        let now = clock.now();
        if now < flush_at && !is_over {
            continue;
        }
        flush_at = now + Duration::from_std(FLUSH_INTERVAL);
        waiting.sort_by_key(|(at, _)| *at);
        let is_reopened = reopen.is_due();
        let count =
            waiting.partition_point(|(at, _)| is_over || is_reopened || *at + SETTLING <= now);
        for (_, entry) in waiting.drain(..count) {
            log.entry(entry)?;
        }
        log.output.flush()?;
        if is_over {
            return Ok(WriteEnd::Over);
        }
        if is_reopened {
            return Ok(WriteEnd::Reopen);
        }
    }
}

impl Entry {
    fn at(&self) -> Instant {
        match self {
            Entry::Packet(event) => event.at,
            Entry::Metrics(metrics) => metrics.at,
            Entry::Happened(timed) => {
                Instant::ZERO + Duration::from_secs_f64(timed.uptime_s.max(0.0))
            }
            Entry::End => Instant::ZERO,
        }
    }
}

struct Log<W> {
    output: W,
    /// Milliseconds since 1970 at the clock's origin.
    origin_ms: f64,
    /// Last metrics of each group and path: only changes are logged.
    metrics: BTreeMap<(String, usize), Value>,
}

impl<W: Write> Log<W> {
    fn new(output: W, clock: &Clock) -> Self {
        Log {
            output,
            origin_ms: (unix_time_s() - clock.now().as_secs_f64()) * 1e3,
            metrics: BTreeMap::new(),
        }
    }

    fn head(&mut self, role: &str) -> io::Result<()> {
        let end = match role {
            "recv" | "serve" => "server",
            _ => "client",
        };
        let origin_ms = self.origin_ms;
        self.record(&json!({
            "qlog_version": "0.3",
            "qlog_format": "JSON-SEQ",
            "title": format!("anabranch {role}"),
            "trace": {
                "vantage_point": { "name": format!("anabranch {role}"), "type": end },
                "common_fields": {
                    "protocol_type": ["ANABRANCH"],
                    "time_format": "relative",
                    "reference_time": origin_ms,
                },
            },
        }))
    }

    fn entry(&mut self, entry: Entry) -> io::Result<()> {
        let at = entry.at();
        match entry {
            Entry::Packet(event) => {
                let (name, data) = packet(&event);
                let group = group(&event.peer, event.session_kind);
                self.path_event(at, name, data, (&group, event.path.index()))
            }
            Entry::Metrics(of) => {
                let Metrics {
                    group, path, data, ..
                } = *of;
                let owner = (group, path);
                if self.metrics.get(&owner) == Some(&data) {
                    return Ok(());
                }
                let (name, place) = ("recovery:metrics_updated", (&*owner.0, path));
                self.path_event(at, name, data.clone(), place)?;
                self.metrics.insert(owner, data);
                Ok(())
            }
            Entry::Happened(timed) => {
                let (name, data) = happened(&timed);
                self.event(at, &name, data, &timed.stream)
            }
            Entry::End => Ok(()),
        }
    }

    /// Logs the number of events that the disk was too slow for.
    fn left_out(&mut self, at: Instant, count: u64) -> io::Result<()> {
        if count > 0 {
            let data = json!({ "count": count });
            self.event(at, "anabranch:events_left_out", data, "log")?;
        }
        self.output.flush()
    }

    /// Writes an event of a path, with its group and number.
    fn path_event(
        &mut self,
        at: Instant,
        name: &str,
        data: Value,
        (group, path): (&str, usize),
    ) -> io::Result<()> {
        let mut event = event(at, name, data, &format!("{group} path {path}"));
        event["path"] = json!(path.to_string());
        self.record(&event)
    }

    fn event(&mut self, at: Instant, name: &str, data: Value, group: &str) -> io::Result<()> {
        self.record(&event(at, name, data, group))
    }

    fn record(&mut self, record: &Value) -> io::Result<()> {
        self.output.write_all(&[RECORD_SEPARATOR])?;
        serde_json::to_writer(&mut self.output, record)?;
        self.output.write_all(b"\n")
    }
}

fn event(at: Instant, name: &str, data: Value, group: &str) -> Value {
    json!({ "time": at.as_secs_f64() * 1e3, "name": name, "group_id": group, "data": data })
}

/// Returns the group of a session. Sessions of one peer with the same kind share a group.
fn group(peer: &PublicKey, session_kind: SessionKind) -> String {
    format!("{} {peer}", cargo_name(session_kind))
}

/// Returns the header of a packet after the handshake, by qlog's word.
fn header(number: impl Into<Value>) -> Value {
    json!({ "packet_type": "1RTT", "packet_number": number.into() })
}

fn packet(event: &PacketEvent) -> (&'static str, Value) {
    match event.kind {
        PacketEventKind::Sent {
            number,
            bytes,
            reason,
            fragment,
        } => {
            let mut data = json!({
                "header": header(number),
                "raw": { "length": bytes },
                "reason": reason.name(),
            });
            if let Some((frame, fragment)) = fragment {
                data["frame"] = json!(frame.0);
                data["fragment"] = json!(fragment);
            }
            ("transport:packet_sent", data)
        }
        PacketEventKind::Received { number, bytes } => {
            let data = json!({ "header": header(number), "raw": { "length": bytes } });
            ("transport:packet_received", data)
        }
        PacketEventKind::Lost { count } => ("anabranch:packets_lost", json!({ "count": count })),
    }
}

fn milliseconds(span: Duration) -> Value {
    json!(span.as_millis_f64())
}

fn happened(timed: &TimedEvent) -> (String, Value) {
    let mut data = match serde_json::to_value(timed) {
        Ok(Value::Object(data)) => data,
        _ => Map::new(),
    };
    let event = data.remove("event");
    data.remove("unix_time_s");
    data.remove("uptime_s");
    let word = event.as_ref().and_then(Value::as_str).unwrap_or_default();
    (format!("anabranch:{}", word.replace('-', "_")), data.into())
}

/// Returns the known metrics by the draft's names: times in milliseconds, rates in bits per second.
fn metrics(seen: &PathSnapshot) -> Value {
    let view = &seen.view;
    let known = [
        ("min_rtt", view.rtt.least.map(milliseconds)),
        ("smoothed_rtt", view.rtt.smoothed.map(milliseconds)),
        ("latest_rtt", view.rtt.latest.map(milliseconds)),
        (
            "rtt_variance",
            view.rtt.smoothed.map(|_| milliseconds(view.rtt.variation)),
        ),
        (
            "congestion_window",
            view.congestion_window.map(|window| json!(window)),
        ),
        ("bytes_in_flight", Some(json!(view.bytes_in_flight))),
        (
            "pacing_rate",
            view.pacing_rate.map(|rate| json!(rate.bits_per_second())),
        ),
        (
            "anabranch_state",
            Some(json!(crate::names::state_name(view.state))),
        ),
        ("anabranch_loss_ratio", Some(json!(view.risk.loss_ratio))),
        (
            "anabranch_bandwidth",
            Some(json!(view.bandwidth.bits_per_second())),
        ),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(known.collect())
}

#[cfg(test)]
mod tests {
    use anabranch_core::{FrameId, PathId, SendReason};
    use anabranch_secure::SecretKey;

    use super::*;

    fn records(bytes: &[u8]) -> Vec<Value> {
        let records = bytes
            .split(|byte| *byte == RECORD_SEPARATOR)
            .skip(1)
            .map(|record| {
                assert_eq!(record.last(), Some(&b'\n'));
                serde_json::from_slice(record).unwrap()
            });
        records.collect()
    }

    #[test]
    fn log_matches_the_schema() {
        let clock = Clock::start();
        let mut log = Log::new(Vec::new(), &clock);
        let peer = SecretKey::generate().public_key();
        log.head("send").unwrap();
        let sent = PacketEventKind::Sent {
            number: 7,
            bytes: 1_200,
            reason: SendReason::New,
            fragment: Some((FrameId(3), 2)),
        };
        for kind in [sent, PacketEventKind::Lost { count: 2 }] {
            let event = PacketEvent {
                at: Instant::from_millis(1_250),
                peer,
                session_kind: SessionKind::Frames,
                path: PathId(1),
                kind,
            };
            log.entry(Entry::Packet(event)).unwrap();
        }
        for _ in 0..2 {
            let metrics = Metrics {
                at: Instant::from_millis(1_300),
                group: "g".to_owned(),
                path: 1,
                data: json!({ "smoothed_rtt": 20.5 }),
            };
            log.entry(Entry::Metrics(Box::new(metrics))).unwrap();
        }
        log.left_out(Instant::from_secs(2), 4).unwrap();
        let records = records(&log.output);
        let (head, events) = records.split_first().unwrap();
        assert_eq!(head["qlog_version"], "0.3");
        assert_eq!(head["qlog_format"], "JSON-SEQ");
        assert_eq!(head["trace"]["vantage_point"]["type"], "client");
        assert_eq!(head["trace"]["common_fields"]["time_format"], "relative");
        for event in events {
            assert!(event["time"].is_number() && event["data"].is_object());
            // qvis checks the first event for a group.
            assert!(event["group_id"].is_string(), "{event}");
            assert!(event["name"].as_str().unwrap().contains(':'), "{event}");
        }
        let names: Vec<_> = events.iter().map(|event| event["name"].clone()).collect();
        // Unchanged metrics are not repeated.
        let expected = [
            "transport:packet_sent",
            "anabranch:packets_lost",
            "recovery:metrics_updated",
            "anabranch:events_left_out",
        ];
        assert_eq!(names, expected);
        // Each path counts its own packets.
        let group = format!("video {peer} path 1");
        assert_eq!(events[0]["group_id"], group);
        assert_eq!(events[1]["group_id"], group);
        assert_eq!(events[2]["group_id"], "g path 1");
        let sent = &events[0];
        assert_eq!(
            (&sent["time"], &sent["path"]),
            (&json!(1_250.0), &json!("1"))
        );
        assert_eq!(sent["data"]["header"]["packet_type"], "1RTT");
        assert_eq!(sent["data"]["header"]["packet_number"], 7);
        assert_eq!(sent["data"]["raw"]["length"], 1_200);
        assert_eq!(sent["data"]["frame"], 3);
    }
}
