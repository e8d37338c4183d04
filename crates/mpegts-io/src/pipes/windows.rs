//! Windows, where only sockets can be waited for: a thread hands the bytes of a pipe over.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::net::UdpSocket;
use std::os::windows::io::AsHandle;
use std::path::Path;
use std::process::{self, ChildStdout, Stdio};
use std::thread;

use anabranch_net::system::{LocalStream, stream_pair};
use anabranch_terminal::stop::Stop;
use anabranch_units::Duration;

/// Bytes of a program or of standard input.
pub(crate) type PipedInput = LocalStream;

/// Returns standard input.
///
/// # Errors
/// The system has no sockets left.
pub(crate) fn standard_input() -> io::Result<PipedInput> {
    hand_over(io::stdin())
}

/// Returns the output of a program.
///
/// # Errors
/// The system has no sockets left.
pub(crate) fn output_of(output: ChildStdout) -> io::Result<PipedInput> {
    hand_over(output)
}

/// Copies bytes in a thread, which ends with the program, or when its reader has gone.
fn hand_over(mut source: impl Read + Send + 'static) -> io::Result<PipedInput> {
    let (mut writer, reader) = stream_pair()?;
    let thread = thread::Builder::new().name("pipe".to_owned());
    thread.spawn(move || {
        // The end of the bytes closes the stream, and an error is one.
        let _ = io::copy(&mut source, &mut writer);
    })?;
    Ok(reader)
}

/// Refuses: no path in the file system names a pipe.
///
/// # Errors
/// Always.
pub(crate) fn open_fifo(_path: &Path) -> io::Result<PipedInput> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns false: no path in the file system names a pipe.
pub(crate) fn is_fifo(_metadata: &Metadata) -> bool {
    false
}

/// Returns standard output.
///
/// # Errors
/// It is closed.
pub(crate) fn standard_output() -> io::Result<File> {
    let handle = io::stdout().as_handle().try_clone_to_owned();
    handle.map(File::from)
}

/// Refuses, as [`open_fifo`].
///
/// # Errors
/// Always.
pub(crate) fn reopen_standard_output() -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Refuses, as [`open_fifo`].
///
/// # Errors
/// Always.
pub(crate) fn open_fifo_to_write(_path: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns false: there are no named pipes to open.
pub(crate) fn has_no_reader_yet(_error: &io::Error) -> bool {
    false
}

/// Returns at once: the write itself waits, and nothing but a second Ctrl-C ends it.
pub(crate) fn wait_writable(_pipe: &File, _stop: &Stop) -> bool {
    true
}

/// Returns at once, as [`wait_writable`].
pub(crate) fn wait_writable_for(_pipe: &File, _patience: Duration) -> bool {
    true
}

/// Returns standard output for a program: the pipe of its messages. Sockets are not handed over.
///
/// # Errors
/// The program is to write to a socket, or the system has no handles left.
pub(crate) fn output_for(socket: Option<&UdpSocket>, says: &io::PipeWriter) -> io::Result<Stdio> {
    match socket {
        Some(_) => Err(io::ErrorKind::Unsupported.into()),
        None => Ok(says.try_clone()?.into()),
    }
}

/// Checks that files can be made in a folder, by making one.
///
/// # Errors
/// They cannot.
pub(crate) fn check_folder_writable(folder: &Path) -> io::Result<()> {
    let probe = folder.join(format!(".anabranch-{}", process::id()));
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&probe)?;
    fs::remove_file(probe)
}
