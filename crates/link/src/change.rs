//! Changes of a link while packets are on it.

use anabranch_units::{DataRate, Duration};

use crate::loss::LossModel;

/// A change of a running link. It replaces the changes that the configuration schedules for the
/// same property.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinkChange {
    /// Another rate, also in place of a trace. It applies to packets in the queue and to the rest
    /// of the packet in service. The limit of the queue stays.
    Rate(DataRate),
    /// Another propagation delay, one way. It applies to packets that enter the link from now on.
    Delay(Duration),
    /// Another loss model, for packets that enter the link from now on.
    Loss(LossModel),
    /// An outage that begins now: it loses all packets inside, and all that come until [`Up`].
    ///
    /// [`Up`]: LinkChange::Up
    Down,
    /// The end of an outage.
    Up,
}
