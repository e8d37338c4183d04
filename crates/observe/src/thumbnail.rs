//! `/thumbnail`: the last key frame of a stream at a small size. Key frames are kept only while
//! clients request them. Each stream's are decoded at most once a second, by a separate process
//! ([`super::drawing`]).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch_net::Clock;
use anabranch_units::{Duration, Instant};
use hyper::body::Bytes;

/// Time after a request in which key frames are kept.
const WANTED_FOR: Duration = Duration::from_secs(10);
/// Maximum age of a picture before it is decoded again.
#[cfg(feature = "codec")]
const FRESH_FOR: Duration = Duration::from_secs(1);
/// Function that decodes a transport stream unit into a picture.
#[cfg(feature = "codec")]
type Draw = fn(&Clock, &[u8]) -> Option<Vec<u8>>;

/// Last key frame of each stream.
#[derive(Debug)]
pub(super) struct KeyFrames {
    clock: Clock,
    kept: Mutex<Kept>,
    #[cfg(feature = "codec")]
    draw: Draw,
}

#[derive(Debug, Default)]
struct Kept {
    asked_at: Option<Instant>,
    of_streams: BTreeMap<String, KeyFrame>,
}

/// Last key frame of a stream.
#[derive(Debug, Default)]
struct KeyFrame {
    /// Transport stream unit; none if it was decoded.
    unit: Option<Vec<u8>>,
    #[cfg_attr(not(feature = "codec"), allow(dead_code, reason = "without decoder"))]
    drawn_at: Option<Instant>,
    #[cfg_attr(not(feature = "codec"), allow(dead_code, reason = "without decoder"))]
    picture: Option<Bytes>,
}

/// Reason for a missing picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPicture {
    /// This program has no decoder.
    #[cfg_attr(feature = "codec", allow(dead_code, reason = "it can"))]
    NoDecoder,
    /// No key frame has arrived since the request, or it is not H.264.
    NotYet,
}

impl KeyFrames {
    pub(super) fn new(clock: Clock) -> Self {
        KeyFrames {
            clock,
            kept: Mutex::default(),
            #[cfg(feature = "codec")]
            draw: super::drawing::draw,
        }
    }

    /// Records that a key frame of the stream arrived.
    pub(super) fn on_key_frame(&self, stream: &str, unit: &[u8]) {
        let now = self.clock.now();
        let mut kept = self.lock();
        if kept
            .asked_at
            .is_none_or(|asked_at| now.saturating_since(asked_at) >= WANTED_FOR)
        {
            kept.of_streams.clear();
            return;
        }
        let key_frame = kept.of_streams.entry(stream.to_owned()).or_default();
        key_frame.unit = Some(unit.to_vec());
    }

    /// Returns the stream's picture as a portable pixmap (PPM, `P6`). It may take as long as the
    /// decoding, but streams do not wait for it.
    #[cfg(feature = "codec")]
    pub(super) fn picture(&self, stream: &str) -> Result<Bytes, NoPicture> {
        if let Some(unit) = self.undrawn(stream)
            && let Some(picture) = (self.draw)(&self.clock, &unit)
            && let Some(key_frame) = self.lock().of_streams.get_mut(stream)
        {
            // If a key frame cannot be decoded, the previous picture is kept.
            key_frame.picture = Some(picture.into());
        }
        let kept = self.lock();
        let picture = kept
            .of_streams
            .get(stream)
            .and_then(|of| of.picture.clone());
        picture.ok_or(NoPicture::NotYet)
    }

    /// Takes the stream's last key frame, if it is time to decode it.
    #[cfg(feature = "codec")]
    fn undrawn(&self, stream: &str) -> Option<Vec<u8>> {
        let now = self.clock.now();
        let mut kept = self.lock();
        kept.asked_at = Some(now);
        let key_frame = kept.of_streams.get_mut(stream)?;
        if key_frame
            .drawn_at
            .is_some_and(|at| now.saturating_since(at) < FRESH_FOR)
        {
            return None;
        }
        let unit = key_frame.unit.take()?;
        key_frame.drawn_at = Some(now);
        Some(unit)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an error, because this build has no decoder.
    #[cfg(not(feature = "codec"))]
    pub(super) fn picture(&self, _: &str) -> Result<Bytes, NoPicture> {
        Err(NoPicture::NoDecoder)
    }
}

#[cfg(all(test, feature = "codec"))]
mod tests {
    use super::*;

    #[test]
    fn frames_are_kept_only_while_somebody_asks() {
        let mut key_frames = KeyFrames::new(Clock::start());
        key_frames.draw = |_, _| None;
        key_frames.on_key_frame("camera", b"unit");
        assert_eq!(key_frames.lock().of_streams.len(), 0);
        assert_eq!(key_frames.picture("camera"), Err(NoPicture::NotYet));
        key_frames.on_key_frame("camera", b"unit");
        assert_eq!(key_frames.lock().of_streams.len(), 1);
        // The unit is no picture.
        assert_eq!(key_frames.picture("camera"), Err(NoPicture::NotYet));
    }
}
