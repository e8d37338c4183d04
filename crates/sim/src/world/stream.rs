//! Flows of streams: the applications at both ends.

use std::sync::Arc;

use anabranch_core::{Config, PathId};
use anabranch_units::{Duration, Seed};

use super::turn::Turn;
use crate::application::{Adaptive, Application, Download, Objects};
use crate::endpoint::Endpoint;
use crate::flow::Work;
use crate::head_of_line::HeadOfLine;
use crate::ids::Side;
use crate::observer::Observer;

/// Number of bytes that a source writes at a time.
const CHUNK_BYTES: usize = 64 << 10;

impl Work {
    /// Returns the work of an application between ends of these set-ups.
    pub(super) fn new(
        application: Application,
        configs: [Arc<Config>; 2],
        path_count: usize,
        seed: Seed,
    ) -> Work {
        match application {
            Application::Media(source) => Work::Frames(source),
            Application::Greedy => Work::Bytes(u64::MAX),
            Application::Bytes(bytes) => Work::Bytes(bytes),
            Application::Download(film, buffering) => {
                Work::Download(Box::new(Download::new(film, buffering)))
            }
            Application::Adaptive(video, buffer) => {
                Work::Adaptive(Box::new(Adaptive::new(video, buffer)))
            }
            Application::Short(plan) => {
                let rng = seed.derive("objects").rng();
                Work::Objects(Box::new(Objects::new(plan, rng, configs, path_count)))
            }
        }
    }
}

impl<O: Observer> Turn<'_, O> {
    /// Reports the bytes of a stream that have become readable, and the time that they waited.
    #[inline]
    pub(super) fn watch_head_of_line(&mut self) {
        let (now, flow_id) = (self.now, self.flow_id);
        let [_, receiver] = &self.flow.ends;
        let Some(session) = receiver.endpoint.stream() else {
            return;
        };
        let (in_order, newest) = session.arrived();
        let line = &mut self.flow.head_of_line;
        line.on_arrived(now, newest, in_order, |bytes, waited| {
            self.observer
                .on_stream_in_order(now, flow_id, bytes, waited);
        });
    }

    /// Handles a stream's events.
    pub(super) fn serve_stream(&mut self, side: Side) {
        if side == Side::Sender {
            self.hear_requests();
            return self.write_stream();
        }
        let (now, flow_id) = (self.now, self.flow_id);
        let [_, receiver] = &mut self.flow.ends;
        let Some(receiver) = receiver.endpoint.stream_mut() else {
            return;
        };
        let player = match &mut self.flow.source {
            Work::Download(download) => download.player(now),
            _ => None,
        };
        let wanted = player.as_ref().map(|player| player.wanted_bytes());
        let byte_count = receiver.skip(wanted.unwrap_or(u64::MAX));
        if byte_count > 0 {
            self.observer.on_stream_delivered(now, flow_id, byte_count);
        }
        let mut play_time_left = None;
        if let Some(player) = player {
            player.on_bytes(now, byte_count);
            play_time_left = Some(player.play_time_left());
            self.flow.frame_at = player.next_at().map(|at| at.max(now));
        }
        if let Work::Adaptive(adaptive) = &mut self.flow.source {
            let (asks, next_at) = adaptive.watch(now, byte_count);
            play_time_left = adaptive.play_time_left(now);
            self.flow.frame_at = next_at.map(|at| at.max(now));
            if asks {
                let request = self.buffers.zeros(Adaptive::REQUEST_BYTES as usize);
                // A closed session accepts no more.
                _ = receiver.write_bytes(now, request);
            }
        }
        let is_over = match &mut self.flow.source {
            Work::Download(download) => Some(&mut download.is_over),
            Work::Adaptive(adaptive) => Some(&mut adaptive.is_over),
            _ => None,
        };
        let is_known = match is_over {
            Some(is_over) if receiver.is_complete() => core::mem::replace(is_over, true),
            _ => false,
        };
        if receiver.is_complete() && !is_known {
            let began_at = self.flow.began_at;
            self.observer.on_stream_finished(now, flow_id, began_at);
            self.end_object();
        }
        if let Some(left) = play_time_left {
            self.report_play_time_left(left);
        }
    }

    /// Reports the viewer's remaining play time to the sender, without delay.
    fn report_play_time_left(&mut self, left: Duration) {
        let now = self.now;
        let endpoint = &mut self.flow.end(Side::Sender).endpoint;
        let sender = endpoint.stream_mut();
        if sender.is_some_and(|sender| sender.on_play_time_left(now, left)) {
            self.serve(Side::Sender);
        }
    }

    /// Reads requests at the server of a viewer's segments.
    fn hear_requests(&mut self) {
        let flow = &mut *self.flow;
        let sender = &mut flow.ends[Side::Sender as usize].endpoint;
        if let Work::Adaptive(adaptive) = &mut flow.source
            && let Some(sender) = sender.stream_mut()
        {
            adaptive.hear(sender.skip(u64::MAX));
        }
    }

    /// Writes the waiting bytes, as far as the sender accepts them.
    pub(super) fn write_stream(&mut self) {
        let flow = &mut *self.flow;
        let sender = &mut flow.ends[Side::Sender as usize].endpoint;
        let Some(sender) = sender.stream_mut() else {
            return;
        };
        let unwritten = match &mut flow.source {
            Work::Frames(_) => return,
            Work::Bytes(bytes) => bytes,
            Work::Download(download) => &mut download.unwritten_bytes,
            Work::Adaptive(adaptive) => &mut adaptive.unwritten_bytes,
            Work::Objects(objects) if !objects.is_active => return,
            Work::Objects(objects) => &mut objects.unwritten_bytes,
        };
        let zeros = self.buffers.zeros(CHUNK_BYTES);
        while *unwritten > 0 {
            let wanted = CHUNK_BYTES.min(usize::try_from(*unwritten).unwrap_or(CHUNK_BYTES));
            // A closed session accepts no more.
            let taken = sender
                .write_bytes(self.now, zeros.slice(..wanted))
                .unwrap_or(0);
            if *unwritten != u64::MAX {
                *unwritten -= taken as u64;
            }
            if taken < wanted {
                return;
            }
        }
        if let Work::Adaptive(adaptive) = &flow.source
            && adaptive.has_more()
        {
            return;
        }
        // The second time is refused, and so is a closed session's.
        _ = sender.finish();
    }

    /// Continues playback at a change of a viewer's picture; the viewer may then take more of the
    /// film.
    pub(super) fn go_on_viewing(&mut self) {
        self.serve_stream(Side::Receiver);
        self.serve(Side::Receiver);
    }

    /// Begins a new session for the next object of a flow.
    pub(super) fn begin_object(&mut self) {
        let flow = &mut *self.flow;
        let Work::Objects(objects) = &mut flow.source else {
            return;
        };
        let sender = &flow.ends[Side::Sender as usize].endpoint;
        for (counted, path) in objects.counted.iter_mut().zip(0..) {
            let counters = sender.path_counters(PathId(path));
            *counted = counted.plus(counters.expect("flows keep their paths"));
        }
        objects.begin();
        flow.session += 1;
        flow.head_of_line = HeadOfLine::default();
        flow.began_at = self.now;
        for (end, config) in flow.ends.iter_mut().zip(&objects.configs) {
            let seed = flow.seed.derive(&format!("session/{}", flow.session));
            end.endpoint = Endpoint::of_stream(config.clone(), seed, self.now)
                .expect("the flow was made with this set-up");
            for path in &flow.paths {
                end.endpoint.add_path(self.now, path.options);
            }
        }
        self.write_stream();
        self.serve(Side::Sender);
        self.serve(Side::Receiver);
    }

    /// Ends the present object: the next one follows after a pause.
    fn end_object(&mut self) {
        if let Work::Objects(objects) = &mut self.flow.source {
            objects.is_active = false;
            self.flow.frame_at = Some(self.now + objects.idle_time());
        }
    }
}
