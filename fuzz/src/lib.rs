//! Parts shared by the fuzz targets.
//!
//! | file | idea |
//! |---|---|
//! | `meter.rs` | bounds of memory and time for each byte of input |
//! | `steps.rs` | inputs as sequences of steps, which seeds can write |
//! | `seeds.rs` | small valid inputs, which a target writes before it begins |

mod meter;
mod seeds;
mod steps;

pub use meter::{Bound, Meter, TRANSPORT};
pub use seeds::plant;
pub use steps::{Reader, Writer};
