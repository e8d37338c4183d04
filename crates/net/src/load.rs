//! Loads of sessions, as their driver and the roles see them: frames, streams or datagrams.

use crate::session_parameters::SessionKind;
use anabranch_core::{
    Config, Content, Event as CoreEvent, Media, MediaSession, MtuDiscovery, Session,
};
use anabranch_units::{DataRate, Duration, Instant};

use crate::event::Event;
use crate::event_queue::EventSender;

/// The owner's side of one session.
pub(crate) trait Load: Send + 'static {
    /// The transport's part.
    type Content: Content + Send;

    /// Kind named in the handshake.
    const SESSION_KIND: SessionKind;

    /// Time for which a new session waits for the old one to speak: a network that is back brings
    /// both.
    const OLD_SESSION_GRACE: Duration;

    /// Whether a client waits for the return of a server that closes the session, and requests
    /// another.
    const OUTLIVES_SERVER: bool;

    /// Whether the kernel may hand over datagrams of one peer together, with one arrival time. True
    /// for loads whose control does not measure each arrival.
    const COALESCES: bool = false;

    /// Adapts the transport's set-up to paths with `header_bytes` of headers below a packet.
    fn prepare(config: &mut Config, header_bytes: u32);

    /// Does the same as [`prepare`](Self::prepare), at the end that accepts the session.
    fn prepare_server(_config: &mut Config, _header_bytes: u32) {}

    /// Keeps a session that this end has opened alive while there is nothing to send.
    fn keep_alive(session: &mut Session<Self::Content>);

    /// Continues the content of the session `before`, which the peer has lost, in `next` as far as
    /// possible.
    fn go_on(
        _now: Instant,
        _before: &mut Session<Self::Content>,
        _next: &mut Session<Self::Content>,
    ) {
    }

    /// Sets the delay that media may take beyond the fastest path's delay.
    fn set_latency(_session: &mut Session<Self::Content>, _latency: Duration) {}

    /// Returns the bitrate requested of the encoder, if there is one.
    fn target_bitrate(session: &Session<Self::Content>) -> DataRate;

    /// Takes arrived data and hands in data to be sent. Returns whether there may be new data to
    /// send. All events of the session have been reported before.
    fn exchange(&mut self, now: Instant, session: &mut Session<Self::Content>) -> bool;

    /// Returns when [`exchange`](Self::exchange) is due without new data, if it is.
    fn due_at(&self) -> Option<Instant> {
        None
    }

    /// Returns whether the owner may have handed in data since the last
    /// [`exchange`](Self::exchange).
    fn may_have_data(&self) -> bool {
        true
    }

    /// Handles an event of the transport that is not the driver's concern.
    fn on_event(&mut self, event: CoreEvent, events: &EventSender);

    /// Ends the load with its session.
    fn end(&mut self);
}

/// Frames: the owner hands them in by its own calls, and receives them as events.
#[derive(Debug, Default)]
pub(crate) struct Frames;

impl Load for Frames {
    type Content = Media;

    const SESSION_KIND: SessionKind = SessionKind::Frames;

    /// Twice the interval of challenges, and some time in flight: the old session has frames in
    /// flight.
    const OLD_SESSION_GRACE: Duration = Duration::from_millis(250);

    /// A receiver that leaves does not close the session: the transport continues without it.
    const OUTLIVES_SERVER: bool = false;

    fn prepare(config: &mut Config, header_bytes: u32) {
        config.mtu = Some(MtuDiscovery::of_internet(header_bytes));
        config.media.includes_send_times = true;
    }

    fn prepare_server(config: &mut Config, _: u32) {
        config.media.includes_send_times = true;
        // This holds even if it has sent frames itself: sessions belong to their senders.
        config.media.ends_with_peer = true;
    }

    fn keep_alive(session: &mut MediaSession) {
        session.keep_alive();
    }

    fn set_latency(session: &mut MediaSession, latency: Duration) {
        session.set_latency(latency);
    }

    fn target_bitrate(session: &MediaSession) -> DataRate {
        session.target_bitrate()
    }

    /// Sends frames that have not arrived again, if they can arrive in time.
    fn go_on(now: Instant, before: &mut MediaSession, next: &mut MediaSession) {
        next.go_on_from(now, before);
    }

    fn exchange(&mut self, _: Instant, _: &mut MediaSession) -> bool {
        false
    }

    fn may_have_data(&self) -> bool {
        false
    }

    fn on_event(&mut self, event: CoreEvent, events: &EventSender) {
        match event {
            CoreEvent::FrameReceived(frame) => events.emit(Event::FrameReceived(frame)),
            CoreEvent::FramePart(part) => events.emit(Event::FramePart(part)),
            CoreEvent::FrameDropped { id, reason } => {
                events.emit(Event::FrameDropped { id, reason });
            }
            CoreEvent::TargetBitrate(target) => events.emit(Event::TargetBitrate(target)),
            _ => {}
        }
    }

    fn end(&mut self) {}
}
