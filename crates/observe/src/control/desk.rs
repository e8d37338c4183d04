//! The queue between the HTTP server and the program's main thread.

use core::fmt;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use anabranch_terminal::clean::one_line;
use hyper::StatusCode;
use tokio::sync::oneshot;

use super::{Change, ControlState, Links};
use crate::{Observation, StreamEvent};

/// Maximum number of requests that wait for the program.
const MAX_WAITING: usize = 16;

/// Content of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// The present state.
    State,
    /// The links by which others join.
    Links,
    /// A change.
    Change(Change),
}

/// Answer of the program.
#[derive(Debug)]
pub(super) enum Reply {
    State(Box<ControlState>),
    Links(Links),
    Done(String),
    Refused(Refused),
}

/// Reason for which a change was not made. The text names the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The request has a mistake.
    Wrong(String),
    /// It names something that does not exist.
    Unknown(String),
    /// This program, or its present state, does not allow it.
    NotNow(String),
    /// Another program did not answer.
    Silent(String),
}

impl Refused {
    /// Returns the answer of a program into which no sender comes.
    pub fn no_links() -> Refused {
        Refused::NotNow("only a receiver has links: `anabranch recv`".to_owned())
    }

    pub(super) fn status(&self) -> StatusCode {
        match self {
            Refused::Wrong(_) => StatusCode::BAD_REQUEST,
            Refused::Unknown(_) => StatusCode::NOT_FOUND,
            Refused::NotNow(_) => StatusCode::CONFLICT,
            Refused::Silent(_) => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Wrong(text)
            | Refused::Unknown(text)
            | Refused::NotNow(text)
            | Refused::Silent(text) => f.write_str(text),
        }
    }
}

/// A request that waits for its answer.
#[derive(Debug)]
pub struct Order {
    asked: Asked,
    by: String,
    /// `None`: the other end of a session asks, and is answered there.
    reply: Option<oneshot::Sender<Reply>>,
}

impl Order {
    /// Returns an order that did not come by HTTP: of the other end of a session, or of a signal.
    pub fn of_peer(change: Change, by: String) -> Order {
        Order {
            asked: Asked::Change(change),
            by,
            reply: None,
        }
    }

    /// Returns the content of the request.
    pub fn asked(&self) -> &Asked {
        &self.asked
    }

    /// Answers a request for the state.
    pub fn show(self, state: ControlState) {
        // A client that has gone needs no answer.
        let _ = self
            .reply
            .map(|reply| reply.send(Reply::State(state.into())));
    }

    /// Answers a request for the links. Nothing is logged, as they have secrets in them.
    pub fn show_links(self, outcome: Result<Links, Refused>) {
        let reply = outcome.map_or_else(Reply::Refused, Reply::Links);
        let _ = self.reply.map(|to| to.send(reply));
    }

    /// Answers a change, logs the outcome and reports it as an event of the program.
    pub fn settle(self, observation: &Observation, outcome: Result<String, Refused>) {
        let Asked::Change(change) = &self.asked else {
            return;
        };
        let by = &self.by;
        let (is_done, text) = match &outcome {
            Ok(done) => (true, done.clone()),
            Err(refused) => (false, refused.to_string()),
        };
        let text = one_line(&text).into_owned();
        if is_done {
            log::info!("control by {by}: {text}");
        } else {
            let name = change.name();
            log::warn!("control by {by}: {name} refused: {text}");
        }
        let event = StreamEvent::Control {
            by: by.clone(),
            change: change.name(),
            done: is_done,
            text,
        };
        observation.on_stream_event(change.stream().unwrap_or_default(), event);
        let reply = match outcome {
            Ok(done) => Reply::Done(done),
            Err(refused) => Reply::Refused(refused),
        };
        let _ = self.reply.map(|to| to.send(reply));
    }
}

/// The server's end of the queue.
#[derive(Clone, Debug)]
pub(crate) struct Desk(SyncSender<Order>);

/// The program's end of the queue.
#[derive(Debug)]
pub(crate) struct Orders(Mutex<Receiver<Order>>);

/// Creates a queue.
pub(crate) fn desk() -> (Desk, Orders) {
    let (orders, queue) = sync_channel(MAX_WAITING);
    (Desk(orders), Orders(Mutex::new(queue)))
}

impl Desk {
    /// Queues a request. Returns the receiver of its answer, or `None` if the queue is full.
    pub(super) fn ask(&self, asked: Asked, by: IpAddr) -> Option<oneshot::Receiver<Reply>> {
        let (reply, answer) = oneshot::channel();
        let order = Order {
            asked,
            by: by.to_canonical().to_string(),
            reply: Some(reply),
        };
        self.0.try_send(order).ok().map(|()| answer)
    }
}

impl Orders {
    /// Returns the next request, if there is one.
    pub(crate) fn next(&self) -> Option<Order> {
        let queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        queue.try_recv().ok()
    }
}
