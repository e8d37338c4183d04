//! Programs of a film: started in namespaces, ended with their value.

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::park_timeout;
use std::time::Duration as StdDuration;

use anabranch_emu::namespace::Namespace;
use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process_group};

/// User and group of VLC, which refuses root: `nobody` and `nogroup`.
const NOBODY: &str = "65534";
/// Raises the share of the processor that the session has beside others, where the kernel groups
/// programs by sessions (autogroup), and runs the words.
const RAISED: [&str; 4] = [
    "sh",
    "-c",
    "echo -20 2>/dev/null >/proc/self/autogroup; exec \"$@\"",
    "sh",
];
/// Time that programs have to end.
const PATIENCE: StdDuration = StdDuration::from_millis(1_500);

/// Program that runs in a session of its own. It ends with the value, and after a limit at the
/// latest: also if this program is killed.
#[derive(Debug)]
pub(super) struct Program {
    child: Child,
}

impl Program {
    /// Starts words in a namespace; their output goes to the log.
    ///
    /// Other programs of the machine then take little of the session's time.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn start<S: AsRef<OsStr>>(
        namespace: Option<&Namespace>,
        words: &[S],
        limit_seconds: u64,
        log: &Path,
    ) -> anyhow::Result<Program> {
        let output =
            File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new("setsid");
        command
            .args(RAISED)
            .args(["timeout", "--kill-after=5", &limit_seconds.to_string()])
            .args(words)
            .stdin(Stdio::null())
            .stderr(output.try_clone()?)
            .stdout(output);
        let spawned = match namespace {
            Some(namespace) => namespace.run(|| command.spawn()),
            None => command.spawn(),
        };
        let child = spawned.context("cannot run `setsid`: install util-linux")?;
        Ok(Program { child })
    }

    /// Returns whether it has ended.
    ///
    /// # Errors
    /// The operating system does not know it.
    pub(super) fn has_ended(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        for signal in [Signal::TERM, Signal::KILL] {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            if let Some(id) = id {
                let _ = kill_process_group(id, signal);
            }
            park_timeout(PATIENCE);
        }
        let _ = self.child.wait();
    }
}

/// Returns the words that run others as a user without rights, whose home is the folder.
pub(super) fn as_nobody(folder: &Path) -> Vec<String> {
    let home = folder.display();
    vec![
        "setpriv".to_owned(),
        format!("--reuid={NOBODY}"),
        format!("--regid={NOBODY}"),
        "--clear-groups".to_owned(),
        "env".to_owned(),
        format!("HOME={home}"),
        format!("XDG_RUNTIME_DIR={home}"),
    ]
}

/// Makes a folder that the user without rights owns.
///
/// # Errors
/// It cannot be made.
pub(super) fn folder_of_nobody(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    let id = NOBODY.parse().ok();
    std::os::unix::fs::chown(folder, id, id)?;
    Ok(())
}

/// Makes the papers' film, unless the file exists: H.264 with I, P and B pictures, 24 a second, at
/// 5.24 Mbit/s.
///
/// # Errors
/// ffmpeg fails.
pub(super) fn make_film(path: &Path, seconds: u64) -> anyhow::Result<()> {
    if path.is_file() {
        return Ok(());
    }
    let rate = "5240k";
    let status = Command::new("ffmpeg")
        .args([
            "-v",
            "error",
            "-y",
            "-f",
            "lavfi",
            "-i",
            "testsrc2=size=640x360:rate=24",
        ])
        .args([
            "-vf",
            "noise=alls=30:allf=t",
            "-t",
            &seconds.to_string(),
            "-c:v",
            "libx264",
        ])
        .args([
            "-preset",
            "veryfast",
            "-profile:v",
            "main",
            "-pix_fmt",
            "yuv420p",
        ])
        .args([
            "-g",
            "48",
            "-keyint_min",
            "48",
            "-sc_threshold",
            "0",
            "-bf",
            "2",
        ])
        .args([
            "-b:v", rate, "-minrate", rate, "-maxrate", rate, "-bufsize", "2620k",
        ])
        .args([
            "-x264-params",
            "nal-hrd=cbr:b-adapt=0",
            "-movflags",
            "+faststart",
        ])
        .arg(path)
        .stdin(Stdio::null())
        .status()
        .context("cannot run ffmpeg")?;
    ensure!(status.success(), "ffmpeg could not make the film");
    Ok(())
}
