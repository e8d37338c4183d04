//! Decodability of frames, derived from their importance.

use anabranch_units::Importance;

/// Follows frames in coding order. A frame can be decoded if it has arrived together with all
/// frames that it may need: every frame back to the last key frame except the disposable ones. Only
/// the encoder knows which of them it really needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decodability {
    is_chain_intact: bool,
}

impl Decodability {
    /// Takes the next frame and returns whether it can be decoded.
    pub fn on_frame(&mut self, importance: Importance, is_complete: bool) -> bool {
        let is_decodable = is_complete && (importance.is_key() || self.is_chain_intact);
        if importance != Importance::Disposable {
            self.is_chain_intact = is_decodable;
        }
        is_decodable
    }

    /// Records the loss of unknown frames, which may include references.
    pub fn on_unknown_loss(&mut self) {
        self.is_chain_intact = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the outcomes of frames written as in "I P b": lower case marks disposable frames, a
    /// trailing `-` lost ones.
    fn decodable(frames: &str) -> String {
        let mut decodability = Decodability::default();
        frames
            .split(' ')
            .map(|frame| {
                let importance = match &frame[..1] {
                    "I" => Importance::Key,
                    "P" | "B" => Importance::Reference,
                    _ => Importance::Disposable,
                };
                if decodability.on_frame(importance, !frame.ends_with('-')) {
                    'x'
                } else {
                    '.'
                }
            })
            .collect()
    }

    #[test]
    fn a_lost_reference_breaks_all_until_the_next_key_frame() {
        assert_eq!(decodable("I P- b b P I P b"), "x....xxx");
        assert_eq!(decodable("I- P b I"), "...x");
        assert_eq!(decodable("I P B- P I"), "xx..x");
    }

    #[test]
    fn a_lost_disposable_frame_breaks_nothing() {
        assert_eq!(decodable("I P b- b P b- P"), "xx.xx.x");
    }

    #[test]
    fn nothing_can_be_decoded_before_the_first_key_frame() {
        assert_eq!(decodable("P b I b"), "..xx");
    }
}
