//! The element's implementation.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use anabranch_core::Frame;
use anabranch_net::{Clock, Event, Events, SendError, Sender};
use anabranch_units::DataRate;
use anabranch_video::mpeg_ts::{TransportUnit, TransportUnitSplitter};
use anabranch_video::source::LEAST_KEY_FRAME_INTERVAL;
use anabranch_video::target_filter::TargetFilter;
use gst::glib;
use gst::prelude::*;
use gst::subclass::prelude::*;
use gst_base::prelude::BaseSinkExt;
use gst_base::subclass::prelude::*;

use super::settings::Settings;

static CAT: LazyLock<gst::DebugCategory> = LazyLock::new(|| {
    let colors = gst::DebugColorFlags::empty();
    gst::DebugCategory::new("anabranchsink", colors, Some("Sends over several networks"))
});

/// Interval at which the target is checked.
const LOOK_INTERVAL: StdDuration = StdDuration::from_millis(50);

/// State between start and stop.
struct Running {
    sender: Arc<Sender>,
    clock: Clock,
    splitter: TransportUnitSplitter,
    events: Option<JoinHandle<()>>,
}

#[derive(Default)]
pub struct AnabranchSink {
    settings: Mutex<Settings>,
    running: Mutex<Option<Running>>,
    /// Bitrate requested of the encoder, in bit/s; min-bitrate before the session.
    target: AtomicU32,
}

impl AnabranchSink {
    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies bindings and listeners of another bitrate.
    fn notify_target(&self, target: DataRate) {
        let target = u32::try_from(target.bits_per_second()).unwrap_or(u32::MAX);
        self.target.store(target, Ordering::Relaxed);
        let element = self.obj();
        element.notify("target-bitrate");
        element.emit_by_name::<()>("target", &[&target]);
    }

    /// Requests a key frame from the encoder.
    fn ask_for_key_frame(&self) {
        let wanted = gst::Structure::builder("GstForceKeyUnit")
            .field("all-headers", true)
            .field("count", 0_u32)
            .build();
        let pads = self.obj().sink_pads();
        if let Some(pad) = pads.first() {
            pad.push_event(gst::event::CustomUpstream::new(wanted));
        }
    }

    fn on_event(&self, event: &Event) {
        let element = self.obj();
        match event {
            Event::Connected { peer, .. } => {
                element.emit_by_name::<()>("connected", &[&peer.to_string()]);
            }
            Event::Ended(ended) => {
                element.emit_by_name::<()>("ended", &[&ended.to_string()]);
            }
            _ => {}
        }
    }

    fn send(&self, running: &Running, unit: TransportUnit) -> Result<(), gst::FlowError> {
        let frame = Frame {
            bytes: unit.bytes.into(),
            importance: unit.importance,
            captured_at: running.clock.now(),
            lifetime: None,
        };
        match running.sender.send_frame(&frame) {
            // Video is live: frames before the session, or too many for it, are left out.
            Ok(_) | Err(SendError::NotConnected) => Ok(()),
            Err(error) => {
                gst::debug!(CAT, imp = self, "a frame is left out: {error}");
                Ok(())
            }
        }
    }
}

impl AnabranchSink {
    /// Sends the rest of the stream, and waits until all has arrived or been given up.
    fn finish(&self) {
        let mut running = self.running();
        let Some(its) = running.as_mut() else { return };
        while let Some(unit) = its.splitter.finish() {
            if self.send(its, unit).is_err() {
                break;
            }
        }
        its.sender.close();
        let events = its.events.take();
        drop(running);
        if let Some(events) = events {
            let _ = events.join();
        }
    }
}

/// Follows a session's events and target until it is over.
#[allow(clippy::disallowed_methods, reason = "a driver reads a clock")]
fn follow(element: &glib::WeakRef<super::AnabranchSink>, events: &Events, sender: &Arc<Sender>) {
    let sender = Arc::downgrade(sender);
    let clock = std::time::Instant::now;
    let mut filter = TargetFilter::default();
    let mut key_asked_at = clock();
    loop {
        let event = events.recv_timeout(LOOK_INTERVAL);
        let Some(element) = element.upgrade() else {
            return;
        };
        let sink = element.imp();
        match event {
            Ok(event) => {
                sink.on_event(&event);
                let needs_key = matches!(
                    event,
                    Event::FrameDropped { .. } | Event::Reconnected { .. }
                );
                if needs_key && key_asked_at.elapsed() >= LEAST_KEY_FRAME_INTERVAL.to_std() {
                    key_asked_at = clock();
                    sink.ask_for_key_frame();
                }
                if matches!(event, Event::Ended(_)) {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let Some(sender) = sender.upgrade() else {
            return;
        };
        let snapshot = sender.snapshot();
        drop(sender);
        let target = snapshot.target_bitrate;
        if snapshot.connected_at.is_some() && filter.should_report(snapshot.at, target) {
            sink.notify_target(target);
        }
    }
}

#[glib::object_subclass]
impl ObjectSubclass for AnabranchSink {
    const NAME: &'static str = "GstAnabranchSink";
    type Type = super::AnabranchSink;
    type ParentType = gst_base::BaseSink;
}

fn text(name: &str, blurb: &str) -> glib::ParamSpec {
    glib::ParamSpecString::builder(name)
        .blurb(blurb)
        .mutable_ready()
        .build()
}

fn number(name: &str, blurb: &str, default: u32) -> glib::ParamSpec {
    glib::ParamSpecUInt::builder(name)
        .blurb(blurb)
        .default_value(default)
        .mutable_ready()
        .build()
}

impl ObjectImpl for AnabranchSink {
    fn constructed(&self) {
        self.parent_constructed();
        // The stream leaves as it arrives.
        self.obj().set_sync(false);
        let least = self.settings().min_bitrate;
        self.target.store(least, Ordering::Relaxed);
    }

    fn properties() -> &'static [glib::ParamSpec] {
        static PROPERTIES: LazyLock<Vec<glib::ParamSpec>> = LazyLock::new(|| {
            let usual = Settings::default();
            vec![
                text("to", "The receiver's host and port"),
                text(
                    "via",
                    "Interfaces or local addresses, separated by commas; one path each",
                ),
                text("key", "This end's key file, from anabranch keygen"),
                text("peer", "The receiver's public key"),
                number(
                    "latency",
                    "Delay that frames may take, in ms",
                    usual.latency,
                ),
                number(
                    "min-bitrate",
                    "Minimum bitrate of the encoder, in bit/s",
                    usual.min_bitrate,
                ),
                number(
                    "max-bitrate",
                    "Maximum bitrate of the encoder, in bit/s",
                    usual.max_bitrate,
                ),
                glib::ParamSpecUInt::builder("target-bitrate")
                    .blurb("Bitrate requested of the encoder, container included, in bit/s")
                    .read_only()
                    .build(),
            ]
        });
        &PROPERTIES
    }

    fn set_property(&self, _: usize, value: &glib::Value, of: &glib::ParamSpec) {
        let mut settings = self.settings();
        let text = || {
            value
                .get::<Option<String>>()
                .ok()
                .flatten()
                .unwrap_or_default()
        };
        let number = || value.get::<u32>().unwrap_or_default();
        match of.name() {
            "to" => settings.to = text(),
            "via" => settings.via = text(),
            "key" => settings.key = text(),
            "peer" => settings.peer = text(),
            "latency" => settings.latency = number(),
            "min-bitrate" => {
                settings.min_bitrate = number();
                self.target.store(settings.min_bitrate, Ordering::Relaxed);
            }
            "max-bitrate" => settings.max_bitrate = number(),
            _ => {}
        }
    }

    fn property(&self, _: usize, of: &glib::ParamSpec) -> glib::Value {
        let settings = self.settings();
        match of.name() {
            "to" => settings.to.to_value(),
            "via" => settings.via.to_value(),
            "key" => settings.key.to_value(),
            "peer" => settings.peer.to_value(),
            "latency" => settings.latency.to_value(),
            "min-bitrate" => settings.min_bitrate.to_value(),
            "max-bitrate" => settings.max_bitrate.to_value(),
            _ => self.target.load(Ordering::Relaxed).to_value(),
        }
    }

    fn signals() -> &'static [glib::subclass::Signal] {
        static SIGNALS: LazyLock<Vec<glib::subclass::Signal>> = LazyLock::new(|| {
            let signal = |name, of| {
                glib::subclass::Signal::builder(name)
                    .param_types([of])
                    .build()
            };
            vec![
                signal("connected", String::static_type()),
                signal("ended", String::static_type()),
                signal("target", u32::static_type()),
            ]
        });
        &SIGNALS
    }
}

impl GstObjectImpl for AnabranchSink {}

impl ElementImpl for AnabranchSink {
    fn metadata() -> Option<&'static gst::subclass::ElementMetadata> {
        static METADATA: LazyLock<gst::subclass::ElementMetadata> = LazyLock::new(|| {
            gst::subclass::ElementMetadata::new(
                "Anabranch sink",
                "Sink/Network",
                "Sends MPEG-TS over several networks and reports the bitrate to the encoder",
                "Anabranch",
            )
        });
        Some(&METADATA)
    }

    fn pad_templates() -> &'static [gst::PadTemplate] {
        static TEMPLATES: LazyLock<Vec<gst::PadTemplate>> = LazyLock::new(|| {
            let caps = crate::transport_stream();
            let (direction, presence) = (gst::PadDirection::Sink, gst::PadPresence::Always);
            let template = gst::PadTemplate::new("sink", direction, presence, &caps);
            template.into_iter().collect()
        });
        &TEMPLATES
    }
}

impl BaseSinkImpl for AnabranchSink {
    fn start(&self) -> Result<(), gst::ErrorMessage> {
        let wrong = |what: String| gst::error_msg!(gst::ResourceError::Settings, ["{what}"]);
        let config = self.settings().config().map_err(wrong)?;
        let clock = config.clock;
        let (sender, events) = Sender::start(config).map_err(|error| wrong(error.to_string()))?;
        let sender = Arc::new(sender);
        let (element, of) = (self.obj().downgrade(), Arc::clone(&sender));
        let thread = std::thread::Builder::new().name("anabranchsink".to_owned());
        let thread = thread.spawn(move || {
            follow(&element, &events, &of);
        });
        let events = thread.map_err(|error| wrong(error.to_string()))?;
        *self.running() = Some(Running {
            sender,
            clock,
            splitter: TransportUnitSplitter::live(),
            events: Some(events),
        });
        Ok(())
    }

    /// The end of the stream is reached when its last frame has arrived.
    fn event(&self, event: gst::Event) -> bool {
        if let gst::EventView::Eos(_) = event.view() {
            self.finish();
        }
        self.parent_event(event)
    }

    fn stop(&self) -> Result<(), gst::ErrorMessage> {
        let running = self.running().take();
        if let Some(mut running) = running {
            running.sender.close();
            if let Some(events) = running.events.take() {
                let _ = events.join();
            }
        }
        Ok(())
    }

    fn render(&self, buffer: &gst::Buffer) -> Result<gst::FlowSuccess, gst::FlowError> {
        let mut running = self.running();
        let running = running.as_mut().ok_or(gst::FlowError::Flushing)?;
        let bytes = buffer.map_readable().map_err(|_| gst::FlowError::Error)?;
        running.splitter.push(&bytes);
        while let Some(unit) = running.splitter.next_unit() {
            self.send(running, unit)?;
        }
        Ok(gst::FlowSuccess::Ok)
    }
}
