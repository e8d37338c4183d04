//! One output of a stream: directly, or in a thread of its own.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anabranch_mpegts_io::{Output, OutputEvent, OutputName, Piece, RetriedOutput, Rotation};
use anabranch_net::Clock;
use anabranch_observe::{Observation, StreamEvent};
use anabranch_terminal::print;
use anabranch_terminal::stop::Stop;
use anabranch_units::{Duration, Instant};
use anyhow::Context;

use super::super::receivers;
use super::super::stream_settings::StreamSettings;
use crate::allowed::StreamName;

/// Maximum number of pieces that wait for an output. A piece is some milliseconds, so they are ten
/// seconds and more.
pub(super) const MAX_WAITING: usize = 8_192;
/// Longest wait of a recording for a key frame. A stream without pictures has none.
const KEY_PATIENCE: Duration = Duration::from_secs(10);

/// An output with its failure reports.
pub(super) struct Writer {
    pub(super) output: RetriedOutput,
    pub(super) name: String,
    /// Name of the stream. Observers read it: outputs may be shared.
    stream: Arc<Mutex<String>>,
    pub(super) failure: SharedFailure,
    observation: Arc<Observation>,
}

/// Reason why an output is not written now.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedFailure(Arc<Mutex<Option<String>>>);

/// One of several outputs.
pub(super) struct OutputQueue {
    pub(super) name: String,
    /// Whether it is a recording that was started while the program runs.
    pub(super) is_recording: bool,
    /// Time until which it waits for a key frame.
    key_awaited_until: Option<Instant>,
    /// Queue; `None` at the end.
    pub(super) queue: Option<SyncSender<OutputMessage>>,
    pub(super) is_watched: bool,
    thread: Option<JoinHandle<()>>,
    pub(super) failure: SharedFailure,
    pub(super) dropped_count: u64,
}

/// Message to a queue.
#[derive(Clone, Debug)]
pub(super) enum OutputMessage {
    SessionBegins(StreamName, Instant),
    Piece(Arc<Piece>),
}

impl Writer {
    pub(super) fn open(
        name: &OutputName,
        rotation: Option<Rotation>,
        stream: &StreamName,
        settings: &StreamSettings,
    ) -> anyhow::Result<Self> {
        let StreamSettings { clock, stop, .. } = settings;
        let output = Output::open(name, rotation, clock, stop)?;
        if let OutputName::File(path) = name {
            settings.observation.watch_recordings(path.clone());
        }
        let receivers = output.receivers();
        let (name, stream) = (name.to_string(), stream.as_str().to_owned());
        let stream = Arc::new(Mutex::new(stream));
        if let Some(receivers) = receivers {
            let sampler = receivers::sampler(name.clone(), Arc::clone(&stream), receivers, *clock);
            settings.observation.watch_output(sampler);
        }
        Ok(Writer {
            output: RetriedOutput::new(output),
            name,
            stream,
            failure: SharedFailure::default(),
            observation: Arc::clone(&settings.observation),
        })
    }

    pub(super) fn begin_session(&mut self, stream: &StreamName, now: Instant) {
        let mut current = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        stream.as_str().clone_into(&mut current);
        drop(current);
        self.output.begin_session(now);
    }

    pub(super) fn write(
        &mut self,
        piece: &Piece,
        clock: &Clock,
        stop: &Stop,
    ) -> anyhow::Result<()> {
        match self.output.write(piece, clock, stop) {
            Ok(None) => Ok(()),
            Ok(Some(event)) => {
                self.announce(&event);
                Ok(())
            }
            Err(error) => {
                let error = anyhow::Error::from(error);
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
    pub(super) fn get(&self) -> Option<String> {
        let failure = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failure.clone()
    }

    fn set(&self, failure: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }
}

impl OutputQueue {
    pub(super) fn open(
        name: &OutputName,
        rotation: Option<Rotation>,
        stream: &StreamName,
        settings: &StreamSettings,
    ) -> anyhow::Result<Self> {
        // Rotation applies to files only; a player beside a recording is allowed.
        let rotation = if matches!(name, OutputName::File(_)) {
            rotation
        } else {
            None
        };
        let mut writer = Writer::open(name, rotation, stream, settings)?;
        let (name, failure) = (writer.name.clone(), writer.failure.clone());
        let is_watched = writer.output.is_watched();
        let (clock, stop) = (settings.clock, settings.stop.clone());
        let (queue, messages): (_, Receiver<OutputMessage>) = sync_channel(MAX_WAITING);
        let thread = std::thread::Builder::new()
            .name("output".to_owned())
            .spawn(move || {
                for message in messages {
                    let written = match message {
                        OutputMessage::SessionBegins(stream, now) => {
                            writer.begin_session(&stream, now);
                            Ok(())
                        }
                        OutputMessage::Piece(piece) => writer.write(&piece, &clock, &stop),
                    };
                    if let Err(error) = written {
                        print::warn(format_args!("{error:#}; the other outputs go on"));
                        return;
                    }
                }
            });
        Ok(OutputQueue {
            name,
            is_recording: false,
            key_awaited_until: None,
            queue: Some(queue),
            is_watched,
            thread: Some(thread.context("cannot start a thread")?),
            failure,
            dropped_count: 0,
        })
    }

    /// Begins with the next key frame, if one comes soon.
    pub(super) fn await_key(&mut self, now: Instant) {
        self.key_awaited_until = Some(now + KEY_PATIENCE);
    }

    /// Queues a piece of the stream.
    pub(super) fn send_piece(&mut self, piece: &Arc<Piece>, now: Instant) {
        if let Some(until) = self.key_awaited_until {
            if !piece.begins_key_frame && now < until {
                return;
            }
            self.key_awaited_until = None;
        }
        self.send(OutputMessage::Piece(Arc::clone(piece)));
    }

    pub(super) fn send(&mut self, message: OutputMessage) {
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

impl Drop for OutputQueue {
    /// Writes the queued pieces, so that files are complete when the program ends.
    fn drop(&mut self) {
        self.queue = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
