//! The property `statistics`: a session's counters as a structure of GStreamer.

use anabranch_net::{PathSnapshot, Snapshot};
use gst::prelude::*;

/// Returns a session's present or last counters: those of media, and a structure for each path.
pub(super) fn structure(seen: &Snapshot) -> gst::Structure {
    let counters = &seen.session;
    let paths = seen.paths.iter().map(|path| of_path(path).to_send_value());
    let peer = seen.peer.map(|peer| peer.to_string());
    let latency = seen.latency.map_or(0, |latency| latency.as_millis());
    gst::Structure::builder("anabranch-statistics")
        .field("peer", peer.unwrap_or_default())
        .field("latency-ms", latency)
        .field("frames-received", counters.frames_received)
        .field("frames-dropped", counters.frames_dropped)
        .field("bytes-received", counters.media_bytes_received)
        .field("paths", gst::Array::from_values(paths))
        .build()
}

fn of_path(path: &PathSnapshot) -> gst::Structure {
    let peer = path.peer.map(|peer| peer.to_string());
    // The sender's reports have the names of its paths, and their round-trip times.
    let link = path.link.as_ref();
    let rtt = path.view.rtt.smoothed.or(link.and_then(|link| link.rtt));
    let name = link.map(|link| link.name.clone());
    gst::Structure::builder("path")
        .field("name", name.unwrap_or_default())
        .field("state", format!("{:?}", path.state()))
        .field("peer", peer.unwrap_or_default())
        .field("rtt-us", rtt.map_or(0, |rtt| rtt.as_micros()))
        .field("packets-received", path.counters.received_packets)
        .field("bytes-received", path.counters.received_bytes)
        .build()
}
