//! Reports of an input that is silent, or is no video.

use anabranch_units::{Duration, Instant};
use anabranch_video::input::{InputKind, probe};

use super::rtp::RtpPacket;
use super::udp_url::NAME_INTERFACE;

/// Time after which silence is reported, or an input that never was MPEG-TS. A read waits for up to
/// 100 ms more.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// Observer of an input from outside.
#[derive(Debug)]
pub(super) struct InputWatch {
    name: String,
    /// Whether the input consists of datagrams, whose format is unknown at first. The format of
    /// streams is known on opening.
    is_of_datagrams: bool,
    /// Whether it is a multicast group at an interface that the system has chosen.
    joins_by_default: bool,
    /// Start of the silence.
    silent_since: Option<Instant>,
    has_heard: bool,
    is_silence_reported: bool,
    strange: Option<Strange>,
    is_known: bool,
}

/// Received bytes that are no MPEG-TS.
#[derive(Debug)]
struct Strange {
    since: Instant,
    is_reported: bool,
}

impl InputWatch {
    pub(super) fn new(name: String, is_of_datagrams: bool) -> Self {
        InputWatch {
            name,
            is_of_datagrams,
            joins_by_default: false,
            silent_since: None,
            has_heard: false,
            is_silence_reported: false,
            strange: None,
            is_known: !is_of_datagrams,
        }
    }

    /// Makes a report of silence name the parameters that choose a multicast group's interface.
    pub(super) fn hint_at_interface(&mut self) {
        self.joins_by_default = true;
    }

    /// Records that nothing arrives now. Returns a report, once for each silence.
    pub(super) fn on_nothing(&mut self, now: Instant) -> Option<String> {
        let since = *self.silent_since.get_or_insert(now);
        let waited = now.saturating_since(since);
        if self.is_silence_reported || waited < PATIENCE {
            return None;
        }
        self.is_silence_reported = true;
        let (name, seconds) = (&self.name, waited.as_secs_f64());
        Some(match (self.has_heard, self.is_of_datagrams) {
            (true, _) => format!("input {name}: nothing has come for {seconds:.1} s"),
            (false, true) if self.joins_by_default => format!(
                "input {name}: nothing has come yet; if the encoder runs and the group does not \
                 come by the interface of the default route, {NAME_INTERFACE}"
            ),
            (false, true) => format!(
                "input {name}: nothing has come yet; does the encoder run, and does it send to \
                 this address and port?"
            ),
            (false, false) => format!("input {name}: nothing has come yet"),
        })
    }

    /// Records received bytes. Returns a report if there is one.
    pub(super) fn on_bytes(&mut self, now: Instant, bytes: &[u8]) -> Option<String> {
        let silent_since = self.silent_since.take();
        self.has_heard = true;
        let is_back = core::mem::take(&mut self.is_silence_reported);
        if !self.is_known
            && let Some(text) = self.examine(now, bytes)
        {
            return Some(text);
        }
        let silence = now.saturating_since(silent_since?).as_secs_f64();
        is_back.then(|| format!("input {}: comes, after {silence:.1} s", self.name))
    }

    /// Records the start of a datagram that cannot be of the stream. Beside a stream it is no news.
    pub(super) fn on_left_out(&mut self, now: Instant, datagram: &[u8]) -> Option<String> {
        (!self.is_known).then(|| self.on_bytes(now, datagram))?
    }

    fn examine(&mut self, now: Instant, bytes: &[u8]) -> Option<String> {
        if probe(bytes) == InputKind::MpegTs {
            self.is_known = true;
            return None;
        }
        let strange = self.strange.get_or_insert(Strange {
            since: now,
            is_reported: false,
        });
        if strange.is_reported || now.saturating_since(strange.since) < PATIENCE {
            return None;
        }
        strange.is_reported = true;
        let what = match RtpPacket::parse(bytes) {
            Some(rtp) => format!(
                "RTP of payload type {}, without MPEG-TS in it",
                rtp.payload_type
            ),
            None => "no MPEG-TS".to_owned(),
        };
        Some(format!(
            "input {}: this is {what}, which is not sent: put ffmpeg in between, as in \
             `ffmpeg -i … -c copy -f mpegts udp://127.0.0.1:5000`",
            self.name
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn silence_and_its_end_are_reported_once() {
        let mut watch = InputWatch::new("udp://127.0.0.1:5000".to_owned(), true);
        let lines: Vec<String> = (0..60)
            .filter_map(|tick| watch.on_nothing(at(7_000 + 100 * tick)))
            .collect();
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains("udp://127.0.0.1:5000: nothing has come yet"));
        let mut fresh = InputWatch::new("standard input".to_owned(), false);
        assert_eq!(fresh.on_bytes(at(0), b"x"), None);
        // Until then nobody looked.
        assert_eq!(fresh.on_nothing(at(2_000)), None);
        assert_eq!(fresh.on_nothing(at(3_400)), None);
        let lines = fresh.on_nothing(at(3_600)).unwrap();
        assert!(lines.contains("nothing has come for 1.6 s"), "{lines}");
        let lines = fresh.on_bytes(at(4_000), b"x").unwrap();
        assert!(lines.contains("comes, after 2.0 s"), "{lines}");
        assert_eq!(fresh.on_bytes(at(4_010), b"x"), None);
    }

    #[test]
    fn silent_multicast_hints_at_the_interface() {
        let mut watch = InputWatch::new("udp://239.1.1.1:5000".to_owned(), true);
        watch.hint_at_interface();
        assert_eq!(watch.on_nothing(at(0)), None);
        let lines = watch.on_nothing(at(1_600)).unwrap();
        assert!(lines.contains("?iface=NAME"), "{lines}");
    }

    #[test]
    fn other_formats_are_identified() {
        let rtp = [&[0x80, 96][..], &[1; 400]].concat();
        for (datagram, part) in [
            (&rtp[..], "payload type 96"),
            (&[0xff; 500], "is no MPEG-TS"),
        ] {
            let mut watch = InputWatch::new("udp://127.0.0.1:5000".to_owned(), true);
            let lines: Vec<String> = (0..60)
                .filter_map(|tick| watch.on_bytes(at(100 * tick), datagram))
                .collect();
            assert_eq!(lines.len(), 1);
            assert!(lines[0].contains(part), "{lines:?}");
        }
        let mut watch = InputWatch::new("rtp://127.0.0.1:5000".to_owned(), true);
        let lines = (0..60).filter_map(|tick| watch.on_left_out(at(100 * tick), &rtp));
        assert_eq!(lines.count(), 1);
        let mut watch = InputWatch::new("udp://127.0.0.1:5000".to_owned(), true);
        let packets = [&[0x47][..], &[0; 187]].concat().repeat(7);
        for tick in 0..60 {
            // After MPEG-TS was seen, a datagram without it is the network's fault.
            let datagram = if tick == 1 {
                &packets[..]
            } else {
                &[0xff; 500]
            };
            assert_eq!(watch.on_bytes(at(100 * tick), datagram), None);
            assert_eq!(watch.on_left_out(at(100 * tick), &rtp), None);
        }
    }
}
