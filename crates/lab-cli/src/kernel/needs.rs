//! Things that the kernel's controllers need on this machine.

use std::env;
use std::path::Path;

use anyhow::bail;

/// Types of the running kernel, which programs of BPF are compiled against.
pub(super) const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Headers of libbpf.
const HEADERS: [&str; 2] = [
    "/usr/include/bpf/bpf_helpers.h",
    "/usr/local/include/bpf/bpf_helpers.h",
];

/// Returns a sentence for each thing that is missing, with its remedy.
pub(crate) fn missing() -> Vec<String> {
    let mut missing = Vec::new();
    if !is_root() {
        missing.push("root: run this as root, by sudo for example".to_owned());
    }
    if !Path::new(TYPES).exists() {
        missing.push(format!(
            "{TYPES}: it needs a kernel built with CONFIG_DEBUG_INFO_BTF, as distributions have it"
        ));
    }
    for (program, package) in [("clang", "clang"), ("bpftool", "bpftool")] {
        if !has(program) {
            missing.push(format!(
                "the program {program} (Debian and Ubuntu: apt install {package}; Fedora: dnf \
                 install {package})"
            ));
        }
    }
    if !HEADERS.iter().any(|file| Path::new(file).exists()) {
        missing.push(
            "the headers of libbpf (Debian and Ubuntu: apt install libbpf-dev; Fedora: dnf install \
             libbpf-devel)"
                .to_owned(),
        );
    }
    missing
}

/// Refuses to continue if anything is missing.
///
/// # Errors
/// A message with all that is missing.
pub(crate) fn require() -> anyhow::Result<()> {
    let missing = missing();
    if !missing.is_empty() {
        bail!("this needs {}", missing.join("; and "));
    }
    Ok(())
}

/// Returns whether a folder of `PATH`, or of the system's programs, has the program.
pub(crate) fn has(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let of_system = ["/usr/sbin", "/sbin"].map(Into::into);
    let mut folders = env::split_paths(&path).chain(of_system);
    folders.any(|folder| folder.join(program).is_file())
}

/// Returns whether this program runs as root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
