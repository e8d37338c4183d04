//! A stream's outputs. Where there are several, each has a thread: one that takes nothing for a
//! while, as a pipe whose reader sleeps, holds up none of the others.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anabranch_net::Clock;
use anyhow::Context;

use crate::io::{Output, OutputName, Piece, Rotation};
use crate::print;
use crate::stop::Stop;

/// What waits for an output at the most, in pieces of some milliseconds: ten seconds and more.
const MAX_WAITING: usize = 8_192;

/// Where a stream goes.
#[derive(Debug)]
pub(super) enum Outputs {
    /// The stream waits for it.
    One(Box<Output>),
    /// None waits for another.
    Several(Vec<Lane>),
}

/// One of several outputs.
#[derive(Debug)]
pub(super) struct Lane {
    name: String,
    /// `None` at the end.
    queue: Option<SyncSender<Word>>,
    is_watched: bool,
    writer: Option<JoinHandle<()>>,
    /// Why it takes nothing any more.
    failure: Arc<Mutex<Option<anyhow::Error>>>,
    dropped_count: u64,
}

/// What a lane is told.
#[derive(Clone, Debug)]
enum Word {
    SessionBegins,
    Piece(Arc<Piece>),
}

impl Outputs {
    /// Opens them.
    ///
    /// # Errors
    /// One cannot be written.
    pub(super) fn open(
        names: &[OutputName],
        rotation: Option<Rotation>,
        clock: &Clock,
        stop: &Stop,
    ) -> anyhow::Result<Self> {
        if let [name] = names {
            let output = Output::open(name, rotation, clock, stop)?;
            return Ok(Outputs::One(Box::new(output)));
        }
        let open = |name| Lane::open(name, rotation, *clock, stop.clone());
        let lanes = names.iter().map(open).collect::<anyhow::Result<_>>()?;
        Ok(Outputs::Several(lanes))
    }

    /// Whether somebody may watch when bytes come.
    pub(super) fn are_watched(&self) -> bool {
        match self {
            Outputs::One(output) => output.is_watched(),
            Outputs::Several(lanes) => lanes.iter().any(|lane| lane.is_watched),
        }
    }

    pub(super) fn begin_session(&mut self) {
        match self {
            Outputs::One(output) => output.begin_session(),
            Outputs::Several(lanes) => {
                lanes
                    .iter_mut()
                    .for_each(|lane| lane.send(Word::SessionBegins));
            }
        }
    }

    /// # Errors
    /// The only output, or all of several, can be written no more.
    pub(super) fn write(&mut self, piece: Piece, clock: &Clock, stop: &Stop) -> anyhow::Result<()> {
        let lanes = match self {
            Outputs::One(output) => return output.write(&piece, clock, stop),
            Outputs::Several(lanes) => lanes,
        };
        let piece = Arc::new(piece);
        for lane in lanes.iter_mut() {
            lane.send(Word::Piece(Arc::clone(&piece)));
        }
        match lanes.iter().all(|lane| lane.queue.is_none()) {
            true => Err(lanes.iter().find_map(Lane::take_failure))
                .map_err(|failure| failure.unwrap_or_else(|| anyhow::anyhow!("no output is left"))),
            false => Ok(()),
        }
    }
}

impl Lane {
    fn open(
        name: &OutputName,
        rotation: Option<Rotation>,
        clock: Clock,
        stop: Stop,
    ) -> anyhow::Result<Self> {
        // Only files can be followed by others; a player beside a recording is no mistake.
        let rotation = rotation.filter(|_| matches!(name, OutputName::File(_)));
        let mut output = Output::open(name, rotation, &clock, &stop)?;
        let is_watched = output.is_watched();
        let (queue, words): (_, Receiver<Word>) = sync_channel(MAX_WAITING);
        let failure = Arc::<Mutex<Option<anyhow::Error>>>::default();
        let told = Arc::clone(&failure);
        let shown = name.to_string();
        let writer = std::thread::Builder::new().name("output".to_owned());
        let writer = writer.spawn(move || {
            for word in words {
                let written = match word {
                    Word::SessionBegins => {
                        output.begin_session();
                        Ok(())
                    }
                    Word::Piece(piece) => output.write(&piece, &clock, &stop),
                };
                if let Err(error) = written {
                    print::note(format_args!("{error:#}; the other outputs go on"));
                    *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    return;
                }
            }
        });
        Ok(Lane {
            name: shown,
            queue: Some(queue),
            is_watched,
            writer: Some(writer.context("cannot start a thread")?),
            failure,
            dropped_count: 0,
        })
    }

    fn send(&mut self, word: Word) {
        let Some(queue) = &self.queue else { return };
        match queue.try_send(word) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                if self.dropped_count == 0 {
                    let name = &self.name;
                    print::note(format_args!(
                        "{name} does not keep up with the stream: what has no room is left out"
                    ));
                }
                self.dropped_count += 1;
            }
            Err(TrySendError::Disconnected(_)) => self.queue = None,
        }
    }

    fn take_failure(&self) -> Option<anyhow::Error> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.take()
    }
}

impl Drop for Lane {
    /// What waits is written: files are whole when the program ends.
    fn drop(&mut self) {
        self.queue = None;
        let _ = self.writer.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece() -> Piece {
        Piece {
            bytes: vec![0x47; 188 * 7],
            begins_key_frame: false,
        }
    }

    #[test]
    fn an_output_that_sleeps_holds_up_none_of_the_others() {
        let (clock, stop) = (Clock::start(), Stop::new().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let (file, pipe) = (folder.path().join("a.ts"), folder.path().join("pipe"));
        let made = rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        );
        made.unwrap();
        // Somebody has it open and does not read.
        let reader = std::fs::File::options().read(true).write(true).open(&pipe);
        let names = [OutputName::File(pipe), OutputName::File(file.clone())];
        let mut outputs = Outputs::open(&names, None, &clock, &stop).unwrap();
        let count = MAX_WAITING as u64 + 1_000;
        for _ in 0..count {
            outputs.write(piece(), &clock, &stop).unwrap();
            // The file's thread has its turn.
            std::thread::yield_now();
        }
        let Outputs::Several(lanes) = &outputs else {
            panic!("two outputs")
        };
        assert!(lanes[0].dropped_count > 0);
        let dropped = lanes[1].dropped_count;
        stop.stop();
        drop(outputs);
        drop(reader);
        let written = file.metadata().unwrap().len();
        assert_eq!(written, (count - dropped) * 188 * 7);
    }

    #[test]
    fn when_no_output_is_left_it_is_an_error() {
        let (clock, stop) = (Clock::start(), Stop::new().unwrap());
        let names = ["/dev/full"; 2].map(|path| OutputName::File(path.into()));
        let mut outputs = Outputs::open(&names, None, &clock, &stop).unwrap();
        let give_up_at = clock.now() + anabranch_units::Duration::from_secs(10);
        let error = loop {
            match outputs.write(piece(), &clock, &stop) {
                Ok(()) => assert!(clock.now() < give_up_at),
                Err(error) => break error,
            }
        };
        assert!(format!("{error:#}").contains("/dev/full"), "{error:#}");
    }
}
