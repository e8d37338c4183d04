//! Output of the program on standard output and standard error. A reader that stops early
//! (`anabranch … | head`) is no error.
//!
//! A terminal and a pipe, which another program reads, get lines as they are. A file gets them with
//! time and level. systemd's journal notes the time itself, and gets them with their priority.

use core::fmt::{self, Display, Write as _};
use std::env;
use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;

use anyhow::Context;

use crate::clean::without_controls;
use crate::system;

/// Writes a text on standard output.
///
/// # Errors
/// It cannot be written, and not because its reader has left: the disk is full, for example.
pub fn text(text: impl Display) -> anyhow::Result<()> {
    written(&mut io::stdout().lock(), format_args!("{text}")).context("standard output")
}

/// Writes a line on standard output.
///
/// # Errors
/// As [`text`].
pub fn line(line: impl Display) -> anyhow::Result<()> {
    written(&mut io::stdout().lock(), format_args!("{line}\n")).context("standard output")
}

/// Writes a line of a library on standard output, as [`line`] does.
///
/// # Errors
/// As [`text`].
pub fn library_line(line: &str) -> io::Result<()> {
    written(&mut io::stdout().lock(), format_args!("{line}\n"))
}

/// Writes a text that is meant for this terminal alone, such as a link with its code, on standard
/// output. No secret is left out.
///
/// # Errors
/// As [`text`].
pub fn secret(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    let written = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
    written.context("standard output")
}

/// Writes a line on standard error. A failure cannot be reported anywhere.
pub fn note(line: impl Display) {
    say(Level::Info, line);
}

/// Writes a warning on standard error.
pub fn warn(line: impl Display) {
    say(Level::Warning, line);
}

/// Writes the error that ends the program on standard error.
pub fn error(line: impl Display) {
    say(Level::Error, line);
}

/// Importance of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// An error that ends the program.
    Error,
    /// A problem that the user may need to solve.
    Warning,
    /// Progress and results.
    Info,
}

/// Writes a line on standard error.
pub fn say(level: Level, line: impl Display) {
    let style = STYLE.get().copied().unwrap_or_default();
    let text = style.lines(level, &line.to_string());
    let _ = written(&mut io::stderr().lock(), format_args!("{text}"));
}

/// Begins to write standard error as a log, if it is the journal or a file, or if `is_asked`.
pub fn start_log(is_asked: bool) {
    let style = match () {
        () if is_journal() => Style::Journal,
        () if is_asked || system::is_error_output_a_file() => Style::Timed,
        () => Style::Plain,
    };
    let _ = STYLE.set(style);
}

static STYLE: OnceLock<Style> = OnceLock::new();

/// Beginning of each line.
#[derive(Clone, Copy, Debug, Default)]
enum Style {
    #[default]
    Plain,
    Timed,
    /// The format of sd-daemon(3).
    Journal,
}

impl Style {
    fn lines(self, level: Level, text: &str) -> String {
        let (priority, name) = match level {
            Level::Error => (3, "ERROR"),
            Level::Warning => (4, "WARN"),
            Level::Info => (6, "INFO"),
        };
        let prefix = match self {
            Style::Plain => return format!("{text}\n"),
            Style::Timed => format!("{:.3} {name:<5} ", jiff::Timestamp::now()),
            Style::Journal => format!("<{priority}>"),
        };
        let mut lines = String::new();
        for line in text.split('\n') {
            let _ = writeln!(lines, "{prefix}{line}");
        }
        lines
    }
}

/// Returns whether standard error is systemd's journal, which names its device and inode.
fn is_journal() -> bool {
    let Ok(named) = env::var("JOURNAL_STREAM") else {
        return false;
    };
    system::is_error_output(&named)
}

/// Beginnings of secrets: of every secret key, and of the code in a link of `recv --pair`.
const SECRET_PREFIXES: [&str; 3] = ["absec_", "&code=", "?code="];

/// Returns the text without secrets. A user may have put one in place of a file's name, say, and
/// messages repeat the name.
pub fn without_secrets(text: &str) -> String {
    fn without(text: String, prefix: &str) -> String {
        let mut parts = text.split(prefix);
        let mut clean = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            clean.push_str(prefix);
            let rest = part.trim_start_matches(|character: char| {
                character.is_ascii_alphanumeric() || character == '-' || character == '_'
            });
            if rest.len() < part.len() {
                clean.push('…');
            }
            clean.push_str(rest);
        }
        clean
    }
    SECRET_PREFIXES.into_iter().fold(text.to_owned(), without)
}

fn written(output: &mut impl Write, text: fmt::Arguments<'_>) -> io::Result<()> {
    let text = text.to_string();
    let text = if SECRET_PREFIXES.iter().any(|prefix| text.contains(prefix)) {
        without_secrets(&text)
    } else {
        text
    };
    let text = without_controls(&text);
    let written = output.write_all(text.as_bytes());
    match written.and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An output that always fails in this way.
    struct Failing(ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn secrets_are_not_said() {
        let mut said = Vec::new();
        written(
            &mut said,
            format_args!("no absec_aB0_-z.key, absec_… or \u{1b}absec_x\n"),
        )
        .unwrap();
        let said = String::from_utf8(said).unwrap();
        assert_eq!(said, "no absec_….key, absec_… or \\u{1b}absec_…\n");
    }

    #[test]
    fn foreign_names_cannot_control_the_terminal() {
        let mut said = Vec::new();
        let title = "\u{1b}]0;mine\u{7} title";
        assert!(written(&mut said, format_args!("{title}\n")).is_ok());
        assert_eq!(said, b"\\u{1b}]0;mine\\u{7} title\n");
    }

    #[test]
    fn each_line_of_a_log_has_its_time_and_level() {
        let plain = Style::Plain.lines(Level::Error, "a\nb");
        assert_eq!(plain, "a\nb\n");
        let journal = Style::Journal.lines(Level::Warning, "a\nb");
        assert_eq!(journal, "<4>a\n<4>b\n");
        let timed = Style::Timed.lines(Level::Info, "a\nb");
        assert_eq!(timed.lines().count(), 2);
        for (line, end) in timed.lines().zip([" INFO  a", " INFO  b"]) {
            let time = line.strip_suffix(end).unwrap();
            assert!(time.parse::<jiff::Timestamp>().is_ok(), "{line}");
            assert_eq!(time.len(), "2026-01-02T03:04:05.678Z".len(), "{line}");
        }
    }

    #[test]
    fn a_reader_that_went_away_is_no_error_and_a_full_disk_is() {
        assert!(written(&mut Failing(ErrorKind::BrokenPipe), format_args!("x")).is_ok());
        let error = written(&mut Failing(ErrorKind::StorageFull), format_args!("x"));
        assert_eq!(error.unwrap_err().kind(), ErrorKind::StorageFull);
    }
}
