//! Fragments that are sent as two halves.

use super::{OutgoingFrame, SendBuffer};
use crate::fragment::{FrameId, Half};
use crate::path_view::PathId;

impl OutgoingFrame {
    /// Returns the length of its longest fragment.
    pub(super) fn longest_bytes(&self) -> usize {
        self.bytes.len().min(usize::from(self.fragment_bytes))
    }
}

impl SendBuffer {
    /// Has frames from now on cut into fragments of this length.
    pub(crate) fn set_fragment_bytes(&mut self, bytes: u16) {
        self.fragment_bytes = bytes;
    }

    /// Returns the number of fragments of a frame.
    pub(crate) fn fragment_count(&self, id: FrameId) -> u16 {
        self.frame(id)
            .map_or(0, |frame| frame.fragments.len() as u16)
    }

    /// Returns the half of a fragment that has arrived, if the other one has not.
    pub(crate) fn acked_half(&self, id: FrameId, fragment: u16) -> Option<Half> {
        self.frame(id)?.fragments[usize::from(fragment)].acked_half
    }

    /// Records that a half has arrived. The fragment has when both have.
    pub(crate) fn on_half_acked(&mut self, id: FrameId, fragment: u16, half: Half, path: PathId) {
        let Some(frame) = self.frame_mut(id) else {
            return;
        };
        let state = &mut frame.fragments[usize::from(fragment)];
        match state.acked_half.replace(half) {
            Some(other) if other != half => {
                self.on_acked(id, fragment, path);
            }
            _ => {}
        }
    }
}
