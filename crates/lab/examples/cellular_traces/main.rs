//! Writes the traces of RFC 8869's cellular cases into a folder, and prints their mean rates.
//!
//! ```sh
//! cargo run --release -p anabranch-lab --example cellular_traces -- scenarios/traces
//! ```

mod cell;

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let folder: PathBuf = std::env::args_os()
        .nth(1)
        .unwrap_or_else(|| "scenarios/traces".into())
        .into();
    for cell in cell::TRACES {
        let times = cell.trace();
        let lines: String = times.iter().map(|time| format!("{time}\n")).collect();
        let kilobits = 12.032 * times.len() as f64 / 30.0;
        println!("{}.trace {kilobits:.0} kbit/s", cell.name);
        std::fs::write(folder.join(format!("{}.trace", cell.name)), lines)?;
    }
    Ok(())
}
