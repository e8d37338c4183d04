//! Two ends over a virtual network.

mod attacks;
mod handshakes;
mod libsrt;
mod media;
mod network;
mod recovery;
