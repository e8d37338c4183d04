//! Short messages between the two ends of a stream, for example a tally or a note to the camera.
//!
//! A message travels as a frame of its own. Video frames are MPEG-TS and begin with its sync byte;
//! a message begins with a zero, followed by its text.

use core::time::Duration as StdDuration;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::system::is_fifo;
use anabranch_core::Frame;
use anabranch_terminal::clean::one_line;
use anabranch_units::{Duration, Importance, Instant};
use anyhow::Context;

/// First byte of messages, and of no other frame.
const MARK: u8 = 0;
/// Longest message: its frame fits one packet.
const MAX_BYTES: usize = 1_000;
/// Messages that are printed at once. Chosen: more than people write, and as long as a short file.
const BURST: u64 = 50;
/// Minimum time between printed messages after the burst.
const INTERVAL: Duration = Duration::from_millis(500);
/// Maximum number of lines that wait to be sent.
const MAX_WAITING: usize = 64;
/// Time between checks for a writer of the pipe.
const PIPE_PAUSE: StdDuration = StdDuration::from_millis(200);

/// Wraps a message in a frame.
pub(crate) fn frame(text: &str, now: Instant) -> Frame {
    let mut bytes = vec![MARK];
    let end = text
        .char_indices()
        .take_while(|(at, character)| at + character.len_utf8() <= MAX_BYTES)
        .last()
        .map_or(0, |(at, character)| at + character.len_utf8());
    bytes.extend_from_slice(&text.as_bytes()[..end]);
    Frame {
        bytes: bytes.into(),
        importance: Importance::Reference,
        captured_at: now,
        lifetime: None,
    }
}

/// Returns whether a frame that begins with these bytes is a message.
pub(crate) fn is_begun_by(bytes: &[u8]) -> bool {
    bytes.first() == Some(&MARK)
}

/// Returns the text of a frame that is a message.
pub(crate) fn text(frame: &[u8]) -> Option<String> {
    let text = frame.strip_prefix(&[MARK])?;
    let text = &text[..text.len().min(MAX_BYTES)];
    Some(one_line(&String::from_utf8_lossy(text)).into_owned())
}

/// Limit on printed messages of a peer: [`BURST`] at once, then one per [`INTERVAL`].
#[derive(Debug, Default)]
pub(crate) struct Printed {
    /// Time at which the next message is due if all arrive evenly (GCRA, ITU-T I.371).
    due_at: Instant,
    left_out_count: u64,
}

impl Printed {
    /// Returns the lines for a message, or none if there were too many.
    pub(crate) fn lines(
        &mut self,
        now: Instant,
        text: &str,
    ) -> impl Iterator<Item = String> + use<> {
        let due_at = self.due_at.max(now) + INTERVAL;
        let is_let_in = due_at.saturating_since(now) <= INTERVAL * BURST;
        let left_out_count = if is_let_in {
            self.due_at = due_at;
            core::mem::take(&mut self.left_out_count)
        } else {
            self.left_out_count += 1;
            0
        };
        let left_out = (left_out_count > 0)
            .then(|| format!("{left_out_count} messages came too fast and are left out"));
        let line = is_let_in.then(|| format!("message: {text}"));
        left_out.into_iter().chain(line)
    }
}

/// Reads the lines of a file, a pipe or standard input (`-`) as they are written. A named pipe is
/// opened again when its writer has gone.
///
/// # Errors
/// It cannot be opened.
pub(crate) fn lines(path: PathBuf) -> anyhow::Result<Receiver<String>> {
    let (lines, queue) = sync_channel(MAX_WAITING);
    let is_stdin = path.as_os_str() == "-";
    if !is_stdin {
        path.metadata()
            .with_context(|| format!("cannot read --messages {}", path.display()))?;
    }
    let thread = std::thread::Builder::new().name("messages".to_owned());
    // The thread ends with the program: only a writer can wake it.
    thread
        .spawn(move || {
            if is_stdin {
                pass_on(std::io::stdin().lock(), &lines);
            } else {
                pass_on_file(&path, &lines);
            }
        })
        .context("cannot start a thread")?;
    Ok(queue)
}

/// Passes on the lines of a file to its end, and those of a named pipe for ever.
fn pass_on_file(path: &Path, lines: &SyncSender<String>) {
    loop {
        let Ok(file) = std::fs::File::open(path) else {
            return;
        };
        let is_pipe = file.metadata().is_ok_and(|metadata| is_fifo(&metadata));
        let goes_on = pass_on(BufReader::new(file), lines);
        if !is_pipe || !goes_on {
            return;
        }
        std::thread::park_timeout(PIPE_PAUSE);
    }
}

/// Sends the lines to the queue. Returns whether its receiver wants more.
fn pass_on(mut reader: impl BufRead, lines: &SyncSender<String>) -> bool {
    loop {
        let mut line = Vec::new();
        let mut limited = Read::take(&mut reader, 64 * MAX_BYTES as u64);
        match limited.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return true,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&line).trim().to_owned();
        if !line.is_empty() && lines.send(line).is_err() {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_differ_from_video_and_are_escaped() {
        let message = frame("on air \u{1b}[2J", Instant::ZERO);
        let read = text(&message.bytes).expect("a message");
        assert!(
            read.starts_with("on air") && !read.contains('\u{1b}'),
            "{read}"
        );
        assert_eq!(text(&[0x47; 188]), None);
        assert!(is_begun_by(&message.bytes[..1]) && !is_begun_by(&[0x47]));
        assert_eq!(text(b""), None);
        let long = frame(&"ä".repeat(2_000), Instant::ZERO);
        assert_eq!(text(&long.bytes), Some("ä".repeat(500)));
        assert!(text(&[&[0][..], &[0xff; 9]].concat()).is_some(), "no UTF-8");
    }

    #[test]
    fn a_message_is_one_line_whatever_its_peer_wrote() {
        let message = frame("hello\nERROR forged\u{2028}\u{200b}\u{202e}", Instant::ZERO);
        let expected = "hello\\nERROR forged\\u{2028}\\u{200b}\\u{202e}";
        assert_eq!(text(&message.bytes).unwrap(), expected);
    }

    #[test]
    fn a_flood_of_messages_makes_few_lines_and_says_how_many_it_was() {
        let mut printed = Printed::default();
        let mut lines = Vec::new();
        for millis in 0..10_000 {
            let now = Instant::from_secs(100) + Duration::from_millis(millis);
            lines.extend(printed.lines(now, "x"));
        }
        assert_eq!(
            lines.iter().filter(|line| *line == "message: x").count(),
            50 + 19
        );
        assert!(lines.len() <= 2 * (50 + 19), "{}", lines.len());
        let notice = "450 messages came too fast and are left out";
        assert_eq!(lines[50..52], [notice, "message: x"]);
        let later = printed.lines(Instant::from_secs(1_000), "y");
        let expected = ["499 messages came too fast and are left out", "message: y"];
        assert_eq!(later.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn lines_come_as_they_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("messages");
        std::fs::write(&path, "one\n\n two \nthree").unwrap();
        let queue = lines(path).unwrap();
        let all: Vec<String> = queue.iter().collect();
        assert_eq!(all, ["one", "two", "three"]);
        let error = lines("/nowhere".into()).unwrap_err().to_string();
        assert!(error.contains("/nowhere"), "{error}");
    }
}
