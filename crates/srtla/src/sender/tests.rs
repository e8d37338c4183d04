//! The sender against receivers that are simulated here.
