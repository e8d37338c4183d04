//! Decodes a key frame in a separate process, because the key frame comes from an untrusted peer.
//! The decoder is C++, and a fault in it must reach neither keys nor sessions.
//!
//! The process is this program with a hidden command. It reads a transport stream unit from
//! standard input and answers with a portable pixmap. It has no environment, cannot open files or
//! sockets or start programs, and has limits of time and memory.

use core::time::Duration as StdDuration;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anabranch_net::Clock;
use anabranch_net::system::{Feature, LocalStream, MissingFeature, ensure_has, lacks, stream_pair};
use anabranch_terminal::system::{hand_over_stream, limit_this_process};
use anabranch_units::{Duration, Instant};
use anabranch_video::decoder::{DecodeError, H264Decoder};
use anabranch_video::mpeg_ts::{PictureExtractor, VideoCodec};

/// Name of the hidden command.
pub const COMMAND: &str = "draw-key-frame";
/// Width of the picture in pixels, if the video is not narrower.
const WIDTH: usize = 160;
/// Time limit in seconds; a 4K picture takes about a tenth.
const MAX_SECONDS: u64 = 3;
/// Limit of the address space. The decoder of 4K pictures holds 16 of 14 MB, and some more.
const MAX_MEMORY_BYTES: u64 = 1 << 30;
/// Maximum size of an answer. A square picture is 77 kB, and no picture is much taller.
const MAX_PICTURE_BYTES: usize = 4 << 20;

/// Returns the picture of a unit, if it has one and the process decodes it in time.
pub(super) fn draw(clock: &Clock, unit: &[u8]) -> Option<Vec<u8>> {
    let deadline = clock.now() + Duration::from_secs(MAX_SECONDS);
    if lacks(Feature::ProcessLimits).is_some() {
        return None;
    }
    let (mut ours, its) = stream_pair().ok()?;
    let mut command = Command::new(program()?);
    command.arg(COMMAND).env_clear();
    hand_over_stream(&mut command, its).ok()?;
    // Error messages about an untrusted picture are of no use.
    let mut child = command.stderr(Stdio::null()).spawn().ok()?;
    // The command also holds the other end.
    drop(command);
    let picture = exchange(&mut ours, unit, clock, deadline);
    let _ = child.kill();
    let _ = child.wait();
    picture.ok().filter(|picture| !picture.is_empty())
}

/// Returns the path of this program, even if its file was replaced by another version.
fn program() -> Option<PathBuf> {
    if cfg!(target_os = "linux") {
        Some("/proc/self/exe".into())
    } else {
        std::env::current_exe().ok()
    }
}

fn exchange(
    stream: &mut LocalStream,
    unit: &[u8],
    clock: &Clock,
    deadline: Instant,
) -> io::Result<Vec<u8>> {
    let mut unsent = unit;
    while !unsent.is_empty() {
        stream.set_write_timeout(Some(rest_until(deadline, clock)?))?;
        let sent = stream.write(unsent)?;
        unsent = &unsent[sent..];
    }
    stream.shutdown(Shutdown::Write)?;
    let (mut picture, mut part) = (Vec::new(), [0; 16 << 10]);
    loop {
        stream.set_read_timeout(Some(rest_until(deadline, clock)?))?;
        match stream.read(&mut part)? {
            0 => return Ok(picture),
            count if picture.len() + count > MAX_PICTURE_BYTES => {
                return Err(ErrorKind::FileTooLarge.into());
            }
            count => picture.extend_from_slice(&part[..count]),
        }
    }
}

/// Returns the time that is left until the deadline.
///
/// # Errors
/// None is left. A timeout of zero would mean none.
fn rest_until(deadline: Instant, clock: &Clock) -> io::Result<StdDuration> {
    let rest = deadline.saturating_since(clock.now());
    if rest.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    Ok(rest.to_std())
}

/// Reasons for which the hidden command has not drawn a key frame.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DrawError {
    /// This system cannot limit processes.
    #[error(transparent)]
    Feature(#[from] MissingFeature),
    /// The system refuses a limit.
    #[error("cannot set a limit")]
    Limit(#[source] io::Error),
    /// The unit cannot be read, or the picture cannot be written.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The unit has no picture.
    #[error("there is no picture")]
    NoPicture,
    /// The picture is of another codec.
    #[error("it is not H.264")]
    OtherCodec,
    /// The decoder refuses the picture.
    #[error(transparent)]
    Decoder(#[from] DecodeError),
    /// The decoder needs more than the unit has.
    #[error("it is no whole picture")]
    Incomplete,
}

/// Runs the hidden command.
///
/// # Errors
/// The unit has no H.264 picture, or a limit cannot be set.
pub fn run() -> Result<(), DrawError> {
    ensure_has(Feature::ProcessLimits, COMMAND)?;
    limit_this_process(MAX_MEMORY_BYTES, MAX_SECONDS).map_err(DrawError::Limit)?;
    let mut unit = Vec::new();
    io::stdin().lock().read_to_end(&mut unit)?;
    let coded = PictureExtractor::new()
        .extract(&unit)
        .ok_or(DrawError::NoPicture)?;
    if coded.codec != VideoCodec::H264 {
        return Err(DrawError::OtherCodec);
    }
    let mut decoder = H264Decoder::new()?;
    let picture = decoder.decode(&coded.bytes)?;
    let small = picture.ok_or(DrawError::Incomplete)?.thumbnail(WIDTH);
    let head = format!("P6\n{} {}\n255\n", small.width, small.height);
    let mut output = io::stdout().lock();
    output.write_all(head.as_bytes())?;
    output.write_all(&small.rgb)?;
    Ok(output.flush()?)
}
