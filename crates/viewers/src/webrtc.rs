//! Viewers by WebRTC, sans-IO: each has made an offer by WHEP (draft-ietf-wish-whep), and gets a
//! stream's pictures as they are coded, and its sound if it is Opus.
//!
//! This end is an ICE-lite agent (RFC 8445 §2.5): it answers checks and makes none. A viewer begins
//! at the next key picture; its requests for one (PLI) are answered by the encoder's own rhythm.

use core::time::Duration as StdDuration;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use anabranch_units::{Duration, Instant};
use data_encoding::HEXLOWER;
use ring::rand::{SecureRandom, SystemRandom};
use str0m::change::SdpOffer;
use str0m::config::DtlsCert;
use str0m::crypto::{CryptoProvider, from_feature_flags};
use str0m::format::{Codec, PayloadParams};
use str0m::media::{Frequency, MediaTime, Mid, Pt};
use str0m::net::{DatagramSend, Protocol, Receive};
use str0m::{Candidate, Event, IceConnectionState, Input, Output, Rtc, RtcConfig};

use crate::refusal::Refusal;
use crate::samples::{Format, Kind, Sample};
use crate::sound::Sound;
use anabranch_video::mpeg_ts::TICKS_PER_SECOND;

/// Most viewers of one stream by WebRTC (chosen: 6 Mbit/s each are 48 Mbit/s).
pub const MAX_VIEWERS_OF_STREAM: usize = 8;
/// Most viewers of all streams by WebRTC (chosen).
pub const MAX_VIEWERS: usize = 32;
/// Maximum length of an offer in bytes. Browsers write 6 kB.
pub const MAX_OFFER_LEN: usize = 64 << 10;
/// Longest time from an offer to its connection (chosen: a browser's own checks last 30 s, and
/// over a usable path a second).
const CONNECT_WITHIN: Duration = Duration::from_secs(15);
/// Part of each answer (RFC 6184 §8.2.1) that has pictures.
const H264_LINE: &str = " H264/90000";
/// Packets that are kept for a viewer's requests: a second of 6 Mbit/s.
const KEPT_PACKETS: usize = 1_000;

/// Name of a viewer, which only the viewer knows: 128 random bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewerId(String);

impl ViewerId {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A request for a stream.
#[derive(Clone, Debug)]
pub struct Offer<'a> {
    /// Name of the stream.
    pub stream: &'a Arc<str>,
    /// Format of the stream.
    pub format: &'a Format,
    /// The offer (SDP).
    pub sdp: &'a str,
    /// Addresses by which the viewer may reach this end; the first is that of the socket.
    pub addresses: &'a [SocketAddr],
}

/// A datagram that is to be sent.
pub struct Outgoing {
    /// Address of the socket.
    pub source: SocketAddr,
    /// Address of the viewer.
    pub destination: SocketAddr,
    /// Bytes of the datagram.
    pub bytes: DatagramSend,
}

/// All viewers by WebRTC.
pub struct Peers {
    origin: std::time::Instant,
    crypto: Arc<CryptoProvider>,
    certificate: Option<DtlsCert>,
    peers: Vec<Peer>,
    outgoing: VecDeque<Outgoing>,
}

/// A line of media that a viewer has asked for.
#[derive(Clone, Copy, Debug)]
struct Line {
    mid: Mid,
    payload_type: Pt,
}

/// One viewer.
struct Peer {
    id: ViewerId,
    stream: Arc<str>,
    rtc: Rtc,
    /// Address of its socket.
    local: SocketAddr,
    video: Option<Line>,
    sound: Option<Line>,
    is_connected: bool,
    awaits_key: bool,
    made_at: Instant,
    /// Time of the next turn.
    next_at: Instant,
    is_over: bool,
}

impl Peers {
    /// Creates the set without viewers. Instants count from `origin`.
    pub fn new(origin: std::time::Instant) -> Self {
        let crypto = from_feature_flags();
        let certificate = crypto.dtls_provider.generate_certificate();
        Peers {
            origin,
            crypto: Arc::new(crypto),
            certificate,
            peers: Vec::new(),
            outgoing: VecDeque::new(),
        }
    }

    /// Returns the number of a stream's viewers.
    pub fn count_of(&self, stream: &str) -> usize {
        let of = self.peers.iter().filter(|peer| &*peer.stream == stream);
        of.count()
    }

    /// Takes a viewer's offer. Returns its name and the answer (SDP).
    ///
    /// # Errors
    /// There are too many viewers, or the offer does not fit the stream.
    pub fn accept(
        &mut self,
        now: Instant,
        offer: &Offer<'_>,
    ) -> Result<(ViewerId, String), Refusal> {
        let is_full = self.count_of(offer.stream) >= MAX_VIEWERS_OF_STREAM;
        if is_full || self.peers.len() >= MAX_VIEWERS {
            return Err(Refusal::TooMany);
        }
        if offer.sdp.len() > MAX_OFFER_LEN {
            return Err(Refusal::BadOffer);
        }
        // The parsers are another's, and the bytes a stranger's.
        let made = catch_unwind(AssertUnwindSafe(|| self.negotiate(now, offer)));
        let (mut peer, answer) = made.unwrap_or(Err(Refusal::BadOffer))?;
        // The lines of media are known to the library when the viewer has connected.
        if !answer.contains(H264_LINE) {
            return Err(Refusal::BadOffer);
        }
        peer.drain(self.origin, &mut self.outgoing);
        let id = peer.id.clone();
        self.peers.push(peer);
        Ok((id, answer))
    }

    fn negotiate(&self, now: Instant, offer: &Offer<'_>) -> Result<(Peer, String), Refusal> {
        let sdp = SdpOffer::from_sdp_string(offer.sdp).map_err(|_| Refusal::BadOffer)?;
        // A line of sound without a common codec is an error to some players: one without sound is
        // silent instead.
        let mut config = RtcConfig::new()
            .set_crypto_provider(Arc::clone(&self.crypto))
            .set_ice_lite(true)
            .clear_codecs()
            .enable_h264(true)
            .enable_opus(true, false)
            .set_send_buffer_video(KEPT_PACKETS);
        if let Some(certificate) = &self.certificate {
            config = config.set_dtls_cert(certificate.clone());
        }
        let mut rtc = config.build(self.std(now));
        for address in offer.addresses {
            let candidate = Candidate::host(*address, "udp").map_err(|_| Refusal::NoAddress)?;
            rtc.add_local_candidate(candidate);
        }
        let local = *offer.addresses.first().ok_or(Refusal::NoAddress)?;
        let answer = rtc
            .sdp_api()
            .accept_offer(sdp)
            .map_err(|_| Refusal::BadOffer)?;
        let peer = Peer {
            id: new_id()?,
            stream: Arc::clone(offer.stream),
            rtc,
            local,
            video: None,
            sound: None,
            is_connected: false,
            awaits_key: true,
            made_at: now,
            next_at: now,
            is_over: false,
        };
        Ok((peer, answer.to_sdp_string()))
    }

    /// Ends a viewer. Returns whether there was one of this name.
    pub fn end(&mut self, id: &str) -> bool {
        let Some(at) = self.peers.iter().position(|peer| peer.id.0 == id) else {
            return false;
        };
        let mut peer = self.peers.swap_remove(at);
        peer.close(self.origin, &mut self.outgoing);
        true
    }

    /// Ends all viewers of a stream.
    pub fn end_all_of(&mut self, stream: &str) {
        let (gone, others) = self
            .peers
            .drain(..)
            .partition(|peer: &Peer| &*peer.stream == stream);
        self.peers = others;
        let gone: Vec<Peer> = gone;
        for mut peer in gone {
            peer.close(self.origin, &mut self.outgoing);
        }
    }

    /// Takes a datagram that has come to the socket at `local`. Strangers' are dropped.
    pub fn receive(&mut self, now: Instant, local: SocketAddr, source: SocketAddr, bytes: &[u8]) {
        let at = self.std(now);
        for peer in self.peers.iter_mut().filter(|peer| peer.local == local) {
            let rtc = &mut peer.rtc;
            let taken = catch_unwind(AssertUnwindSafe(|| {
                let Ok(receive) = Receive::new(Protocol::Udp, source, local, bytes) else {
                    return Ok(false);
                };
                let input = Input::Receive(at, receive);
                if !rtc.accepts(&input) {
                    return Ok(false);
                }
                rtc.handle_input(input).map(|()| true)
            }));
            match taken {
                Ok(Ok(false)) => continue,
                Ok(Ok(true)) => peer.drain(self.origin, &mut self.outgoing),
                Ok(Err(_)) | Err(_) => peer.is_over = true,
            }
            break;
        }
        self.remove_gone();
    }

    /// Sends a sample to the viewers of its stream.
    pub fn write(&mut self, now: Instant, stream: &str, sample: &Sample) {
        let at = self.std(now);
        for peer in &mut self.peers {
            if *peer.stream == *stream {
                peer.write(at, sample);
                peer.drain(self.origin, &mut self.outgoing);
            }
        }
        self.remove_gone();
    }

    /// Leaves pictures out for all viewers of a stream up to the next key picture.
    pub fn await_key(&mut self, stream: &str) {
        for peer in &mut self.peers {
            if *peer.stream == *stream {
                peer.awaits_key = true;
            }
        }
    }

    /// Takes the turns that are due.
    pub fn on_time(&mut self, now: Instant) {
        let at = self.std(now);
        for peer in self.peers.iter_mut().filter(|peer| peer.next_at <= now) {
            peer.is_over |= !peer.is_connected && now >= peer.made_at + CONNECT_WITHIN;
            peer.guard(|rtc| rtc.handle_input(Input::Timeout(at)).is_ok());
            peer.drain(self.origin, &mut self.outgoing);
        }
        self.remove_gone();
    }

    /// Returns the time of the next turn.
    pub fn next_at(&self) -> Option<Instant> {
        self.peers.iter().map(|peer| peer.next_at).min()
    }

    /// Takes a datagram that is to be sent.
    pub fn next_outgoing(&mut self) -> Option<Outgoing> {
        self.outgoing.pop_front()
    }

    fn remove_gone(&mut self) {
        self.peers.retain(|peer| !peer.is_over);
    }

    fn std(&self, at: Instant) -> std::time::Instant {
        self.origin + StdDuration::from_nanos(at.as_nanos())
    }
}

impl Peer {
    /// Calls the library, which handles bytes of strangers. If it fails, the viewer is over.
    fn guard(&mut self, call: impl FnOnce(&mut Rtc) -> bool) {
        let rtc = &mut self.rtc;
        let is_well = catch_unwind(AssertUnwindSafe(|| call(rtc))).unwrap_or(false);
        self.is_over |= !is_well;
    }

    fn write(&mut self, at: std::time::Instant, sample: &Sample) {
        let line = match sample.kind {
            Kind::Picture => self.video,
            Kind::Sound(Sound::Opus { .. }) => self.sound,
            Kind::Sound(Sound::Aac { .. }) => None,
        };
        if !self.is_connected {
            return;
        }
        let Some(Line { mid, payload_type }) = line else {
            return;
        };
        if self.awaits_key && !sample.is_key {
            return;
        }
        self.awaits_key = false;
        let time = match sample.kind {
            Kind::Picture => MediaTime::from_90khz(sample.presented_at),
            Kind::Sound(_) => {
                let ticks = sample.presented_at * 48_000 / TICKS_PER_SECOND;
                MediaTime::new(ticks, Frequency::FORTY_EIGHT_KHZ)
            }
        };
        let bytes = Arc::clone(&sample.bytes);
        self.guard(|rtc| {
            let writer = rtc.writer(mid);
            writer.is_some_and(|writer| writer.write(payload_type, at, time, bytes).is_ok())
        });
    }

    /// Takes all that the library has to say.
    fn drain(&mut self, origin: std::time::Instant, outgoing: &mut VecDeque<Outgoing>) {
        while !self.is_over {
            let mut polled = None;
            self.guard(|rtc| match rtc.poll_output() {
                Ok(output) => {
                    polled = Some(output);
                    true
                }
                Err(_) => false,
            });
            match polled {
                Some(Output::Timeout(at)) => {
                    let after = at.saturating_duration_since(origin);
                    self.next_at = Instant::ZERO + Duration::from_std(after);
                    if !self.is_connected {
                        self.next_at = self.next_at.min(self.made_at + CONNECT_WITHIN);
                    }
                    break;
                }
                Some(Output::Transmit(transmit)) => outgoing.push_back(Outgoing {
                    source: self.local,
                    destination: transmit.destination,
                    bytes: transmit.contents,
                }),
                Some(Output::Event(event)) => self.on_event(&event),
                None => break,
            }
        }
        self.is_over |= !self.rtc.is_alive();
    }

    fn on_event(&mut self, event: &Event) {
        match event {
            Event::Connected => self.is_connected = true,
            Event::IceConnectionStateChange(IceConnectionState::Disconnected) => {
                self.is_over = true;
            }
            Event::MediaAdded(added) if added.direction.is_sending() => {
                let mid = added.mid;
                let Some(writer) = self.rtc.writer(mid) else {
                    return;
                };
                let params: Vec<PayloadParams> = writer.payload_params().copied().collect();
                let (line, payload_type) = if added.kind.is_audio() {
                    let opus = params.iter().find(|it| it.spec().codec == Codec::Opus);
                    (&mut self.sound, opus.map(PayloadParams::pt))
                } else {
                    (&mut self.video, h264_of(&params))
                };
                *line = line.or(payload_type.map(|payload_type| Line { mid, payload_type }));
            }
            _ => {}
        }
    }

    fn close(&mut self, origin: std::time::Instant, outgoing: &mut VecDeque<Outgoing>) {
        self.guard(|rtc| rtc.close().is_ok());
        self.drain(origin, outgoing);
    }
}

/// Returns the payload type of H.264 in packets that may hold parts of a NAL unit. Decoders of
/// browsers decode all profiles that they decode at all, whatever the type's profile.
fn h264_of(params: &[PayloadParams]) -> Option<Pt> {
    let h264 = params.iter().filter(|it| it.spec().codec == Codec::H264);
    let mut with_parts = h264.filter(|it| it.spec().format.packetization_mode == Some(1));
    with_parts.next().map(PayloadParams::pt)
}

/// Returns a new name.
fn new_id() -> Result<ViewerId, Refusal> {
    let mut bytes = [0; 16];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Refusal::TooMany)?;
    Ok(ViewerId(HEXLOWER.encode(&bytes)))
}

#[cfg(test)]
mod tests;
