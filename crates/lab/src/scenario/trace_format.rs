//! Formats of trace files, recognised by their text, so that a mistake names the formats and the
//! apparent one of the given file.

use core::fmt::{self, Display};

use anabranch_video::frame_trace;

/// A format that scenarios read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TraceFormat {
    /// Delivery opportunities of a link.
    Mahimahi,
    /// A film's frames, from `anabranch trace`.
    Film,
    /// Frame sizes at several bitrates.
    FrameSizes,
}

impl TraceFormat {
    const ALL: [TraceFormat; 3] = [
        TraceFormat::Mahimahi,
        TraceFormat::Film,
        TraceFormat::FrameSizes,
    ];

    /// Returns the format that a text seems to have: its first line that is no comment decides.
    fn of(text: &str) -> Option<TraceFormat> {
        let mut lines = text.lines().map(str::trim);
        let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'))?;
        match first {
            heading if heading == frame_trace::HEADING => Some(TraceFormat::Film),
            heading if heading.starts_with("frame,") => Some(TraceFormat::FrameSizes),
            number if number.parse::<u32>().is_ok() => Some(TraceFormat::Mahimahi),
            _ => None,
        }
    }
}

impl Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TraceFormat::Mahimahi => "mahimahi (for a link's trace: a time in ms on each line)",
            TraceFormat::Film => "film (for a source's file: CSV from `anabranch trace`)",
            TraceFormat::FrameSizes => {
                "frame sizes (for a source's file: CSV that begins with `frame,200 kbit/s,…`)"
            }
        })
    }
}

/// Returns the text of a mistake in a file. It is the error, followed by the file's format if it is
/// none of those `wanted`, or by the known formats if it has none of them.
pub(super) fn mistake(error: &dyn Display, wanted: &[TraceFormat], text: &str) -> String {
    match TraceFormat::of(text) {
        Some(format) if wanted.contains(&format) => error.to_string(),
        Some(format) => format!("{error}; the file's format is {format}"),
        None => {
            let known = TraceFormat::ALL.map(|format| format.to_string()).join(", ");
            format!("{error}; known formats of traces are {known}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: [TraceFormat; 1] = [TraceFormat::Mahimahi];

    #[test]
    fn a_file_of_another_format_is_named() {
        for (text, part) in [
            ("index,time,bytes,type,importance\n0,0,1,I,key", "is film"),
            ("# made\nframe,200 kbit/s\n0,1", "is frame sizes"),
        ] {
            let message = mistake(&"line 1", &WANTED, text);
            assert!(
                message.starts_with("line 1; ") && message.contains(part),
                "{message}"
            );
        }
        assert_eq!(mistake(&"line 2", &WANTED, "1\nx"), "line 2");
    }

    #[test]
    fn a_file_of_no_known_format_is_answered_with_all_of_them() {
        let message = mistake(&"line 1", &WANTED, "time,rate\n0,1000");
        for name in ["mahimahi", "film", "frame sizes"] {
            assert!(message.contains(name), "{message}");
        }
    }
}
