//! Turns of the main thread of `recv`, until its last session is over.

use core::ops::ControlFlow;
use core::time::Duration as StdDuration;

use anabranch_net::{Reception, Receptions};
use anabranch_terminal::print;
use anabranch_terminal::turns::{Turns, Wake, wait_for_stop};

use super::{ReceivedStreams, StreamSettings};

/// All streams, with the new sessions of our own protocol if it is received.
pub(super) struct Receiving<'s, 'a> {
    pub(super) streams: &'s mut ReceivedStreams<'a>,
    pub(super) receptions: Option<&'s Receptions>,
}

impl Turns for Receiving<'_, '_> {
    type Event = Reception;
    type Outcome = ();

    fn wait(&mut self, patience: StdDuration) -> Wake<Reception> {
        if let Some(receptions) = self.receptions {
            return receptions.recv_timeout(patience).into();
        }
        let StreamSettings { clock, stop, .. } = &self.streams.settings;
        wait_for_stop(stop, clock, patience)
    }

    fn turn(&mut self, wake: Wake<Reception>) -> ControlFlow<()> {
        let streams = &mut *self.streams;
        match wake {
            Wake::Event(reception) => streams.take(reception),
            Wake::Timeout => {}
            Wake::Closed => return ControlFlow::Break(()),
        }
        let is_last = streams.take_results();
        if streams.settings.stop.is_stopped() {
            if streams.open_count == 0 && streams.worst.is_none() && !is_last {
                print::note("stopped; no session is open");
            }
            streams.others.iter().for_each(|other| other.stop.stop());
            if let Some(receiver) = streams.receiver {
                receiver.close();
            }
        } else if is_last {
            return ControlFlow::Break(());
        }
        streams.tend();
        ControlFlow::Continue(())
    }
}
