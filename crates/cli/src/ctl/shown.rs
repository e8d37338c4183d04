//! The state of a program, as text.

use std::fmt::Write;

use anabranch_observe::control::{ControlState, JoinLink, PathControl, StreamControl};
use anabranch_terminal::clean::one_line;
use anabranch_terminal::print;
use anabranch_units::{ByteCount, DataRate};

use crate::pairing::print_qr_code;

/// Returns the state in lines.
pub(super) fn state(state: &ControlState) -> String {
    let mut text = format!("{}: {}\n", state.role, state.changes.join(", "));
    for path in &state.paths {
        text += &self::path(path);
    }
    if let Some(target) = &state.target {
        let [min, max, most] =
            [target.min_bps, target.max_bps, target.most_bps].map(DataRate::from_bits_per_second);
        let _ = writeln!(text, "target: {min} to {max}, at most {most}");
    }
    for stream in &state.streams {
        text += &self::stream(stream);
    }
    for its in &state.kept_out {
        let name = one_line(&its.stream);
        let _ = writeln!(text, "{name}: kept out for {:.0} s", its.for_s);
    }
    text
}

/// Prints a link with its secrets, and on a terminal its QR code.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn link(link: &JoinLink) -> anyhow::Result<()> {
    let stream = link
        .stream
        .as_deref()
        .map_or(String::new(), |stream| format!("{stream}, "));
    let said = one_line(&format!("{stream}{}: {}", link.app, link.link)).into_owned();
    print_qr_code(&link.link)?;
    print::secret(&said)?;
    match &link.fields {
        Some(fields) => print::secret(&one_line(&format!("{stream}by hand: {fields}"))),
        None => Ok(()),
    }
}

fn path(path: &PathControl) -> String {
    let name = one_line(&path.name);
    let mut text = format!("path {} ({name}): ", path.path);
    text += if path.on { "on" } else { "off" };
    if path.metered {
        text += ", metered";
    }
    if let Some(cap) = path.cap_bytes {
        let _ = write!(text, ", cap {}", ByteCount(cap));
    }
    if let Some(max) = path.max_bps {
        let _ = write!(text, ", at most {}", DataRate::from_bits_per_second(max));
    }
    text + "\n"
}

fn stream(stream: &StreamControl) -> String {
    let mut text = format!("{}: ", one_line(&stream.stream));
    text += if stream.connected {
        "connected"
    } else {
        "no session"
    };
    if stream.remote_control {
        text += ", its sender takes requests";
    }
    if let Some(latency) = stream.latency_s {
        let _ = write!(text, ", latency {:.0} ms", latency * 1e3);
    }
    text += "\n";
    for output in &stream.outputs {
        let kind = if output.recording {
            "recording"
        } else {
            "output"
        };
        let _ = writeln!(text, "  {kind} {}", one_line(&output.output));
    }
    text
}

#[cfg(test)]
mod tests {
    use anabranch_observe::control::{KeptOut, OutputState, TargetControl};

    use super::*;

    #[test]
    fn everything_that_can_be_changed_has_a_line() {
        let path = PathControl {
            name: "wwan0".to_owned(),
            metered: true,
            cap_bytes: Some(10_000_000_000),
            max_bps: Some(3_000_000),
            ..PathControl::default()
        };
        let output = OutputState {
            output: "rec/a-{time}.ts".to_owned(),
            recording: true,
        };
        let stream = StreamControl {
            stream: "front".to_owned(),
            connected: true,
            latency_s: Some(0.8),
            outputs: vec![output],
            ..StreamControl::default()
        };
        let target = TargetControl {
            min_bps: 500_000,
            max_bps: 3_000_000,
            most_bps: 6_000_000,
        };
        let kept_out = KeptOut {
            stream: "roof\u{1b}".to_owned(),
            for_s: 59.5,
        };
        let shown = state(&ControlState {
            role: "recv".to_owned(),
            changes: vec!["path".to_owned()],
            paths: vec![path],
            target: Some(target),
            streams: vec![stream],
            kept_out: vec![kept_out],
        });
        let expected = "recv: path\n\
            path 0 (wwan0): off, metered, cap 10 GB, at most 3 Mbit/s\n\
            target: 500 kbit/s to 3 Mbit/s, at most 6 Mbit/s\n\
            front: connected, latency 800 ms\n  \
            recording rec/a-{time}.ts\n\
            roof\\u{1b}: kept out for 60 s\n";
        assert_eq!(shown, expected);
    }
}
