//! Programs installed on this machine that tests can do without.

use std::process::Command;

/// Returns whether ffmpeg is installed with this encoder; if not, prints that a test is skipped.
pub fn has_ffmpeg(encoder: &str) -> bool {
    let encoders = Command::new("ffmpeg")
        .args(["-v", "error", "-encoders"])
        .output();
    let is_there =
        encoders.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(encoder));
    if !is_there {
        eprintln!("skipped: no ffmpeg with {encoder} is installed");
    }
    is_there
}
