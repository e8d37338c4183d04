//! Two ends over a virtual network.

mod attacks;
mod handshakes;
mod media;
mod network;
