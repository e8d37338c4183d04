//! Allocations of two endpoints that exchange frames over two paths, once they have warmed up. The
//! sessions cover every scheduler, losses, error correction, key frames, outages, a metered path
//! and a controller that probes. The sender should allocate nothing, except for a few lists in each
//! outage, and the receiver only the received frame's own bytes.
//!
//! Run it by `make bench`. It fails if either end allocates more. With the argument `--profile` it
//! writes `dhat-heap.json` instead, which shows where.

use std::process::ExitCode;

use anabranch_core::{
    Config, DatagramMeta, Event, Frame, Laboratory, MediaConfig, MediaSession, PathId, PathOptions,
    Transmit,
};
use anabranch_units::{DataRate, Duration, Ecn, Importance, Instant, Seed};
use bytes::Bytes;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const PATH_DELAYS: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(50)];
const FRAME_BYTES: usize = 16_000;
const FRAME_INTERVAL: Duration = Duration::from_millis(40);
/// Number of frames from one key frame, which is five times as large, to the next, if there are key
/// frames.
const KEY_INTERVAL: u64 = 50;
/// Where a path fails, it does so for the last second of every eight.
const OUTAGE_INTERVAL: Duration = Duration::from_secs(8);
const OUTAGE_AFTER: Duration = Duration::from_millis(7_000);
const WARM_UP_FRAMES: u64 = 2_000;
const FRAMES: u64 = 1_000;
/// Number of frames of the warm-up that may still be on their way when counting begins.
const FRAMES_IN_FLIGHT: u64 = 5;

/// Allocations so far.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    blocks: u64,
    bytes: u64,
}

impl Count {
    fn now() -> Count {
        let stats = dhat::HeapStats::get();
        Count {
            blocks: stats.total_blocks,
            bytes: stats.total_bytes,
        }
    }

    fn add_since(&mut self, before: Count) {
        let now = Count::now();
        self.blocks += now.blocks - before.blocks;
        self.bytes += now.bytes - before.bytes;
    }
}

/// Session to be measured.
#[derive(Clone, Copy)]
struct Session {
    name: &'static str,
    controller: &'static str,
    scheduler: &'static str,
    fec: &'static str,
    /// Number of the sender's datagrams of which one is lost.
    loses_every: Option<u64>,
    has_key_frames: bool,
    has_outages: bool,
    /// Whether the second path is metered, and half as dear to the user as the first.
    has_metered: bool,
}

/// With the default scheduler.
const WITH_LOSSES: [Session; 8] = [
    session("off", Some(50)),
    session("fixed:overhead=0.2", None),
    session("fixed:overhead=0.2", Some(50)),
    session("frame", Some(50)),
    session("window", Some(50)),
    session("adaptive", Some(50)),
    session("adaptive", Some(10)),
    session("webrtc", Some(50)),
];

/// Further conditions in the field.
const IN_THE_FIELD: [Session; 7] = [
    Session {
        name: "key frames",
        has_key_frames: true,
        ..session("off", None)
    },
    Session {
        name: "outages",
        has_outages: true,
        ..session("off", None)
    },
    Session {
        name: "metered",
        has_metered: true,
        ..session("off", None)
    },
    Session {
        name: "live-bbr",
        controller: "live-bbr",
        ..session("off", None)
    },
    Session {
        name: "live-bbr, 1 in 50 lost",
        controller: "live-bbr",
        ..session("off", Some(50))
    },
    Session {
        name: "metered, outages, key frames",
        has_key_frames: true,
        has_outages: true,
        has_metered: true,
        ..session("off", Some(50))
    },
    Session {
        name: "all of it with live-bbr, webrtc",
        controller: "live-bbr",
        has_key_frames: true,
        has_outages: true,
        has_metered: true,
        ..session("webrtc", Some(50))
    },
];

const fn session(fec: &'static str, loses_every: Option<u64>) -> Session {
    Session {
        name: "",
        controller: "fixed",
        scheduler: "min-cost",
        fec,
        loses_every,
        has_key_frames: false,
        has_outages: false,
        has_metered: false,
    }
}

/// A datagram on its way, in a buffer that is used again.
#[derive(Debug)]
struct Flying {
    at: Instant,
    path: PathId,
    is_back: bool,
    bytes: Vec<u8>,
}

/// Two endpoints, and lines of constant delay between them.
struct Bed {
    now: Instant,
    ends: [MediaSession; 2],
    flying: Vec<Flying>,
    spare: Vec<Vec<u8>>,
    /// Allocations of the sender and of the receiver.
    allocated: [Count; 2],
    is_counting: bool,
    packets: u64,
    frames_received: u64,
    session: Session,
    frames_sent: u64,
    launched: u64,
}

impl Bed {
    fn new(session: &Session) -> Bed {
        let now = Instant::ZERO;
        let controller =
            anabranch_controllers::by_name(session.controller).expect("a registered controller");
        let scheduler =
            anabranch_schedulers::by_name(session.scheduler).expect("a registered scheduler");
        let config = Config {
            laboratory: Laboratory {
                fixed_rate: DataRate::from_megabits_per_second(4),
                ..Laboratory::default()
            },
            media: MediaConfig {
                fec: anabranch_schedulers::fec_policy(session.fec).expect("a registered policy"),
                ..MediaConfig::default()
            },
            ..Config::new(controller, scheduler)
        };
        let ends = [Seed(1), Seed(2)].map(|seed| {
            let mut end =
                MediaSession::new(config.clone(), seed, now).expect("a set-up that works");
            end.add_path(now, PathOptions::default());
            let second = PathOptions {
                weight: if session.has_metered { 0.5 } else { 1.0 },
                is_metered: session.has_metered,
                ..PathOptions::default()
            };
            end.add_path(now, second);
            end
        });
        Bed {
            now,
            ends,
            flying: Vec::new(),
            spare: Vec::new(),
            allocated: [Count::default(); 2],
            is_counting: false,
            packets: 0,
            frames_received: 0,
            session: *session,
            frames_sent: 0,
            launched: 0,
        }
    }

    /// Runs `work` on one end, and counts its allocations.
    fn call<R>(&mut self, side: usize, work: impl FnOnce(&mut MediaSession, Instant) -> R) -> R {
        let before = Count::now();
        let result = work(&mut self.ends[side], self.now);
        if self.is_counting {
            self.allocated[side].add_since(before);
        }
        result
    }

    fn stream(&mut self, frame_count: u64, bytes: &Bytes) {
        for _ in 0..frame_count {
            let captured_at = self.now;
            let is_key =
                self.session.has_key_frames && self.frames_sent.is_multiple_of(KEY_INTERVAL);
            self.frames_sent += 1;
            let frame = Frame {
                bytes: if is_key {
                    bytes.clone()
                } else {
                    bytes.slice(..FRAME_BYTES)
                },
                importance: Importance::key_if(is_key),
                captured_at,
                lifetime: None,
            };
            self.call(0, |sender, now| sender.send_frame(now, &frame))
                .expect("it fits");
            self.run_until(captured_at + FRAME_INTERVAL);
        }
    }

    fn run_until(&mut self, end: Instant) {
        loop {
            (0..2).for_each(|side| self.serve(side));
            let timers = self.ends.iter().filter_map(|end| end.poll_timeout());
            let next_at = timers
                .map(|(at, _)| at)
                .chain(self.flying.iter().map(|one| one.at))
                .min();
            let Some(next_at) = next_at.filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(next_at);
            while let Some(place) = self.flying.iter().position(|one| one.at <= self.now) {
                self.deliver(place);
            }
            for side in 0..2 {
                self.call(side, |end, now| end.handle_timeout(now));
            }
        }
        self.now = end;
    }

    fn deliver(&mut self, place: usize) {
        let mut datagram = self.flying.remove(place);
        let meta = DatagramMeta {
            path: datagram.path,
            received_at: self.now,
            ecn: Ecn::NotEct,
        };
        self.call(usize::from(!datagram.is_back), |end, now| {
            end.handle_datagram(now, meta, &datagram.bytes);
        });
        datagram.bytes.clear();
        self.spare.push(datagram.bytes);
    }

    /// Returns whether nothing passes on a path, either way: on the first, now and then.
    fn is_out(&self, path: PathId) -> bool {
        let interval = OUTAGE_INTERVAL.as_nanos();
        let since = Duration::from_nanos(self.now.as_nanos() % interval);
        self.session.has_outages && path.index() == 0 && since >= OUTAGE_AFTER
    }

    fn serve(&mut self, side: usize) {
        loop {
            let mut bytes = self
                .spare
                .pop()
                .unwrap_or_else(|| Vec::with_capacity(2_048));
            let transmit = self.call(side, |end, now| end.poll_transmit(now, &mut bytes));
            let Some(Transmit { path, .. }) = transmit else {
                self.spare.push(bytes);
                break;
            };
            self.packets += u64::from(side == 0 && self.is_counting);
            self.launched += u64::from(side == 0);
            if self.is_out(path)
                || self
                    .session
                    .loses_every
                    .is_some_and(|every| side == 0 && self.launched.is_multiple_of(every))
            {
                bytes.clear();
                self.spare.push(bytes);
                continue;
            }
            self.flying.push(Flying {
                at: self.now + PATH_DELAYS[path.index()],
                path,
                is_back: side == 1,
                bytes,
            });
        }
        while let Some(event) = self.call(side, |end, _| end.poll_event()) {
            let is_frame = matches!(event, Event::FrameReceived(_));
            self.frames_received += u64::from(is_frame && self.is_counting);
        }
    }
}

/// Returns whether the sender allocated nothing, and the receiver nothing but frames.
fn measure(session: &Session) -> bool {
    let bytes = Bytes::from(vec![7; 5 * FRAME_BYTES]);
    let mut bed = Bed::new(session);
    bed.stream(WARM_UP_FRAMES, &bytes);
    bed.is_counting = true;
    bed.stream(FRAMES, &bytes);
    let [sender, receiver] = bed.allocated;
    let [at_sender, at_receiver] =
        [sender, receiver].map(|count| count.blocks as f64 / bed.packets as f64);
    let per_frame = receiver.blocks as f64 / bed.frames_received as f64;
    let name = match session.loses_every {
        _ if !session.name.is_empty() => session.name.to_owned(),
        Some(every) => format!("{}, 1 in {every} lost", session.fec),
        None if session.fec != "off" => session.fec.to_owned(),
        None => session.scheduler.to_owned(),
    };
    println!(
        "{name:<32} {at_sender:>8.4} {at_receiver:>8.4} {per_frame:>10.3} {:>10.0}",
        receiver.bytes as f64 / bed.frames_received as f64,
    );
    let outages = if session.has_outages {
        (FRAME_INTERVAL * FRAMES).as_nanos() / OUTAGE_INTERVAL.as_nanos()
    } else {
        0
    };
    let frames = FRAMES + FRAMES_IN_FLIGHT;
    sender.blocks <= OUTAGE_BLOCKS * outages && receiver.blocks <= FRAME_BLOCKS * frames
}

/// Allocations that the sender may make for an outage: it lists packets in flight on a path in
/// doubt, or bound to it, to send them elsewhere. The lists are of no use in between.
const OUTAGE_BLOCKS: u64 = 16;
/// Allocations that a received frame may make: its bytes.
const FRAME_BLOCKS: u64 = 1;

fn main() -> ExitCode {
    let is_profile = std::env::args().any(|argument| argument == "--profile");
    let _profiler = if is_profile {
        dhat::Profiler::new_heap()
    } else {
        dhat::Profiler::builder().testing().build()
    };
    println!(
        "{:<32} {:>8} {:>8} {:>10} {:>10}",
        "allocations", "sender", "receiver", "receiver", "receiver"
    );
    println!(
        "{:<32} {:>8} {:>8} {:>10} {:>10}",
        "", "/packet", "/packet", "/frame", "B/frame"
    );
    let schedulers = anabranch_schedulers::SCHEDULERS
        .iter()
        .map(|entry| Session {
            scheduler: entry.name,
            ..session("off", None)
        });
    let sessions = schedulers.chain(WITH_LOSSES).chain(IN_THE_FIELD);
    let as_expected = sessions.filter(|session| !measure(session)).count() == 0;
    if as_expected {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
