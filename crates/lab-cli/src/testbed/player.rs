//! VLC without a screen, and its counters.
//!
//! VLC has no counter of buffer underflows. Its log has the line `Stream buffering done` at the
//! start, and again after each pause in which it filled its buffer.

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration as StdDuration;

use anabranch_emu::namespace::Namespace;

use super::programs::{Program, as_nobody, folder_of_nobody};

const BUFFERED: &str = "Stream buffering done";
/// Time that VLC has for an answer.
const PATIENCE: StdDuration = StdDuration::from_millis(400);

/// A player that runs.
#[derive(Debug)]
pub(super) struct Player {
    program: Program,
    log: PathBuf,
    port: u16,
    counts: Counts,
    /// Number of seconds without a new picture, and of those since the last one.
    still_seconds: u64,
    pending_seconds: u64,
}

/// Counts of VLC's `stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    displayed: u64,
    lost: u64,
}

/// Counts of a film that was played.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Playback {
    /// Times at which it filled its buffer again, after the start.
    pub(super) underflows: u64,
    /// Seconds between the first and the last picture in which no new one appeared.
    pub(super) stalled_seconds: u64,
    pub(super) displayed: u64,
    /// Pictures that came too late to the output.
    pub(super) lost: u64,
}

impl Player {
    /// Starts VLC with a film; `wrapper` runs it.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start(
        namespace: Option<&Namespace>,
        wrapper: &[&str],
        film: &str,
        folder: &Path,
        port: u16,
        limit_seconds: u64,
    ) -> anyhow::Result<Player> {
        folder_of_nobody(folder)?;
        let log = folder.join("vlc.log");
        // A log of an earlier film would count too.
        let _ = fs::remove_file(&log);
        let mut words: Vec<String> = wrapper.iter().map(|word| (*word).to_owned()).collect();
        words.extend(as_nobody(folder));
        words.extend(["vlc", "-I", "oldrc", "--rc-fake-tty", "--rc-host"].map(str::to_owned));
        words.push(format!("127.0.0.1:{port}"));
        words.extend(
            [
                "--no-audio",
                "--vout",
                "vdummy",
                "--no-spu",
                "--play-and-exit",
                "--no-media-library",
                "--no-metadata-network-access",
                "--file-logging",
                "--log-verbose",
                "2",
                "--logfile",
            ]
            .map(str::to_owned),
        );
        words.push(log.display().to_string());
        words.push(film.to_owned());
        let output = folder.with_extension("vlc-output");
        let program = Program::start(namespace, &words, limit_seconds, &output)?;
        Ok(Player {
            program,
            log,
            port,
            counts: Counts::default(),
            still_seconds: 0,
            pending_seconds: 0,
        })
    }

    /// Reads the counters; to be called each second. Returns whether the film has ended.
    ///
    /// # Errors
    /// The player is lost.
    pub(super) fn read_counters(&mut self, namespace: Option<&Namespace>) -> anyhow::Result<bool> {
        if self.program.has_ended()? {
            return Ok(true);
        }
        let port = self.port;
        let answer = match namespace {
            Some(namespace) => namespace.run(|| ask(port)),
            None => ask(port),
        };
        // It does not answer before it has opened its port.
        if let Some(counts) = answer.ok().and_then(|text| counts_of(&text)) {
            self.count(counts);
        }
        Ok(false)
    }

    fn count(&mut self, counts: Counts) {
        if counts.displayed > self.counts.displayed {
            self.still_seconds += self.pending_seconds;
            self.pending_seconds = 0;
        } else if self.counts.displayed > 0 {
            self.pending_seconds += 1;
        }
        self.counts.displayed = self.counts.displayed.max(counts.displayed);
        self.counts.lost = self.counts.lost.max(counts.lost);
    }

    /// Ends the player, and returns its counts.
    ///
    /// # Errors
    /// Its log cannot be read.
    pub(super) fn finish(self) -> anyhow::Result<Playback> {
        let Player { program, log, .. } = self;
        drop(program);
        let log = fs::read(log)?;
        let buffered = String::from_utf8_lossy(&log).matches(BUFFERED).count() as u64;
        Ok(Playback {
            underflows: buffered.saturating_sub(1),
            stalled_seconds: self.still_seconds,
            displayed: self.counts.displayed,
            lost: self.counts.lost,
        })
    }
}

/// Asks VLC for its counters.
fn ask(port: u16) -> io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"stats\n")?;
    let mut answer = Vec::new();
    let mut part = [0; 4_096];
    loop {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(length) => answer.extend_from_slice(&part[..length]),
            // The answer has no end but the pause behind it.
            Err(_) if !answer.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn counts_of(text: &str) -> Option<Counts> {
    fn count(key: &str, text: &str) -> Option<u64> {
        let line = text.lines().find(|line| line.contains(key))?;
        line.rsplit(':').next()?.trim().parse().ok()
    }
    Some(Counts {
        displayed: count("frames displayed", text)?,
        lost: count("frames lost", text)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATS: &str = "+----[ begin of statistical info ]\r
+-[Video Decoding]\r
| video decoded    :     240\r
| frames displayed :     118\r
| frames lost      :       2\r
+----[ end of statistical info ]\r\n";

    #[test]
    fn counters_are_read_from_the_answer() {
        let expected = Counts {
            displayed: 118,
            lost: 2,
        };
        assert_eq!(counts_of(STATS), Some(expected));
        assert_eq!(counts_of("> "), None);
    }
}
