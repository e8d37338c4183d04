//! Budget of repairs: media, repairs and retransmissions together stay below a rate. Without
//! repairs, the cost of retransmissions is still kept, for the encoder's target.

use anabranch_units::{DataRate, Duration, Instant};

use crate::copies::CopyAllowance;

/// Time constant of the shares that the encoder's target leaves room for.
const MEMORY: Duration = Duration::from_secs(1);
/// Time at the rate that may be saved up, and that repairs of a key frame may borrow.
const BURST: Duration = Duration::from_millis(100);
/// Time at the rate that bounds the debt of media above the rate, which repairs must pay.
const MAX_DEBT: Duration = Duration::from_millis(500);

/// Share of the media that copies may take while no path answers, and the share of the media of
/// [`BLIND_SPAN`] that may be saved up. Together they are a quarter of the media in any such span
/// (chosen). Silence is mostly short: an eighth for each costs frames in bursts of losses.
const BLIND_SHARE: f64 = 0.05;
const MAX_BLIND_SHARE: f64 = 0.2;
const BLIND_SPAN: Duration = Duration::from_millis(100);
/// Least that may be saved up: a packet, however little media there is.
const MIN_BLIND_BYTES: f64 = 1_500.0;

/// An account of bytes of payload. Repairs are paid from what media and retransmissions leave.
#[derive(Debug)]
pub(crate) struct Budget {
    at: Instant,
    rate: DataRate,
    /// Bytes that may be sent now; negative after too many.
    credit_bytes: f64,
    /// Bytes that fade over [`MEMORY`].
    media_bytes: f64,
    wanted_bytes: f64,
    retransmitted_bytes: f64,
    /// Account of copies of packets in flight as usual.
    copies: CopyAllowance,
    /// Bytes that copies may take while no path answers.
    blind_bytes: f64,
}

impl Budget {
    pub(crate) fn new(now: Instant) -> Self {
        Budget {
            at: now,
            rate: DataRate::ZERO,
            credit_bytes: 0.0,
            media_bytes: 0.0,
            wanted_bytes: 0.0,
            retransmitted_bytes: 0.0,
            copies: CopyAllowance::MEDIA,
            blind_bytes: MIN_BLIND_BYTES,
        }
    }

    /// Sets the rate that all payload together may take.
    pub(crate) fn set_rate(&mut self, rate: DataRate) {
        self.rate = rate;
    }

    pub(crate) fn on_media(&mut self, now: Instant, bytes: u64) {
        self.advance(now);
        self.media_bytes += bytes as f64;
        self.charge(bytes as f64);
        self.copies.earn(bytes);
        let spans = BLIND_SPAN.as_secs_f64() / MEMORY.as_secs_f64();
        let most = (self.media_bytes * spans * MAX_BLIND_SHARE).max(MIN_BLIND_BYTES);
        self.blind_bytes = (self.blind_bytes + bytes as f64 * BLIND_SHARE).min(most);
    }

    /// Returns whether copies of `bytes` bytes may leave though no path answers.
    pub(crate) fn has_room_without_answer(&self, bytes: u32) -> bool {
        self.blind_bytes >= f64::from(bytes)
    }

    /// Pays for a copy that leaves though no path answers.
    pub(crate) fn on_copy_without_answer(&mut self, bytes: u32) {
        self.blind_bytes -= f64::from(bytes);
    }

    /// Returns whether there is room for a copy of a packet in flight as usual.
    pub(crate) fn has_room_for_copy(&self, bytes: u32) -> bool {
        self.copies.covers(u64::from(bytes))
    }

    /// Charges such a copy.
    pub(crate) fn on_copy(&mut self, bytes: u32) {
        self.copies.pay(u64::from(bytes));
    }

    pub(crate) fn on_retransmission(&mut self, now: Instant, bytes: u64) {
        self.advance(now);
        self.retransmitted_bytes += bytes as f64;
        self.charge(bytes as f64);
    }

    /// Returns the number of `wanted` repairs, of `bytes` bytes each, for which there is room.
    pub(crate) fn grant(&mut self, now: Instant, wanted: u16, bytes: u64, is_key: bool) -> u16 {
        self.advance(now);
        let bytes = bytes.max(1) as f64;
        self.wanted_bytes += f64::from(wanted) * bytes;
        let borrowed = if is_key { self.span_bytes(BURST) } else { 0.0 };
        let room = ((self.credit_bytes + borrowed) / bytes).max(0.0);
        let granted = wanted.min(room as u16);
        let cost = f64::from(granted) * bytes;
        debug_assert!(cost <= (self.credit_bytes + borrowed).max(0.0));
        self.charge(cost);
        granted
    }

    /// Returns the bytes of wanted repairs and of retransmissions per byte of media, over about a
    /// second.
    pub(crate) fn overhead(&self) -> f64 {
        if self.media_bytes > 0.0 {
            ((self.wanted_bytes + self.retransmitted_bytes) / self.media_bytes).min(1.0)
        } else {
            0.0
        }
    }

    #[cfg(any(debug_assertions, feature = "invariants"))]
    pub(crate) fn check(&self, checker: &mut crate::invariants::Checker) {
        let shares = [
            self.media_bytes,
            self.wanted_bytes,
            self.retransmitted_bytes,
        ];
        let holds = self.credit_bytes.is_finite() && shares.iter().all(|share| *share >= 0.0);
        let budget = crate::invariants::Invariant::Budget;
        checker.require(budget, holds, || format!("{self:?}"));
    }

    fn span_bytes(&self, span: Duration) -> f64 {
        self.rate.bytes_in(span) as f64
    }

    fn charge(&mut self, bytes: f64) {
        self.credit_bytes = (self.credit_bytes - bytes).max(-self.span_bytes(MAX_DEBT));
    }

    fn advance(&mut self, now: Instant) {
        let elapsed = now.saturating_since(self.at);
        if elapsed.is_zero() {
            return;
        }
        self.at = now;
        let earned = self.rate.bits_per_second() as f64 / 8.0 * elapsed.as_secs_f64();
        self.credit_bytes = (self.credit_bytes + earned).min(self.span_bytes(BURST));
        let fading = libm::exp(-elapsed.as_secs_f64() / MEMORY.as_secs_f64());
        self.media_bytes *= fading;
        self.wanted_bytes *= fading;
        self.retransmitted_bytes *= fading;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: DataRate = DataRate::from_bits_per_second(8_000_000);

    /// Sends frames of `media_bytes` bytes every 40 ms for ten seconds, each with ten wanted
    /// repairs of 1000 bytes. Returns the bytes of granted repairs, and the overhead.
    fn run(media_bytes: u64) -> (u64, f64) {
        let mut budget = Budget::new(Instant::ZERO);
        budget.set_rate(RATE);
        let mut granted = 0;
        for frame in 0..250 {
            let now = Instant::from_millis(frame * 40);
            budget.on_media(now, media_bytes);
            granted += u64::from(budget.grant(now, 10, 1_000, false)) * 1_000;
        }
        (granted, budget.overhead())
    }

    #[test]
    fn repairs_get_what_media_leaves_of_the_rate() {
        // 1 MB/s is 40 kB a frame: there is room for ten, for five and for none.
        assert_eq!(run(30_000).0, 2_460_000, "once the first frame is paid");
        let (granted, _) = run(35_000);
        assert!((1_200_000..=1_250_000).contains(&granted), "{granted}");
        assert_eq!(run(41_000).0, 0);
    }

    #[test]
    fn overhead_is_the_wanted_share() {
        let (_, overhead) = run(41_000);
        assert!((overhead - 10.0 / 41.0).abs() < 1e-3, "{overhead}");
        assert_eq!(Budget::new(Instant::ZERO).overhead(), 0.0);
    }

    #[test]
    fn blind_copies_take_a_quarter_of_the_media_in_any_100_ms() {
        let mut budget = Budget::new(Instant::ZERO);
        let mut copied_bytes = 0;
        // 1 MB/s, of which copies take all that they may from the fifth second on.
        for frame in 0..150 {
            budget.on_media(Instant::from_millis(frame * 40), 40_000);
            while frame >= 125 && budget.has_room_without_answer(1_000) {
                budget.on_copy_without_answer(1_000);
                copied_bytes += 1_000;
            }
            if frame == 127 {
                assert!((20_000..=25_000).contains(&copied_bytes), "{copied_bytes}");
            }
        }
        assert!((60_000..=70_000).contains(&copied_bytes), "{copied_bytes}");
    }

    #[test]
    fn a_packet_may_be_copied_however_little_media_there_is() {
        let mut budget = Budget::new(Instant::ZERO);
        budget.on_media(Instant::ZERO, 100);
        assert!(budget.has_room_without_answer(1_500));
        budget.on_copy_without_answer(1_500);
        budget.on_media(Instant::from_millis(40), 100);
        assert!(!budget.has_room_without_answer(1_500));
    }

    #[test]
    fn a_key_frame_may_borrow() {
        let mut budget = Budget::new(Instant::ZERO);
        budget.set_rate(RATE);
        assert_eq!(budget.grant(Instant::ZERO, 10, 1_000, false), 0);
        assert_eq!(budget.grant(Instant::ZERO, 200, 1_000, true), 100);
        assert_eq!(budget.grant(Instant::ZERO, 200, 1_000, true), 0);
    }
}
