//! `/live`: server-sent events (WHATWG HTML §9.2), a status each second and each event of a stream.
//!
//! A viewer that reads slowly skips statuses. It holds one unread message, whatever happens.

use core::fmt::Write;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use hyper::body::Bytes;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use super::status::Status;
use super::stream_event::TimedEvent;

/// Maximum number of viewers at a time; others are asked to wait. Chosen: a quarter of the
/// connections.
pub(super) const MAX_VIEWERS: usize = 16;
/// Number of events that are remembered.
const REMEMBERED_EVENTS: usize = 200;
/// Time after which a browser connects again, in milliseconds.
const RETRY: &str = "retry: 1000\n\n";

/// News for viewers.
pub(super) struct Live {
    latest: watch::Sender<Arc<News>>,
    events: Mutex<Events>,
    viewers: Arc<Semaphore>,
}

/// A status, and its text once a viewer needs it.
#[derive(Default)]
struct News {
    status: Arc<Status>,
    text: OnceLock<Bytes>,
}

#[derive(Default)]
struct Events {
    /// Number of all events so far.
    count: u64,
    /// The newest events as JSON, each with its number, which counts from 1.
    recent: VecDeque<(u64, String)>,
}

#[derive(Serialize)]
struct Numbered<'a> {
    number: u64,
    #[serde(flatten)]
    timed: &'a TimedEvent,
}

impl Default for Live {
    fn default() -> Self {
        Live {
            latest: watch::Sender::default(),
            events: Mutex::default(),
            viewers: Arc::new(Semaphore::new(MAX_VIEWERS)),
        }
    }
}

impl Live {
    /// Shows a status to all viewers.
    pub(super) fn publish(&self, status: Arc<Status>) {
        let news = News {
            status,
            text: OnceLock::new(),
        };
        self.latest.send_replace(Arc::new(news));
    }

    /// Remembers an event, which viewers get with the next status.
    pub(super) fn on_event(&self, timed: &TimedEvent) {
        let mut events = self.events();
        events.count += 1;
        let number = events.count;
        let Ok(text) = serde_json::to_string(&Numbered { number, timed }) else {
            return;
        };
        events.recent.push_back((number, text));
        if events.recent.len() > REMEMBERED_EVENTS {
            events.recent.pop_front();
        }
    }

    /// Returns the remembered events as a JSON array, the newest last.
    pub(super) fn events_json(&self) -> String {
        let events = self.events();
        let texts: Vec<&str> = events.recent.iter().map(|(_, text)| &**text).collect();
        format!("[{}]", texts.join(","))
    }

    /// Adds a viewer. Returns its messages, or `None` if there are too many viewers.
    pub(super) fn view(self: &Arc<Self>) -> Option<mpsc::Receiver<Bytes>> {
        let permit = Arc::clone(&self.viewers).try_acquire_owned().ok()?;
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(Arc::clone(self).show(sender, permit));
        Some(receiver)
    }

    /// Returns the number of viewers.
    #[cfg(test)]
    pub(super) fn viewer_count(&self) -> usize {
        MAX_VIEWERS - self.viewers.available_permits()
    }

    /// Sends news until the viewer leaves.
    async fn show(self: Arc<Self>, sender: mpsc::Sender<Bytes>, _permit: OwnedSemaphorePermit) {
        let mut latest = self.latest.subscribe();
        let mut seen_count = self.events().count;
        let mut head = RETRY;
        loop {
            let news = Arc::clone(&latest.borrow_and_update());
            let message = self.message(head, &mut seen_count, &news);
            head = "";
            if sender.send(message).await.is_err() {
                return;
            }
            tokio::select! {
                changed = latest.changed() => if changed.is_err() { return },
                () = sender.closed() => return,
            }
        }
    }

    /// Returns the events since the number `seen_count`, and a status.
    fn message(&self, head: &str, seen_count: &mut u64, news: &News) -> Bytes {
        let status = news.text.get_or_init(|| {
            let text = serde_json::to_string(&*news.status).unwrap_or_default();
            format!("event: status\ndata: {text}\n\n").into()
        });
        let events = self.events();
        if head.is_empty() && events.count == *seen_count {
            return status.clone();
        }
        let mut message = head.to_owned();
        let unseen = events.recent.iter();
        for (_, text) in unseen.filter(|(number, _)| number > seen_count) {
            let _ = write!(message, "event: happened\ndata: {text}\n\n");
        }
        *seen_count = events.count;
        let mut message = message.into_bytes();
        message.extend_from_slice(status);
        message.into()
    }

    fn events(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream_event::StreamEvent;

    fn event() -> TimedEvent {
        TimedEvent {
            stream_event: StreamEvent::PeerLeft,
            unix_time_s: 1e9,
            uptime_s: 1.0,
            stream: "a\nb".to_owned(),
        }
    }

    fn status(uptime_s: f64) -> Arc<Status> {
        Arc::new(Status {
            uptime_s,
            ..Status::default()
        })
    }

    /// Returns the events of a message: names and data.
    fn parsed(message: &[u8]) -> Vec<(String, serde_json::Value)> {
        let text = core::str::from_utf8(message).unwrap();
        let events = text.strip_prefix(RETRY).unwrap_or(text);
        let all = events.split_terminator("\n\n").map(|event| {
            let (name, data) = event.split_once('\n').unwrap();
            let name = name.strip_prefix("event: ").unwrap().to_owned();
            let data = data.strip_prefix("data: ").unwrap();
            (name, serde_json::from_str(data).unwrap())
        });
        all.collect()
    }

    #[tokio::test]
    async fn a_slow_viewer_skips_statuses_and_no_event() {
        let live = Arc::new(Live::default());
        let mut messages = live.view().unwrap();
        let first = messages.recv().await.unwrap();
        assert!(first.starts_with(RETRY.as_bytes()));
        for second in 0..100 {
            live.publish(status(f64::from(second)));
            live.on_event(&event());
            tokio::task::yield_now().await;
        }
        live.publish(status(100.0));
        let (mut count, mut reads) = (0, 0);
        loop {
            let events = parsed(&messages.recv().await.unwrap());
            count += events.len() - 1;
            reads += 1;
            let (name, status) = events.last().unwrap();
            assert_eq!(name, "status");
            if status["uptime_s"] == 100.0 {
                break;
            }
        }
        assert_eq!(count, 100);
        assert!(reads < 5, "{reads} messages were kept");
    }

    #[tokio::test]
    async fn viewers_are_few_and_one_that_leaves_makes_room() {
        let live = Arc::new(Live::default());
        let viewers: Vec<_> = (0..MAX_VIEWERS).map(|_| live.view().unwrap()).collect();
        assert!(live.view().is_none());
        drop(viewers);
        live.publish(status(1.0));
        while live.view().is_none() {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn the_newest_events_are_remembered_with_their_numbers() {
        let live = Live::default();
        for _ in 0..250 {
            live.on_event(&event());
        }
        let events: Vec<serde_json::Value> = serde_json::from_str(&live.events_json()).unwrap();
        assert_eq!(events.len(), REMEMBERED_EVENTS);
        assert_eq!(events[0]["number"], 51);
        assert_eq!(events[199]["event"], "peer-left");
        assert_eq!(events[199]["stream"], "a\nb");
    }
}
