//! What leaves, and in which order: answers and feedback, challenges, retransmissions, media or
//! stream, padding.

use anabranch_units::{Duration, Ecn, Instant};

use super::{Closing, Endpoint, Transmit};
use crate::config::PaddingPolicy;
use crate::path::Path;
use crate::path_view::{PathId, PathState};
use crate::recovery::PacketContent;
use crate::scheduler::{PacketKind, PacketView, SchedulerEvent};
use crate::send_reason::SendReason;
use crate::wire;

/// How long after the other a close is said again.
const CLOSE_INTERVAL: Duration = Duration::from_millis(50);

/// A report about another path goes into a datagram of its own behind as much: of 1200 B of UDP
/// payload a report has 790 B at most (31 ranges of 8 B, 128 arrivals of 4 B and 26 B besides),
/// packet protection 26 B and other frames 15 B.
const MAX_BYTES_BEFORE_ECHO: usize = 350;

/// What has been written to the next tracked packet, and why.
pub(super) type Written = (PacketContent, SendReason);

impl Endpoint {
    /// Appends the next datagram that may leave now to `buf`; `None` if none may. Call it until
    /// `None`.
    ///
    /// One datagram a call: what the driver batches, it seals first, which makes room of its own
    /// between them (`docs/decisions/0002-one-datagram-a-call.md`).
    pub fn poll_transmit(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        loop {
            if self.is_schedule_due {
                self.schedule(now);
            }
            if self.is_quiet(now) {
                return None;
            }
            self.tell_close(now);
            let transmit = self.write_next(now, buf);
            // A path whose packets were all dropped is free for those that wait, and the receiver
            // is to be told of their frames.
            if transmit.is_some() || !(self.is_schedule_due || self.is_notice_due(now)) {
                return transmit;
            }
        }
    }

    fn write_next(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        let start = buf.len();
        let path_count = self.paths.len();
        let has_notices = |path: &Path| path.has_notices(now);
        if self.stream.is_some() || self.is_notice_due(now) || self.paths.iter().any(has_notices) {
            for index in 0..path_count {
                if let Some(transmit) = self.write_untracked(now, PathId(index as u8), buf) {
                    return Some(transmit);
                }
            }
        }
        for turn in 0..path_count {
            let index = match self.next_path + turn {
                index if index < path_count => index,
                index => index - path_count,
            };
            let path = PathId(index as u8);
            debug_assert_eq!(buf.len(), start);
            if let Some(transmit) = self.write_tracked(now, path, buf) {
                self.next_path = match index + 1 {
                    next if next == path_count => 0,
                    next => next,
                };
                // What is held may go now that the path is free, or a burst is not over.
                self.is_schedule_due |= self.send_buffer.has_waiting();
                return Some(transmit);
            }
        }
        None
    }

    /// Whether, at a glance, nothing is to leave: of a session of media, as often as not.
    fn is_quiet(&self, now: Instant) -> bool {
        let is_waiting = |path: &Path| match self.has_sent_media || path.has_bound() {
            true => path.has_window() && path.ready_at() > now,
            false => true,
        };
        let mut paths = self.paths.iter();
        self.closing == Closing::Open
            && self.stream.is_none()
            && !self.is_notice_due(now)
            && paths.all(|path| !path.has_notices(now) && is_waiting(path))
    }

    /// Feedback, answers, the state of paths, and the end: all that has no packet number.
    fn write_untracked(&mut self, now: Instant, id: PathId, buf: &mut Vec<u8>) -> Option<Transmit> {
        let path = &self.paths[id.index()];
        if path.state() == PathState::Removed {
            return None;
        }
        let has_report = path.arrivals.due_at().is_some_and(|due_at| due_at <= now);
        let status_about = self.status_for(id);
        let has_notice = self.has_notice(now, id);
        let (has_window, is_blocked) = self.take_stream_notices();
        let path = &mut self.paths[id.index()];
        let is_silent =
            path.response.is_none() && path.report_elsewhere.is_none() && !path.says_close;
        let has_news = has_report || has_notice || has_window || is_blocked;
        if is_silent && !has_news && status_about.is_none() {
            return None;
        }
        let response = path.response.take();
        let echo_about = path.report_elsewhere.take();
        let is_closing = core::mem::take(&mut path.says_close);
        let start = buf.len();
        wire::write_untracked_header(buf);
        if let Some(token) = response {
            wire::write_path_response(token, buf);
        }
        if has_report {
            self.write_symbols_recovered(buf);
            self.write_report(now, id, id, buf);
        }
        if has_report || has_window {
            self.write_stream_ack(has_report, buf);
        }
        if is_blocked {
            wire::write_stream_blocked(buf);
        }
        if has_notice {
            self.write_notice(now, buf);
        }
        if let Some(about) = echo_about {
            // Two long reports might not pass every path.
            match has_report && buf.len() - start > MAX_BYTES_BEFORE_ECHO {
                true => self.paths[id.index()].report_elsewhere = Some(about),
                false => self.write_report(now, about, id, buf),
            }
        }
        if let Some(about) = status_about {
            let is_suspect = self.paths[about.index()]
                .status_to_tell
                .take()
                .unwrap_or(false);
            wire::write_path_status(about, is_suspect, buf);
        }
        if is_closing {
            wire::write_close(buf);
        }
        let size = buf.len() - start;
        let bytes = size as u64 + u64::from(self.config.overhead_bytes);
        let reason = SendReason::Control;
        let counters = &mut self.paths[id.index()].counters;
        counters.control_packets += 1;
        counters.control_bytes += bytes;
        counters.reasons.add(reason, bytes);
        Some(Transmit {
            path: id,
            size,
            ecn: Ecn::NotEct,
            reason,
            fragment: None,
        })
    }

    /// Writes the report about path `about`. While the peer doubts that path, the next datagram on
    /// the best other one brings the report too.
    fn write_report(&mut self, now: Instant, about: PathId, on: PathId, buf: &mut Vec<u8>) {
        let is_doubted = self.paths[about.index()].doubted_until > now;
        let is_told = self.writes_feedback();
        if let Some(report) = self.paths[about.index()].arrivals.report(now, about)
            && is_told
        {
            wire::write_feedback(report, buf);
        }
        if self.reassembly.has_incomplete() {
            self.paths[about.index()].arrivals.expect_more();
        }
        if is_doubted && on == about {
            let other = self
                .paths
                .iter_mut()
                .filter(|other| other.id != about && other.state().is_usable())
                .max_by_key(|other| other.last_heard_at);
            if let Some(other) = other {
                other.report_elsewhere = Some(about);
            }
        }
    }

    /// The path whose state the peer is to be told on path `on`.
    fn status_for(&self, on: PathId) -> Option<PathId> {
        let about = self
            .paths
            .iter()
            .find(|path| path.status_to_tell.is_some())?
            .id;
        (self.best_other_path(about) == Some(on)).then_some(about)
    }

    /// Has every path say the close, when it is time to say it (again).
    fn tell_close(&mut self, now: Instant) {
        let Closing::Telling { times, next_at } = self.closing else {
            return;
        };
        if next_at > now {
            return;
        }
        self.paths
            .iter_mut()
            .for_each(|path| path.says_close = true);
        self.closing = match times {
            1 => Closing::Closed,
            _ => Closing::Telling {
                times: times - 1,
                next_at: now + CLOSE_INTERVAL,
            },
        };
    }

    fn write_tracked(&mut self, now: Instant, id: PathId, buf: &mut Vec<u8>) -> Option<Transmit> {
        if self.closing != Closing::Open {
            return None;
        }
        let start = buf.len();
        let (content, reason) = self
            .write_mtu_probe(now, id, buf)
            .or_else(|| self.write_challenge(id, buf))
            .or_else(|| self.write_next_segment(now, id, buf))
            .or_else(|| self.write_media(now, id, buf))
            .or_else(|| self.write_padding(now, id, buf))?;
        let path = &mut self.paths[id.index()];
        path.tell_schedule(start, self.config.overhead_bytes, buf);
        let size = buf.len() - start;
        let bytes = size as u32 + self.config.overhead_bytes;
        let packet = path.on_sent(now, bytes, content);
        path.counters.sent_packets += 1;
        path.counters.sent_bytes += u64::from(bytes);
        path.counters.reasons.add(reason, u64::from(bytes));
        if content == PacketContent::Padding {
            path.counters.padding_packets += 1;
            path.counters.padding_bytes += u64::from(bytes);
        }
        let ecn = path.control().ecn;
        if self.stream.is_some() {
            self.on_segment_sent(now, id, &packet);
        }
        let event = SchedulerEvent::Sent {
            path: id,
            bytes,
            queued_bytes: self.paths[id.index()].queued_bytes(),
        };
        self.scheduler.on_event(now, &event);
        Some(Transmit {
            path: id,
            size,
            ecn,
            reason,
            fragment: match content {
                PacketContent::Fragment { frame, fragment }
                | PacketContent::Half {
                    frame, fragment, ..
                } => Some((frame, fragment)),
                _ => None,
            },
        })
    }

    fn write_challenge(&mut self, id: PathId, buf: &mut Vec<u8>) -> Option<Written> {
        let path = &mut self.paths[id.index()];
        let (token, reason) = path.challenge.take()?;
        path.write_tracked_header(buf);
        wire::write_path_challenge(token, buf);
        Some((PacketContent::Challenge, reason))
    }

    fn write_media(&mut self, now: Instant, id: PathId, buf: &mut Vec<u8>) -> Option<Written> {
        // What has arrived by another copy or has been given up meanwhile is passed over.
        let mut has_dropped = false;
        loop {
            let path = &mut self.paths[id.index()];
            let Some(packet) = path.pop_bound(now) else {
                self.is_schedule_due |= has_dropped && self.send_buffer.has_waiting();
                return None;
            };
            has_dropped = true;
            if path.is_too_late_for(now, &packet, self.config.media.deadline) {
                self.on_too_late(now, &packet);
                continue;
            }
            if packet.kind() == PacketKind::Repair {
                match self.write_repair(id, &packet, buf) {
                    None => continue,
                    Some(content) => return Some((content, SendReason::Repair)),
                }
            }
            let Some(content) = self.write_fragment(id, &packet, buf) else {
                continue;
            };
            let reason = self.send_buffer.reason_of(&packet);
            self.on_fragment_left(now, id, &packet, reason);
            return Some((content, reason));
        }
    }

    /// A packet has been dropped that would have come too late.
    fn on_too_late(&mut self, now: Instant, packet: &PacketView) {
        // A copy in flight or bound to another path may yet arrive in time.
        let is_bound = |path: &Path| path.has_bound_copy_of(packet);
        if packet.kind() == PacketKind::Repair || self.paths.iter().any(is_bound) {
            return;
        }
        match self.send_buffer.has_left(packet) {
            true => self.send_buffer.on_dropped(packet),
            false => self.give_up(now, packet.frame),
        }
    }

    fn write_padding(&mut self, now: Instant, id: PathId, buf: &mut Vec<u8>) -> Option<Written> {
        let path = &mut self.paths[id.index()];
        // A greedy session always has something to send.
        path.is_window_limited |= self.has_sent_media
            && self.config.padding == PaddingPolicy::Always
            && !path.has_window();
        let due_at = self.padding_due_at(id)?;
        if due_at > now {
            return None;
        }
        let padding_bytes = self.padding_bytes_on(id);
        self.paths[id.index()].write_tracked_header(buf);
        wire::write_padding(usize::from(padding_bytes), buf);
        Some((PacketContent::Padding, SendReason::Padding))
    }

    /// When padding is due on a path; `None` while none is wanted.
    pub(super) fn padding_due_at(&self, id: PathId) -> Option<Instant> {
        if !self.has_sent_media || self.closing != Closing::Open {
            return None;
        }
        let policy = self.config.padding;
        // Volume costs money there: only who is greedy on purpose pays for padding. Without any
        // such path, there is no `standby`.
        if self.standby.is_some()
            && self.paths[id.index()].is_metered()
            && (policy != PaddingPolicy::Always || self.is_standby(id))
        {
            return None;
        }
        let is_useful = policy == PaddingPolicy::Always || self.is_more_bandwidth_useful();
        self.paths[id.index()].padding_due_at(policy, is_useful)
    }
}
