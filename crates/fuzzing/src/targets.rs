//! All targets, one file each. A file states the target's bound of memory, its seeds and its
//! checks.

use crate::Target;

mod allow_file;
mod annex_b;
mod c_interface;
mod config_file;
mod control_request;
mod fec;
mod framing;
mod handle_datagram;
mod handshake_limiter;
mod http_head;
mod mpeg_ts;
mod mux;
mod relay_message;
mod rtp;
mod secure;
mod socks5;
mod srt;
mod srtla;
mod srtla_sender;
mod stream_session;
mod tunnel_messages;
mod wire;

/// All targets, by name.
pub const TARGETS: [Target; 22] = [
    allow_file::TARGET,
    annex_b::TARGET,
    c_interface::TARGET,
    config_file::TARGET,
    control_request::TARGET,
    fec::TARGET,
    framing::TARGET,
    handle_datagram::TARGET,
    handshake_limiter::TARGET,
    http_head::TARGET,
    mpeg_ts::TARGET,
    mux::TARGET,
    relay_message::TARGET,
    rtp::TARGET,
    secure::TARGET,
    socks5::TARGET,
    srt::TARGET,
    srtla::TARGET,
    srtla_sender::TARGET,
    stream_session::TARGET,
    tunnel_messages::TARGET,
    wire::TARGET,
];
