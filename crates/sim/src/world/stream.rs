//! Flows of streams: the applications at both ends.

use anabranch_core::{Config, Endpoint};
use anabranch_units::{Instant, Seed};

use super::World;
use crate::application::{Application, Objects, STREAM_PATH};
use crate::event_queue::Event;
use crate::flow::{FlowId, Side, Work};
use crate::observer::Observer;

/// How many bytes a source hands over at a time.
const CHUNK_BYTES: usize = 64 << 10;

impl Work {
    /// The work of an application between ends of these set-ups.
    pub(super) fn new(application: Application, configs: [Config; 2], seed: Seed) -> Work {
        match application {
            Application::Media(source) => Work::Frames(source),
            Application::Greedy => Work::Bytes(u64::MAX),
            Application::Bytes(bytes) => Work::Bytes(bytes),
            Application::Short(plan) => {
                let rng = seed.derive("objects").rng();
                Work::Objects(Box::new(Objects::new(plan, rng, configs)))
            }
        }
    }
}

impl World {
    /// Does what a stream's events ask for.
    pub(super) fn serve_stream(
        &mut self,
        flow_id: FlowId,
        side: Side,
        observer: &mut impl Observer,
    ) {
        if side == Side::Sender {
            return self.write_stream(flow_id);
        }
        let now = self.now;
        let flow = &mut self.flows[flow_id.index()];
        let began_at = flow.began_at;
        let receiver = &mut flow.end(Side::Receiver).endpoint;
        self.read.clear();
        let bytes = receiver.read_stream(&mut self.read);
        if bytes > 0 {
            observer.on_stream_delivered(now, flow_id, bytes as u64);
        }
        if receiver.is_stream_complete() {
            observer.on_stream_finished(now, flow_id, began_at);
            self.end_object(flow_id);
        }
    }

    /// Writes what there is to write, as far as the sender takes it.
    pub(super) fn write_stream(&mut self, flow_id: FlowId) {
        let now = self.now;
        let flow = &mut self.flows[flow_id.index()];
        let sender = &mut flow.ends[Side::Sender as usize].endpoint;
        let unwritten = match &mut flow.source {
            Work::Frames(_) => return,
            Work::Bytes(bytes) => bytes,
            Work::Objects(objects) if !objects.is_active => return,
            Work::Objects(objects) => &mut objects.unwritten_bytes,
        };
        if self.zeros.len() < CHUNK_BYTES {
            self.zeros.resize(CHUNK_BYTES, 0);
        }
        while *unwritten > 0 {
            let wanted = CHUNK_BYTES.min(usize::try_from(*unwritten).unwrap_or(CHUNK_BYTES));
            // A session that has been closed takes nothing any more.
            let taken = sender.write_stream(now, &self.zeros[..wanted]).unwrap_or(0);
            if *unwritten != u64::MAX {
                *unwritten -= taken as u64;
            }
            if taken < wanted {
                return;
            }
        }
        // The second time is refused, and so is a closed session's.
        _ = sender.finish_stream();
    }

    /// A new session begins for the next object of a flow.
    pub(super) fn begin_object(&mut self, flow_id: FlowId, observer: &mut impl Observer) {
        let now = self.now;
        let flow = &mut self.flows[flow_id.index()];
        let Work::Objects(objects) = &mut flow.source else {
            return;
        };
        let counters = flow.ends[Side::Sender as usize]
            .endpoint
            .path_counters(STREAM_PATH);
        objects.counted = objects
            .counted
            .plus(counters.expect("flows keep their path"));
        objects.begin();
        flow.session += 1;
        flow.began_at = now;
        for (end, config) in flow.ends.iter_mut().zip(&objects.configs) {
            let name = format!("flow/{}/session/{}", flow_id.0, flow.session);
            end.endpoint = new_endpoint(config, self.seed.derive(&name), now);
            end.endpoint.add_path(now, flow.paths[0].options);
        }
        self.write_stream(flow_id);
        self.serve(flow_id, Side::Sender, observer);
        self.serve(flow_id, Side::Receiver, observer);
    }

    /// An object has arrived: the next one comes after a pause.
    fn end_object(&mut self, flow_id: FlowId) {
        if let Work::Objects(objects) = &mut self.flows[flow_id.index()].source {
            objects.is_active = false;
            let at = self.now + objects.idle_time();
            self.events.plan(at, Event::Frame(flow_id));
        }
    }
}

fn new_endpoint(config: &Config, seed: Seed, now: Instant) -> Endpoint {
    Endpoint::new(config.clone(), seed, now).expect("the flow was made with this set-up")
}
