//! The element's implementation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration as StdDuration;

use anabranch_core::ReceivedFrame;
use anabranch_net::{Clock, Ended, Event, Receiver, Reception, Receptions};
use anabranch_units::Duration;
use anabranch_video::null_packets;
use gst::glib;
use gst::prelude::*;
use gst::subclass::prelude::*;
use gst_base::prelude::BaseSrcExt;
use gst_base::subclass::base_src::CreateSuccess;
use gst_base::subclass::prelude::*;

use super::settings::Settings;
use super::statistics;

static CAT: LazyLock<gst::DebugCategory> = LazyLock::new(|| {
    let colors = gst::DebugColorFlags::empty();
    gst::DebugCategory::new(
        "anabranchsrc",
        colors,
        Some("Receives over several networks"),
    )
});

/// Longest wait until a flush or a stop is noticed.
const LOOK_INTERVAL: StdDuration = StdDuration::from_millis(20);
/// First byte of each packet of MPEG-TS (ISO/IEC 13818-1 §2.4.3.3). Programs also send frames with
/// messages, which begin with another byte.
const SYNC_BYTE: u8 = 0x47;

/// State between start and stop.
struct Running {
    receiver: Receiver,
    receptions: Receptions,
    clock: Clock,
    /// The session whose frames are pushed.
    session: Mutex<Option<Arc<Reception>>>,
}

#[derive(Default)]
pub struct AnabranchSrc {
    settings: Mutex<Settings>,
    running: Mutex<Option<Arc<Running>>>,
    /// Whether `create` has to return.
    is_flushing: AtomicBool,
    /// Delay that the present session's ends agreed on.
    latency: Mutex<Option<Duration>>,
    /// Time stamp of the last buffer.
    last_pts: Mutex<Option<gst::ClockTime>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Step of `create`.
enum Step {
    Frame(ReceivedFrame),
    /// The session is over; the next one is awaited.
    Next,
    /// The session is over, and the element's work as well.
    End(Result<(), String>),
    Nothing,
}

impl AnabranchSrc {
    /// Returns the latency that holds: that of the session, or the property's.
    fn latency(&self) -> gst::ClockTime {
        let agreed = *locked(&self.latency);
        let own = Duration::from_millis(locked(&self.settings).latency.into());
        gst::ClockTime::from_nseconds(agreed.unwrap_or(own).as_nanos())
    }

    /// Takes the next session. Returns whether there is one.
    fn accept(&self, running: &Running) -> bool {
        let Ok(session) = running.receptions.recv_timeout(LOOK_INTERVAL) else {
            return false;
        };
        *locked(&self.latency) = session.latency();
        let peer = session.peer().to_string();
        *locked(&running.session) = Some(Arc::new(session));
        let element = self.obj();
        // The pipeline asks for the latency again.
        let _ = element.post_message(gst::message::Latency::builder().src(&*element).build());
        element.emit_by_name::<()>("connected", &[&peer]);
        true
    }

    /// Waits for the session's next frame, for a moment.
    fn step(&self, running: &Running, session: &Reception) -> Step {
        match session.events().recv_timeout(LOOK_INTERVAL) {
            Ok(Event::FrameReceived(frame)) => Step::Frame(frame),
            Ok(Event::Ended(ended)) => {
                *locked(&running.session) = None;
                let text = ended.to_string();
                self.obj().emit_by_name::<()>("ended", &[&text]);
                let keeps_listening = locked(&self.settings).keep_listening;
                match ended {
                    Ended::Replaced => Step::Next,
                    _ if keeps_listening => Step::Next,
                    Ended::Closed | Ended::ClosedByPeer => Step::End(Ok(())),
                    _ => Step::End(Err(text)),
                }
            }
            Ok(_) | Err(RecvTimeoutError::Timeout) => Step::Nothing,
            Err(RecvTimeoutError::Disconnected) => Step::End(Ok(())),
        }
    }

    /// Returns the frame as a buffer. Its time stamp is the arrival of the fastest packet that left
    /// at the same time: frames have the spacing of their capture, and sinks add the latency.
    fn buffer(&self, running: &Running, frame: ReceivedFrame) -> gst::Buffer {
        let now = running.clock.now();
        let arrival = frame.offset.to_local(frame.captured_at);
        let age = gst::ClockTime::from_nseconds(now.saturating_since(arrival).as_nanos());
        let mut bytes = frame.bytes;
        null_packets::insert(&mut bytes);
        let mut buffer = gst::Buffer::from_mut_slice(bytes);
        let running_time = self.obj().current_running_time();
        let pts = running_time.map(|at| at.saturating_sub(age));
        let mut last = locked(&self.last_pts);
        let pts = pts.max(*last);
        *last = pts;
        if let Some(buffer) = buffer.get_mut() {
            buffer.set_pts(pts);
            buffer.set_dts(pts);
        }
        buffer
    }

    fn wait_for_frame(&self, running: &Running) -> Result<ReceivedFrame, gst::FlowError> {
        loop {
            if self.is_flushing.load(Ordering::Acquire) {
                return Err(gst::FlowError::Flushing);
            }
            let session = locked(&running.session).clone();
            let Some(session) = session else {
                self.accept(running);
                continue;
            };
            match self.step(running, &session) {
                Step::Frame(frame) if frame.bytes.first() == Some(&SYNC_BYTE) => return Ok(frame),
                Step::Frame(frame) => {
                    gst::debug!(CAT, imp = self, "a message of {} bytes", frame.size_bytes);
                }
                Step::Next | Step::Nothing => {}
                Step::End(Ok(())) => return Err(gst::FlowError::Eos),
                Step::End(Err(text)) => {
                    let lost = gst::ResourceError::Read;
                    gst::element_imp_error!(self, lost, ["the session is over: {text}"]);
                    return Err(gst::FlowError::Error);
                }
            }
        }
    }
}

#[glib::object_subclass]
impl ObjectSubclass for AnabranchSrc {
    const NAME: &'static str = "GstAnabranchSrc";
    type Type = super::AnabranchSrc;
    type ParentType = gst_base::PushSrc;
}

fn text(name: &str, blurb: &str, default: &str) -> glib::ParamSpec {
    glib::ParamSpecString::builder(name)
        .blurb(blurb)
        .default_value(default)
        .mutable_ready()
        .build()
}

fn millis(name: &str, blurb: &str, default: u32) -> glib::ParamSpec {
    glib::ParamSpecUInt::builder(name)
        .blurb(blurb)
        .default_value(default)
        .mutable_ready()
        .build()
}

impl ObjectImpl for AnabranchSrc {
    fn constructed(&self) {
        self.parent_constructed();
        let element = self.obj();
        element.set_live(true);
        element.set_format(gst::Format::Time);
    }

    fn properties() -> &'static [glib::ParamSpec] {
        static PROPERTIES: LazyLock<Vec<glib::ParamSpec>> = LazyLock::new(|| {
            let usual = Settings::default();
            vec![
                text("listen", "Address and port to listen at", &usual.listen),
                text("key", "This end's key file, from anabranch keygen", ""),
                text(
                    "allow",
                    "Public keys of the senders that are let in, separated by commas",
                    "",
                ),
                millis(
                    "latency",
                    "Delay that frames may take, in ms; the larger value of both ends counts",
                    usual.latency,
                ),
                millis(
                    "timeout",
                    "Silence of a sender that ends its session, in ms",
                    usual.timeout,
                ),
                glib::ParamSpecBoolean::builder("keep-listening")
                    .blurb("Wait for the next session when one is over, instead of EOS")
                    .mutable_ready()
                    .build(),
                glib::ParamSpecUInt::builder("port")
                    .blurb("Port at which it listens; 0 before the start")
                    .read_only()
                    .build(),
                glib::ParamSpecBoxed::builder::<gst::Structure>("statistics")
                    .blurb("Counters of the present or last session, and of its paths")
                    .read_only()
                    .build(),
            ]
        });
        &PROPERTIES
    }

    fn set_property(&self, _: usize, value: &glib::Value, of: &glib::ParamSpec) {
        let mut settings = locked(&self.settings);
        let text = || {
            let text = value.get::<Option<String>>().ok().flatten();
            text.unwrap_or_default()
        };
        let number = || value.get::<u32>().unwrap_or_default();
        match of.name() {
            "listen" => settings.listen = text(),
            "key" => settings.key = text(),
            "allow" => settings.allow = text(),
            "latency" => settings.latency = number(),
            "timeout" => settings.timeout = number(),
            "keep-listening" => settings.keep_listening = value.get().unwrap_or_default(),
            _ => {}
        }
    }

    fn property(&self, _: usize, of: &glib::ParamSpec) -> glib::Value {
        let settings = locked(&self.settings);
        match of.name() {
            "listen" => settings.listen.to_value(),
            "key" => settings.key.to_value(),
            "allow" => settings.allow.to_value(),
            "latency" => settings.latency.to_value(),
            "timeout" => settings.timeout.to_value(),
            "keep-listening" => settings.keep_listening.to_value(),
            "port" => {
                let running = locked(&self.running);
                let port = running
                    .as_ref()
                    .map_or(0, |running| running.receiver.local_addr().port());
                u32::from(port).to_value()
            }
            _ => {
                let running = locked(&self.running);
                let seen = running.as_ref().map(|running| running.receiver.snapshot());
                statistics::structure(&seen.unwrap_or_default()).to_value()
            }
        }
    }

    fn signals() -> &'static [glib::subclass::Signal] {
        static SIGNALS: LazyLock<Vec<glib::subclass::Signal>> = LazyLock::new(|| {
            let signal = |name| {
                glib::subclass::Signal::builder(name)
                    .param_types([String::static_type()])
                    .build()
            };
            vec![signal("connected"), signal("ended")]
        });
        &SIGNALS
    }
}

impl GstObjectImpl for AnabranchSrc {}

impl ElementImpl for AnabranchSrc {
    fn metadata() -> Option<&'static gst::subclass::ElementMetadata> {
        static METADATA: LazyLock<gst::subclass::ElementMetadata> = LazyLock::new(|| {
            gst::subclass::ElementMetadata::new(
                "Anabranch source",
                "Source/Network",
                "Receives MPEG-TS that came over several networks",
                "Anabranch",
            )
        });
        Some(&METADATA)
    }

    fn pad_templates() -> &'static [gst::PadTemplate] {
        static TEMPLATES: LazyLock<Vec<gst::PadTemplate>> = LazyLock::new(|| {
            let caps = crate::transport_stream();
            let (direction, presence) = (gst::PadDirection::Src, gst::PadPresence::Always);
            let template = gst::PadTemplate::new("src", direction, presence, &caps);
            template.into_iter().collect()
        });
        &TEMPLATES
    }
}

impl BaseSrcImpl for AnabranchSrc {
    fn start(&self) -> Result<(), gst::ErrorMessage> {
        let wrong = |what: String| gst::error_msg!(gst::ResourceError::Settings, ["{what}"]);
        let config = locked(&self.settings).config().map_err(wrong)?;
        let clock = config.clock;
        let started = Receiver::start(config);
        let (receiver, receptions) = started.map_err(|error| {
            let busy = gst::ResourceError::OpenRead;
            gst::error_msg!(busy, ["cannot listen: {error}"])
        })?;
        *locked(&self.latency) = None;
        *locked(&self.last_pts) = None;
        *locked(&self.running) = Some(Arc::new(Running {
            receiver,
            receptions,
            clock,
            session: Mutex::default(),
        }));
        Ok(())
    }

    fn stop(&self) -> Result<(), gst::ErrorMessage> {
        if let Some(running) = locked(&self.running).take() {
            running.receiver.close();
        }
        Ok(())
    }

    fn unlock(&self) -> Result<(), gst::ErrorMessage> {
        self.is_flushing.store(true, Ordering::Release);
        Ok(())
    }

    fn unlock_stop(&self) -> Result<(), gst::ErrorMessage> {
        self.is_flushing.store(false, Ordering::Release);
        Ok(())
    }

    fn is_seekable(&self) -> bool {
        false
    }

    fn query(&self, query: &mut gst::QueryRef) -> bool {
        match query.view_mut() {
            gst::QueryViewMut::Latency(latency) => {
                latency.set(true, self.latency(), gst::ClockTime::NONE);
                true
            }
            _ => BaseSrcImplExt::parent_query(self, query),
        }
    }
}

impl PushSrcImpl for AnabranchSrc {
    fn create(&self, _: Option<&mut gst::BufferRef>) -> Result<CreateSuccess, gst::FlowError> {
        let running = locked(&self.running).clone();
        let running = running.ok_or(gst::FlowError::Flushing)?;
        let frame = self.wait_for_frame(&running)?;
        Ok(CreateSuccess::NewBuffer(self.buffer(&running, frame)))
    }
}
