//! Inputs and outputs at a port, and the choice between them by the caller's stream ID.

use std::net::SocketAddr;
use std::sync::mpsc;

use anabranch_srt::{ConnectionId, Settings};
use anabranch_units::Instant;

use super::Payload;
use super::receivers::SrtReceivers;
use super::seen::Seen;
use crate::handover::{Giver, Taker};

/// Silence of an input's caller after which another one may take its place. Callers that send
/// nothing still send a keepalive each second.
pub(super) const SILENCE: anabranch_units::Duration = anabranch_units::Duration::from_secs(2);

/// Direction of the packets, and the statistics.
#[derive(Debug)]
pub(super) enum Direction {
    Input(Giver<Payload>, Seen),
    Output(Taker<Vec<u8>>, SrtReceivers),
}

impl Direction {
    /// Returns the packets of an output.
    pub(super) fn packets(&self) -> Option<&Taker<Vec<u8>>> {
        match self {
            Direction::Input(..) => None,
            Direction::Output(taker, _) => Some(taker),
        }
    }
}

/// An input or output at a port.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) number: u64,
    /// Stream ID of its callers; `None`: every caller whose ID no other route has.
    pub(super) stream_id: Option<String>,
    pub(super) settings: Settings,
    pub(super) direction: Direction,
    pub(super) callers: Vec<Caller>,
    /// Whether its output has ended, and its callers get the last packets.
    pub(super) is_ending: bool,
    /// Dropped with the route, which ends the wait of the output's owner.
    pub(super) _over: mpsc::Sender<()>,
}

/// A connected caller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub(super) id: ConnectionId,
    pub(super) address: SocketAddr,
    pub(super) heard_at: Instant,
    /// Number among the output's receivers; `None` at an input.
    pub(super) receiver: Option<u64>,
    /// Whether it has ended the connection, whose last payloads are not due yet.
    pub(super) is_leaving: bool,
}

impl Route {
    /// Returns whether another caller may come: an input has one.
    pub(super) fn has_place(&self, now: Instant) -> bool {
        let is_input = matches!(self.direction, Direction::Input(..));
        let gives_way =
            |caller: &Caller| caller.is_leaving || now.saturating_since(caller.heard_at) >= SILENCE;
        !is_input || self.callers.iter().all(gives_way)
    }
}

/// Returns the route of a caller with this stream ID.
pub(super) fn find<'a>(routes: &'a mut [Route], stream_id: Option<&str>) -> Option<&'a mut Route> {
    let wanted = stream_id.map(|id| (id, resource(id)));
    let is_exact = |route: &Route| {
        let its = route.stream_id.as_deref();
        its.is_some_and(|its| {
            wanted.is_some_and(|(id, resource)| id == its || resource == Some(its))
        })
    };
    let found = routes.iter().position(is_exact);
    let found = found.or_else(|| routes.iter().position(|route| route.stream_id.is_none()));
    found.map(|at| &mut routes[at])
}

/// Returns the resource of a stream ID in SRT's form for access control: `cam` of
/// `#!::r=cam,m=publish` (Haivision, "SRT Access Control").
fn resource(stream_id: &str) -> Option<&str> {
    let pairs = stream_id.strip_prefix("#!::")?;
    pairs.split(',').find_map(|pair| pair.strip_prefix("r="))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handover::handover;
    use crate::srt::Mode;

    fn route(number: u64, stream_id: Option<&str>) -> Route {
        let (giver, _) = handover().unwrap();
        Route {
            number,
            stream_id: stream_id.map(str::to_owned),
            settings: Settings::default(),
            direction: Direction::Input(giver, Seen::default()),
            callers: Vec::new(),
            is_ending: false,
            _over: mpsc::channel().0,
        }
    }

    #[test]
    fn an_input_has_one_caller_until_it_leaves_or_is_silent() {
        let at = Instant::from_millis;
        let id = anabranch_srt::ConnectionId::default();
        let mut route = route(1, None);
        assert!(route.has_place(at(0)));
        route.callers.push(Caller {
            id,
            address: ([192, 0, 2, 1], 5).into(),
            heard_at: at(0),
            receiver: None,
            is_leaving: false,
        });
        assert!(!route.has_place(at(1_999)) && route.has_place(at(2_000)));
        route.callers[0].is_leaving = true;
        assert!(route.has_place(at(0)));
        let (_, taker) = handover().unwrap();
        route.callers[0].is_leaving = false;
        route.direction = Direction::Output(taker, SrtReceivers::new(Mode::Listener));
        assert!(route.has_place(at(0)), "an output has many");
    }

    #[test]
    fn callers_are_told_apart_by_their_stream_id() {
        let mut routes = [
            route(1, Some("front")),
            route(2, None),
            route(3, Some("roof")),
        ];
        let mut found = |id| find(&mut routes, id).map(|route| route.number);
        assert_eq!(found(Some("front")), Some(1));
        assert_eq!(found(Some("#!::m=publish,r=roof")), Some(3));
        assert_eq!(found(Some("other")), Some(2));
        assert_eq!(found(None), Some(2));
        let mut routes = [route(1, Some("front"))];
        assert!(find(&mut routes, None).is_none());
        assert!(find(&mut routes, Some("roof")).is_none());
    }
}
