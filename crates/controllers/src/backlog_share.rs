//! The backlog of one path.

use anabranch_core::{PathId, PathView, SessionView};

/// Returns the part of the session's backlog that one path is expected to carry: the path's share
/// of the sum of all usable paths' rates.
pub(crate) fn path_backlog_bytes(path: PathId, session: &SessionView, paths: &[PathView]) -> u64 {
    // A single path carries all of it, and mostly it is empty.
    if session.backlog_bytes == 0 || paths.len() <= 1 {
        return session.backlog_bytes;
    }
    let usable = paths.iter().filter(|view| view.state.is_usable());
    let (own, sum) = usable.fold((0.0, 0.0), |(own, sum), view| {
        let rate = view.bandwidth.bits_per_second() as f64;
        (if view.id == path { rate } else { own }, sum + rate)
    });
    let share = if sum > 0.0 { own / sum } else { 1.0 };
    (session.backlog_bytes as f64 * share) as u64
}
