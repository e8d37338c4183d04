//! Linux, macOS and other systems of the family of Unix.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::{ChildStdout, Stdio};

use anabranch_net::system::open_without_waiting;
use anabranch_terminal::stop::Stop;
use anabranch_units::Duration;
use rustix::io::Errno;

/// Bytes of a program or of a named pipe.
pub(crate) type PipedInput = File;

/// Returns standard input. The standard library's buffer is avoided, because a poll would not see
/// bytes in it.
///
/// # Errors
/// It is closed.
pub(crate) fn standard_input() -> io::Result<PipedInput> {
    io::stdin().as_fd().try_clone_to_owned().map(File::from)
}

/// Opens a named pipe to read. Opening does not wait for the writer.
///
/// # Errors
/// As of the system.
pub(crate) fn open_fifo(path: &Path) -> io::Result<PipedInput> {
    let mut options = OpenOptions::new();
    open_without_waiting(options.read(true)).open(path)
}

/// Returns the output of a program.
///
/// # Errors
/// Never here.
pub(crate) fn output_of(output: ChildStdout) -> io::Result<PipedInput> {
    Ok(File::from(OwnedFd::from(output)))
}

/// Returns whether it is a pipe, by a name in the file system or without one.
pub(crate) fn is_fifo(metadata: &Metadata) -> bool {
    metadata.file_type().is_fifo()
}

/// Returns standard output. The standard library's buffer is avoided, which would search the video
/// for line ends.
///
/// # Errors
/// It is closed.
pub(crate) fn standard_output() -> io::Result<File> {
    io::stdout().as_fd().try_clone_to_owned().map(File::from)
}

/// Opens standard output again, a pipe. Other programs may share the file description and would
/// inherit `O_NONBLOCK`. Linux can open the pipe again.
pub(crate) fn reopen_standard_output() -> io::Result<File> {
    open_fifo_to_write(Path::new("/proc/self/fd/1"))
}

/// Opens a named pipe to write.
///
/// # Errors
/// As of the system; see [`has_no_reader`].
pub(crate) fn open_fifo_to_write(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    open_without_waiting(options.write(true)).open(path)
}

/// Returns whether a named pipe was not opened as nobody reads it.
pub(crate) fn has_no_reader_yet(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::NXIO)
}

/// Waits until a pipe takes bytes. Returns false when stopped.
pub(crate) fn wait_writable(pipe: &File, stop: &Stop) -> bool {
    stop.wait_writable(pipe.as_fd())
}

/// Waits until a pipe takes bytes, for `patience` at most, even when stopped.
pub(crate) fn wait_writable_for(pipe: &File, patience: Duration) -> bool {
    Stop::wait_writable_for(pipe.as_fd(), patience)
}

/// Returns standard output for a program: a socket, or the pipe of its messages.
///
/// # Errors
/// The system has no descriptors left.
pub(crate) fn output_for(socket: Option<&UdpSocket>, says: &io::PipeWriter) -> io::Result<Stdio> {
    let output: OwnedFd = match socket {
        Some(socket) => socket.try_clone()?.into(),
        None => says.try_clone()?.into(),
    };
    Ok(output.into())
}

/// Checks that files can be made in a folder.
///
/// # Errors
/// They cannot.
pub(crate) fn check_folder_writable(folder: &Path) -> io::Result<()> {
    Ok(rustix::fs::access(folder, rustix::fs::Access::WRITE_OK)?)
}
