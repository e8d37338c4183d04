//! Sources of the kernel's controllers, which this program contains.

use std::fs;
use std::path::Path;

use anyhow::Context;

const FILES: &[(&str, &str)] = &[
    ("balia.h", include_str!("../../../../kernel/balia.h")),
    ("ccp.h", include_str!("../../../../kernel/ccp.h")),
    ("compound.h", include_str!("../../../../kernel/compound.h")),
    (
        "controllers.bpf.c",
        include_str!("../../../../kernel/controllers.bpf.c"),
    ),
    ("coupled.h", include_str!("../../../../kernel/coupled.h")),
    ("events.h", include_str!("../../../../kernel/events.h")),
    ("fixed.h", include_str!("../../../../kernel/fixed.h")),
    ("lia.h", include_str!("../../../../kernel/lia.h")),
    ("new_reno.h", include_str!("../../../../kernel/new_reno.h")),
    ("olia.h", include_str!("../../../../kernel/olia.h")),
    (
        "replay.bpf.c",
        include_str!("../../../../kernel/replay.bpf.c"),
    ),
    ("replay.c", include_str!("../../../../kernel/replay.c")),
];

/// Writes all sources into a folder.
///
/// # Errors
/// A file cannot be written.
pub(super) fn write(folder: &Path) -> anyhow::Result<()> {
    for (name, text) in FILES {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
