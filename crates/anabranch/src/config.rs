//! Set-ups behind the builders, field by field.
//!
//! [`ClientBuilder::configure`](crate::ClientBuilder::configure) and
//! [`ServerBuilder::configure`](crate::ServerBuilder::configure) give access to every field:
//!
//! ```
//! use anabranch::config::PaddingPolicy;
//! use anabranch::{SecretKey, Sender};
//!
//! let config = Sender::builder()
//!     .key(SecretKey::generate())
//!     .peer(SecretKey::generate().public_key())
//!     .to("studio.example:7000")
//!     .configure(|config| config.transport.padding = PaddingPolicy::Never)
//!     .build()?;
//! assert_eq!(config.transport.padding, PaddingPolicy::Never);
//! // Sender::start(config) is the same as start() of the builder.
//! # Ok::<(), anabranch::StartError>(())
//! ```

pub use anabranch_core::fec::{
    FecPolicy, FecPolicyFactory, FrameToProtect, Protection, SlidingWindow,
};
pub use anabranch_core::recovery::LossDetection;
pub use anabranch_core::{
    Config, ConfigError, HandOut, Laboratory, MediaConfig, MtuDiscovery, PaddingPolicy,
    Reinjection, SenderRule, SenderRules, SourceLimits, StreamConfig,
};
pub use anabranch_net::{
    Carrier, ClientConfig, LinkCap, LinkReport, PacketEvent, PacketEventKind, PacketObserver,
    PairingOutcome, RefusedSender, ServerConfig, SessionLimit, TcpFallback, mark_sockets,
};
pub use anabranch_schedulers::{FEC_POLICIES, FecPolicyEntry, UnknownFecPolicy, fec_policy};
