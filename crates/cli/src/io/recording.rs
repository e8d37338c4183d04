//! The file that a session is recorded into.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anabranch_net::Clock;
use anyhow::{Context, bail};

use super::patient::PatientFile;
use crate::command_line::check_writable;
use crate::stop::Stop;

/// Containers that players tell by a file's name, and that are not written here.
const OTHER_CONTAINERS: [&str; 15] = [
    "3gp", "asf", "avi", "f4v", "flv", "m4a", "m4v", "mka", "mkv", "mov", "mp4", "mxf", "ogg",
    "webm", "wmv",
];

/// A file that takes the place of an older one when its first bytes come, and not before: a session
/// that never is costs nobody a recording.
#[derive(Debug)]
pub(crate) struct Recording {
    path: PathBuf,
    file: Option<PatientFile>,
}

impl Recording {
    /// Nothing is written yet, but what keeps it from being written is known.
    pub(super) fn new(path: &Path, clock: &Clock, stop: &Stop) -> anyhow::Result<Self> {
        check_container(path)?;
        // Pipes and devices have nothing that could be lost, and to open a pipe is to wait.
        if !path.exists() || path.is_file() || path.is_dir() {
            check_writable(path)?;
        }
        let is_pipe = path
            .metadata()
            .is_ok_and(|metadata| metadata.file_type().is_fifo());
        // Nothing is lost in a pipe, and its reader is there before the video.
        let open = || PatientFile::create(path, clock, stop);
        let file = is_pipe.then(open).transpose();
        Ok(Recording {
            path: path.to_owned(),
            file: file.with_context(|| format!("cannot write output {}", path.display()))?,
        })
    }

    pub(super) fn write(&mut self, bytes: &[u8], clock: &Clock, stop: &Stop) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(PatientFile::create(&self.path, clock, stop)?),
        };
        file.write(bytes, clock, stop)
    }
}

/// What is received is MPEG-TS, whatever the file is called.
pub(crate) fn check_container(path: &Path) -> anyhow::Result<()> {
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    let extension = extension.to_ascii_lowercase();
    if OTHER_CONTAINERS.contains(&extension.as_str()) {
        let (given, plain) = (path.display(), path.with_extension("ts"));
        let plain = plain.display();
        bail!(
            "output {given}: what is written is MPEG-TS, not .{extension}: name it {plain}, and \
             run `ffmpeg -i {plain} -c copy {given}` when it is whole"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_work() -> (Clock, Stop) {
        (Clock::start(), Stop::new().unwrap())
    }

    #[test]
    fn an_older_recording_stays_until_the_first_bytes_come() {
        let (clock, stop) = at_work();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("film.ts");
        std::fs::write(&path, "yesterday").unwrap();
        let mut recording = Recording::new(&path, &clock, &stop).unwrap();
        recording.write(b"", &clock, &stop).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "yesterday");
        recording.write(b"to", &clock, &stop).unwrap();
        recording.write(b"day", &clock, &stop).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "today");
        let fresh = folder.path().join("new.ts");
        drop(Recording::new(&fresh, &clock, &stop).unwrap());
        assert!(!fresh.exists());
    }

    #[test]
    fn other_containers_are_refused_with_the_way_to_them() {
        for name in ["out.mp4", "/tmp/Out.MKV", "a.b.mov"] {
            let error = check_container(Path::new(name)).unwrap_err().to_string();
            assert!(
                error.contains(".ts") && error.contains("ffmpeg -i"),
                "{error}"
            );
        }
        for name in ["out.ts", "out.m2ts", "out", "mp4"] {
            check_container(Path::new(name)).unwrap();
        }
    }
}
