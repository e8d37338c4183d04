//! Wishes of the main thread for a stream, and answers of its sender.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_units::Duration;

use crate::allowed::StreamName;
use crate::remote_control::{self, Answer};

/// The wishes for one stream. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Steering {
    stream: StreamName,
    latency: Arc<Mutex<Option<Duration>>>,
    answers: Sender<(StreamName, Answer)>,
}

impl Steering {
    pub(super) fn new(stream: StreamName, answers: Sender<(StreamName, Answer)>) -> Self {
        Steering {
            stream,
            latency: Arc::default(),
            answers,
        }
    }

    /// Wishes another latency.
    pub(super) fn set_latency(&self, latency: Duration) {
        *self.latency.lock().unwrap_or_else(PoisonError::into_inner) = Some(latency);
    }

    /// Returns a latency that was wished since the last call.
    pub(super) fn take_latency(&self) -> Option<Duration> {
        let mut latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        latency.take()
    }

    /// Passes a frame of the sender on, if it is an answer.
    pub(super) fn on_answer(&self, frame: &[u8]) {
        if let Some(answer) = remote_control::read::<Answer>(frame) {
            // The main thread ends last.
            let _ = self.answers.send((self.stream.clone(), answer));
        }
    }
}
