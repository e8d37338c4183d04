//! What the program says, on standard output and standard error. Readers may go away before it is
//! all said (`anabranch … | head`): that is their right, and no error.

use core::fmt::{self, Display};
use std::io::{self, ErrorKind, Write};

use anyhow::Context;

use crate::clean::without_controls;

/// A text on standard output.
///
/// # Errors
/// It cannot be written, although somebody would read it: a full disk.
pub(crate) fn text(text: impl Display) -> anyhow::Result<()> {
    written(&mut io::stdout().lock(), format_args!("{text}")).context("standard output")
}

/// A line on standard output.
///
/// # Errors
/// As [`text`].
pub(crate) fn line(line: impl Display) -> anyhow::Result<()> {
    written(&mut io::stdout().lock(), format_args!("{line}\n")).context("standard output")
}

/// A line on standard error. There is nobody left to tell if that fails.
pub(crate) fn note(line: impl Display) {
    let _ = written(&mut io::stderr().lock(), format_args!("{line}\n"));
}

/// What every secret key starts with.
const SECRET_PREFIX: &str = "absec_";

/// The text without secret keys. They come where users put them, as a file's name, say, and back in
/// what is said of that.
pub(crate) fn without_secrets(text: &str) -> String {
    let mut parts = text.split(SECRET_PREFIX);
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        clean.push_str(SECRET_PREFIX);
        clean.push('…');
        let is_of_key = |character: char| {
            character.is_ascii_alphanumeric() || character == '-' || character == '_'
        };
        clean.push_str(part.trim_start_matches(is_of_key));
    }
    clean
}

fn written(output: &mut impl Write, text: fmt::Arguments<'_>) -> io::Result<()> {
    let text = text.to_string();
    let text = match text.contains(SECRET_PREFIX) {
        true => without_secrets(&text),
        false => text,
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

    /// Output that always fails in this way.
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
        assert_eq!(said, "no absec_….key, absec_…… or \\u{1b}absec_…\n");
    }

    #[test]
    fn what_a_file_or_peer_named_commands_no_terminal() {
        let mut said = Vec::new();
        let title = "\u{1b}]0;mine\u{7} title";
        assert!(written(&mut said, format_args!("{title}\n")).is_ok());
        assert_eq!(said, b"\\u{1b}]0;mine\\u{7} title\n");
    }

    #[test]
    fn a_reader_that_went_away_is_no_error_and_a_full_disk_is() {
        assert!(written(&mut Failing(ErrorKind::BrokenPipe), format_args!("x")).is_ok());
        let error = written(&mut Failing(ErrorKind::StorageFull), format_args!("x"));
        assert_eq!(error.unwrap_err().kind(), ErrorKind::StorageFull);
    }
}
