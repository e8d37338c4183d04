//! Outgoing packets: collected, sealed, and sent in batches.

use anabranch_core::{PADDING_BYTE, SendReason, Timer};
use anabranch_secure::PROTECTION_OVERHEAD_BYTES;
use anabranch_units::Duration;

use super::{Driver, DriverPath};
use crate::load::Load;
use crate::port::Port;
use crate::socket::Batch;
use crate::system::is_message_too_long;

/// Time within which due packets leave together: the core spaces packets exactly, and a system call
/// takes longer than many of its gaps.
const BATCH_WINDOW: Duration = Duration::from_micros(250);

/// Least time since a turn's beginning after which its packets have a time of their own. The work
/// of a turn takes less. As long as the finest timer of the transport.
const INTERRUPTION: Duration = Duration::from_millis(1);

/// Size of a first question on a path, filled up. The answers, a question of the other end's and a
/// report may have three times as many bytes together. RFC 9000 §8.2.1 has 1,200 bytes, which a
/// path that stands by need not carry.
pub(super) const FIRST_BYTES: usize = 100;

impl<L: Load> Driver<L> {
    pub(super) fn transmit(&mut self, ports: &[Port]) {
        // The machine may have let the thread wait since the clock was read for the turn.
        let now = self.clock.now();
        if now.saturating_since(self.time) >= INTERRUPTION {
            self.time = now;
        }
        let until = self.time + BATCH_WINDOW;
        loop {
            self.collect(ports);
            let Some((at, timer)) = self.endpoint.poll_timeout() else {
                break;
            };
            let is_of_packet = matches!(timer, Timer::Pacing | Timer::Scheduler);
            if !is_of_packet || at <= self.time || at > until {
                break;
            }
            // Each packet gets the pacer's time, not the batch's.
            self.time = at;
            if timer == Timer::Scheduler {
                self.endpoint.handle_timeout(at);
            }
        }
    }

    /// Seals the packets that may leave at `self.time`.
    fn collect(&mut self, ports: &[Port]) {
        loop {
            let Driver {
                endpoint,
                session,
                paths,
                outbox,
                observed,
                time,
                ..
            } = self;
            let mut sent = None;
            let added = outbox.add(
                |path| {
                    let route = paths.get(path.index()).and_then(|path| path.route.as_ref());
                    route.map_or(1, |route| ports[route.address().socket].max_batch_count())
                },
                |bytes| {
                    let begin = bytes.len();
                    sent = endpoint.poll_transmit(*time, bytes);
                    let is_first_question = sent.is_some_and(|sent| {
                        let path = paths.get(sent.path.index());
                        sent.reason == SendReason::PathChallenge
                            && path.is_some_and(DriverPath::is_new)
                    });
                    if is_first_question {
                        bytes.resize(bytes.len().max(begin + FIRST_BYTES), PADDING_BYTE);
                    }
                    sent
                },
                |path, datagram| session.seal(path.0, datagram),
            );
            if let (true, Ok(true), Some(sent)) = (observed.is_wanted(), &added, sent) {
                let next_number = session.next_number(sent.path.0).unwrap_or_default();
                observed.on_sent(*time, next_number.saturating_sub(1), &sent);
            }
            match added {
                Ok(true) if self.outbox.is_full() => self.flush(ports),
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => {
                    self.is_key_exhausted = true;
                    return;
                }
            }
        }
    }

    pub(super) fn flush(&mut self, ports: &[Port]) {
        let Driver {
            endpoint,
            paths,
            outbox,
            unanswered_since,
            time,
            ..
        } = self;
        outbox.empty(|parcel, bytes| {
            let path = &mut paths[parcel.path.index()];
            let Some(route) = &mut path.route else {
                return;
            };
            if !route.may_send(bytes.len()) {
                path.unsent_datagrams += parcel.datagram_count() as u64;
                return;
            }
            let address = route.address();
            if !parcel.is_mtu_probe {
                path.sent_bytes = parcel.datagram_bytes;
            }
            let batch = Batch {
                to: address.peer,
                from: address.local,
                ecn: parcel.ecn,
                bytes,
                datagram_bytes: parcel.datagram_bytes,
            };
            // A report is not answered, and may be the last datagram.
            if parcel.wants_answer {
                unanswered_since.get_or_insert(*time);
            }
            let port = &ports[address.socket];
            let size = parcel
                .datagram_bytes
                .saturating_sub(PROTECTION_OVERHEAD_BYTES);
            // A connection carries every size, and would not reveal the path's MTU.
            if parcel.is_mtu_probe && port.is_by_tcp() {
                endpoint.on_datagram_too_large(*time, parcel.path, size);
                return;
            }
            // A path that cannot be sent on is silent, and the transport notices the silence.
            if let Err((count, error)) = port.send(&batch) {
                if is_message_too_long(&error)
                    && endpoint.on_datagram_too_large(*time, parcel.path, size)
                    && parcel.is_mtu_probe
                {
                    return;
                }
                path.unsent_datagrams += count as u64;
                path.last_error = Some(error.to_string());
            }
        });
    }
}
