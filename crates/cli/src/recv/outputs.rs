//! A stream's outputs. Each of several outputs has a thread. An output that blocks, for example a
//! pipe whose reader sleeps, does not delay the others.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anabranch_mpegts_io::{Output, OutputEvent, OutputName, Piece, RetriedOutput, Rotation};
use anabranch_net::Clock;
use anabranch_observe::{Observation, StreamEvent};
use anabranch_terminal::print;
use anabranch_terminal::stop::Stop;
use anabranch_units::Instant;
use anyhow::{Context, anyhow};

use super::receivers;
use super::stream::Manner;
use crate::allowed::StreamName;

/// Maximum number of pieces that wait for an output. A piece is some milliseconds, so they are ten
/// seconds and more.
const MAX_WAITING: usize = 8_192;

/// Outputs of a stream.
pub(super) enum Outputs {
    /// A single output, which the stream waits for.
    One(Box<Writer>),
    /// Several outputs, which do not wait for each other.
    Several(Vec<Lane>),
}

/// An output with its failure reports.
pub(super) struct Writer {
    output: RetriedOutput,
    name: String,
    /// Name of the stream. Observers read it: outputs may be shared.
    stream: Arc<Mutex<String>>,
    failure: SharedFailure,
    observation: Arc<Observation>,
}

/// Reason why an output is not written now.
#[derive(Clone, Debug, Default)]
struct SharedFailure(Arc<Mutex<Option<String>>>);

/// One of several outputs.
pub(super) struct Lane {
    name: String,
    /// Queue; `None` at the end.
    queue: Option<SyncSender<LaneMessage>>,
    is_watched: bool,
    thread: Option<JoinHandle<()>>,
    failure: SharedFailure,
    dropped_count: u64,
}

/// Message to a lane.
#[derive(Clone, Debug)]
enum LaneMessage {
    SessionBegins(StreamName, Instant),
    Piece(Arc<Piece>),
}

impl Outputs {
    /// Opens the outputs of a stream.
    ///
    /// # Errors
    /// One cannot be written.
    pub(super) fn open(
        names: &[OutputName],
        rotation: Option<Rotation>,
        stream: &StreamName,
        manner: &Manner,
    ) -> anyhow::Result<Self> {
        if let [name] = names {
            let writer = Writer::open(name, rotation, stream, manner)?;
            return Ok(Outputs::One(Box::new(writer)));
        }
        let open = |name| Lane::open(name, rotation, stream, manner);
        let lanes = names.iter().map(open).collect::<anyhow::Result<_>>()?;
        Ok(Outputs::Several(lanes))
    }

    /// Returns whether somebody may watch the bytes on arrival.
    pub(super) fn are_watched(&self) -> bool {
        match self {
            Outputs::One(writer) => writer.output.is_watched(),
            Outputs::Several(lanes) => lanes.iter().any(|lane| lane.is_watched),
        }
    }

    pub(super) fn begin_session(&mut self, stream: &StreamName, now: Instant) {
        match self {
            Outputs::One(writer) => writer.begin_session(stream, now),
            Outputs::Several(lanes) => {
                let announce =
                    |lane: &mut Lane| lane.send(LaneMessage::SessionBegins(stream.clone(), now));
                lanes.iter_mut().for_each(announce);
            }
        }
    }

    /// Writes a piece of the stream. An output that fails is reported and retried later.
    ///
    /// # Errors
    /// The only output, or all of several, can never be written again: standard output has no
    /// reader any more.
    pub(super) fn write(&mut self, piece: Piece, clock: &Clock, stop: &Stop) -> anyhow::Result<()> {
        let lanes = match self {
            Outputs::One(writer) => return writer.write(&piece, clock, stop),
            Outputs::Several(lanes) => lanes,
        };
        let piece = Arc::new(piece);
        for lane in lanes.iter_mut() {
            lane.send(LaneMessage::Piece(Arc::clone(&piece)));
        }
        match lanes.iter().all(|lane| lane.queue.is_none()) {
            true => self.check(),
            false => Ok(()),
        }
    }

    /// Checks at the end whether the stream is written at all.
    ///
    /// # Errors
    /// The only output, or each of several, fails now.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let failures: Option<Vec<String>> = match self {
            Outputs::One(writer) => writer.failure.get().map(|failure| vec![failure]),
            Outputs::Several(lanes) => lanes.iter().map(|lane| lane.failure.get()).collect(),
        };
        match failures {
            Some(failures) => Err(anyhow!(failures.join("; "))),
            None => Ok(()),
        }
    }
}

impl Writer {
    fn open(
        name: &OutputName,
        rotation: Option<Rotation>,
        stream: &StreamName,
        manner: &Manner,
    ) -> anyhow::Result<Self> {
        let Manner { clock, stop, .. } = manner;
        let output = Output::open(name, rotation, clock, stop)?;
        let receivers = output.receivers();
        let (name, stream) = (name.to_string(), stream.as_str().to_owned());
        let stream = Arc::new(Mutex::new(stream));
        if let Some(receivers) = receivers {
            let look = receivers::look(name.clone(), Arc::clone(&stream), receivers, *clock);
            manner.observation.watch_output(look);
        }
        Ok(Writer {
            output: RetriedOutput::new(output),
            name,
            stream,
            failure: SharedFailure::default(),
            observation: Arc::clone(&manner.observation),
        })
    }

    fn begin_session(&mut self, stream: &StreamName, now: Instant) {
        let mut current = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        stream.as_str().clone_into(&mut current);
        drop(current);
        self.output.begin_session(now);
    }

    fn write(&mut self, piece: &Piece, clock: &Clock, stop: &Stop) -> anyhow::Result<()> {
        match self.output.write(piece, clock, stop) {
            Ok(None) => Ok(()),
            Ok(Some(event)) => {
                self.announce(&event);
                Ok(())
            }
            Err(error) => {
                self.failure.set(Some(format!("{error:#}")));
                Err(error)
            }
        }
    }

    fn announce(&self, event: &OutputEvent) {
        let name = &self.name;
        match event {
            OutputEvent::Failed { reason } => {
                self.failure.set(Some(reason.clone()));
                print::warn(event);
            }
            OutputEvent::Resumed { .. } => {
                self.failure.set(None);
                print::note(format_args!("output {name} {event}"));
            }
        }
        let happening = happening(name, event);
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        self.observation.on_stream_event(&stream, happening);
    }
}

/// Returns the event of an output, for statistics and commands.
fn happening(output: &str, event: &OutputEvent) -> StreamEvent {
    let output = output.to_owned();
    match event {
        OutputEvent::Failed { reason } => StreamEvent::OutputFailed {
            output,
            reason: reason.clone(),
        },
        OutputEvent::Resumed {
            failed_for,
            left_out_bytes,
        } => StreamEvent::OutputResumed {
            output,
            failed_for_s: failed_for.as_secs_f64(),
            left_out_bytes: *left_out_bytes,
        },
    }
}

impl SharedFailure {
    fn get(&self) -> Option<String> {
        let failure = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failure.clone()
    }

    fn set(&self, failure: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }
}

impl Lane {
    fn open(
        name: &OutputName,
        rotation: Option<Rotation>,
        stream: &StreamName,
        manner: &Manner,
    ) -> anyhow::Result<Self> {
        // Rotation applies to files only; a player beside a recording is allowed.
        let rotation = rotation.filter(|_| matches!(name, OutputName::File(_)));
        let mut writer = Writer::open(name, rotation, stream, manner)?;
        let (name, failure) = (writer.name.clone(), writer.failure.clone());
        let is_watched = writer.output.is_watched();
        let (clock, stop) = (manner.clock, manner.stop.clone());
        let (queue, messages): (_, Receiver<LaneMessage>) = sync_channel(MAX_WAITING);
        let thread = std::thread::Builder::new().name("output".to_owned());
        let thread = thread.spawn(move || {
            for message in messages {
                let written = match message {
                    LaneMessage::SessionBegins(stream, now) => {
                        writer.begin_session(&stream, now);
                        Ok(())
                    }
                    LaneMessage::Piece(piece) => writer.write(&piece, &clock, &stop),
                };
                if let Err(error) = written {
                    print::warn(format_args!("{error:#}; the other outputs go on"));
                    return;
                }
            }
        });
        Ok(Lane {
            name,
            queue: Some(queue),
            is_watched,
            thread: Some(thread.context("cannot start a thread")?),
            failure,
            dropped_count: 0,
        })
    }

    fn send(&mut self, message: LaneMessage) {
        let Some(queue) = &self.queue else { return };
        match queue.try_send(message) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                if self.dropped_count == 0 {
                    let name = &self.name;
                    print::warn(format_args!(
                        "{name} does not keep up with the stream: the excess is left out"
                    ));
                }
                self.dropped_count += 1;
            }
            Err(TrySendError::Disconnected(_)) => self.queue = None,
        }
    }
}

impl Drop for Outputs {
    /// Ends all queues before the first thread is awaited: ends of SRT outputs take a while.
    fn drop(&mut self) {
        if let Outputs::Several(lanes) = self {
            lanes.iter_mut().for_each(|lane| lane.queue = None);
        }
    }
}

impl Drop for Lane {
    /// Writes the queued pieces, so that files are complete when the program ends.
    fn drop(&mut self) {
        self.queue = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(names: &[OutputName]) -> (Outputs, Manner) {
        let manner = Manner {
            buffer: None,
            report: None,
            keeps_listening: false,
            shows_names: false,
            clock: Clock::start(),
            stop: Stop::new().unwrap(),
            observation: Arc::default(),
            slowness: Arc::default(),
        };
        let stream = "camera".parse().unwrap();
        let outputs = Outputs::open(names, None, &stream, &manner).unwrap();
        (outputs, manner)
    }

    fn piece() -> Piece {
        Piece {
            bytes: vec![0x47; 188 * 7],
            begins_key_frame: false,
            ..Piece::default()
        }
    }

    #[test]
    fn an_output_that_sleeps_holds_up_none_of_the_others() {
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
        // The reader has the pipe open and does not read.
        let reader = std::fs::File::options().read(true).write(true).open(&pipe);
        let names = [OutputName::File(pipe), OutputName::File(file.clone())];
        let (mut outputs, Manner { clock, stop, .. }) = open(&names);
        let count = MAX_WAITING as u64 + 1_000;
        for _ in 0..count {
            outputs.write(piece(), &clock, &stop).unwrap();
            // The file's thread gets the processor.
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
    fn outputs_that_fail_do_not_end_the_session_and_are_told_at_its_end() {
        for count in [1, 2] {
            let names = vec![OutputName::File("/dev/full".into()); count];
            let (mut outputs, Manner { clock, stop, .. }) = open(&names);
            let give_up_at = clock.now() + anabranch_units::Duration::from_secs(10);
            while outputs.check().is_ok() {
                outputs.write(piece(), &clock, &stop).unwrap();
                assert!(clock.now() < give_up_at);
            }
            let error = outputs.check().unwrap_err().to_string();
            assert_eq!(error.matches("/dev/full").count(), count, "{error}");
        }
    }

    #[test]
    fn a_full_output_leaves_the_others_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.ts");
        let names = ["/dev/full".into(), file.clone()].map(OutputName::File);
        let (mut outputs, Manner { clock, stop, .. }) = open(&names);
        for _ in 0..100 {
            outputs.write(piece(), &clock, &stop).unwrap();
        }
        outputs.check().unwrap();
        drop(outputs);
        assert_eq!(file.metadata().unwrap().len(), 100 * 188 * 7);
    }
}
