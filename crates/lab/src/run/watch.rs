//! The observer of a run: all recorders.

use std::sync::Arc;

use anabranch_core::{PathId, PathState};
use anabranch_link::DropCause;
use anabranch_sim::{FlowId, FrameEvent, FrameOutcome, LinkId, Observer, PacketEvent, World};
use anabranch_units::{DataRate, Duration, Instant};

use crate::metrics::{Recorder, SeriesRecorder, Window};
use crate::scenario::Scenario;
use crate::trace::TraceWriter;

/// Passes events to all recorders and the trace writer.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    pub(super) recorder: Recorder,
    pub(super) trace: Option<TraceWriter<'a>>,
    pub(super) series: Option<SeriesRecorder>,
}

impl<'a> Watch<'a> {
    /// Returns a watch that only measures.
    pub(super) fn new(scenario: &Arc<Scenario>, windows: &[Window]) -> Watch<'a> {
        Watch {
            recorder: Recorder::new(scenario, windows),
            trace: None,
            series: None,
        }
    }

    /// Returns an observer that passes events also to another one.
    pub(super) fn and<'b, O>(&'b mut self, other: &'b mut O) -> Both<'b, 'a, O> {
        Both { watch: self, other }
    }
}

/// Passes events to the recorders of a run and to another observer.
#[derive(Debug)]
pub(super) struct Both<'b, 'a, O> {
    watch: &'b mut Watch<'a>,
    other: &'b mut O,
}

/// Returns the first watch, with the other watches' measurements of the flows of their shards.
pub(super) fn join<'a>(watches: Vec<Watch<'a>>, world: &World) -> Watch<'a> {
    let mut watches = watches.into_iter().enumerate();
    let (_, mut first) = watches.next().expect("there is a shard");
    for (shard, watch) in watches {
        first
            .recorder
            .take_flows(watch.recorder, |flow| world.shard_of(flow) == shard);
    }
    first
}

impl Observer for Watch<'_> {
    #[inline]
    fn on_sent(&mut self, now: Instant, packet: &PacketEvent) {
        self.recorder.on_sent(now, packet);
        if let Some(trace) = &mut self.trace {
            trace.on_sent(now, packet);
        }
        if let Some(series) = &mut self.series {
            series.on_sent(now, packet);
        }
    }

    #[inline]
    fn on_delivered(&mut self, now: Instant, packet: &PacketEvent, delay: Duration) {
        self.recorder.on_delivered(now, packet, delay);
        if let Some(trace) = &mut self.trace {
            trace.on_delivered(now, packet, delay);
        }
        if let Some(series) = &mut self.series {
            series.on_delivered(now, packet, delay);
        }
    }

    fn on_dropped(&mut self, now: Instant, packet: &PacketEvent, link: LinkId, cause: DropCause) {
        self.recorder.on_dropped(now, packet, link, cause);
        if let Some(trace) = &mut self.trace {
            trace.on_dropped(now, packet, link, cause);
        }
        if let Some(series) = &mut self.series {
            series.on_dropped(now, packet, link, cause);
        }
    }

    fn on_frame_captured(&mut self, frame: &FrameEvent) {
        self.recorder.on_frame_captured(frame);
    }

    fn on_frame_outcome(&mut self, now: Instant, frame: &FrameEvent, outcome: FrameOutcome) {
        self.recorder.on_frame_outcome(now, frame, outcome);
        if let Some(trace) = &mut self.trace {
            trace.on_frame_outcome(now, frame, outcome);
        }
        if let Some(series) = &mut self.series {
            series.on_frame_outcome(now, frame, outcome);
        }
    }

    fn on_frame_abandoned(&mut self, now: Instant, flow: FlowId) {
        self.recorder.on_frame_abandoned(now, flow);
        if let Some(trace) = &mut self.trace {
            trace.on_frame_abandoned(now, flow);
        }
    }

    fn on_stream_delivered(&mut self, now: Instant, flow: FlowId, bytes: u64) {
        self.recorder.on_stream_delivered(now, flow, bytes);
    }

    fn on_stream_in_order(&mut self, now: Instant, flow: FlowId, bytes: u64, waited: Duration) {
        self.recorder.on_stream_in_order(now, flow, bytes, waited);
    }

    fn on_stream_finished(&mut self, now: Instant, flow: FlowId, began_at: Instant) {
        self.recorder.on_stream_finished(now, flow, began_at);
        if let Some(trace) = &mut self.trace {
            trace.on_stream_finished(now, flow, began_at);
        }
    }
}

impl<O: Observer> Observer for Both<'_, '_, O> {
    fn on_sent(&mut self, now: Instant, packet: &PacketEvent) {
        self.watch.on_sent(now, packet);
        self.other.on_sent(now, packet);
    }

    fn on_delivered(&mut self, now: Instant, packet: &PacketEvent, delay: Duration) {
        self.watch.on_delivered(now, packet, delay);
        self.other.on_delivered(now, packet, delay);
    }

    fn on_dropped(&mut self, now: Instant, packet: &PacketEvent, link: LinkId, cause: DropCause) {
        self.watch.on_dropped(now, packet, link, cause);
        self.other.on_dropped(now, packet, link, cause);
    }

    fn on_frame_captured(&mut self, frame: &FrameEvent) {
        self.watch.on_frame_captured(frame);
        self.other.on_frame_captured(frame);
    }

    fn on_frame_outcome(&mut self, now: Instant, frame: &FrameEvent, outcome: FrameOutcome) {
        self.watch.on_frame_outcome(now, frame, outcome);
        self.other.on_frame_outcome(now, frame, outcome);
    }

    fn on_frame_abandoned(&mut self, now: Instant, flow: FlowId) {
        self.watch.on_frame_abandoned(now, flow);
        self.other.on_frame_abandoned(now, flow);
    }

    fn on_stream_delivered(&mut self, now: Instant, flow: FlowId, bytes: u64) {
        self.watch.on_stream_delivered(now, flow, bytes);
        self.other.on_stream_delivered(now, flow, bytes);
    }

    fn on_stream_in_order(&mut self, now: Instant, flow: FlowId, bytes: u64, waited: Duration) {
        self.watch.on_stream_in_order(now, flow, bytes, waited);
        self.other.on_stream_in_order(now, flow, bytes, waited);
    }

    fn on_stream_finished(&mut self, now: Instant, flow: FlowId, began_at: Instant) {
        self.watch.on_stream_finished(now, flow, began_at);
        self.other.on_stream_finished(now, flow, began_at);
    }

    fn on_target_bitrate(&mut self, now: Instant, flow: FlowId, target: DataRate) {
        self.watch.on_target_bitrate(now, flow, target);
        self.other.on_target_bitrate(now, flow, target);
    }

    fn on_path_state(&mut self, now: Instant, flow: FlowId, path: PathId, state: PathState) {
        self.watch.on_path_state(now, flow, path, state);
        self.other.on_path_state(now, flow, path, state);
    }
}
