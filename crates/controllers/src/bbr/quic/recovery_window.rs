//! Recovery of QUIC's BBR: a second window, for the rounds after a loss.

/// `recovery_state_`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    NotInRecovery,
    /// First round: a packet may be sent for every one acknowledged.
    Conservation,
    /// Later rounds: two packets may be sent for every one acknowledged.
    Growth,
}

/// `recovery_window_` and its state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecoveryWindow {
    state: State,
    bytes: Option<u64>,
    /// First packet whose acknowledgement ends recovery if nothing is lost.
    ends_with: u64,
}

impl RecoveryWindow {
    /// `UpdateRecoveryState`. Returns whether recovery has begun, and a round with it.
    pub(super) fn update(
        &mut self,
        newest_packet_number: u64,
        has_losses: bool,
        is_round_start: bool,
        next_packet_number: u64,
    ) -> bool {
        if has_losses {
            self.ends_with = next_packet_number;
        }
        match self.state {
            State::NotInRecovery => {
                if has_losses {
                    self.state = State::Conservation;
                    self.bytes = None;
                }
                return has_losses;
            }
            State::Conservation => {
                if is_round_start {
                    self.state = State::Growth;
                }
            }
            State::Growth => {}
        }
        if !has_losses && newest_packet_number >= self.ends_with {
            *self = RecoveryWindow::default();
        }
        false
    }

    /// `CalculateRecoveryWindow`.
    pub(super) fn on_bytes(
        &mut self,
        bytes_in_flight: u64,
        acked_bytes: u64,
        lost_bytes: u64,
        segment_bytes: u64,
        min_window: u64,
    ) {
        if self.state == State::NotInRecovery {
            return;
        }
        let at_least = (bytes_in_flight + acked_bytes).max(min_window);
        let Some(window) = self.bytes else {
            self.bytes = Some(at_least);
            return;
        };
        let mut window = window.checked_sub(lost_bytes).unwrap_or(segment_bytes);
        if self.state == State::Growth {
            window = window.saturating_add(acked_bytes);
        }
        self.bytes = Some(window.max(at_least));
    }

    pub(super) fn is_active(&self) -> bool {
        self.state != State::NotInRecovery
    }

    /// Returns the window, in recovery.
    pub(super) fn bytes(&self) -> Option<u64> {
        if self.is_active() { self.bytes } else { None }
    }
}
