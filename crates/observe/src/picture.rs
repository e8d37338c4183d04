//! State of a stream's picture, from the last ten seconds: one answer for every page, program and
//! command that shows whether a stream is on air.

use std::collections::VecDeque;
use std::fmt::Write as _;

use anabranch_core::PathState;
use anabranch_net::{SessionKind, Snapshot};
use anabranch_units::{Duration, Instant};
use serde::{Deserialize, Serialize};

use super::outage_cause::OutageCause;
use crate::names::path_name;

/// Span that the state describes.
const SPAN: Duration = Duration::from_secs(10);
/// Time without a whole frame after which the picture has gone: a viewer's screen stands still.
const GONE_AFTER: Duration = Duration::from_secs(2);
/// Share of missing frames from which the picture is impaired.
const IMPAIRED: f64 = 0.01;
/// Media rate by the target's above which the encoder does not follow.
const EXCEEDS: f64 = 1.1;

/// State of a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PictureState {
    /// At least 99 % of the frames were in time.
    #[default]
    Fine,
    /// More frames were missing.
    Impaired,
    /// No frame has come for two seconds.
    Gone,
}

impl PictureState {
    /// Returns the word of a change to this state for a command.
    pub(super) fn word(self) -> &'static str {
        match self {
            PictureState::Fine => "picture-fine",
            PictureState::Impaired => "picture-impaired",
            PictureState::Gone => "picture-gone",
        }
    }

    /// Returns the state in one word.
    pub fn name(self) -> &'static str {
        match self {
            PictureState::Fine => "fine",
            PictureState::Impaired => "impaired",
            PictureState::Gone => "gone",
        }
    }
}

/// Cause of an impaired picture, or of one that has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PictureCause {
    /// The paths lose packets or are out.
    Links,
    /// The encoder sends nothing, or more than the paths carry.
    Encoder,
    /// This machine does not keep time.
    Machine,
    /// The peer has ended its program or is away.
    Peer,
}

/// Picture of a stream in the last ten seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Picture {
    /// Its state.
    pub state: PictureState,
    /// Cause, if it is not fine.
    pub cause: Option<PictureCause>,
    /// Frames whose fate is known.
    pub frames: u64,
    /// Frames that were in time.
    pub frames_in_time: u64,
    /// Time since the last frame.
    pub still_s: f64,
    /// State, numbers and cause in words.
    pub text: String,
}

/// Counters of frames at one time.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    at: Instant,
    in_time: u64,
    missing: u64,
    media_bytes: u64,
    slow_seconds: u64,
}

/// Watches one session.
#[derive(Debug, Default)]
pub(super) struct PictureWatch {
    samples: VecDeque<Counted>,
    /// Time of the last frame. `None`: none has come.
    frame_at: Option<Instant>,
    state: PictureState,
}

/// Circumstances of a sample that its snapshot does not have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circumstances<'a> {
    pub(super) path_names: &'a [String],
    /// Cause of the present outage.
    pub(super) outage: Option<OutageCause>,
    /// Whether the session exists and its peer has not gone away.
    pub(super) is_connected: bool,
    /// Time of the last bytes of a stream by another protocol, whose frames are not counted.
    pub(super) heard_at: Option<Instant>,
    /// Seconds so far in which the machine was too slow.
    pub(super) slow_seconds: u64,
}

impl PictureWatch {
    /// Adds a sample. Returns the picture if its state has changed.
    pub(super) fn see(&mut self, seen: &Snapshot, around: Circumstances<'_>) -> Option<Picture> {
        let session = &seen.session;
        let last = self.samples.back().copied();
        let counted = Counted {
            at: seen.at,
            in_time: session.frames_received + session.frames_acked,
            missing: session.frames_dropped + session.frames_late,
            media_bytes: session.media_bytes_sent,
            slow_seconds: around.slow_seconds,
        };
        if last.is_some_and(|last| counted.in_time < last.in_time) {
            // The counters restarted with a session.
            self.samples.clear();
        }
        if around.heard_at.is_some() {
            self.frame_at = around.heard_at;
        } else if counted.in_time > last.map_or(0, |last| last.in_time) {
            self.frame_at = Some(seen.at);
        }
        self.samples.push_back(counted);
        let from = seen.at.saturating_sub(SPAN);
        while self.samples.len() > 1 && self.samples[1].at <= from {
            self.samples.pop_front();
        }
        let picture = self.picture(seen, around)?;
        let has_changed = picture.state != self.state;
        self.state = picture.state;
        has_changed.then_some(picture)
    }

    /// Returns the present picture; `None` before the first frame and for other content.
    pub(super) fn picture(&self, seen: &Snapshot, around: Circumstances<'_>) -> Option<Picture> {
        let (frame_at, first, last) = (self.frame_at?, self.samples.front()?, self.samples.back()?);
        if seen
            .session_kind
            .is_some_and(|kind| kind != SessionKind::Frames)
        {
            return None;
        }
        let in_time = last.in_time - first.in_time;
        let missing = last.missing.saturating_sub(first.missing);
        let frames = in_time + missing;
        let still = seen.at.saturating_since(frame_at);
        let state = if still >= GONE_AFTER {
            PictureState::Gone
        } else if missing as f64 > IMPAIRED * frames as f64 {
            PictureState::Impaired
        } else {
            PictureState::Fine
        };
        let is_slow = last.slow_seconds > first.slow_seconds;
        let cause = match state {
            PictureState::Fine => None,
            PictureState::Gone => Some(cause_of_gone(around)),
            PictureState::Impaired if is_slow => Some(PictureCause::Machine),
            PictureState::Impaired if exceeds(first, last, seen) => Some(PictureCause::Encoder),
            PictureState::Impaired => Some(PictureCause::Links),
        };
        let mut picture = Picture {
            state,
            cause,
            frames,
            frames_in_time: in_time,
            still_s: still.as_secs_f64(),
            text: String::new(),
        };
        picture.text = words(&picture, seen, around);
        Some(picture)
    }
}

fn cause_of_gone(around: Circumstances<'_>) -> PictureCause {
    match around.outage {
        Some(OutageCause::AllLinksDown) => PictureCause::Links,
        Some(OutageCause::SourceGone) => PictureCause::Encoder,
        None if !around.is_connected => PictureCause::Peer,
        None if around.heard_at.is_some() => PictureCause::Encoder,
        None => PictureCause::Links,
    }
}

/// Returns whether a sender's encoder exceeds its target.
fn exceeds(first: &Counted, last: &Counted, seen: &Snapshot) -> bool {
    let span_s = last.at.saturating_since(first.at).as_secs_f64();
    let media_bps = 8.0 * last.media_bytes.saturating_sub(first.media_bytes) as f64 / span_s;
    let target_bps = seen.target_bitrate.bits_per_second() as f64;
    target_bps > 0.0 && media_bps > EXCEEDS * target_bps
}

fn words(picture: &Picture, seen: &Snapshot, around: Circumstances<'_>) -> String {
    let mut text = match picture.state {
        PictureState::Gone => format!("gone for {:.0} s", picture.still_s),
        state => state.name().to_owned(),
    };
    if picture.state != PictureState::Gone && picture.frames > 0 {
        let _ = write!(
            text,
            ": {} of {} pictures in time",
            picture.frames_in_time, picture.frames
        );
    }
    let cause = match picture.cause {
        None => return text,
        Some(PictureCause::Encoder) if picture.state == PictureState::Gone => {
            "the encoder sends nothing".to_owned()
        }
        Some(PictureCause::Encoder) => "the encoder sends more than the paths carry".to_owned(),
        Some(PictureCause::Machine) => "this machine is too slow".to_owned(),
        Some(PictureCause::Peer) => "the sender is away".to_owned(),
        Some(PictureCause::Links) => links_in_words(seen, around.path_names),
    };
    let _ = write!(text, "; {cause}");
    text
}

/// Names the paths that are out or silent.
fn links_in_words(seen: &Snapshot, names: &[String]) -> String {
    let paths = seen.paths.iter().enumerate();
    let bad: Vec<String> = paths
        .filter(|(_, path)| matches!(path.state(), PathState::Suspect | PathState::Out))
        .map(|(index, path)| path_name(names, index, path))
        .collect();
    if bad.is_empty() {
        "the paths lose packets".to_owned()
    } else if bad.len() == seen.paths.len() {
        "no path delivers".to_owned()
    } else {
        format!("out: {}", bad.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use anabranch_net::PathSnapshot;
    use anabranch_units::DataRate;

    use super::*;

    struct Bed {
        watch: PictureWatch,
        seen: Snapshot,
        outage: Option<OutageCause>,
        is_connected: bool,
        heard_at: Option<Instant>,
        slow_seconds: u64,
    }

    impl Bed {
        fn new() -> Self {
            Bed {
                watch: PictureWatch::default(),
                seen: Snapshot {
                    session_kind: Some(SessionKind::Frames),
                    paths: vec![PathSnapshot::default(); 2],
                    ..Snapshot::default()
                },
                outage: None,
                is_connected: true,
                heard_at: None,
                slow_seconds: 0,
            }
        }

        /// Ten samples a second. Returns the states that changed, and the last picture.
        fn run(
            &mut self,
            seconds: u64,
            change: impl Fn(&mut Snapshot),
        ) -> (Vec<PictureState>, Option<Picture>) {
            let names = ["wlan0".to_owned(), "wwan0".to_owned()];
            let mut changes = Vec::new();
            let mut last = None;
            for _ in 0..10 * seconds {
                self.seen.at += Duration::from_millis(100);
                change(&mut self.seen);
                let around = Circumstances {
                    path_names: &names,
                    outage: self.outage,
                    is_connected: self.is_connected,
                    heard_at: self.heard_at,
                    slow_seconds: self.slow_seconds,
                };
                changes.extend(self.watch.see(&self.seen, around).map(|of| of.state));
                last = self.watch.picture(&self.seen, around);
            }
            (changes, last)
        }
    }

    fn receive(seen: &mut Snapshot) {
        seen.session.frames_received += 3;
    }

    fn lose_a_tenth(seen: &mut Snapshot) {
        seen.session.frames_received += 9;
        seen.session.frames_dropped += 1;
    }

    #[test]
    fn nothing_is_said_before_the_first_frame_and_of_connections() {
        assert_eq!(Bed::new().run(5, |_| {}), (vec![], None));
        let mut bed = Bed::new();
        bed.seen.session_kind = Some(SessionKind::Streams);
        assert_eq!(bed.run(5, receive), (vec![], None));
    }

    #[test]
    fn the_last_ten_seconds_count_and_not_the_session() {
        let mut bed = Bed::new();
        let (changes, picture) = bed.run(60, receive);
        assert_eq!(changes, []);
        assert_eq!(picture.unwrap().text, "fine: 300 of 300 pictures in time");
        let (changes, picture) = bed.run(5, lose_a_tenth);
        assert_eq!(changes, [PictureState::Impaired]);
        let picture = picture.unwrap();
        assert_eq!(picture.cause, Some(PictureCause::Links));
        assert_eq!(
            picture.text,
            "impaired: 600 of 650 pictures in time; the paths lose packets"
        );
        let (changes, _) = bed.run(11, receive);
        assert_eq!(changes, [PictureState::Fine]);
    }

    #[test]
    fn a_picture_that_stands_still_has_gone_whatever_the_links_say() {
        let mut bed = Bed::new();
        bed.run(20, receive);
        let (changes, picture) = bed.run(7, |_| {});
        assert_eq!(changes, [PictureState::Gone]);
        assert_eq!(
            picture.unwrap().text,
            "gone for 7 s; the paths lose packets"
        );
        for (outage, is_connected, text) in [
            (
                Some(OutageCause::SourceGone),
                true,
                "the encoder sends nothing",
            ),
            (None, false, "the sender is away"),
        ] {
            (bed.outage, bed.is_connected) = (outage, is_connected);
            let (_, picture) = bed.run(1, |_| {});
            assert!(picture.unwrap().text.ends_with(text));
        }
        (bed.outage, bed.is_connected) = (None, true);
        assert_eq!(bed.run(1, receive).0, [PictureState::Fine]);
    }

    #[test]
    fn causes_are_named() {
        let mut out = Bed::new();
        out.seen.paths[1].view.state = PathState::Out;
        let (_, picture) = out.run(5, lose_a_tenth);
        assert!(picture.unwrap().text.ends_with("; out: wwan0"));

        let mut slow = Bed::new();
        slow.run(1, receive);
        slow.slow_seconds = 1;
        let (_, picture) = slow.run(5, lose_a_tenth);
        assert_eq!(picture.unwrap().cause, Some(PictureCause::Machine));

        let mut encoder = Bed::new();
        encoder.seen.target_bitrate = DataRate::from_megabits_per_second(1);
        let (_, picture) = encoder.run(5, |seen| {
            seen.session.frames_acked += 9;
            seen.session.frames_late += 1;
            seen.session.media_bytes_sent += 25_000;
        });
        assert_eq!(picture.unwrap().cause, Some(PictureCause::Encoder));
    }

    #[test]
    fn a_stream_by_another_protocol_lives_while_bytes_come() {
        let mut bed = Bed::new();
        bed.seen.session_kind = None;
        bed.heard_at = Some(Instant::ZERO);
        let (changes, picture) = bed.run(5, |_| {});
        assert_eq!(changes, [PictureState::Gone]);
        assert_eq!(picture.unwrap().cause, Some(PictureCause::Encoder));
        bed.heard_at = Some(bed.seen.at);
        assert_eq!(bed.run(1, |_| {}).0, [PictureState::Fine]);
    }
}
