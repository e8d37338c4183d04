//! Loss recovery of Linux and of version 3: its beginning, its first round, and whether it was
//! spurious.

/// Change of the window that is due once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Step {
    #[default]
    None,
    Entered,
    Left,
}

/// The state of recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recovery {
    is_active: bool,
    is_conserving: bool,
    step: Step,
    /// First packet whose acknowledgement ends it.
    ends_with: u64,
    /// Packets of the episode that are lost and have not arrived since.
    missing_count: u64,
    has_timed_out: bool,
}

impl Recovery {
    /// Handles lost packets.
    pub(super) fn on_lost(&mut self, count: u64, next_packet_number: u64) {
        if !self.is_active {
            *self = Recovery {
                is_active: true,
                step: Step::Entered,
                ends_with: next_packet_number,
                ..Recovery::default()
            };
        }
        self.missing_count += count;
    }

    /// Handles packets that were declared lost and have arrived. Returns whether no packet of the
    /// episode was lost.
    pub(super) fn on_spurious(&mut self, count: u64) -> bool {
        let was_missing = self.missing_count > 0;
        self.missing_count = self.missing_count.saturating_sub(count);
        let is_undone = was_missing && self.missing_count == 0 && !self.has_timed_out;
        if is_undone {
            *self = Recovery::default();
        }
        is_undone
    }

    /// Handles the newest acknowledged packet.
    pub(super) fn on_acked(&mut self, packet_number: u64) {
        if self.is_active && packet_number >= self.ends_with {
            self.is_active = false;
            self.is_conserving = false;
            self.step = Step::Left;
        }
    }

    /// Starts a recovery without conservation on a timeout.
    pub(super) fn on_timeout(&mut self, next_packet_number: u64) {
        *self = Recovery {
            is_active: true,
            ends_with: next_packet_number,
            has_timed_out: true,
            ..Recovery::default()
        };
    }

    /// Ends conservation when a round begins.
    pub(super) fn end_conservation(&mut self) {
        self.is_conserving = false;
    }

    /// Returns the change since the last call. Conservation begins with this call: a round that
    /// begins with the report of the loss does not end it.
    pub(super) fn step(&mut self) -> Step {
        self.is_conserving |= self.step == Step::Entered;
        core::mem::take(&mut self.step)
    }

    pub(super) fn is_active(&self) -> bool {
        self.is_active
    }

    pub(super) fn is_conserving(&self) -> bool {
        self.is_conserving
    }
}
