//! Which frames can be decoded, told from what is lost with each.

use anabranch_units::Importance;

/// Follows frames in coding order. A frame can be decoded if it is there and all are that it may
/// need: back to the last key frame, every frame but the disposable ones. Which of them it needs in
/// truth only its encoder knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decodability {
    is_chain_intact: bool,
}

impl Decodability {
    /// Takes the next frame and says whether it can be decoded.
    pub fn on_frame(&mut self, importance: Importance, is_complete: bool) -> bool {
        let is_decodable = is_complete && (importance.is_key() || self.is_chain_intact);
        if importance != Importance::Disposable {
            self.is_chain_intact = is_decodable;
        }
        is_decodable
    }

    /// Frames of which nothing is known but that they are not there: references may be among them.
    pub fn on_unknown_loss(&mut self) {
        self.is_chain_intact = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of frames written as in "I P b": lower case for those that are disposable,
    /// with a `-` behind those that are lost.
    fn decodable(frames: &str) -> String {
        let mut decodability = Decodability::default();
        let of = |frame: &str| {
            let importance = match &frame[..1] {
                "I" => Importance::Key,
                "P" | "B" => Importance::Reference,
                _ => Importance::Disposable,
            };
            match decodability.on_frame(importance, !frame.ends_with('-')) {
                true => 'x',
                false => '.',
            }
        };
        frames.split(' ').map(of).collect()
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
