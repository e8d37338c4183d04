//! Experiments that reproduce published results, each beside the numbers that were published.

pub mod zhang_delay_bbr;
