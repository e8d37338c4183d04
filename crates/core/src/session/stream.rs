//! Sessions of streams: bytes in, segments over paths, the same bytes out.

mod acknowledgements;
mod answers;
mod keep_alive;
mod moves;
mod mtu;
mod placement;
mod queue;
mod reinjection;
mod schedule;
mod segments;
mod timers;
mod verbs;

use anabranch_units::{DataRate, Duration, Instant};

use super::Session;
use super::content::{Context, Hooks, Surroundings, Written};
use super::next_timer::{NextTimer, Timer};
use super::output::Output;
use crate::config::{Config, ConfigError, StreamConfig};
use crate::copies::CopyAllowance;
#[cfg(any(debug_assertions, feature = "invariants"))]
use crate::invariants::Checker;
use crate::path::Path;
use crate::path_view::{PathId, PathView};
use crate::recovery::{Digest, LossDetection, PacketContent, SentPacket};
use crate::reinjection::{Reinjection, Reinjector};
use crate::send_reason::SendReason;
use crate::stream::{
    Chunk, Copy, DuplicateAcks, ReceiveStream, RetransmissionTimer, SendStream, TailLossProbe,
};
use crate::wire::{self, WireFrame};
use schedule::SegmentQueue;

/// A session of streams: a reliable stream of bytes, each way.
pub type StreamSession = Session<Stream>;

/// Both directions of a stream session at one end.
#[derive(Debug)]
pub struct Stream {
    /// By path.
    paths: Vec<StreamPath>,
    /// Time to announce that the peer's window keeps bytes back, and the wait after that.
    blocked_at: Option<Instant>,
    says_blocked: bool,
    /// Whether the peer wants its packets reported, not just the stream's offset.
    is_packet_feedback_wanted: bool,
    /// Whether a window update is due without an acknowledgement.
    is_window_due: bool,
    /// Whether the application knows that there is something to read.
    is_readable_reported: bool,
    is_finish_reported: bool,
    /// Whether idle paths are asked for signs of life.
    is_kept_alive: bool,
    send: SendStream,
    /// Account of copies of segments that are not overdue.
    copies: CopyAllowance,
    /// Number of bytes that the application will write once there is room.
    further_bytes: u64,
    blocked_wait: Duration,
    /// The configured reinjector, if any.
    reinjector: Option<Box<dyn Reinjector>>,
    /// Data of the segment that is being written.
    sending: Option<Chunk>,
    /// Packets that a cumulative acknowledgement settles.
    settled: Vec<Copy>,
    /// Which path carries what; `None` while there is one, which carries all.
    queue: Option<Box<SegmentQueue>>,
    config: StreamConfig,
    receive: ReceiveStream,
}

/// State of one path at a stream's sending end.
#[derive(Debug)]
struct StreamPath {
    probe: TailLossProbe,
    /// Whether one retransmission may leave whatever the window says: the first of a recovery.
    is_urgent: bool,
    timer: RetransmissionTimer,
    /// The last packet that carried a segment not for the first time.
    newest_resent: Option<u64>,
    /// Duplicate acknowledgements, used by `tcp-cumulative` only.
    duplicate_acks: DuplicateAcks,
}

impl Stream {
    /// Begins the state of a path that is new or takes the number of another.
    fn begin_path(&mut self, id: PathId) {
        let path = StreamPath {
            timer: RetransmissionTimer::new(&self.config),
            duplicate_acks: DuplicateAcks::default(),
            probe: TailLossProbe::default(),
            is_urgent: false,
            newest_resent: None,
        };
        match self.paths.get_mut(id.index()) {
            Some(replaced) => *replaced = path,
            None => {
                self.paths.reserve_exact(1);
                self.paths.push(path);
            }
        }
    }
}

impl Hooks for Stream {
    const IS_MEDIA: bool = false;

    fn new(config: &Config, _now: Instant) -> Result<Self, ConfigError> {
        config.check_stream()?;
        let own = &config.stream;
        Ok(Stream {
            send: SendStream::new(own, config.fragment_bytes),
            receive: ReceiveStream::new(own, config.laboratory.keeps_bytes),
            paths: Vec::new(),
            further_bytes: 0,
            copies: CopyAllowance::STREAM,
            reinjector: match &own.reinjection {
                Reinjection::By(factory) => Some(factory.build()),
                Reinjection::Off | Reinjection::Tail => None,
            },
            sending: None,
            blocked_at: None,
            blocked_wait: own.initial_retransmission_timeout,
            says_blocked: false,
            // Before the first segment only questions for the path's distance are sent.
            is_packet_feedback_wanted: true,
            is_window_due: false,
            is_readable_reported: false,
            is_finish_reported: false,
            is_kept_alive: false,
            settled: Vec::new(),
            queue: None,
            config: own.clone(),
        })
    }

    fn max_paths(config: &Config) -> usize {
        match config.loss_detection(false) {
            // It learns the stream's offset alone, which does not say which path lost a packet.
            LossDetection::TcpCumulative => 1,
            _ => PathId::LIMIT,
        }
    }

    fn header_bytes(&self) -> u32 {
        wire::SEGMENT_HEADER_BYTES as u32
    }

    fn max_rate(&self, config: &Config) -> DataRate {
        config.max_rate.unwrap_or(DataRate::MAX)
    }

    fn on_path_added(&mut self, ctx: &mut Context<'_>, id: PathId) {
        self.begin_path(id);
        self.bind_to_several(ctx);
    }

    fn on_path_changed(&mut self, ctx: &mut Context<'_>, id: PathId) {
        if let Some(queue) = &mut self.queue {
            queue
                .binding
                .on_path_changed(ctx.now, &ctx.paths[id.index()]);
        }
    }

    fn take_back(&mut self, paths: &mut [Path], id: PathId) {
        for packet in paths[id.index()].unbind_all() {
            self.send.on_taken_back(packet.frame.0, packet.reason);
        }
        self.request_scheduling();
    }

    fn mark_views(&self, paths: &[Path], views: &mut [PathView]) {
        self.hold_unanswered(paths, views);
    }

    fn on_frame(&mut self, ctx: &mut Context<'_>, on: PathId, frame: WireFrame<'_>) -> bool {
        match frame {
            WireFrame::Segment { header, payload } => {
                return self.on_segment(ctx, on, header, payload);
            }
            WireFrame::StreamAck {
                offset,
                window,
                is_prompted,
            } => self.on_stream_ack(ctx, on, offset, window, is_prompted),
            WireFrame::StreamBlocked => self.is_window_due = true,
            _ => ctx.output.counters.malformed_datagrams += 1,
        }
        true
    }

    fn on_report(&mut self, ctx: &mut Context<'_>, about: PathId, digest: &Digest) {
        self.record_report(ctx, about, digest);
    }

    fn act_on_report(&mut self, ctx: &mut Context<'_>, about: PathId, digest: &Digest) {
        self.resend(ctx.now, about, digest, SendReason::Lost);
        self.on_stream_feedback(ctx, about, digest);
    }

    fn on_losses(
        &mut self,
        ctx: &mut Context<'_>,
        id: PathId,
        digest: &Digest,
        reason: SendReason,
    ) {
        self.resend(ctx.now, id, digest, reason);
    }

    fn prepare(&mut self, ctx: &mut Context<'_>, is_open: bool) -> bool {
        if self.is_schedule_due() {
            self.bind_segments(ctx);
        }
        !is_open || !self.is_quiet(ctx.now, ctx.sizes, ctx.paths)
    }

    fn is_stirred(&mut self, _ctx: &mut Context<'_>, _is_open: bool) -> bool {
        self.is_schedule_due()
    }

    fn control_frames_path(&self, _now: Instant, _is_open: bool, paths: &[Path]) -> Option<PathId> {
        if !self.is_window_due && !self.says_blocked {
            return None;
        }
        let paths = paths.iter().filter(|path| path.state().is_usable());
        let latest = paths.max_by_key(|path| path.last_heard_at);
        latest.map(|path| path.id)
    }

    fn is_report_wanted(&self) -> bool {
        self.is_packet_feedback_wanted
    }

    fn write_control_frames(
        &mut self,
        _now: Instant,
        has_report: bool,
        _has_news: bool,
        buf: &mut Vec<u8>,
    ) {
        if has_report || self.is_window_due {
            self.write_stream_ack(has_report, buf);
        }
        if core::mem::take(&mut self.says_blocked) {
            wire::write_stream_blocked(buf);
        }
    }

    fn write_packet(
        &mut self,
        ctx: &mut Context<'_>,
        id: PathId,
        buf: &mut Vec<u8>,
    ) -> Option<Written> {
        answers::drop_needless_question(&mut ctx.paths[id.index()]);
        let probe = self.write_due_mtu_probe(ctx, id, buf);
        if probe.is_some() {
            return probe;
        }
        let challenge = ctx.paths[id.index()].write_challenge(buf);
        if challenge.is_some() {
            // The pacer counts it, and may have been ready since the scheduler was last asked.
            self.request_scheduling();
        }
        challenge.or_else(|| self.write_next_segment(ctx, id, buf))
    }

    fn on_packet_sent(&mut self, ctx: &mut Context<'_>, id: PathId, packet: &SentPacket) {
        if packet.content == PacketContent::MtuProbe {
            // Without the timer nothing might ever report its loss.
            self.paths[id.index()].timer.start(ctx.now);
        }
        self.on_segment_sent(ctx, id, packet);
    }

    fn is_drained(&self) -> bool {
        self.send.is_drained()
    }

    fn is_sender(&self) -> bool {
        true
    }

    fn leaves_at(&self, around: &Surroundings<'_>, path: &Path) -> Option<Instant> {
        self.segment_due_at(path.id, around.sizes, around.paths)
    }

    fn consider_path(&self, _paths: &[Path], path: &Path, next: &mut NextTimer) {
        let own = &self.paths[path.id.index()];
        next.consider(own.timer_at(), Timer::Retransmission);
        next.consider(self.challenge_at(path), Timer::PathSilence);
        next.consider(self.question_at(path), Timer::PathSilence);
    }

    fn consider_sending(&self, around: &Surroundings<'_>, next: &mut NextTimer) {
        next.consider(self.blocked_at, Timer::Blocked);
        let held_until = self.held_until(around.sizes, around.paths);
        next.consider(held_until, Timer::Scheduler);
    }

    fn before_path_timeouts(&mut self, now: Instant, _output: &mut Output) {
        self.on_blocked_timeout(now);
    }

    fn after_path_timeouts(&mut self, ctx: &mut Context<'_>) {
        let held_until = self.held_until(ctx.sizes, ctx.paths);
        if held_until.is_some_and(|at| at <= ctx.now) {
            self.request_scheduling();
        }
    }

    fn on_loss_timeout(&mut self, ctx: &mut Context<'_>, id: PathId, digest: &Digest) {
        self.notify_controller(ctx, id, digest);
        self.act_on_report(ctx, id, digest);
    }

    /// Handles a timeout of a path. On its last path a stream waits longer each time, but does not
    /// give up.
    fn on_path_timeout(session: &mut StreamSession, now: Instant, id: PathId) {
        session.on_stream_timeout(now, id);
        session.repeat_challenge(now, id);
        let at = session.content.question_at(&session.paths[id.index()]);
        if at.is_some_and(|at| at <= now) {
            let path = &mut session.paths[id.index()];
            session.questions.ask(path, SendReason::IdleProbe);
        }
    }

    #[cfg(any(debug_assertions, feature = "invariants"))]
    fn check(&self, paths: &[Path], checker: &mut Checker) {
        let paths = paths.iter();
        let bound: Vec<u64> = paths
            .clone()
            .flat_map(Path::bound_packets)
            .map(|packet| packet.frame.0)
            .collect();
        let outstanding = paths.flat_map(|path| path.recovery.outstanding());
        self.send.check(outstanding, &bound, checker);
    }
}
