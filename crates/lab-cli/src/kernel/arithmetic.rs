//! The arithmetic of the kernel's controllers: compiled for this machine, or in the kernel.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use super::event::{EVENT_BYTES, Event, windows_of};
use super::programs::{bpftool, compiled, output_of};

/// Events of one run of a program in the kernel: below 64 KiB.
const EVENTS_AT_A_TIME: usize = 600;
/// Folder of the file system in which programs of BPF have names.
const PINS: &str = "/sys/fs/bpf";

/// Compiles the arithmetic for this machine. `folder` has the sources.
///
/// # Errors
/// There is no compiler of C, or it refuses.
pub(super) fn compile(folder: &Path) -> anyhow::Result<()> {
    let name = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut compiler = Command::new(name);
    compiler.current_dir(folder).args([
        "-O2", "-Wall", "-Wextra", "-Werror", "-o", "replay", "replay.c",
    ]);
    output_of(&mut compiler, "the compiler refused the arithmetic")?;
    Ok(())
}

/// Returns the windows after these events by the compiled arithmetic of a folder.
///
/// # Errors
/// The program fails.
pub(super) fn natively(folder: &Path, events: &[Event]) -> anyhow::Result<Vec<f64>> {
    let mut child = Command::new(folder.join("replay"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run the arithmetic")?;
    let bytes = bytes_of(events);
    let mut input = child.stdin.take().context("no input")?;
    let output = std::thread::scope(|scope| {
        let writer = scope.spawn(move || input.write_all(&bytes));
        let output = child.wait_with_output();
        writer.join().unwrap_or(Ok(()))?;
        output
    })?;
    ensure!(output.status.success(), "the arithmetic has failed");
    Ok(windows_of(&output.stdout))
}

fn bytes_of(events: &[Event]) -> Vec<u8> {
    events.iter().flat_map(|event| event.to_bytes()).collect()
}

/// The arithmetic in the kernel, until the value is dropped.
#[derive(Debug)]
pub(super) struct InKernel {
    pin: String,
}

impl InKernel {
    /// Loads it from the sources of a folder.
    ///
    /// # Errors
    /// The compiler or the kernel refuses.
    pub(super) fn load(folder: &Path) -> anyhow::Result<InKernel> {
        let object = compiled(folder, "replay")?;
        let pin = format!("{PINS}/anabranch-{}", std::process::id());
        let mut command = bpftool();
        command
            .args(["prog", "load"])
            .arg(object)
            .args([&pin, "type", "xdp"]);
        output_of(&mut command, "the kernel refused the arithmetic")?;
        Ok(InKernel { pin })
    }

    /// Returns the windows after these events.
    ///
    /// # Errors
    /// The kernel does not run it.
    pub(super) fn run(&self, folder: &Path, events: &[Event]) -> anyhow::Result<Vec<f64>> {
        let (given, taken) = (folder.join("events"), folder.join("windows"));
        let mut windows = Vec::new();
        for part in events.chunks(EVENTS_AT_A_TIME) {
            let bytes = bytes_of(part);
            fs::write(&given, &bytes)?;
            let mut command = bpftool();
            command
                .args(["prog", "run", "pinned", &self.pin, "data_in"])
                .arg(&given)
                .arg("data_out")
                .arg(&taken)
                .args(["data_size_out", &bytes.len().to_string()]);
            output_of(&mut command, "the kernel did not run the arithmetic")?;
            let result = fs::read(&taken)?;
            let expected = part.len() * EVENT_BYTES;
            ensure!(
                result.len() == expected,
                "the kernel returned too few events"
            );
            windows.extend(windows_of(&result));
        }
        Ok(windows)
    }
}

impl Drop for InKernel {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.pin);
    }
}
