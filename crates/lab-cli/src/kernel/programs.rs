//! Programs of BPF: compiled by clang, handed to the kernel by bpftool.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use tempfile::TempDir;

use super::{needs, sources};

/// The kernel's names of the controllers.
pub(crate) const NAMES: [&str; 6] = [
    "bpf_reno",
    "bpf_lia",
    "bpf_olia",
    "bpf_balia",
    "bpf_compound",
    "bpf_ccp",
];

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// Returns those of the controllers that the kernel has.
///
/// # Errors
/// The kernel's list cannot be read.
pub(crate) fn registered() -> anyhow::Result<Vec<String>> {
    let mut names = words_of(AVAILABLE)?;
    names.retain(|name| NAMES.contains(&name.as_str()));
    Ok(names)
}

/// Returns the controllers that everyone may choose.
///
/// # Errors
/// The kernel's list cannot be read.
pub(crate) fn allowed() -> anyhow::Result<Vec<String>> {
    words_of(ALLOWED)
}

fn words_of(path: &str) -> anyhow::Result<Vec<String>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// Lets everyone choose controllers. The kernel forgets those that are taken out.
///
/// # Errors
/// The kernel's list cannot be written.
pub(crate) fn allow(more: &[String]) -> anyhow::Result<()> {
    let mut names = allowed()?;
    for name in more {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    set_allowed(&names)
}

/// Replaces the list of controllers that everyone may choose.
///
/// # Errors
/// The kernel's list cannot be written.
pub(crate) fn set_allowed(names: &[String]) -> anyhow::Result<()> {
    fs::write(ALLOWED, names.join(" ")).with_context(|| format!("cannot write {ALLOWED}"))
}

/// Compiles the controllers, and registers them.
///
/// # Errors
/// The compiler or the kernel refuses them.
pub(crate) fn register() -> anyhow::Result<()> {
    let folder = folder()?;
    let object = compiled(folder.path(), "controllers")?;
    let mut command = bpftool();
    command.args(["struct_ops", "register"]).arg(object);
    output_of(&mut command, "the kernel refused the controllers")?;
    Ok(())
}

/// Takes a controller out.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn unregister(name: &str) -> anyhow::Result<()> {
    let mut command = bpftool();
    command.args(["struct_ops", "unregister", "name", name]);
    output_of(&mut command, &format!("the kernel kept {name}"))?;
    Ok(())
}

/// Returns a folder with all sources, which is removed with the value.
///
/// # Errors
/// It cannot be written.
pub(super) fn folder() -> anyhow::Result<TempDir> {
    let folder = tempfile::tempdir().context("cannot make a folder")?;
    sources::write(folder.path())?;
    Ok(folder)
}

/// Compiles one of the sources of a folder for the kernel. Returns the object's path.
///
/// # Errors
/// A program is missing, or refuses.
pub(super) fn compiled(folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let mut types = bpftool();
    types.args(["btf", "dump", "file", needs::TYPES, "format", "c"]);
    let types = output_of(&mut types, "cannot read the kernel's types")?;
    fs::write(folder.join("vmlinux.h"), types)?;
    let object = folder.join(format!("{name}.bpf.o"));
    let mut clang = Command::new("clang");
    clang
        .current_dir(folder)
        .args(["-g", "-O2", "-Wall", "-target", "bpf"])
        .arg(format!("-D__TARGET_ARCH_{}", architecture()))
        .args(["-c", &format!("{name}.bpf.c"), "-o"])
        .arg(&object);
    output_of(&mut clang, "clang refused the controllers' source")?;
    Ok(object)
}

/// Returns libbpf's name of this machine's architecture.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "aarch64" => "arm64",
        "x86_64" => "x86",
        other => other,
    }
}

pub(super) fn bpftool() -> Command {
    let mut command = Command::new("bpftool");
    // Debian has it where only root's programs are.
    if let Some(path) = std::env::var_os("PATH") {
        let mut folders = path;
        folders.push(":/usr/sbin:/sbin");
        command.env("PATH", folders);
    }
    command
}

/// Runs a program, and returns its standard output.
///
/// # Errors
/// It fails: the text, and the end of its messages.
pub(super) fn output_of(command: &mut Command, failure: &str) -> anyhow::Result<Vec<u8>> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.lines().collect();
    let last = &lines[lines.len().saturating_sub(20)..];
    bail!("{failure}: {program} says: {}", last.join("\n"))
}
