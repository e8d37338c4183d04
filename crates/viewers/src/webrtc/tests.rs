//! Viewers of the same library, in virtual time.

use anabranch_video::mpeg_ts::VideoCodec;
use anabranch_video::parameters::Parameters;
use str0m::change::SdpAnswer;
use str0m::media::{Direction, MediaKind};

use super::*;

const OURS: &str = "192.0.2.1:8080";
const THEIRS: &str = "192.0.2.2:9";

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn format() -> Format {
    Format {
        video: Some(VideoCodec::H264),
        parameters: Some(Parameters {
            sps: vec![0x67, 0x42, 0xc0, 0x1e],
            pps: vec![0x68, 0xce],
            width: 640,
            height: 360,
        }),
        sound: Some(Sound::Opus { channels: 2 }),
        ..Format::default()
    }
}

/// Returns the picture of this number: every fifth is a key picture.
fn picture(number: u64) -> Sample {
    let is_key = number.is_multiple_of(5);
    let slice = if is_key { 0x65 } else { 0x41 };
    let mut bytes = vec![0, 0, 0, 1, slice, number as u8];
    bytes.resize(3_000, 0xaa);
    if is_key {
        let parameters = [0, 0, 0, 1, 0x67, 0x42, 0xc0, 0x1e, 0, 0, 0, 1, 0x68, 0xce];
        bytes.splice(0..0, parameters);
    }
    Sample {
        kind: Kind::Picture,
        bytes: bytes.into(),
        presented_at: number * 3_600,
        decoded_at: number * 3_600,
        is_key,
        epoch: 0,
    }
}

/// A viewer, and this end's viewers.
struct Both {
    now: Instant,
    peers: Peers,
    viewer: Rtc,
    next_at: Instant,
    /// Second byte of each picture's slice.
    pictures: Vec<u8>,
    sounds: usize,
}

impl Both {
    #[allow(
        clippy::disallowed_methods,
        reason = "the library counts from a real instant"
    )]
    fn new() -> Both {
        let origin = std::time::Instant::now();
        let mut viewer = RtcConfig::new()
            .set_crypto_provider(Arc::new(from_feature_flags()))
            .build(origin);
        let candidate = Candidate::host(address(THEIRS), "udp").unwrap();
        viewer.add_local_candidate(candidate);
        Both {
            now: Instant::ZERO,
            peers: Peers::new(origin),
            viewer,
            next_at: Instant::ZERO,
            pictures: Vec::new(),
            sounds: 0,
        }
    }

    /// Offers to watch the stream `van`. Returns the viewer's name.
    fn offer(&mut self) -> Result<ViewerId, Refusal> {
        let mut changes = self.viewer.sdp_api();
        for kind in [MediaKind::Video, MediaKind::Audio] {
            changes.add_media(kind, Direction::RecvOnly, None, None, None);
        }
        let (offer, pending) = changes.apply().unwrap();
        let (id, answer) = accept(&mut self.peers, self.now, &offer.to_sdp_string())?;
        let answer = SdpAnswer::from_sdp_string(&answer).unwrap();
        self.viewer
            .sdp_api()
            .accept_answer(pending, answer)
            .unwrap();
        Ok(id)
    }

    /// Lets time pass in steps, and carries all datagrams in between.
    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.now < end {
            self.carry();
            self.now += Duration::from_millis(5);
            self.peers.on_time(self.now);
            if self.next_at <= self.now {
                let at = self.peers.std(self.now);
                self.viewer.handle_input(Input::Timeout(at)).unwrap();
            }
        }
        self.carry();
    }

    fn carry(&mut self) {
        let mut theirs = self.drain();
        loop {
            let at = self.peers.std(self.now);
            if let Some(outgoing) = self.peers.next_outgoing() {
                assert_eq!(outgoing.source, address(OURS));
                let (to, bytes) = (outgoing.destination, &outgoing.bytes);
                let receive = Receive::new(Protocol::Udp, outgoing.source, to, bytes);
                let input = Input::Receive(at, receive.unwrap());
                self.viewer.handle_input(input).unwrap();
                theirs.extend(self.drain());
            } else if theirs.is_empty() {
                return;
            }
            for (to, bytes) in theirs.drain(..) {
                self.peers.receive(self.now, to, address(THEIRS), &bytes);
            }
        }
    }

    /// Takes the viewer's datagrams and pictures.
    fn drain(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut datagrams = Vec::new();
        loop {
            match self.viewer.poll_output().unwrap() {
                Output::Timeout(at) => {
                    let after = at.saturating_duration_since(self.peers.origin);
                    self.next_at = Instant::ZERO + Duration::from_std(after);
                    return datagrams;
                }
                Output::Transmit(transmit) => {
                    datagrams.push((transmit.destination, transmit.contents.to_vec()));
                }
                Output::Event(Event::MediaData(data)) => match data.params.spec().codec {
                    Codec::Opus => self.sounds += 1,
                    _ => self.pictures.push(last_slice(&data.data)),
                },
                Output::Event(_) => {}
            }
        }
    }
}

/// Returns the number in the last NAL unit, its second byte.
fn last_slice(annex_b: &[u8]) -> u8 {
    let units = anabranch_video::parameters::nal_units(annex_b);
    units.last().unwrap()[1]
}

fn accept(peers: &mut Peers, now: Instant, sdp: &str) -> Result<(ViewerId, String), Refusal> {
    let (stream, format) = ("van".into(), format());
    peers.accept(
        now,
        &Offer {
            stream: &stream,
            format: &format,
            sdp,
            addresses: &[address(OURS)],
        },
    )
}

#[test]
fn a_viewer_begins_at_a_key_picture_and_misses_none() {
    let mut both = Both::new();
    both.offer().unwrap();
    both.run(Duration::from_secs(2));
    for number in 3..20 {
        both.peers.write(both.now, "van", &picture(number));
        both.peers.write(both.now, "other", &picture(number));
        both.run(Duration::from_millis(40));
    }
    both.run(Duration::from_secs(1));
    assert_eq!(both.pictures, (5..20).collect::<Vec<u8>>());
    both.peers.await_key("van");
    for number in 21..27 {
        both.peers.write(both.now, "van", &picture(number));
        both.run(Duration::from_millis(40));
    }
    both.run(Duration::from_secs(1));
    assert_eq!(both.pictures[15..], [25, 26]);
}

#[test]
fn sound_of_opus_comes_along() {
    let mut both = Both::new();
    both.offer().unwrap();
    both.run(Duration::from_secs(2));
    both.peers.write(both.now, "van", &picture(0));
    for number in 0..10 {
        let sound = Sample {
            kind: Kind::Sound(Sound::Opus { channels: 2 }),
            bytes: [0xfc, 1, 2, 3].as_slice().into(),
            is_key: false,
            ..picture(number)
        };
        both.peers.write(both.now, "van", &sound);
        both.run(Duration::from_millis(20));
    }
    both.run(Duration::from_secs(1));
    assert!(both.sounds >= 8, "{}", both.sounds);
}

#[test]
fn a_viewer_that_ends_makes_room_and_gets_nothing_more() {
    let mut both = Both::new();
    let id = both.offer().unwrap();
    both.run(Duration::from_secs(2));
    assert_eq!(both.peers.count_of("van"), 1);
    assert!(!both.peers.end("0123"));
    assert!(both.peers.end(id.as_str()));
    assert!(!both.peers.end(id.as_str()));
    both.run(Duration::from_secs(1));
    both.peers.write(both.now, "van", &picture(0));
    assert!(both.peers.next_outgoing().is_none());
    assert_eq!(both.peers.next_at(), None);
}

#[test]
fn a_viewer_that_never_connects_is_forgotten_and_all_are_bounded() {
    let mut both = Both::new();
    both.offer().unwrap();
    let mut changes = both.viewer.sdp_api();
    changes.add_media(MediaKind::Video, Direction::RecvOnly, None, None, None);
    let offer = changes.apply().unwrap().0.to_sdp_string();
    for _ in 1..MAX_VIEWERS_OF_STREAM {
        accept(&mut both.peers, both.now, &offer).unwrap();
    }
    let more = accept(&mut both.peers, both.now, &offer);
    assert_eq!(more.unwrap_err(), Refusal::TooMany);
    let later = both.now + CONNECT_WITHIN;
    both.peers.on_time(later);
    assert_eq!(both.peers.count_of("van"), 0);
}

#[test]
fn offers_of_strangers_are_refused_in_words() {
    let mut both = Both::new();
    let mut changes = both.viewer.sdp_api();
    changes.add_media(MediaKind::Audio, Direction::RecvOnly, None, None, None);
    let of_sound = changes.apply().unwrap().0.to_sdp_string();
    let long = "a".repeat(MAX_OFFER_LEN + 1);
    for sdp in ["", "v=0\r\n", "m=video", &of_sound, &long] {
        let refused = accept(&mut both.peers, both.now, sdp);
        assert_eq!(refused.unwrap_err(), Refusal::BadOffer, "{sdp}");
    }
    assert_eq!(both.peers.next_at(), None);
}

proptest::proptest! {
    #[test]
    fn damaged_offers_and_datagrams_do_no_harm(
        at in 0_usize..4_000, with in "\\PC{0,8}", cut in 0_usize..200, bytes: Vec<u8>,
    ) {
        let mut both = Both::new();
        let mut changes = both.viewer.sdp_api();
        changes.add_media(MediaKind::Video, Direction::RecvOnly, None, None, None);
        let mut offer = changes.apply().unwrap().0.to_sdp_string();
        let mut begin = at % offer.len();
        while !offer.is_char_boundary(begin) {
            begin -= 1;
        }
        let end = (begin + cut).min(offer.len());
        if offer.is_char_boundary(end) {
            offer.replace_range(begin..end, &with);
        }
        let _ = accept(&mut both.peers, both.now, &offer);
        both.peers.receive(both.now, address(OURS), address(THEIRS), &bytes);
        both.peers.on_time(Instant::from_secs(1));
        while both.peers.next_outgoing().is_some() {}
    }
}
