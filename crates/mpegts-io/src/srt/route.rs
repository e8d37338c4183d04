//! Inputs and outputs at a port, and the choice between them by the caller's stream ID.

use std::net::SocketAddr;
use std::sync::mpsc;

use anabranch_srt::{ConnectionId, Settings, stream_names};
use anabranch_units::Instant;

use super::caller_links::CallerLinks;
use super::receivers::SrtReceivers;
use crate::handover::{Giver, Payload, Taker};

/// Silence of an input's caller after which another one may take its place. Callers that send
/// nothing still send a keepalive each second.
pub(super) const SILENCE: anabranch_units::Duration = anabranch_units::Duration::from_secs(2);

/// Direction of the packets, and the statistics.
#[derive(Debug)]
pub(super) enum Direction {
    Input(Giver<Payload>, CallerLinks),
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
    /// Stream and address for messages.
    pub(super) shown: String,
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
    /// Returns whether the connection is that of a caller of this route.
    pub(super) fn has_caller(&self, id: ConnectionId) -> bool {
        self.callers.iter().any(|caller| caller.id == id)
    }

    /// Returns whether another caller may come: an input has one.
    pub(super) fn has_place(&self, now: Instant) -> bool {
        let is_input = matches!(self.direction, Direction::Input(..));
        !is_input
            || self
                .callers
                .iter()
                .all(|caller| caller.is_leaving || now.saturating_since(caller.heard_at) >= SILENCE)
    }
}

/// Returns the route of a caller with this stream ID. A route's own ID comes first, then the forms
/// in which devices and guides write it ([`stream_names`]).
pub(super) fn find<'a>(routes: &'a mut [Route], stream_id: Option<&str>) -> Option<&'a mut Route> {
    let forms = stream_id.map(stream_names).unwrap_or_default();
    let found = forms
        .iter()
        .find_map(|form| {
            let mut routes = routes.iter();
            routes.position(|route| route.stream_id.as_deref() == Some(form))
        })
        .or_else(|| routes.iter().position(|route| route.stream_id.is_none()));
    found.map(|at| &mut routes[at])
}

/// Returns the stream IDs that a port takes, for callers with another one.
pub(super) fn accepted(routes: &[Route]) -> String {
    let ids: Vec<_> = routes
        .iter()
        .filter_map(|route| route.stream_id.as_deref())
        .map(|id| format!("streamid={id}"))
        .collect();
    ids.join(" or ")
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
            shown: "srt://:9000".to_owned(),
            stream_id: stream_id.map(str::to_owned),
            settings: Settings::default(),
            direction: Direction::Input(giver, CallerLinks::default()),
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
    fn callers_are_routed_by_stream_id() {
        fn found(id: Option<&str>, routes: &mut [Route; 3]) -> Option<u64> {
            find(routes, id).map(|route| route.number)
        }

        let mut routes = [
            route(1, Some("front")),
            route(2, None),
            route(3, Some("roof")),
        ];
        assert_eq!(found(Some("front"), &mut routes), Some(1));
        assert_eq!(found(Some("#!::m=publish,r=roof"), &mut routes), Some(3));
        assert_eq!(found(Some("other"), &mut routes), Some(2));
        assert_eq!(found(None, &mut routes), Some(2));
        let mut routes = [route(1, Some("front"))];
        assert!(find(&mut routes, None).is_none());
        assert!(find(&mut routes, Some("roof")).is_none());
    }
    #[test]
    fn usual_forms_of_a_stream_id_name_the_same_route() {
        let mut routes = [route(1, Some("front")), route(2, Some("live/roof"))];
        for id in [
            "front",
            "publish:front",
            "publish/front",
            "/front",
            "live/front",
            "#!::r=front,m=publish",
            "#!:: r=front",
            "#!::r=live/front,m=publish",
            "%23!::r=front",
            "%23%21%3A%3Ar%3Dfront",
            "front ",
        ] {
            let found = find(&mut routes, Some(id)).map(|route| route.number);
            assert_eq!(found, Some(1), "{id}");
        }
        for (id, expected) in [
            ("live/roof", Some(2)),
            ("#!::r=live/roof", Some(2)),
            ("roof", None),
            ("Front", None),
            ("front#feedbackplay", None),
            ("%zz", None),
            ("", None),
        ] {
            let found = find(&mut routes, Some(id)).map(|route| route.number);
            assert_eq!(found, expected, "{id}");
        }
        assert_eq!(accepted(&routes), "streamid=front or streamid=live/roof");
    }
}
