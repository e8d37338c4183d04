//! A stream's outputs. Each of several outputs has a thread. An output that blocks, for example a
//! pipe whose reader sleeps, does not delay the others. Outputs join and leave while the stream
//! runs.

mod output_queue;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use anabranch_mpegts_io::{OutputName, Piece, Rotation};
use anabranch_net::Clock;
use anabranch_observe::control::OutputState;
use anabranch_terminal::print;
use anabranch_terminal::stop::Stop;
use anabranch_units::{Duration, Instant};
use anyhow::{Context, anyhow, bail};

use super::stream_settings::StreamSettings;
use crate::allowed::StreamName;
use output_queue::{OutputMessage, OutputQueue, Writer};

/// Longest wait for a stream that writes its only output: a pipe may sleep.
const PATIENCE: Duration = Duration::from_secs(1);
/// Pause between two attempts.
const PAUSE: core::time::Duration = core::time::Duration::from_millis(10);

/// Outputs of a stream, which its thread writes and the main thread may change.
#[derive(Clone)]
pub(super) struct Outputs(Arc<Mutex<OutputSet>>);

/// The outputs at one moment.
struct OutputSet {
    /// A single output of the command line, which the stream waits for.
    only: Option<Box<Writer>>,
    /// The others, which do not wait for each other.
    queues: Vec<OutputQueue>,
    /// Stream whose session was the last to begin.
    session: Option<StreamName>,
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
        settings: &StreamSettings,
    ) -> anyhow::Result<Self> {
        let mut set = OutputSet {
            only: None,
            queues: Vec::new(),
            session: None,
        };
        if let [name] = names {
            let writer = Writer::open(name, rotation, stream, settings)?;
            set.only = Some(Box::new(writer));
        } else {
            set.queues = names
                .iter()
                .map(|name| OutputQueue::open(name, rotation, stream, settings))
                .collect::<anyhow::Result<_>>()?;
        }
        Ok(Outputs(Arc::new(Mutex::new(set))))
    }

    fn lock(&self) -> MutexGuard<'_, OutputSet> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the stream's thread, but not for a pipe that sleeps.
    ///
    /// # Errors
    /// The stream's thread writes all the time.
    fn lock_soon(&self, clock: &Clock) -> anyhow::Result<MutexGuard<'_, OutputSet>> {
        let give_up_at = clock.now() + PATIENCE;
        loop {
            match self.0.try_lock() {
                Ok(set) => return Ok(set),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if clock.now() >= give_up_at => {
                    bail!("its output takes nothing now: try again when it is read")
                }
                Err(TryLockError::WouldBlock) => std::thread::park_timeout(PAUSE),
            }
        }
    }

    /// Returns whether somebody may watch the bytes on arrival.
    pub(super) fn are_watched(&self) -> bool {
        let set = self.lock();
        let mut only = set.only.iter();
        only.any(|writer| writer.output.is_watched())
            || set.queues.iter().any(|queue| queue.is_watched)
    }

    pub(super) fn begin_session(&self, stream: &StreamName, now: Instant) {
        let mut set = self.lock();
        set.session = Some(stream.clone());
        if let Some(writer) = &mut set.only {
            writer.begin_session(stream, now);
        }
        for queue in &mut set.queues {
            queue.send(OutputMessage::SessionBegins(stream.clone(), now));
        }
    }

    /// Writes a piece of the stream. An output that fails is reported and retried later.
    ///
    /// # Errors
    /// The only output, or all of several, can never be written again: standard output has no
    /// reader any more.
    pub(super) fn write(&self, piece: Piece, clock: &Clock, stop: &Stop) -> anyhow::Result<()> {
        let mut set = self.lock();
        let OutputSet { only, queues, .. } = &mut *set;
        let (piece, now) = (Arc::new(piece), clock.now());
        for queue in queues.iter_mut() {
            queue.send_piece(&piece, now);
        }
        let are_all_over = queues.iter().all(|queue| queue.queue.is_none());
        let Some(writer) = only else {
            let has_none = are_all_over && !queues.is_empty();
            return if has_none { set.check() } else { Ok(()) };
        };
        match writer.write(&piece, clock, stop) {
            Err(error) if !are_all_over => {
                print::warn(format_args!("{error:#}; the other outputs go on"));
                *only = None;
                Ok(())
            }
            written => written,
        }
    }

    /// Checks at the end whether the stream is written at all.
    ///
    /// # Errors
    /// The only output, or each of several, fails now.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.lock().check()
    }

    /// Adds an output. A recording begins with the next key frame.
    ///
    /// # Errors
    /// It cannot be opened, or there is one of this name.
    pub(super) fn add(
        &self,
        name: &OutputName,
        rotation: Option<Rotation>,
        stream: &StreamName,
        settings: &StreamSettings,
        is_recording: bool,
    ) -> anyhow::Result<()> {
        let shown = name.to_string();
        let is_known = self
            .lock_soon(&settings.clock)?
            .states()
            .any(|state| state.output == shown);
        if is_known {
            bail!("there is an output {shown} already");
        }
        let mut queue = OutputQueue::open(name, rotation, stream, settings)?;
        queue.is_recording = is_recording;
        let now = settings.clock.now();
        if is_recording {
            queue.await_key(now);
        }
        let mut set = self.lock_soon(&settings.clock)?;
        if let Some(session) = &set.session {
            queue.send(OutputMessage::SessionBegins(session.clone(), now));
        }
        set.queues.push(queue);
        Ok(())
    }

    /// Removes an output. Its thread writes the rest of its queue.
    ///
    /// # Errors
    /// There is none of this name.
    pub(super) fn remove(&self, shown: &str, clock: &Clock) -> anyhow::Result<()> {
        let mut set = self.lock_soon(clock)?;
        if let Some(writer) = set.only.take_if(|writer| writer.name == shown) {
            drop(set);
            return end_apart(writer);
        }
        let Some(at) = set.queues.iter().position(|queue| queue.name == shown) else {
            let known: Vec<String> = set.states().map(|state| state.output).collect();
            bail!("there is no output {shown}: there are {}", known.join(", "));
        };
        let queue = set.queues.remove(at);
        drop(set);
        end_apart(queue)
    }

    /// Returns the name of the recording that was started last, if it goes on.
    pub(super) fn recording(&self) -> Option<String> {
        let set = self.lock();
        let mut queues = set.queues.iter().rev();
        let recording = queues.find(|queue| queue.is_recording)?;
        Some(recording.name.clone())
    }

    /// Returns the outputs.
    pub(super) fn states(&self) -> Vec<OutputState> {
        self.lock().states().collect()
    }
}

/// Ends an output in a thread of its own: ends of SRT outputs take a while, and a pipe may sleep.
fn end_apart(output: impl Send + 'static) -> anyhow::Result<()> {
    let thread = std::thread::Builder::new().name("output".to_owned());
    let ending = thread.spawn(move || drop(output));
    ending.map(drop).context("cannot start a thread")
}

impl OutputSet {
    fn states(&self) -> impl Iterator<Item = OutputState> {
        let only = self.only.iter().map(|writer| (&writer.name, false));
        let queues = self
            .queues
            .iter()
            .map(|queue| (&queue.name, queue.is_recording));
        only.chain(queues).map(|(name, recording)| OutputState {
            output: name.clone(),
            recording,
        })
    }

    fn check(&self) -> anyhow::Result<()> {
        let only = self.only.iter().map(|writer| writer.failure.get());
        let all = only.chain(self.queues.iter().map(|queue| queue.failure.get()));
        let failures: Option<Vec<String>> = all.collect();
        match failures {
            Some(failures) if !failures.is_empty() => Err(anyhow!(failures.join("; "))),
            _ => Ok(()),
        }
    }
}

impl Drop for OutputSet {
    /// Ends all queues before the first thread is awaited: ends of SRT outputs take a while.
    fn drop(&mut self) {
        self.queues.iter_mut().for_each(|queue| queue.queue = None);
    }
}

#[cfg(test)]
mod tests {
    use super::output_queue::MAX_WAITING;
    use super::*;

    fn open(names: &[OutputName]) -> (Outputs, StreamSettings) {
        let settings = StreamSettings {
            buffer: Arc::default(),
            report: None,
            keeps_listening: false,
            shows_names: false,
            clock: Clock::start(),
            stop: Stop::new().unwrap(),
            observation: Arc::default(),
            slowness: Arc::default(),
        };
        let stream = "camera".parse().unwrap();
        let outputs = Outputs::open(names, None, &stream, &settings).unwrap();
        (outputs, settings)
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
        let (outputs, StreamSettings { clock, stop, .. }) = open(&names);
        let count = MAX_WAITING as u64 + 1_000;
        for _ in 0..count {
            outputs.write(piece(), &clock, &stop).unwrap();
            // The file's thread gets the processor.
            std::thread::yield_now();
        }
        let dropped_counts = [0, 1].map(|index| outputs.lock().queues[index].dropped_count);
        assert!(dropped_counts[0] > 0);
        let dropped = dropped_counts[1];
        stop.stop();
        drop(outputs);
        drop(reader);
        let written = file.metadata().unwrap().len();
        assert_eq!(written, (count - dropped) * 188 * 7);
    }

    #[test]
    fn failed_outputs_are_reported_at_session_end() {
        for count in [1, 2] {
            let names = vec![OutputName::File("/dev/full".into()); count];
            let (outputs, StreamSettings { clock, stop, .. }) = open(&names);
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
        let (outputs, StreamSettings { clock, stop, .. }) = open(&names);
        for _ in 0..100 {
            outputs.write(piece(), &clock, &stop).unwrap();
        }
        outputs.check().unwrap();
        drop(outputs);
        assert_eq!(file.metadata().unwrap().len(), 100 * 188 * 7);
    }

    /// Writes a picture to all outputs.
    fn write(outputs: &Outputs, is_key: bool, settings: &StreamSettings) {
        let piece = Piece {
            begins_key_frame: is_key,
            ..piece()
        };
        outputs
            .write(piece, &settings.clock, &settings.stop)
            .unwrap();
    }

    #[test]
    fn outputs_join_and_leave_and_a_recording_begins_with_a_key_frame() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("a.ts"), folder.path().join("b.ts"));
        let (outputs, settings) = open(&[OutputName::File(first.clone())]);
        let clock = settings.clock;
        let stream: StreamName = "camera".parse().unwrap();
        outputs.begin_session(&stream, clock.now());
        write(&outputs, true, &settings);
        let name = OutputName::File(second.clone());
        outputs.add(&name, None, &stream, &settings, true).unwrap();
        let twice = outputs.add(&name, None, &stream, &settings, true);
        assert!(twice.unwrap_err().to_string().contains("already"));
        for is_key in [false, true, true, true] {
            write(&outputs, is_key, &settings);
        }
        assert_eq!(outputs.recording(), Some(second.display().to_string()));
        outputs
            .remove(&first.display().to_string(), &clock)
            .unwrap();
        write(&outputs, false, &settings);
        let error = outputs.remove("udp://127.0.0.1:1", &clock).unwrap_err();
        assert!(error.to_string().contains("b.ts"), "{error}");
        assert_eq!(outputs.states().len(), 1);
        outputs.check().unwrap();
        drop(outputs);
        let lengths = [first, second].map(|file| file.metadata().unwrap().len() / (188 * 7));
        assert_eq!(lengths, [5, 4]);
    }

    #[test]
    fn a_stream_without_outputs_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.ts");
        let (outputs, settings) = open(&[OutputName::File(file.clone())]);
        let (clock, stop) = (settings.clock, settings.stop.clone());
        outputs.remove(&file.display().to_string(), &clock).unwrap();
        outputs.write(piece(), &clock, &stop).unwrap();
        outputs.check().unwrap();
        assert!(!outputs.are_watched());
    }
}
