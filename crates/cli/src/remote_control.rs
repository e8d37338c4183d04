//! Requests of a receiver to its sender, and the answers.
//!
//! They travel as frames of their own, as messages do (`message.rs`), behind another first byte. A
//! sender announces in the handshake that it takes them (`send --remote-control`), and no other
//! gets any: senders of earlier versions write unknown frames to their return feed. Frames
//! can be lost, so the receiver repeats a request until it is answered, and the sender knows by its
//! number that it has been made.
//!
//! ```text
//! byte 0   0x01
//! byte 1   version: 1
//! then a JSON object, 1,000 bytes at most
//! ```

use anabranch_core::Frame;
use anabranch_observe::control::{Change, Refused};
use anabranch_terminal::clean::one_line;
use anabranch_units::{Bucket, Duration, Importance, Instant, Rate};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// First byte of these frames, and of no other.
const MARK: u8 = 1;
const VERSION: u8 = 1;
/// Maximum length of the JSON: a frame fits one packet.
const MAX_BYTES: usize = 1_000;
/// Maximum length of an answer's text.
const MAX_TEXT_BYTES: usize = 600;
/// Requests that a sender follows (chosen): more than a person makes.
const REQUESTS: Rate = Rate {
    burst: 20,
    interval: Duration::from_millis(500),
};
/// Time between two copies of a request.
const REPEAT_INTERVAL: Duration = Duration::from_millis(300);
/// Longest wait for the sender's answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A request of the receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    /// Its number, which no other request of the session has.
    pub(crate) id: u64,
    pub(crate) change: Change,
}

/// The sender's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// The number of the request.
    pub(crate) id: u64,
    /// Whether the change was made.
    pub(crate) done: bool,
    /// Outcome in words.
    pub(crate) text: String,
}

/// Returns whether a frame that begins with these bytes is a request or an answer.
pub(crate) fn is_begun_by(bytes: &[u8]) -> bool {
    bytes.first() == Some(&MARK)
}

/// Returns the frame of a request or an answer; `None` if it is too long.
pub(crate) fn frame(content: &impl Serialize, now: Instant) -> Option<Frame> {
    let json = serde_json::to_vec(content).ok()?;
    let bytes: Bytes = [&[MARK, VERSION], &json[..]].concat().into();
    (json.len() <= MAX_BYTES).then_some(Frame {
        bytes,
        importance: Importance::Reference,
        captured_at: now,
        lifetime: None,
    })
}

/// Reads a frame. Those of other versions, or with mistakes, are `None`.
pub(crate) fn read<T: DeserializeOwned>(frame: &[u8]) -> Option<T> {
    let json = frame.strip_prefix(&[MARK, VERSION])?;
    let is_short = json.len() <= MAX_BYTES;
    is_short.then(|| serde_json::from_slice(json).ok())?
}

impl Answer {
    /// Returns the answer with the outcome of a request.
    pub(crate) fn of(id: u64, outcome: &Result<String, Refused>) -> Self {
        let (done, text) = match outcome {
            Ok(text) => (true, text.clone()),
            Err(refused) => (false, refused.to_string()),
        };
        let text = text.chars().take(MAX_TEXT_BYTES / 4).collect();
        Answer { id, done, text }
    }

    /// Returns the outcome in words that a terminal can show.
    pub(crate) fn outcome(&self) -> Result<String, Refused> {
        let text = one_line(&self.text).into_owned();
        if self.done {
            Ok(format!("the sender: {text}"))
        } else {
            Err(Refused::NotNow(format!("the sender refuses: {text}")))
        }
    }
}

/// The sender's memory of requests.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    bucket: Bucket,
    last: Option<(Request, Answer)>,
}

impl Followed {
    /// Returns the answer to a copy of the last request, `Ok(None)` to a new one that may be
    /// followed now.
    ///
    /// # Errors
    /// There are too many requests: it is not answered.
    pub(crate) fn known(
        &mut self,
        now: Instant,
        request: &Request,
    ) -> Result<Option<Answer>, TooMany> {
        if let Some((last, answer)) = &self.last
            && last == request
        {
            return Ok(Some(answer.clone()));
        }
        if self.bucket.take_if(now, REQUESTS) {
            Ok(None)
        } else {
            Err(TooMany)
        }
    }

    pub(crate) fn remember(&mut self, request: Request, answer: Answer) {
        self.last = Some((request, answer));
    }
}

/// More requests have come than a person makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

/// The receiver's request that is repeated until it is answered.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) request: Request,
    next_at: Instant,
    give_up_at: Instant,
}

impl Pending {
    pub(crate) fn new(request: Request, now: Instant) -> Self {
        Pending {
            request,
            next_at: now,
            give_up_at: now + PATIENCE,
        }
    }

    /// Returns whether a copy is due, which the caller then sends.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now >= self.next_at;
        if is_due {
            self.next_at = now + REPEAT_INTERVAL;
        }
        is_due
    }

    /// Returns whether the sender has had its time.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        now >= self.give_up_at
    }
}

#[cfg(test)]
mod tests {
    use anabranch_observe::control::PathChange;

    use super::*;

    fn request(path: &str) -> Request {
        let change = Change::Path(PathChange {
            path: path.to_owned(),
            on: Some(false),
            ..PathChange::default()
        });
        Request { id: 7, change }
    }

    #[test]
    fn requests_and_answers_survive_their_way_and_others_are_ignored() {
        let sent = frame(&request("wwan0"), Instant::ZERO).unwrap();
        assert!(is_begun_by(&sent.bytes) && !crate::message::is_begun_by(&sent.bytes));
        assert_eq!(read(&sent.bytes), Some(request("wwan0")));
        assert_eq!(read::<Answer>(&sent.bytes), None);
        let answer = Answer::of(7, &Err(Refused::NotNow("x\u{1b}[2J".into())));
        let sent = frame(&answer, Instant::ZERO).unwrap();
        let answer: Answer = read(&sent.bytes).unwrap();
        let text = answer.outcome().unwrap_err().to_string();
        assert!(text.starts_with("the sender refuses: x") && !text.contains('\u{1b}'));
        let mut later = sent.bytes.to_vec();
        later[1] = 2;
        assert_eq!(read::<Answer>(&later), None);
        for frame in [&[][..], &[1], &[1, 1], &[1, 1, b'{'], &[0x47; 188]] {
            assert_eq!(read::<Request>(frame), None);
        }
        let long = Answer::of(7, &Ok("ä".repeat(5_000)));
        assert!(frame(&long, Instant::ZERO).is_some());
        assert!(frame(&request(&"x".repeat(2_000)), Instant::ZERO).is_none());
    }

    #[test]
    fn the_format_is_that_of_the_documentation() {
        let sent = frame(&request("wwan0"), Instant::ZERO).unwrap();
        let expected =
            b"\x01\x01{\"id\":7,\"change\":{\"path\":{\"path\":\"wwan0\",\"on\":false}}}";
        assert_eq!(&sent.bytes[..], expected);
    }

    fn at(millis: u64) -> Instant {
        Instant::from_secs(100) + Duration::from_millis(millis)
    }

    #[test]
    fn a_copy_is_answered_again_and_a_flood_is_not() {
        let mut followed = Followed::default();
        let first = request("wwan0");
        assert_eq!(followed.known(at(0), &first), Ok(None));
        let answer = Answer::of(first.id, &Ok("off".to_owned()));
        followed.remember(first.clone(), answer.clone());
        assert_eq!(followed.known(at(0), &first), Ok(Some(answer)));
        // A receiver that was restarted has used the number before.
        assert_eq!(followed.known(at(0), &request("lo")), Ok(None));
        let mut new_count = 0;
        for id in 8..1_000 {
            let numbered = Request {
                id,
                ..request("wwan0")
            };
            new_count += u32::from(followed.known(at(id), &numbered) == Ok(None));
        }
        assert_eq!(new_count, 18 + 1);
    }

    #[test]
    fn a_request_is_repeated_until_its_time_is_over() {
        let start = Instant::from_secs(1);
        let mut pending = Pending::new(request("0"), start);
        let times = (0..6_000).map(|millis| start + Duration::from_millis(millis));
        let mut copies = 0;
        for now in times {
            if pending.is_over(now) {
                assert_eq!(now, start + PATIENCE);
                break;
            }
            copies += u64::from(pending.is_due(now));
        }
        assert_eq!(copies, 17);
    }
}
