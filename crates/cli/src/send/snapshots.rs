//! State of a sender for observers.

use std::sync::Arc;

use anabranch_net::SessionKind;
use anabranch_observe::StreamSnapshot;

use super::STREAM;
use super::path_manager::SharedNames;
use crate::paths::LiveSender;

/// Returns a reader of the sender for observers, as long as the sender exists.
pub(super) fn snapshots(
    sender: &Arc<impl LiveSender + 'static>,
    names: SharedNames,
) -> impl Fn() -> Vec<StreamSnapshot> + Send + 'static {
    let sender = Arc::downgrade(sender);
    move || {
        let Some(sender) = sender.upgrade() else {
            return Vec::new();
        };
        let (path_names, mut snapshot) = names.with(|names| (names.clone(), sender.snapshot()));
        // SRTLA has no kind of its own, and carries frames as well.
        snapshot.session_kind = snapshot.connected_at.map(|_| SessionKind::Frames);
        vec![StreamSnapshot {
            name: STREAM.to_owned(),
            path_names,
            snapshot,
            foreign: None,
            flows: Vec::new(),
        }]
    }
}
