//! Windows.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::windows::io::AsHandle;
use std::os::windows::process::CommandExt;
use std::path::Path;
use std::process::{self, Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_net::system::LocalStream;

/// Flag of a new process that Ctrl-C does not reach (`CREATE_NEW_PROCESS_GROUP`).
const NEW_PROCESS_GROUP: u32 = 0x0000_0200;
/// Exit code of a program that Ctrl-C has ended (`STATUS_CONTROL_C_EXIT`).
const CONTROL_C_EXIT: i32 = 0xc000_013a_u32 as i32;

/// Flags that Ctrl-C sets, each with a stream to which it then writes.
static FLAGS: Mutex<Vec<(Arc<AtomicBool>, LocalStream)>> = Mutex::new(Vec::new());

/// Stops on Ctrl-C, Ctrl-Break, and when the console closes: sets the flag, and writes to the
/// stream.
///
/// # Errors
/// The system refuses a handler.
pub(crate) fn on_signals(is_stopped: &Arc<AtomicBool>, ringer: &LocalStream) -> io::Result<()> {
    let mut flags = FLAGS.lock().unwrap_or_else(PoisonError::into_inner);
    let is_first = flags.is_empty();
    flags.push((Arc::clone(is_stopped), ringer.try_clone()?));
    if is_first {
        ctrlc::set_handler(stop_all).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Stops all. The second time it ends the program at once.
fn stop_all() {
    let flags = FLAGS.lock().unwrap_or_else(PoisonError::into_inner);
    if flags.iter().any(|(flag, _)| flag.load(Ordering::SeqCst)) {
        process::exit(CONTROL_C_EXIT);
    }
    for (flag, ringer) in flags.iter() {
        flag.store(true, Ordering::SeqCst);
        let mut ringer: &LocalStream = ringer;
        let _ = ringer.write(&[0]);
    }
}

/// Does nothing: no signal asks to open files again.
pub(crate) fn on_reopen_signal(_: &Arc<AtomicBool>) -> io::Result<()> {
    Ok(())
}

/// Returns whether standard error is a file.
pub(crate) fn is_error_output_a_file() -> bool {
    let handle = io::stderr().as_handle().try_clone_to_owned();
    let metadata = handle.and_then(|handle| File::from(handle).metadata());
    metadata.is_ok_and(|metadata| metadata.is_file())
}

/// Returns false: files have no such names here.
pub(crate) fn is_error_output(_named: &str) -> bool {
    false
}

/// Makes a folder, and those above it. It inherits their rights: those of a user's own folders
/// leave others out.
pub(crate) fn make_private_folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Does nothing: no crate reads lists of rights.
pub(crate) fn check_unshared(_real: &Path) -> anyhow::Result<()> {
    Ok(())
}

/// Does nothing: Windows writes dumps only where its administrator asked for them.
pub fn forbid_core_dumps() {}

/// Refuses: there are no such limits.
///
/// # Errors
/// Always.
pub fn limit_this_process(_memory_bytes: u64, _seconds: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Refuses: a program cannot have a socket as standard input.
///
/// # Errors
/// Always.
pub fn hand_over_stream(_command: &mut Command, _stream: LocalStream) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Starts a program outside this one's process group: Ctrl-C then reaches this program alone.
pub fn in_own_group(command: &mut Command) -> &mut Command {
    command.creation_flags(NEW_PROCESS_GROUP)
}

/// Returns a shell for a command. The command goes on if this program is killed.
pub fn shell(command: &str) -> Command {
    let mut shell = Command::new("cmd");
    // The shell parses the line itself.
    shell.arg("/C").raw_arg(command);
    shell
}

/// Ends a program, since there is no signal that asks.
pub fn ask_to_end(child: &mut Child) {
    let _ = child.kill();
}

/// Ends a program. The programs that it has started go on.
pub fn end_group(child: &mut Child) {
    let _ = child.kill();
}
