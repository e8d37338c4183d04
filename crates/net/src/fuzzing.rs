//! Entry points of the fuzz targets.

pub use crate::gate::{Gate, Verdict};
