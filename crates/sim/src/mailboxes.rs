//! Arrivals of a window, sorted by recipient.

use anabranch_units::{Ecn, Instant};

use crate::ids::{FlowId, LinkId, Side};

/// A datagram that reaches the end of its route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: Instant,
    /// The last link of its route.
    pub(crate) link: LinkId,
    /// Number of the packet, for [`Network::arrive`](crate::network::Network::arrive).
    pub(crate) id: u32,
    pub(crate) flow: FlowId,
    pub(crate) side: Side,
    pub(crate) ecn: Ecn,
}

impl Arrival {
    pub(crate) fn new(
        (at, link): (Instant, LinkId),
        id: u32,
        flow: FlowId,
        side: Side,
        ecn: Ecn,
    ) -> Arrival {
        Arrival {
            at,
            link,
            id,
            flow,
            side,
            ecn,
        }
    }
}

/// All arrivals of a window, by end, in the order in which the ends take their turns. A reader of
/// thousands of ends reads memory in sequence.
#[derive(Debug, Default)]
pub(crate) struct Mailboxes {
    /// Arrivals by time.
    arrivals: Vec<Arrival>,
    /// Arrivals by end, and then by time.
    dealt: Vec<Arrival>,
    /// Mailboxes by flow and side.
    mailboxes: Vec<[Mailbox; 2]>,
}

/// Range of arrivals for one end; empty once the end has taken it.
#[derive(Clone, Copy, Debug, Default)]
struct Mailbox {
    start: u32,
    end: u32,
}

impl Mailboxes {
    /// Creates empty mailboxes for `flow_count` flows.
    pub(crate) fn new(flow_count: usize) -> Mailboxes {
        Mailboxes {
            mailboxes: vec![[Mailbox::default(); 2]; flow_count],
            ..Mailboxes::default()
        }
    }

    /// Begins a window with its arrivals, each link's in their order. At one instant they are in
    /// the order of links, whatever the windows are. All arrivals of the previous window must have
    /// been taken.
    pub(crate) fn fill(&mut self, fill: impl FnOnce(&mut Vec<Arrival>)) {
        self.arrivals.clear();
        fill(&mut self.arrivals);
        // Links mostly deliver in this order already.
        self.arrivals
            .sort_by_key(|arrival| (arrival.at, arrival.link));
    }

    /// Keeps only arrivals for ends, and appends their flows to `due`.
    pub(crate) fn keep(
        &mut self,
        mut is_for_end: impl FnMut(&Arrival) -> bool,
        due: &mut Vec<FlowId>,
    ) {
        self.arrivals.retain(|arrival| {
            let is_kept = is_for_end(arrival);
            if is_kept {
                let mailbox = &mut self.mailboxes[arrival.flow.index()][arrival.side as usize];
                if mailbox.end == 0 {
                    due.push(arrival.flow);
                }
                mailbox.end += 1;
            }
            is_kept
        });
    }

    /// Sorts the arrivals by recipient for `flows`, which take their turns in this order. There are
    /// no arrivals for other flows.
    pub(crate) fn deal(&mut self, flows: &[FlowId]) {
        let mut start = 0;
        for flow in flows {
            for mailbox in &mut self.mailboxes[flow.index()] {
                let count = mailbox.end - mailbox.start;
                *mailbox = Mailbox { start, end: start };
                start += count;
            }
        }
        let Some(first) = self.arrivals.first() else {
            return;
        };
        self.dealt.resize(self.arrivals.len(), *first);
        for arrival in &self.arrivals {
            let mailbox = &mut self.mailboxes[arrival.flow.index()][arrival.side as usize];
            self.dealt[mailbox.end as usize] = *arrival;
            mailbox.end += 1;
        }
    }

    /// Takes all arrivals for the ends of a flow: for each end, by time.
    pub(crate) fn take(&mut self, flow: FlowId) -> [&[Arrival]; 2] {
        let mailboxes = &mut self.mailboxes[flow.index()];
        mailboxes.each_mut().map(|mailbox| {
            let taken = std::mem::take(mailbox);
            &self.dealt[taken.start as usize..taken.end as usize]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(millis: u64, id: u32, flow: u32, side: Side) -> Arrival {
        Arrival::new(
            (Instant::from_millis(millis), LinkId(0)),
            id,
            FlowId(flow),
            side,
            Ecn::NotEct,
        )
    }

    #[test]
    fn each_end_takes_its_own_in_the_order_of_time() {
        fn taken(flow: u32, mailboxes: &mut Mailboxes) -> [Vec<u32>; 2] {
            mailboxes
                .take(FlowId(flow))
                .map(|taken| taken.iter().map(|one| one.id).collect::<Vec<_>>())
        }

        let (sender, receiver) = (Side::Sender, Side::Receiver);
        let mut mailboxes = Mailboxes::new(3);
        for _ in 0..2 {
            let mut due = Vec::new();
            mailboxes.fill(|arrivals| {
                arrivals.extend([
                    arrival(1, 10, 0, sender),
                    arrival(4, 11, 0, sender),
                    arrival(2, 12, 1, receiver),
                    arrival(2, 13, 0, sender),
                    arrival(2, 16, 2, sender),
                    arrival(4, 14, 0, sender),
                    arrival(3, 15, 1, receiver),
                ]);
            });
            mailboxes.keep(|arrival| arrival.flow != FlowId(2), &mut due);
            assert_eq!(due, [0, 1].map(FlowId));
            mailboxes.deal(&[1, 2, 0].map(FlowId));
            let none: Vec<u32> = Vec::new();
            assert_eq!(
                taken(0, &mut mailboxes),
                [vec![10, 13, 11, 14], none.clone()]
            );
            assert_eq!(taken(1, &mut mailboxes), [none.clone(), vec![12, 15]]);
            assert_eq!(taken(2, &mut mailboxes), [none.clone(), none.clone()]);
            assert_eq!(taken(0, &mut mailboxes), [none.clone(), none], "only once");
        }
    }
}
