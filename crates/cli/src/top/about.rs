//! Summary of a stream beside its paths.

use anabranch_observe::PictureState;
use anabranch_observe::status::{Status, Stream};
use ratatui::style::{Color, Stylize};
use ratatui::text::Line;

use crate::view::{megabits, why_sent};

/// Returns the received rate on the wire, or the payload's rate if another protocol hides the
/// former.
pub(super) fn received_bps(stream: &Stream) -> f64 {
    if stream.protocol.is_some() && stream.paths.is_empty() {
        stream.delivered_rate_bps.avg
    } else {
        stream.received_rate_bps.avg
    }
}

/// Returns lines about the stream as a whole.
pub(super) fn lines(status: &Status, stream: &Stream) -> Vec<Line<'static>> {
    let peer = stream.peer.as_deref().map_or("nobody", short);
    let who = match &stream.protocol {
        Some(protocol) => format!("{} by {protocol}", short(&stream.name)),
        None if stream.peer.as_deref() == Some(&*stream.name) => format!("with {peer}"),
        None => format!("{} with {peer}", short(&stream.name)),
    };
    let session = match (stream.connected, stream.session) {
        (true, 1) => format!("connected for {:.0} s", stream.session_s),
        (true, count) => format!("connected for {:.0} s, session {count}", stream.session_s),
        (false, 0) if stream.protocol.is_some() => "nothing has come yet".to_owned(),
        (false, 0) => "not connected yet".to_owned(),
        (false, _) => "the peer is away".to_owned(),
    };
    let carries = stream.carries.as_deref().unwrap_or("nothing");
    let counters = &stream.counters;
    let frames = match status.role.as_str() {
        "send" => format!(
            "encoder may send {}; {} frames sent, {} given up as too late",
            megabits(stream.target_rate_bps as f64),
            counters.frames_sent,
            counters.frames_late,
        ),
        "recv" => format!(
            "payload {}; {} frames complete, {} missing",
            megabits(stream.delivered_rate_bps.avg),
            counters.frames_received,
            counters.frames_dropped,
        ),
        _ => format!(
            "payload received {}",
            megabits(stream.delivered_rate_bps.avg)
        ),
    };
    let mut lines = vec![
        Line::raw(format!("{who}, carries {carries}; {session}")),
        Line::raw(frames),
        Line::raw(match stream.silent_s {
            Some(silent_s) => format!(
                "{:.1} MB have come; heard last {silent_s:.1} s ago",
                counters.delivered_bytes as f64 / 1e6
            ),
            None => why_sent(stream),
        }),
    ];
    if let Some(picture) = &stream.picture {
        let text = format!("picture {}", picture.text);
        let colour = match picture.state {
            PictureState::Fine => Color::Green,
            PictureState::Impaired => Color::Yellow,
            PictureState::Gone => Color::Red,
        };
        lines.insert(0, Line::from(text.fg(colour).bold()));
    }
    lines
}

/// Shortens a key to its first characters, which identify it.
pub(super) fn short(name: &str) -> &str {
    if name.starts_with("abpub_") {
        name.get(..14).unwrap_or(name)
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use crate::top::view::{View, text};
    use crate::view::History;
    use anabranch_observe::status::{Path, Spread, StreamCounters};

    use super::*;

    #[test]
    fn a_stream_by_another_protocol_shows_its_links_and_when_it_was_heard() {
        let link = Path {
            name: "from 192.0.2.7:5000".to_owned(),
            state: "active".to_owned(),
            silent_s: Some(0.2),
            ..Path::default()
        };
        let phone = Stream {
            name: "phone".to_owned(),
            protocol: Some("srtla".to_owned()),
            carries: Some("video".to_owned()),
            connected: true,
            session: 1,
            silent_s: Some(0.2),
            counters: StreamCounters {
                delivered_bytes: 12_340_000,
                ..StreamCounters::default()
            },
            paths: vec![link],
            ..Stream::default()
        };
        let van = Stream {
            name: "van".to_owned(),
            protocol: Some("srt".to_owned()),
            delivered_rate_bps: Spread {
                min: 3e6,
                avg: 3e6,
                max: 3e6,
            },
            ..Stream::default()
        };
        let mut history = History::default();
        history.add(Status {
            role: "recv".to_owned(),
            streams: vec![phone, van],
            ..Status::default()
        });
        let mut view = View::new("127.0.0.1:9797".to_owned());
        view.of_stream.history = history;
        let shown = text(&view, 120);
        for part in [
            "phone by srtla, carries video; connected for",
            "12.3 MB have come; heard last 0.2 s ago",
            "from 192.0.2.7",
            "in  3.00 Mbit/s",
        ] {
            assert!(shown.contains(part), "{part:?} in\n{shown}");
        }
    }
}
