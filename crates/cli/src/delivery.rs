//! Success or failure of a session, by its delivered frames.

use anabranch_net::Snapshot;
use anabranch_terminal::exit::Failure;
use anyhow::bail;

use crate::end::End;

/// Share of the frames that must arrive. If fewer arrive, the session has failed, however it ended:
/// the viewer saw more gaps than pictures.
const LEAST_SHARE: f64 = 0.5;

/// Returns the number of frames that this end has given up.
pub(crate) fn failed_frames(end: End, snapshot: &Snapshot) -> u64 {
    match end {
        End::Sender | End::SrtlaSender => snapshot.session.frames_late,
        End::Receiver => snapshot.session.frames_dropped,
        End::Tunnel(_) => 0,
    }
}

/// Number of frames, and of those that this end knows to have failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    end: End,
    all: u64,
    failed: u64,
}

impl Delivery {
    /// Returns the knowledge of one end. A sender also left out `refused` frames for lack of room.
    pub(crate) fn of(end: End, snapshot: &Snapshot, refused: u64) -> Self {
        let session = &snapshot.session;
        let (all, failed) = match end {
            End::Sender | End::SrtlaSender => {
                let all = session.frames_sent + refused;
                (all, all.saturating_sub(session.frames_acked))
            }
            End::Receiver => (
                session.frames_received + session.frames_dropped,
                session.frames_dropped,
            ),
            // A connection that is not delivered breaks off, and both of its ends notice.
            End::Tunnel(_) => (0, 0),
        };
        Delivery { end, all, failed }
    }

    /// Returns the share of frames that this end does not know to have failed; `None` without
    /// frames.
    pub(crate) fn share(&self) -> Option<f64> {
        (self.all > 0).then(|| 1.0 - self.failed.min(self.all) as f64 / self.all as f64)
    }

    /// Checks that enough frames were delivered.
    ///
    /// # Errors
    /// [`Failure::Undelivered`] if less than half of the frames were delivered, or a receiver got
    /// none at all.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let Delivery { end, all, failed } = *self;
        match (end, self.share()) {
            (End::Receiver, None) => {
                bail!(Failure::Undelivered(
                    "the session brought no video".to_owned()
                ))
            }
            (End::Sender | End::SrtlaSender, Some(share)) if share < LEAST_SHARE => {
                let unit = if end == End::Sender {
                    "pictures"
                } else {
                    "packets"
                };
                bail!(Failure::Undelivered(format!(
                    "of {all} {unit} {failed} are not known to have arrived: too late or too \
                     many for the paths, or lost. {:.1} % arrived in time at most",
                    share * 100.0
                )))
            }
            (End::Receiver, Some(share)) if share < LEAST_SHARE => {
                bail!(Failure::Undelivered(format!(
                    "of {all} pictures {} arrived, {:.1} %",
                    all - failed,
                    share * 100.0
                )))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_core::SessionCounters;

    use super::*;

    fn delivery(end: End, [sent, late, received, dropped, refused]: [u64; 5]) -> Delivery {
        let snapshot = Snapshot {
            session: SessionCounters {
                frames_sent: sent,
                frames_acked: sent - late,
                frames_received: received,
                frames_dropped: dropped,
                ..SessionCounters::default()
            },
            ..Snapshot::default()
        };
        Delivery::of(end, &snapshot, refused)
    }

    #[test]
    fn a_session_that_brought_less_than_half_has_failed() {
        for (end, counts, expected) in [
            (End::Sender, [100, 50, 0, 0, 0], None),
            (
                End::Sender,
                [100, 51, 0, 0, 0],
                Some("49.0 % arrived in time at most"),
            ),
            (End::Sender, [10, 0, 0, 0, 90], Some("of 100 pictures 90")),
            (End::Sender, [0, 0, 0, 0, 0], None),
            (
                End::Receiver,
                [0, 0, 1, 99, 0],
                Some("of 100 pictures 1 arrived, 1.0 %"),
            ),
            (End::Receiver, [0, 0, 3, 3, 0], None),
            (End::Receiver, [0, 0, 0, 0, 0], Some("no video")),
        ] {
            let checked = delivery(end, counts).check();
            match expected {
                None => assert!(checked.is_ok(), "{counts:?}"),
                Some(part) => {
                    let error = checked.unwrap_err();
                    assert!(error.is::<Failure>());
                    assert!(error.to_string().contains(part), "{error}");
                }
            }
        }
    }
}
