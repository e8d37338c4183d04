//! Requests to senders that take them.

use anabranch_observe::control::{Change, Order, Refused};
use anabranch_terminal::print;
use anabranch_units::Instant;

use super::ReceivedStreams;
use crate::allowed::StreamName;
use crate::remote_control::{self, Pending, Request};

/// A request that a sender has not answered yet.
pub(super) struct Asking {
    stream: StreamName,
    pending: Pending,
    /// Words about the changes of this end.
    done_here: String,
    /// The client's request; `None`: nobody waits for the answer.
    order: Option<Order>,
}

impl ReceivedStreams<'_> {
    /// Asks the sender of a stream for a change of its own end.
    pub(super) fn ask_sender(&mut self, now: Instant, change: Change, order: Order) {
        let session = self.controlled.session(change.stream());
        let stream = session.and_then(|(stream, live)| {
            if live.takes_requests {
                Ok(stream.clone())
            } else {
                Err(Refused::NotNow(format!(
                    "the sender of {} takes no requests: its owner can start it with \
                 --remote-control",
                    stream.as_str()
                )))
            }
        });
        match stream {
            Ok(stream) => {
                let mut request = change;
                if let Change::Path(change) = &mut request {
                    change.stream = None;
                } else if let Change::Target(change) = &mut request {
                    change.stream = None;
                }
                self.ask(now, stream, request, String::new(), Some(order));
            }
            Err(refused) => order.settle(&self.settings.observation, Err(refused)),
        }
    }

    /// Sends a request until it is answered.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        stream: StreamName,
        change: Change,
        done_here: String,
        order: Option<Order>,
    ) {
        let id = self.controlled.next_id;
        self.controlled.next_id += 1;
        let asking = Asking {
            stream,
            pending: Pending::new(Request { id, change }, now),
            done_here,
            order,
        };
        self.controlled.asking.push(asking);
        self.hear_answers(now);
    }

    /// Takes answers of senders, and repeats requests that have none.
    pub(super) fn hear_answers(&mut self, now: Instant) {
        while let Ok((stream, answer)) = self.controlled.answers.1.try_recv() {
            if let Some(at) = self.controlled.asking.iter().position(|asking| {
                asking.stream == stream && asking.pending.request.id == answer.id
            }) {
                let asking = self.controlled.asking.swap_remove(at);
                self.settle(asking, answer.outcome());
            }
        }
        let asking = &mut self.controlled.asking;
        let over: Vec<Asking> = asking
            .extract_if(.., |asking| asking.pending.is_over(now))
            .collect();
        for asking in over {
            let stream = asking.stream.as_str();
            let silent = format!("the sender of {stream} has not answered in 5 s: try again");
            self.settle(asking, Err(Refused::Silent(silent)));
        }
        for asking in &mut self.controlled.asking {
            if !asking.pending.is_due(now) {
                continue;
            }
            let frame = remote_control::frame(&asking.pending.request, now);
            let live = self.controlled.live.get(&asking.stream);
            if let (Some(frame), Some(live)) = (frame, live) {
                // Without room for it, the next copy may have some.
                let _ = live.path.send_frame(&frame);
            }
        }
    }

    fn settle(&self, asking: Asking, outcome: Result<String, Refused>) {
        let Asking {
            stream,
            done_here,
            order,
            ..
        } = asking;
        let outcome = match outcome {
            Ok(text) if done_here.is_empty() => Ok(text),
            Ok(text) => Ok(format!("{done_here}; {text}")),
            // This end has made its part.
            Err(refused) if !done_here.is_empty() => Ok(format!("{done_here}, but {refused}")),
            Err(refused) => Err(refused),
        };
        let observation = &self.settings.observation;
        match (order, outcome) {
            (Some(order), outcome) => order.settle(observation, outcome),
            (None, Ok(text)) => print::note(format_args!("{}: {text}", stream.as_str())),
            (None, Err(refused)) => print::warn(format_args!("{}: {refused}", stream.as_str())),
        }
    }
}
