//! The return feed: video from the receiver to the sender's output.

use core::ops::ControlFlow;
use core::time::Duration as StdDuration;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use anabranch_core::ReceivedFrame;
use anabranch_mpegts_io::{Output, OutputEvent, OutputName, Playout, RetriedOutput};
use anabranch_net::Clock;
use anabranch_terminal::print;
use anabranch_terminal::stop::Stop;
use anabranch_terminal::turns::{Turns, Wake, time_to};
use anabranch_units::Duration;
use anabranch_video::player::JitterBuffer;
use anyhow::Context;

/// Maximum number of frames that wait for the output; further frames are dropped.
const MAX_WAITING: usize = 1_024;

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
        let output = RetriedOutput::new(Output::open(name, None, &clock, &stop)?);
        let (frames, queue) = sync_channel(MAX_WAITING);
        let buffer = latency.map_or(JitterBuffer::Off, JitterBuffer::Fixed);
        let playout = Playout::new(buffer, output.is_watched(), clock.now());
        let mut writing = Writing {
            queue,
            playout,
            output,
            name: name.to_string(),
            clock,
            stop,
        };
        let writer = std::thread::Builder::new()
            .name("return".to_owned())
            .spawn(move || {
                if let Err(error) = writing.run_turns() {
                    print::warn(format_args!("{error:#}"));
                }
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

/// The writer's work, until the queue ends.
struct Writing {
    queue: Receiver<ReceivedFrame>,
    playout: Playout,
    output: RetriedOutput,
    name: String,
    clock: Clock,
    stop: Stop,
}

impl Writing {
    /// Writes the bytes that are due.
    fn write_due(&mut self) -> anyhow::Result<()> {
        while let Some(piece) = self.playout.pop(self.clock.now()) {
            match self.output.write(&piece, &self.clock, &self.stop)? {
                None => {}
                Some(event @ OutputEvent::Failed { .. }) => print::warn(event),
                Some(event @ OutputEvent::Resumed { .. }) => {
                    print::note(format_args!("output {} {event}", self.name));
                }
            }
        }
        Ok(())
    }
}

impl Turns for Writing {
    type Event = ReceivedFrame;
    type Outcome = anyhow::Result<()>;

    fn wait(&mut self, patience: StdDuration) -> Wake<ReceivedFrame> {
        self.queue.recv_timeout(patience).into()
    }

    /// Returns the time until the next bytes are due. Otherwise a frame or the end of the queue
    /// wakes the thread.
    fn patience(&self) -> StdDuration {
        let due = self.playout.next_at();
        due.map_or(StdDuration::MAX, |at| time_to(at, &self.clock))
    }

    fn turn(&mut self, wake: Wake<ReceivedFrame>) -> ControlFlow<Self::Outcome> {
        match wake {
            Wake::Event(frame) => self.playout.push(self.clock.now(), frame),
            Wake::Timeout => {}
            Wake::Closed => return ControlFlow::Break(Ok(())),
        }
        match self.write_due() {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Err(error)),
        }
    }
}
