//! The simulated world: the core's endpoints over [`anabranch_link`] links, in virtual time.
//!
//! A [`World`] holds links, routes over any number of them, and flows. Every flow is two endpoints
//! of the same core that runs over real sockets. The datagrams between them are real: encoded,
//! decoded, and as long on the simulated wire as on a real one. Generators also send raw datagrams
//! that nobody answers. [`World::run_until`] advances time, flow by flow, in windows so short that
//! no flow can affect another within one. An [`Observer`] is notified of every event. The same
//! calls with the same seed make the same run, of which the [`TraceHash`] is the proof.

mod application;
mod endpoint;
mod event_queue;
mod flow;
mod generator;
mod groups;
mod head_of_line;
mod ids;
mod limits;
mod mailboxes;
mod network;
mod observer;
mod oracle;
mod payload;
mod timer_queue;
mod topology;
mod trace_hash;
mod world;

pub use application::{Application, ShortObjects};
pub use flow::{FlowConfig, FlowPath};
pub use generator::{GeneratorConfig, GeneratorConfigError, GeneratorRate, Spacing};
pub use ids::{Direction, FlowId, LinkId, RouteId};
pub use limits::{Limits, ReachedLimit};
pub use network::PacketCounts;
pub use observer::{FragmentId, FrameEvent, FrameOutcome, Observer, PacketEvent};
pub use oracle::{ORACLE, oracle};
pub use trace_hash::TraceHash;
pub use world::{World, WorldError};
