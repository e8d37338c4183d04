//! Status in the shapes of two servers that NOALBS can poll, in one object. Its `OpenIRL` reads
//! `publisher`, which has the links of a bonded stream (`peers`). Its `Belabox` reads `publishers`
//! by name. Rates are in kbit/s, times in milliseconds. A stream that is not connected, or whose
//! picture has gone, is left out, which means offline in both.
//!
//! Sources: `src/stream_servers/openirl.rs` and `belabox.rs` of NOALBS 2.

use serde_json::{Map, Value, json};

use super::picture::PictureState;
use super::status::{Path, Status, Stream};

/// Returns the status with the fields for NOALBS. `publisher` describes the stream `wanted`, or the
/// only stream.
pub(super) fn with_publishers(status: &Status, wanted: Option<&str>) -> Value {
    let mut object = match serde_json::to_value(status) {
        Ok(Value::Object(object)) => object,
        _ => Map::new(),
    };
    let connected = status.streams.iter().filter(|stream| is_on_air(stream));
    let publishers: Map<String, Value> = connected
        .clone()
        .map(|stream| (stream.name.clone(), publisher(stream)))
        .collect();
    let one = match wanted {
        Some(wanted) => publishers.get(wanted),
        None if publishers.len() == 1 => publishers.values().next(),
        None => None,
    };
    match one.cloned() {
        Some(publisher) => object.insert("publisher".to_owned(), publisher),
        None => object.insert("message".to_owned(), json!("offline")),
    };
    object.insert("status".to_owned(), json!("ok"));
    let publishers: Map<String, Value> = publishers.into_iter().map(with_rtt).collect();
    object.insert("publishers".to_owned(), publishers.into());
    Value::Object(object)
}

/// Returns whether a viewer sees a moving picture.
fn is_on_air(stream: &Stream) -> bool {
    let picture = stream.picture.as_ref();
    stream.connected && picture.is_none_or(|picture| picture.state != PictureState::Gone)
}

/// Adds a round-trip time of zero if it is unknown, because `Belabox` requires the field.
fn with_rtt((name, mut publisher): (String, Value)) -> (String, Value) {
    if publisher.get("rtt").is_none() {
        publisher["rtt"] = json!(0.0);
    }
    (name, publisher)
}

fn publisher(stream: &Stream) -> Value {
    let is_receiver = stream.counters.frames_received + stream.counters.delivered_bytes > 0;
    let rate = if is_receiver {
        stream.delivered_rate_bps.avg
    } else {
        stream.sent_rate_bps.avg
    };
    let peers = stream.paths.iter().filter_map(peer);
    let mut object = json!({
        "bitrate": kilobits(rate),
        "buffer": 0,
        "dropped_pkts": stream.counters.frames_dropped + stream.counters.frames_late,
        "uptime": stream.session_s as u64,
        "peers": peers.collect::<Vec<_>>(),
    });
    // An unknown round-trip time is left out.
    if let Some(rtt) = rtt_ms(stream) {
        object["rtt"] = json!(rtt);
    }
    object
}

/// Returns a path as a link of a bonded connection, with its rate on the wire.
fn peer(path: &Path) -> Option<Value> {
    let rtt = path.rtt_s?.avg * 1e3;
    let rate = path.sent_rate_bps.avg.max(path.received_rate_bps.avg);
    Some(json!({
        "connection_id": path.name,
        "bitrate": kilobits(rate),
        "rtt": rtt,
    }))
}

/// Returns the mean of the paths' round-trip times, weighted by their rates.
fn rtt_ms(stream: &Stream) -> Option<f64> {
    let known = stream.paths.iter().filter_map(|path| {
        let rate = path.sent_rate_bps.avg + path.received_rate_bps.avg;
        Some((path.rtt_s?.avg * 1e3, rate.max(1.0)))
    });
    let (sum, weight) = known.fold((0.0, 0.0), |(sum, weight), (rtt, rate)| {
        (sum + rtt * rate, weight + rate)
    });
    (weight > 0.0).then(|| sum / weight)
}

fn kilobits(rate_bps: f64) -> u64 {
    (rate_bps / 1e3).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::Picture;
    use crate::status::{Spread, StreamCounters};

    fn spread(avg: f64) -> Spread {
        Spread {
            min: avg,
            avg,
            max: avg,
        }
    }

    fn path(name: &str, rate: f64, rtt: f64) -> Path {
        Path {
            name: name.to_owned(),
            received_rate_bps: spread(rate),
            rtt_s: Some(spread(rtt)),
            ..Path::default()
        }
    }

    fn status() -> Status {
        let camera = Stream {
            name: "camera".to_owned(),
            connected: true,
            session_s: 12.9,
            delivered_rate_bps: spread(2_000_400.0),
            counters: StreamCounters {
                frames_received: 10,
                frames_dropped: 3,
                ..StreamCounters::default()
            },
            paths: vec![path("wlan0", 1.5e6, 0.020), path("wwan0", 0.5e6, 0.060)],
            ..Stream::default()
        };
        let gone = Stream {
            name: "phone".to_owned(),
            ..Stream::default()
        };
        Status {
            streams: vec![camera, gone],
            ..Status::default()
        }
    }

    /// Fields that the types of NOALBS require.
    #[test]
    fn both_shapes_have_what_noalbs_requires() {
        let object = with_publishers(&status(), None);
        for publisher in [&object["publisher"], &object["publishers"]["camera"]] {
            assert_eq!(publisher["bitrate"].as_u64(), Some(2_000), "{object}");
            assert_eq!(publisher["dropped_pkts"].as_u64(), Some(3));
            assert_eq!(publisher["uptime"].as_u64(), Some(12));
            assert!(publisher["buffer"].is_u64());
            assert_eq!(publisher["rtt"].as_f64(), Some(30.0));
            assert_eq!(publisher["peers"][1]["rtt"].as_f64(), Some(60.0));
            assert_eq!(publisher["peers"][1]["bitrate"].as_u64(), Some(500));
        }
    }

    #[test]
    fn a_round_trip_time_that_is_not_known_is_left_out_where_it_may_be() {
        let mut status = status();
        for path in &mut status.streams[0].paths {
            path.rtt_s = None;
        }
        let object = with_publishers(&status, None);
        assert!(object["publisher"].get("rtt").is_none(), "{object}");
        assert_eq!(object["publishers"]["camera"]["rtt"].as_f64(), Some(0.0));
    }

    #[test]
    fn a_picture_that_has_gone_is_offline() {
        let mut status = status();
        for (state, is_there) in [(PictureState::Impaired, true), (PictureState::Gone, false)] {
            status.streams[0].picture = Some(Picture {
                state,
                ..Picture::default()
            });
            let object = with_publishers(&status, None);
            assert_eq!(object["publishers"].get("camera").is_some(), is_there);
        }
    }

    #[test]
    fn a_stream_that_is_not_connected_is_offline() {
        for wanted in ["phone", "nobody"] {
            let object = with_publishers(&status(), Some(wanted));
            assert!(object.get("publisher").is_none(), "{object}");
            assert!(object["publishers"].get(wanted).is_none(), "{object}");
        }
        let object = with_publishers(&status(), Some("camera"));
        assert!(object["publisher"].is_object(), "{object}");
    }
}
