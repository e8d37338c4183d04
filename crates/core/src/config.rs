//! Configuration of a session.

use anabranch_units::{DataRate, Duration, SharedMemory};

use crate::control::Controller;
use crate::fec::FecPolicyFactory;
use crate::recovery::{FeedbackSchedule, LossDetection, MtuDiscovery};
use crate::reinjection::Reinjection;
use crate::scheduler::SchedulerFactory;
use crate::sender_rules::SenderRules;
use crate::wire;

/// The base must hold pieces of fragments of this length: a frame of the largest size then has at
/// most 65,535 fragments, even if each is cut again.
const MIN_PIECE_BYTES: u16 = 512;

/// The set-up of an endpoint. Both ends may differ in everything but `overhead_bytes`.
///
/// ```
/// use anabranch_core::{Config, ConfigError, MediaSession, SourceLimits};
/// use anabranch_units::{DataRate, Instant, Seed};
///
/// let controller = anabranch_controllers::by_name("gcc").expect("it is registered");
/// let mut config = Config::new(controller, anabranch_schedulers::default_scheduler());
/// config.media.source = SourceLimits::Adaptive {
///     min: DataRate::from_megabits_per_second(4),
///     max: DataRate::from_megabits_per_second(1),
/// };
/// // A session reports the part of its set-up that cannot work.
/// let refused = MediaSession::new(config, Seed(1), Instant::ZERO).map(|_| ());
/// assert!(matches!(refused, Err(ConfigError::SourceLimits { .. })));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// When useless bytes are sent.
    pub padding: PaddingPolicy,
    /// Most bytes of padding a minute by [`PaddingPolicy::Earned`], which is never more than a
    /// tenth of the last minute's bytes; `None`: no other limit.
    pub padding_bytes_per_minute: Option<u64>,
    /// Whether packets may leave with an ECT codepoint, if the controller reacts to marks.
    pub is_ecn_capable: bool,
    /// Bytes that the driver and the network add to each datagram: IP, UDP, packet protection.
    pub overhead_bytes: u32,
    /// The most payload bytes in a fragment or segment. With the headers it must fit the smallest
    /// path's largest packet.
    pub fragment_bytes: u16,
    /// Search for the paths' MTU; `None`: paths are assumed to carry packets of `fragment_bytes`,
    /// as experiments with a set packet size require.
    pub mtu: Option<MtuDiscovery>,
    /// The media session.
    pub media: MediaConfig,
    /// The stream session.
    pub stream: StreamConfig,
    /// Every path's congestion controller.
    pub controller: Controller,
    /// The packet scheduler.
    pub scheduler: SchedulerFactory,
    /// The rate below which no controller goes.
    pub min_rate: DataRate,
    /// The rate that a path starts with.
    pub initial_rate: DataRate,
    /// The rate above which no controller needs to go; `None`: what lets an adaptive source produce
    /// its most, or no bound.
    pub max_rate: Option<DataRate>,
    /// The window that a path starts with, in packets.
    pub initial_window_packets: u32,
    /// Settings that only experiments change.
    pub laboratory: Laboratory,
}

impl Config {
    /// Returns the usual configuration of a media session, with this controller on every path and
    /// this scheduler.
    pub fn new(controller: Controller, scheduler: SchedulerFactory) -> Self {
        Config {
            controller,
            scheduler,
            min_rate: DataRate::from_kilobits_per_second(50),
            initial_rate: DataRate::from_kilobits_per_second(300),
            max_rate: None,
            initial_window_packets: 10,
            is_ecn_capable: false,
            padding: PaddingPolicy::default(),
            padding_bytes_per_minute: None,
            // IPv4 and UDP; the packet protection's bytes are its driver's to add.
            overhead_bytes: 28,
            // Seven packets of MPEG-TS.
            fragment_bytes: 1316,
            mtu: None,
            media: MediaConfig::default(),
            stream: StreamConfig::default(),
            laboratory: Laboratory::default(),
        }
    }
}

/// Settings that only experiments change: those of published algorithms, and of simulations.
#[derive(Clone, Debug, PartialEq)]
pub struct Laboratory {
    /// The rate of the controller `fixed`.
    pub fixed_rate: DataRate,
    /// Loss detection; `None`: [`LossDetection::PerPacket`] for media, [`LossDetection::TcpSack`]
    /// for streams.
    pub loss_detection: Option<LossDetection>,
    /// Feedback schedule of the peer; `None`: the controller's choice.
    pub feedback: Option<FeedbackSchedule>,
    /// Useless bytes in a packet of padding; `None`: as many as in a full fragment.
    pub padding_bytes: Option<u16>,
    /// Minimum contribution of each usable path to the encoder's target (Zhang & Lei's program: the
    /// controllers' minimum).
    pub path_target_min: DataRate,
    /// Rules that a sender of media follows.
    pub rules: SenderRules,
    /// Whether a lost segment is resent by the path that lost it, as each flow of MPTCP does, and
    /// not by the scheduler's choice.
    pub retransmits_on_same_path: bool,
    /// Whether received frames come with their bytes, and bytes of a stream can be read. Without
    /// them, frames are measured, and bytes are skipped and counted.
    pub keeps_bytes: bool,
}

impl Default for Laboratory {
    fn default() -> Self {
        Laboratory {
            fixed_rate: DataRate::from_megabits_per_second(1),
            loss_detection: None,
            feedback: None,
            padding_bytes: None,
            path_target_min: DataRate::ZERO,
            rules: SenderRules::ALL,
            retransmits_on_same_path: false,
            keeps_bytes: true,
        }
    }
}

/// The set-up of the stream session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamConfig {
    /// The most bytes kept for sending and sending again, rounded up to whole segments.
    pub send_buffer_bytes: usize,
    /// The most of them that wait for being sent for the first time: more would only use memory.
    /// Rounded up to whole segments.
    pub max_unsent_bytes: usize,
    /// The most bytes that the peer may be ahead of this end's application, at least
    /// [`StreamConfig::INITIAL_WINDOW_BYTES`].
    pub receive_window_bytes: u64,
    /// Whether it carries messages instead of a stream: each arrives whole and once, in any order.
    /// A message has at most [`Config::fragment_bytes`] and travels as one segment. Both ends must
    /// agree on it.
    pub carries_messages: bool,
    /// Delay of the receiver's acknowledgement of a segment that came in order; every second one is
    /// acknowledged at once (RFC 5681 §4.2: at most 500 ms).
    pub delayed_ack: Duration,
    /// Number of segments that one acknowledgement covers, at most 16 (RFC 5681 §4.2: two; more
    /// where a host takes several packets from its network card at once).
    pub ack_every: u32,
    /// Number of first packets of a path that are acknowledged at once (Linux: up to 16).
    pub quick_acks: u32,
    /// Condition, with several paths, for copies of segments in flight on another path.
    pub reinjection: Reinjection,
    /// The retransmission timeout is never shorter (RFC 6298 §2.4 asks for 1 s; Linux and ns-2 use
    /// 0.2 s).
    pub min_retransmission_timeout: Duration,
    /// The retransmission timeout before the first round-trip time (RFC 6298 §2.1: 1 s).
    pub initial_retransmission_timeout: Duration,
    /// Interval at which the only path is asked for a sign of life while its retransmission timer
    /// backs off; `None`: never, as in TCP.
    pub silence_question_interval: Option<Duration>,
}

impl StreamConfig {
    /// Bytes that may be sent before the receiver has announced its window.
    pub const INITIAL_WINDOW_BYTES: u64 = 64 << 10;
    /// The largest receive window: offsets travel in 32 bits.
    pub const MAX_WINDOW_BYTES: u64 = 1 << 30;
}

impl Default for StreamConfig {
    fn default() -> Self {
        StreamConfig {
            send_buffer_bytes: 4 << 20,
            max_unsent_bytes: 256 << 10,
            receive_window_bytes: 4 << 20,
            carries_messages: false,
            delayed_ack: Duration::from_millis(40),
            ack_every: 2,
            quick_acks: 0,
            reinjection: Reinjection::Tail,
            min_retransmission_timeout: Duration::from_millis(200),
            initial_retransmission_timeout: Duration::from_secs(1),
            silence_question_interval: None,
        }
    }
}

/// The set-up of the media session.
#[derive(Clone, Debug, PartialEq)]
pub struct MediaConfig {
    /// From a frame's capture until the sender gives it up; key frames have none (Zhang & Lei §4.2:
    /// 500 ms).
    pub deadline: Duration,
    /// Encoder's share of the paths' estimated bandwidth, 0 to 1; `None`: the share that the
    /// controller leaves it ([`RateKind`](crate::control::RateKind)).
    pub target_fraction: Option<f64>,
    /// Rates that the source can produce.
    pub source: SourceLimits,
    /// Time for which the receiver waits for the rest of a frame that is not a key frame.
    pub reassembly_wait: Duration,
    /// When a receiver hands out frames.
    pub hand_out: HandOut,
    /// Memory that the frames of several sessions share; without a total, each has its own.
    pub memory: SharedMemory,
    /// Whether a sender states when its datagrams leave, by which a receiver knows the least
    /// one-way delay whatever waits at the sender. In a laboratory both ends have one clock.
    pub includes_send_times: bool,
    /// Whether the session is over when the peer closes it, although this end sends too: the peer
    /// has opened it. Otherwise an end that sends waits for another receiver.
    pub ends_with_peer: bool,
    /// The policy of forward error correction; `None`: no repairs. Only senders need one.
    pub fec: Option<FecPolicyFactory>,
}

impl Default for MediaConfig {
    fn default() -> Self {
        MediaConfig {
            deadline: Duration::from_millis(500),
            reassembly_wait: Duration::from_millis(500),
            hand_out: HandOut::default(),
            memory: SharedMemory::default(),
            includes_send_times: false,
            ends_with_peer: false,
            target_fraction: None,
            source: SourceLimits::Fixed,
            fec: None,
        }
    }
}

/// When a receiver of media hands out frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandOut {
    /// Once they are whole and all before them are settled.
    #[default]
    InOrder,
    /// As `InOrder`, and bytes in order before their frame is whole, as
    /// [`FramePart`](crate::FramePart)s. Without [`Laboratory::keeps_bytes`] it is `InOrder`.
    PartsInOrder,
    /// Once they are whole, whatever is missing before them: the order of frames is the caller's
    /// concern.
    WhenWhole,
}

/// Whether the source follows the target bitrate, and how far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceLimits {
    /// It does not follow the target.
    Fixed,
    /// It follows the target between these rates.
    Adaptive {
        /// The least that it can produce.
        min: DataRate,
        /// The most that it is useful to produce.
        max: DataRate,
    },
}

/// When useless bytes fill what media leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PaddingPolicy {
    /// Never.
    Never,
    /// While a controller probes, if more bandwidth would be of use: for an adaptive source below
    /// its maximum; for any while metered paths help and the others are not known to carry enough
    /// to do without.
    WhileProbing,
    /// The same, in proportion: as long as the network is new or changes. On a steady network only
    /// for an adaptive source that uses its target, and as often as media has earned it. It is at
    /// most a tenth of the last minute's bytes.
    #[default]
    Earned,
    /// Always, as Zhang & Lei §4.1 have it: the session is greedy from its first frame on.
    Always,
}

/// Why a [`Config`] cannot work.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A fragment, and padding, must fill something and fit a datagram.
    #[error("fragments or padding of {bytes} bytes: allowed are 64 to 9000")]
    FragmentBytes {
        /// Requested size.
        bytes: u16,
    },
    /// Between base and maximum there must be something, and pieces of a fragment must fit the base
    /// that are not too many.
    #[error("MTU from {base_bytes} to {max_bytes} B for fragments of {fragment_bytes} B")]
    Mtu {
        /// The least size.
        base_bytes: u32,
        /// The largest size.
        max_bytes: u32,
        /// The longest fragment.
        fragment_bytes: u16,
    },
    /// The encoder's share must be above zero and at most one.
    #[error("a target fraction of {fraction}: it must be above 0 and at most 1")]
    TargetFraction {
        /// Requested fraction.
        fraction: f64,
    },
    /// The rule needs the order of a stream's bytes, and packets of one size.
    #[error("this loss detection is for streams only, without a search for the MTU")]
    LossDetection,
    /// A stream's window is too small to begin with, or too large for the wire.
    #[error("a receive window of {bytes} bytes: allowed are 64 KiB to 1 GiB")]
    ReceiveWindow {
        /// Requested window.
        bytes: u64,
    },
    /// A rate is zero.
    #[error("{name} is zero")]
    ZeroRate {
        /// Which rate.
        name: &'static str,
    },
    /// A minimum lies above its maximum.
    #[error("the source's minimum {min} lies above its maximum {max}")]
    SourceLimits {
        /// The minimum.
        min: DataRate,
        /// The maximum.
        max: DataRate,
    },
}

impl Config {
    /// Returns the loss detection of a session, of media or of a stream.
    pub(crate) fn loss_detection(&self, is_media: bool) -> LossDetection {
        self.laboratory.loss_detection.unwrap_or(if is_media {
            LossDetection::PerPacket
        } else {
            LossDetection::TcpSack
        })
    }

    /// Returns whether a stream's acknowledgements carry its offset alone, and name no packets.
    pub(crate) fn has_cumulative_acks(&self) -> bool {
        self.loss_detection(false) == LossDetection::TcpCumulative
    }

    /// Returns the highest useful rate of a controller, if the encoder gets this share of it.
    pub(crate) fn max_rate(&self, target_fraction: f64) -> DataRate {
        let of_source = match self.media.source {
            SourceLimits::Adaptive { max, .. } => max.mul_f64(1.0 / target_fraction),
            SourceLimits::Fixed => DataRate::MAX,
        };
        self.max_rate.unwrap_or(of_source)
    }

    fn check_mtu(&self) -> Result<(), ConfigError> {
        let Some(mtu) = self.mtu else {
            return Ok(());
        };
        let header_bytes = self.overhead_bytes + wire::max_fragment_header_bytes(true);
        let piece_bytes = u32::from(self.fragment_bytes.min(MIN_PIECE_BYTES));
        if mtu.base_bytes < header_bytes + piece_bytes || mtu.max_bytes < mtu.base_bytes {
            return Err(ConfigError::Mtu {
                base_bytes: mtu.base_bytes,
                max_bytes: mtu.max_bytes,
                fragment_bytes: self.fragment_bytes,
            });
        }
        Ok(())
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        for bytes in [Some(self.fragment_bytes), self.laboratory.padding_bytes]
            .into_iter()
            .flatten()
        {
            if !(64..=9000).contains(&bytes) {
                return Err(ConfigError::FragmentBytes { bytes });
            }
        }
        for (name, rate) in [
            ("the minimum rate", self.min_rate),
            ("the initial rate", self.initial_rate),
        ] {
            if rate.is_zero() {
                return Err(ConfigError::ZeroRate { name });
            }
        }
        Ok(())
    }

    pub(crate) fn check_media(&self) -> Result<(), ConfigError> {
        self.check_mtu()?;
        if let Some(fraction) = self.media.target_fraction
            && !(fraction > 0.0 && fraction <= 1.0)
        {
            return Err(ConfigError::TargetFraction { fraction });
        }
        if self.loss_detection(true).is_of_streams() {
            return Err(ConfigError::LossDetection);
        }
        match self.media.source {
            SourceLimits::Adaptive { min, max } if min > max => {
                Err(ConfigError::SourceLimits { min, max })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn check_stream(&self) -> Result<(), ConfigError> {
        self.check_mtu()?;
        // Probes are acknowledged by reports alone.
        if self.mtu.is_some() && self.has_cumulative_acks() {
            return Err(ConfigError::LossDetection);
        }
        let bytes = self.stream.receive_window_bytes;
        let allowed = StreamConfig::INITIAL_WINDOW_BYTES..=StreamConfig::MAX_WINDOW_BYTES;
        if !allowed.contains(&bytes) {
            return Err(ConfigError::ReceiveWindow { bytes });
        }
        Ok(())
    }
}
