//! The return feed: video from the receiver to the sender's output.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;

use anabranch_core::ReceivedFrame;
use anabranch_mpegts_io::{Output, OutputEvent, OutputName, Playout, RetriedOutput};
use anabranch_net::Clock;
use anabranch_terminal::print;
use anabranch_terminal::stop::Stop;
use anabranch_units::Duration;
use anabranch_video::player::JitterBuffer;
use anyhow::Context;

/// Maximum number of frames that wait for the output; further frames are dropped.
const MAX_WAITING: usize = 1_024;
/// Time between the thread's checks for the end.
const POLL_INTERVAL: core::time::Duration = core::time::Duration::from_millis(50);

/// Writer of a return feed in a separate thread, so that a slow viewer delays nothing.
#[derive(Debug)]
pub(crate) struct ReturnFeed {
    /// Queue; `None` at the end.
    frames: Option<SyncSender<ReceivedFrame>>,
    writer: Option<JoinHandle<()>>,
}

impl ReturnFeed {
    /// Opens the output. With a latency, frames leave this long after the earliest possible arrival
    /// of their fastest packet.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn open(
        name: &OutputName,
        latency: Option<Duration>,
        clock: Clock,
        stop: Stop,
    ) -> anyhow::Result<Self> {
        let mut output = RetriedOutput::new(Output::open(name, None, &clock, &stop)?);
        let name = name.to_string();
        let (frames, queue) = sync_channel(MAX_WAITING);
        let buffer = latency.map_or(JitterBuffer::Off, JitterBuffer::Fixed);
        let playout = Playout::new(buffer, output.is_watched(), clock.now());
        let writer = std::thread::Builder::new()
            .name("return".to_owned())
            .spawn(move || {
                let written = write(
                    &queue,
                    playout,
                    &mut output,
                    &clock,
                    &stop,
                    |event| match event {
                        OutputEvent::Failed { .. } => print::warn(event),
                        OutputEvent::Resumed { .. } => {
                            print::note(format_args!("output {name} {event}"))
                        }
                    },
                );
                written.unwrap_or_else(|error| print::warn(format_args!("{error:#}")));
            });
        Ok(ReturnFeed {
            frames: Some(frames),
            writer: Some(writer.context("cannot start a thread")?),
        })
    }

    pub(crate) fn push(&self, frame: ReceivedFrame) {
        if let Some(frames) = &self.frames {
            // The queue is full, or the output has failed, which was reported.
            let _ = frames.try_send(frame);
        }
    }
}

impl Drop for ReturnFeed {
    fn drop(&mut self) {
        self.frames = None;
        let _ = self.writer.take().map(JoinHandle::join);
    }
}

fn write(
    queue: &Receiver<ReceivedFrame>,
    mut playout: Playout,
    output: &mut RetriedOutput,
    clock: &Clock,
    stop: &Stop,
    report: impl Fn(OutputEvent),
) -> anyhow::Result<()> {
    loop {
        let due = playout.next_at();
        let patience = due.map_or(POLL_INTERVAL, |at| {
            at.saturating_since(clock.now()).to_std()
        });
        match queue.recv_timeout(patience.min(POLL_INTERVAL)) {
            Ok(frame) => playout.push(clock.now(), frame),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        while let Some(piece) = playout.pop(clock.now()) {
            output
                .write(&piece, clock, stop)?
                .into_iter()
                .for_each(&report);
        }
    }
}
