//! Events of recorded sequences, as the arithmetic in C reads them (kernel/events.h).

/// Length of an event in bytes.
pub(super) const EVENT_BYTES: usize = 96;
/// Number of bits behind the point of a window.
const BITS: u32 = 20;
/// Offset of the window in an event.
const WINDOW_AT: usize = 88;

/// Kind of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// A path begins; its window is the initial one.
    Start,
    /// A report about packets.
    #[default]
    Report,
    /// The retransmission timer has expired.
    Timeout,
    /// A packet leaves after a pause of more than a retransmission timeout.
    Idle,
}

/// Event of a path. The fields are those of `struct ab_event`, with its units.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Event {
    /// Index of the controller in [`super::replay::CONTROLLERS`].
    pub(super) controller: u32,
    pub(super) kind: Kind,
    pub(super) path: u32,
    pub(super) acked: u32,
    pub(super) acked_all: u32,
    pub(super) is_congestion: bool,
    pub(super) prior_in_flight: u32,
    pub(super) in_flight: u32,
    pub(super) peak_in_flight: u32,
    pub(super) is_limited: bool,
    pub(super) srtt: u32,
    pub(super) rtt: u32,
    pub(super) newest: u32,
    pub(super) next: u32,
    pub(super) delivered: u32,
    pub(super) interval: u32,
    pub(super) acked_counted: u32,
    pub(super) lost_counted: u32,
    pub(super) pause: u32,
    pub(super) now: u64,
    /// Window in packets; before a start the initial one.
    pub(super) window: f64,
}

impl Event {
    /// Returns the bytes of `struct ab_event`, in this machine's order.
    pub(super) fn to_bytes(self) -> [u8; EVENT_BYTES] {
        let words = [
            self.controller,
            self.kind as u32,
            self.path,
            self.acked,
            self.acked_all,
            u32::from(self.is_congestion),
            self.prior_in_flight,
            self.in_flight,
            self.peak_in_flight,
            u32::from(self.is_limited),
            self.srtt,
            self.rtt,
            self.newest,
            self.next,
            self.delivered,
            self.interval,
            self.acked_counted,
            self.lost_counted,
            self.pause,
            0,
        ];
        let mut bytes = [0; EVENT_BYTES];
        for (word, place) in words.iter().zip(bytes.chunks_exact_mut(4)) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        let window = (self.window * f64::from(1 << BITS)) as u64;
        bytes[80..WINDOW_AT].copy_from_slice(&self.now.to_ne_bytes());
        bytes[WINDOW_AT..].copy_from_slice(&window.to_ne_bytes());
        bytes
    }
}

/// Returns the window of each of these events, in packets.
pub(super) fn windows_of(bytes: &[u8]) -> Vec<f64> {
    let windows = bytes.chunks_exact(EVENT_BYTES).map(|event| {
        let window = event[WINDOW_AT..].try_into().unwrap_or([0; 8]);
        u64::from_ne_bytes(window) as f64 / f64::from(1 << BITS)
    });
    windows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_read_as_it_was_written() {
        let event = Event {
            kind: Kind::Idle,
            now: u64::MAX,
            window: 10.25,
            ..Event::default()
        };
        let bytes = event.to_bytes();
        assert_eq!(windows_of(&bytes), [10.25]);
        assert_eq!(bytes[4..8], 3_u32.to_ne_bytes());
        assert_eq!(bytes[80..88], [255; 8]);
    }
}
