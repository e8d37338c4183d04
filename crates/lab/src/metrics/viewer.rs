//! The viewer of a flow's frames.

use anabranch_sim::{FrameEvent, FrameOutcome};
use anabranch_units::{Importance, Instant};
use anabranch_video::player::{Display, DisplayOutcome, Freeze, Player, PlayerFrame};

use super::record::ViewerRecord;
use super::window::Window;
use crate::scenario::{FlowSpec, MediaSpec};

/// A flow's player.
#[derive(Clone, Debug)]
pub(super) struct Viewer {
    player: Player,
    /// Whether a key frame or a disposable one has arrived.
    has_structure: bool,
    /// The freezes so far. A window counts those that end in it.
    freezes: Vec<Freeze>,
}

impl Viewer {
    pub(super) fn new(flow: &FlowSpec, media: &MediaSpec) -> Viewer {
        Viewer {
            player: Player::new(media.jitter_buffer, flow.start),
            has_structure: false,
            freezes: Vec::new(),
        }
    }

    /// Takes a frame whose outcome is known, and returns its display; `None`: it is incomplete, or
    /// cannot be decoded.
    pub(super) fn on_outcome(
        &mut self,
        now: Instant,
        frame: &FrameEvent,
        outcome: FrameOutcome,
    ) -> Option<Display> {
        let is_complete = matches!(outcome, FrameOutcome::Complete { .. });
        // As in the sender: references without any key frame stand alone.
        self.has_structure |= frame.importance != Importance::Reference;
        let importance = if self.has_structure {
            frame.importance
        } else {
            Importance::Key
        };
        let frame = PlayerFrame {
            importance,
            captured_at: frame.captured_at,
            is_complete,
        };
        let DisplayOutcome::Displayed(display) = self.player.on_frame(now, frame) else {
            return None;
        };
        self.freezes.extend(display.freeze);
        Some(display)
    }

    /// Handles the end of the flow.
    pub(super) fn finish(&mut self, at: Instant) {
        self.freezes.extend(self.player.finish(at));
    }

    /// Adds the player's times within a window to `record`; the flow ends at `end`.
    pub(super) fn record_times(&self, window: &Window, end: Instant, record: &mut ViewerRecord) {
        for freeze in &self.freezes {
            record.freezes += u64::from(window.contains(freeze.to));
            record.frozen += window.overlap(freeze.from, freeze.to);
        }
        if let Some(from) = self.player.first_shown_at() {
            record.watched += window.overlap(from, end);
        }
        record.start_up = self.player.start_up_delay();
    }
}
