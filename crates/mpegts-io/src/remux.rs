//! Conversion of other files to MPEG-TS by `ffmpeg`.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anabranch_terminal::clean::one_line;
use anabranch_video::input::{InputKind, remux_arguments};

/// Indices of streams with the names of their codecs.
type Uncarried = Vec<(usize, String)>;

/// Reasons for which a file is not converted to MPEG-TS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemuxError {
    /// `ffmpeg` is not installed.
    #[error(
        "{} is neither MPEG-TS nor an H.264 byte stream, and the program ffmpeg that could make \
         MPEG-TS of it is not installed: install it, or make a .ts of the file elsewhere",
        path.display()
    )]
    NotInstalled {
        /// The file.
        path: PathBuf,
    },
    /// `ffmpeg` was not started.
    #[error("cannot start ffmpeg")]
    Start(#[source] io::Error),
    /// `ffmpeg` cannot read the file.
    #[error("{} holds no video or sound that ffmpeg can read: {said}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Last line of `ffmpeg`.
        said: String,
    },
    /// MPEG-TS cannot carry the file's first stream.
    #[error(
        "{shown} holds {codec}, which ffmpeg's MPEG-TS cannot carry: encode it first, as in \
         `ffmpeg -i {shown} -c:v libx264 -bf 0 -c:a aac film.ts`",
        shown = path.display()
    )]
    Uncarried {
        /// The file.
        path: PathBuf,
        /// Codec of the stream.
        codec: String,
    },
}

/// Starts `ffmpeg`, which converts a file of this kind to MPEG-TS on its standard output.
///
/// # Errors
/// No `ffmpeg`, or video that its MPEG-TS cannot carry.
pub fn remux(path: &Path, kind: InputKind) -> Result<Child, RemuxError> {
    let uncarried = match uncarried_streams(path, kind) {
        Ok(Ok(uncarried)) => uncarried,
        Ok(Err(said)) => {
            return Err(RemuxError::Unreadable {
                path: path.to_owned(),
                said,
            });
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(RemuxError::NotInstalled {
                path: path.to_owned(),
            });
        }
        Err(error) => return Err(RemuxError::Start(error)),
    };
    for (index, codec) in uncarried {
        // Video comes first, if the file has any.
        if index == 0 {
            return Err(RemuxError::Uncarried {
                path: path.to_owned(),
                codec,
            });
        }
        log::info!(
            "{}: its {codec} will not be recognized by players, since MPEG-TS cannot carry it",
            path.display()
        );
    }
    Command::new("ffmpeg")
        .args(remux_arguments(path, kind))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(RemuxError::Start)
}

/// Reads the first picture. Returns the streams that players will not recognize according to the
/// muxer, with the names of their codecs. If `ffmpeg` cannot read the file, returns its last line.
/// Faults after the first picture appear later.
fn uncarried_streams(path: &Path, kind: InputKind) -> io::Result<Result<Uncarried, String>> {
    let mut arguments = remux_arguments(path, kind);
    // The muxer prints its warnings about a stream at the first picture.
    let one_picture = ["-loglevel", "warning", "-frames:v", "1"].map(OsString::from);
    let before_output = arguments.len() - 1;
    arguments.splice(before_output..before_output, one_picture);
    let output = Command::new("ffmpeg")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let last = said.lines().last().unwrap_or_default();
        return Ok(Err(one_line(last.trim()).into_owned()));
    }
    Ok(Ok(said.lines().filter_map(uncarried_stream).collect()))
}

/// Parses "Stream 0, codec av1, is muxed as a private data stream and may not be recognized upon
/// reading."
fn uncarried_stream(line: &str) -> Option<(usize, String)> {
    let (before, _) = line.split_once(", is muxed as a private data stream")?;
    let (before, codec) = before.rsplit_once(", codec ")?;
    let (_, index) = before.rsplit_once("Stream ")?;
    Some((index.parse().ok()?, codec.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ffmpeg, has_ffmpeg};

    #[test]
    fn the_muxers_warning_is_understood() {
        let line = "[mpegts @ 0x55cdf57acd40] Stream 0, codec av1, is muxed as a private data \
                    stream and may not be recognized upon reading.";
        assert_eq!(uncarried_stream(line), Some((0, "av1".to_owned())));
        assert_eq!(uncarried_stream("[mpegts @ 0x1] frame size not set"), None);
    }

    #[test]
    fn video_that_mpeg_ts_cannot_carry_is_refused_before_anything_is_sent() {
        if !has_ffmpeg("mpeg2video") {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let film = folder.path().join("film.mkv");
        let shown = film.to_str().unwrap();
        // The muxer treats it like AV1, but every ffmpeg can encode it.
        let picture = [
            "-f",
            "lavfi",
            "-i",
            "testsrc=d=1:s=64x64:r=5",
            "-c:v",
            "mjpeg",
            shown,
        ];
        ffmpeg("error", &picture);
        let error = remux(&film, InputKind::Other).unwrap_err().to_string();
        assert!(
            error.contains("mjpeg") && error.contains("libx264"),
            "{error}"
        );
        let audio = [
            "-f",
            "lavfi",
            "-i",
            "sine=d=1",
            "-c:v",
            "mpeg2video",
            "-c:a",
            "flac",
            shown,
        ];
        ffmpeg("error", &[&picture[..4], &audio].concat());
        let uncarried = uncarried_streams(&film, InputKind::Other).unwrap();
        assert_eq!(uncarried, Ok(vec![(1, "flac".to_owned())]));
        let mut child = remux(&film, InputKind::Other).unwrap();
        drop(child.stdout.take());
        let _ = child.wait();
    }
}
