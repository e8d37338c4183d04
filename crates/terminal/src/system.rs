//! The operating system's part of the programs: signals, other programs, rights of files. One file
//! for each family of systems, with the same functions. Sockets are in `anabranch_net::system`.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix as here;
#[cfg(windows)]
use windows as here;

pub use here::{
    ask_to_end, end_group, forbid_core_dumps, hand_over_stream, in_own_group, limit_this_process,
    shell,
};
pub(crate) use here::{
    check_unshared, is_error_output, is_error_output_a_file, make_private_folder, on_reopen_signal,
    on_signals,
};
