//! Outgoing datagrams and their order: answers and feedback, then the session's content.

use anabranch_units::{Ecn, Instant};

use super::{Content, Session, Transmit};
use crate::path::Path;
use crate::path_view::PathId;
use crate::recovery::PacketContent;
use crate::send_reason::SendReason;
use crate::wire;

/// Maximum number of bytes before a report about another path in the same datagram; behind more it
/// goes into a datagram of its own. Of 1200 B of UDP payload a report takes at most 790 B (31
/// ranges of 8 B, 128 arrivals of 4 B and 26 B of fields), packet protection 26 B and other frames
/// 15 B.
const MAX_BYTES_BEFORE_ECHO: usize = 350;

impl<C: Content> Session<C> {
    /// Appends the next datagram that may leave now to `buf`; `None` if none may. Call it until
    /// `None`.
    ///
    /// One datagram a call: a driver that batches datagrams seals them first, which needs room
    /// between them (`docs/decisions/0002-one-datagram-a-call.md`).
    pub fn poll_transmit(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        loop {
            let is_open = self.closing.is_open();
            let (content, mut ctx) = self.split(now);
            if !content.prepare(&mut ctx, is_open) {
                return None;
            }
            let transmit = self.write_next(now, buf);
            if transmit.is_some() {
                return transmit;
            }
            let is_open = self.closing.is_open();
            let (content, mut ctx) = self.split(now);
            if !content.is_stirred(&mut ctx, is_open) {
                return None;
            }
        }
    }

    /// Writes the next datagram. Apart, as most calls find nothing to send.
    #[inline(never)]
    fn write_next(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        if self.closing.is_announced(now) {
            let paths = &mut self.paths;
            paths.iter_mut().for_each(|path| path.says_close = true);
        }
        let start = buf.len();
        let path_count = self.paths.len();
        let control_frames_path =
            self.content
                .control_frames_path(now, self.closing.is_open(), &self.paths);
        if control_frames_path.is_some() || self.paths.iter().any(|path| path.has_notices(now)) {
            for index in 0..path_count {
                let id = PathId(index as u8);
                let has_control_frames = control_frames_path == Some(id);
                if let Some(transmit) = self.write_untracked(now, id, has_control_frames, buf) {
                    return Some(transmit);
                }
            }
        }
        for turn in 0..path_count {
            let index = (self.next_path + turn) % path_count;
            let path = PathId(index as u8);
            debug_assert_eq!(buf.len(), start);
            if let Some(transmit) = self.write_tracked(now, path, buf) {
                self.next_path = (index + 1) % path_count;
                return Some(transmit);
            }
        }
        None
    }

    /// Writes feedback, answers, the state of paths, and the end: all frames without a packet
    /// number.
    fn write_untracked(
        &mut self,
        now: Instant,
        id: PathId,
        has_control_frames: bool,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let path = &self.paths[id.index()];
        if path.is_removed() {
            return None;
        }
        let has_report = path.arrivals.due_at().is_some_and(|due_at| due_at <= now);
        let status_about = Path::status_for(&self.paths, id);
        let path = &mut self.paths[id.index()];
        let is_silent =
            path.response.is_none() && path.report_elsewhere.is_none() && !path.says_close;
        if is_silent && !has_report && !has_control_frames && status_about.is_none() {
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
            self.content.write_before_report(buf);
            self.write_report(now, id, buf);
            Path::repeat_report(&mut self.paths, now, id);
        }
        let content = &mut self.content;
        content.write_control_frames(now, has_report, has_control_frames, buf);
        if let Some(about) = echo_about {
            // Two long reports might not pass every path.
            if has_report && buf.len() - start > MAX_BYTES_BEFORE_ECHO {
                self.paths[id.index()].report_elsewhere = Some(about);
            } else {
                self.write_report(now, about, buf);
            }
        }
        if let Some(about) = status_about {
            let is_suspect = self.paths[about.index()]
                .pending_status
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

    /// Writes the report about path `about`.
    fn write_report(&mut self, now: Instant, about: PathId, buf: &mut Vec<u8>) {
        let arrivals = &mut self.paths[about.index()].arrivals;
        if let Some(report) = arrivals.report(now, about)
            && self.content.is_report_wanted()
        {
            wire::write_feedback(report, buf);
        }
        if self.content.awaits_more() {
            arrivals.expect_more();
        }
    }

    fn write_tracked(&mut self, now: Instant, id: PathId, buf: &mut Vec<u8>) -> Option<Transmit> {
        if !self.closing.is_open() {
            return None;
        }
        let start = buf.len();
        let (session_content, mut ctx) = self.split(now);
        let (content, reason) = session_content.write_packet(&mut ctx, id, buf)?;
        let path = &mut self.paths[id.index()];
        path.write_schedule(start, self.config.overhead_bytes, buf);
        if C::IS_MEDIA && self.config.media.includes_send_times {
            path.write_send_time(now, start, self.config.overhead_bytes, buf);
        }
        let size = buf.len() - start;
        let bytes = size as u32 + self.config.overhead_bytes;
        let packet = path.on_sent(now, bytes, content);
        path.counters.sent_packets += 1;
        path.counters.sent_bytes += u64::from(bytes);
        path.counters.reasons.add(reason, u64::from(bytes));
        let ecn = path.control().ecn;
        let (session_content, mut ctx) = self.split(now);
        session_content.on_packet_sent(&mut ctx, id, &packet);
        Some(Transmit {
            path: id,
            size,
            ecn,
            reason,
            fragment: match content {
                PacketContent::Fragment {
                    frame, fragment, ..
                } => Some((frame, fragment)),
                _ => None,
            },
        })
    }
}
