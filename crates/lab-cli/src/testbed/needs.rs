//! Things that the testbed needs on this machine.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, bail};

use super::rows::Row;
use crate::kernel::needs::{has, is_root, missing as missing_for_kernel};

/// Programs, and Debian's packages that have them.
const PROGRAMS: [(&str, &str); 7] = [
    ("nginx", "nginx-light"),
    (
        "vlc",
        "vlc-bin, vlc-plugin-base and vlc-plugin-video-output",
    ),
    ("mptcpize", "mptcpize"),
    ("ffmpeg", "ffmpeg"),
    ("ip", "iproute2"),
    ("setpriv", "util-linux"),
    ("timeout", "coreutils"),
];

/// Refuses to continue if anything is missing for these rows.
///
/// # Errors
/// A message with all that is missing.
pub(super) fn require(rows: &[Row]) -> anyhow::Result<()> {
    let mut missing = Vec::new();
    if !is_root() {
        missing.push("root".to_owned());
    }
    for (program, package) in PROGRAMS {
        if !has(program) {
            missing.push(format!("the program {program} (Debian: {package})"));
        }
    }
    if rows.iter().any(Row::is_bpf) {
        missing.extend(missing_for_kernel());
    }
    missing.dedup();
    if !missing.is_empty() {
        bail!(
            "this needs {}; `scripts/testbed-packages.sh` installs the packages",
            missing.join(", and ")
        );
    }
    Ok(())
}

/// Returns the path of `anabranch`, which has the proxy: beside this program.
///
/// # Errors
/// It is not there.
pub(super) fn proxy_program() -> anyhow::Result<PathBuf> {
    let own = env::current_exe().context("cannot find this program")?;
    let program = own.with_file_name("anabranch");
    if !program.is_file() {
        bail!("{} is missing, which has the proxy", program.display());
    }
    Ok(program)
}
