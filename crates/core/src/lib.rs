//! The transport itself, as a state machine without input or output of its own.
#![doc = ""]

mod config;
pub mod congestion;
pub mod media;
mod path_view;
pub mod recovery;
pub mod scheduler;
mod session_view;
mod wire;

pub use config::{Config, ConfigError, MediaConfig, PaddingPolicy, SourceLimits};
pub use path_view::{PathId, PathSet, PathState, PathView};
pub use session_view::SessionView;
