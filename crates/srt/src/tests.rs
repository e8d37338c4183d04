//! Two ends over a virtual network.

mod attacks;
mod ending;
mod handshakes;
mod libsrt;
mod media;
mod network;
mod recovery;
