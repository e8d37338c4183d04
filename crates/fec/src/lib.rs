//! Forward error correction: the code, its decoder, the amount of repair, and the model of losses.
//!
//! The crate knows symbols, which are strings of bytes, and no packets, paths or sessions.
//! [`encode`] makes a repair symbol, and a [`Decoder`] recovers lost symbols. A [`LossProcess`]
//! follows the losses of a path, and [`repair_count`] returns the repairs that they need. Policies
//! in `anabranch-schedulers` decide about the repairs of each frame.
//!
//! ```
//! use anabranch_fec::{Decoder, RepairHeader, encode};
//!
//! let symbols: [&[u8]; 3] = [b"red", b"green", b"blue"];
//! let header = RepairHeader { first: 7, count: 3, row: 0 };
//! let mut repair = Vec::new();
//! encode(header, symbols.iter().map(|symbol| [*symbol, &[]]), &mut repair);
//!
//! // The second symbol, number 8, is lost.
//! let mut decoder = Decoder::new();
//! decoder.on_source(7, [symbols[0], &[]]);
//! decoder.on_source(9, [symbols[2], &[]]);
//! decoder.on_repair(header, &repair);
//! assert_eq!(decoder.next_recovered(), Some((8, symbols[1])));
//! ```
//!
//! # The code
//!
//! Symbols have consecutive numbers; symbols that are combined count as padded with
//! zeros to the longest of them. A *repair symbol* is a linear combination over GF(2^8) of a
//! *window* of at most [`MAX_WINDOW`] consecutive symbols. The coefficients are a Cauchy matrix
//! (Bloemer et al., "An XOR-Based Erasure-Resilient Coding Scheme", ICSI TR-95-048, section 4): row
//! `r` takes symbol `s` times `1 / (x_r + y_s)`, with `x_r = 128 + r` and `y_s = s mod 128`.
//!
//! Any 128 consecutive symbols have distinct `y`, and every square part of a Cauchy matrix is
//! regular. So the repairs of one window, with rows of their own, are a systematic Reed-Solomon
//! code: any `m` of them recover any `m` lost symbols of the window. One code serves blocks (the
//! window is a frame) and sliding windows (the window is the last `w` symbols), which the receiver
//! need not distinguish.
//!
//! The guarantee holds for any repair symbols that cover the same lost symbols, whatever their
//! windows. It ends where they cover different ones: a coefficient outside of a window is zero, and
//! a matrix with zeros can be singular although each lost symbol has a repair symbol of its own.
//! This happens by chance about once in 400 (six losses, windows of 20).

mod code;
mod decoder;
mod elimination;
mod gf256;
mod loss_process;
mod rate;

pub use code::{MAX_ROWS, MAX_WINDOW, RepairHeader, encode};
pub use decoder::Decoder;
pub use loss_process::LossProcess;
pub use rate::{
    KEY_FRAME_RESIDUAL, LossModel, OTHER_FRAME_RESIDUAL, is_retransmission_enough,
    proportional_repair_count, repair_count, repair_weight,
};
