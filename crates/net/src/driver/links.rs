//! Reports of links, which a client writes and a server reads.
//!
//! A receiver of video only sends reports of arrivals. It therefore knows neither the round-trip
//! time of a path nor whether it is idle or dead.

use anabranch_core::{PathId, PathOptions, PathState, PathView};
use anabranch_units::{DataRate, Duration, Ecn, Instant};

use super::Driver;
use crate::link::{self, Head, LinkCap, LinkReport};
use crate::load::Load;
use crate::port::Port;
use crate::snapshot::PathSnapshot;
use crate::socket::Batch;

/// Interval between reports. Three that are lost in a row take less than a second.
const INTERVAL: Duration = Duration::from_millis(250);
/// The same if every path is paid for by volume: 150 bytes in it are 6 MB a day.
const METERED_INTERVAL: Duration = Duration::from_secs(2);
/// Number of intervals without a datagram that show that all are lost.
const SILENT_INTERVALS: u64 = 3;
/// Maximum delay of a report. Chosen.
const SLACK: Duration = Duration::from_millis(90);
/// Silence of a path after which it counts as dead, if packets are sent by it.
const CARRIES_NOTHING_AFTER: Duration = Duration::from_secs(1);

/// A path of this end, in its user's set-up.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalLink {
    name: String,
    is_metered: bool,
    max_rate: Option<DataRate>,
    cap: Option<LinkCap>,
    /// Bytes sent by it until the report before.
    sent_bytes: u64,
    /// Rate between the last two reports.
    sent_rate: DataRate,
}

impl LocalLink {
    pub(crate) fn new(name: String, options: &PathOptions, cap: Option<LinkCap>) -> Self {
        LocalLink {
            name,
            is_metered: options.is_metered,
            max_rate: options.max_rate,
            cap,
            sent_bytes: 0,
            sent_rate: DataRate::ZERO,
        }
    }

    pub(super) fn set_options(&mut self, options: &PathOptions) {
        self.is_metered = options.is_metered;
        self.max_rate = options.max_rate;
    }
}

/// A client's plan of reports.
#[derive(Debug, Default)]
pub(super) struct Reporter {
    links: Vec<LocalLink>,
    number: u32,
    due_at: Instant,
    reported_at: Instant,
    /// The path of the report before: each takes its turn.
    last_path: usize,
}

/// The peer's reports.
#[derive(Debug, Default)]
pub(super) struct Reported {
    interval: Duration,
    /// Links, by the path's number.
    links: Vec<Option<ReportedLink>>,
}

#[derive(Debug)]
struct ReportedLink {
    number: u32,
    link: LinkReport,
    /// Time from which on each report shows packets sent by it.
    is_sending_since: Option<Instant>,
}

impl Reported {
    fn take(&mut self, now: Instant, head: Head, path: PathId, link: LinkReport) {
        if self.links.len() <= path.index() {
            self.links.resize_with(path.index() + 1, || None);
        }
        let known = &mut self.links[path.index()];
        if known
            .as_ref()
            .is_some_and(|known| head.number.wrapping_sub(known.number) as i32 <= 0)
        {
            return;
        }
        let since = known.as_ref().and_then(|known| known.is_sending_since);
        *known = Some(ReportedLink {
            number: head.number,
            is_sending_since: (!link.sent_rate.is_zero()).then(|| since.unwrap_or(now)),
            link,
        });
    }

    /// Returns whether no path delivers anything, if the peer was last heard at `heard_at`.
    fn is_silent(&self, now: Instant, heard_at: Instant) -> bool {
        let longest = self.interval * SILENT_INTERVALS + SLACK;
        now.saturating_since(heard_at) > longest
    }
}

impl ReportedLink {
    /// Returns whether it loses all packets, if it was last heard at `heard_at`.
    fn carries_nothing(&self, now: Instant, heard_at: Instant) -> bool {
        self.is_sending_since
            .is_some_and(|since| now.saturating_since(since.max(heard_at)) > CARRIES_NOTHING_AFTER)
    }
}

impl<L: Load> Driver<L> {
    /// Adds this path to the reports from now on.
    pub(crate) fn set_local_link(&mut self, index: usize, link: LocalLink) {
        let links = &mut self.reporter.links;
        if links.len() <= index {
            links.resize_with(index + 1, LocalLink::default);
        }
        links[index] = link;
        self.reporter.due_at = Instant::ZERO;
    }

    pub(super) fn local_link_mut(&mut self, index: usize) -> Option<&mut LocalLink> {
        self.reporter.links.get_mut(index)
    }

    /// Sets the volume that a path may carry, and the volume carried.
    pub(crate) fn set_cap(&mut self, index: usize, cap: Option<LinkCap>) {
        if let Some(link) = self.local_link_mut(index) {
            link.cap = cap;
        }
    }

    /// Makes the next report due at once, as a path has a new state.
    pub(super) fn hasten_report(&mut self) {
        self.reporter.due_at = Instant::ZERO;
    }

    /// Returns the time at which [`report_links`](Self::report_links) has something to do.
    pub(super) fn report_at(&self) -> Option<Instant> {
        let is_reporting = !self.reporter.links.is_empty() && self.peer_left_at.is_none();
        is_reporting.then_some(self.reporter.due_at)
    }

    /// Reports this end's paths to the peer, if it is time.
    pub(super) fn report_links(&mut self, now: Instant, ports: &[Port]) {
        if self.report_at().is_none_or(|at| at > now) {
            return;
        }
        let elapsed = now.saturating_since(self.reporter.reported_at);
        let views = self.endpoint.paths(now);
        let links: Vec<_> = views
            .iter()
            .zip(&mut self.reporter.links)
            .map(|(view, local)| {
                let counters = self.endpoint.path_counters(view.id);
                let sent = counters.map_or(0, |counters| counters.sent_bytes);
                let bytes = sent.saturating_sub(core::mem::replace(&mut local.sent_bytes, sent));
                local.sent_rate =
                    DataRate::from_bytes_per(bytes, elapsed.max(Duration::from_millis(1)));
                (view.id, report(view, local))
            })
            .collect();
        let interval = match self.next_reporting_path(&views) {
            Some((path, interval)) => {
                let reporter = &mut self.reporter;
                reporter.last_path = path.index();
                reporter.number = reporter.number.wrapping_add(1);
                let head = Head {
                    number: reporter.number,
                    interval,
                };
                let links = links.iter().map(|(path, link)| (*path, link));
                for plaintext in link::datagrams(head, links) {
                    self.send_report(ports, path, &plaintext);
                }
                interval
            }
            None => INTERVAL,
        };
        self.reporter.reported_at = now;
        self.reporter.due_at = now + interval;
    }

    /// Returns the next path to carry a report, and the time until the next one.
    fn next_reporting_path(&self, views: &[PathView]) -> Option<(PathId, Duration)> {
        let active = views.iter().filter(|view| view.state == PathState::Active);
        let paths = active.map(|view| view.id);
        let (metered, others): (Vec<_>, Vec<_>) = paths.partition(|path| self.is_metered(*path));
        let next = others
            .into_iter()
            .min_by_key(|path| self.turns_until(*path));
        next.map(|path| (path, INTERVAL)).or_else(|| {
            let next = metered
                .into_iter()
                .min_by_key(|path| self.turns_until(*path));
            next.map(|path| (path, METERED_INTERVAL))
        })
    }

    fn is_metered(&self, path: PathId) -> bool {
        let link = self.reporter.links.get(path.index());
        link.is_some_and(|link| link.is_metered)
    }

    /// Returns the number of paths whose turn comes before this one's.
    fn turns_until(&self, path: PathId) -> usize {
        let turn = path.index().wrapping_sub(self.reporter.last_path + 1);
        turn % PathId::LIMIT
    }

    fn send_report(&mut self, ports: &[Port], path: PathId, plaintext: &[u8]) {
        let Some(datagram) = self.sealed(path, plaintext) else {
            return;
        };
        let route = self.paths[path.index()].route.as_mut();
        let Some(route) = route.filter(|route| route.is_proven()) else {
            return;
        };
        let to = route.address();
        let batch = Batch {
            to: to.peer,
            from: to.local,
            ecn: Ecn::NotEct,
            bytes: &datagram,
            datagram_bytes: datagram.len(),
        };
        // The next report has the same content.
        let _ = ports[to.socket].send(&batch);
    }

    /// Takes a datagram that is a report; `false` if it is another one.
    pub(super) fn take_report(&mut self, now: Instant, plaintext: &[u8]) -> bool {
        if !link::is_report(plaintext) {
            return false;
        }
        if let Some((head, links)) = link::read(plaintext) {
            self.reported.interval = head.interval;
            for (path, link) in links {
                self.reported.take(now, head, path, link);
            }
        }
        true
    }

    /// Adds links to the snapshots of paths, and snapshots of paths that were never heard.
    pub(super) fn add_links(&self, now: Instant, paths: &mut Vec<PathSnapshot>) {
        for (path, local) in paths.iter_mut().zip(&self.reporter.links) {
            path.link = Some(report(&path.view, local));
        }
        let is_silent = self.reported.is_silent(now, self.heard_at);
        for (index, reported) in self.reported.links.iter().enumerate() {
            let Some(reported) = reported else { continue };
            if paths.len() <= index {
                paths.extend((paths.len()..=index).map(unheard));
            }
            let heard_at = self.paths.get(index).map(|path| path.heard_at);
            let is_dead = is_silent
                || reported.carries_nothing(now, heard_at.unwrap_or_default())
                    && reported.link.state != PathState::Removed;
            let mut link = reported.link.clone();
            if is_dead {
                link.state = PathState::Out;
            }
            paths[index].link = Some(link);
        }
    }
}

/// Returns the state of a path by which nothing has arrived.
fn unheard(index: usize) -> PathSnapshot {
    PathSnapshot {
        view: PathView {
            id: PathId(index as u8),
            state: PathState::Out,
            ..PathView::default()
        },
        ..PathSnapshot::default()
    }
}

fn report(view: &PathView, local: &LocalLink) -> LinkReport {
    LinkReport {
        name: local.name.clone(),
        state: view.state,
        is_standby: view.is_standby,
        is_metered: local.is_metered,
        rtt: view.rtt.latest,
        loss_ratio: view.risk.loss_ratio,
        sent_rate: local.sent_rate,
        bandwidth: view.bandwidth,
        max_rate: local.max_rate,
        cap: local.cap,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: DataRate = DataRate::from_megabits_per_second(1);

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn take(reported: &mut Reported, millis: u64, number: u32, sent_rate: DataRate) {
        let head = Head {
            number,
            interval: INTERVAL,
        };
        reported.interval = head.interval;
        let link = LinkReport {
            sent_rate,
            ..LinkReport::default()
        };
        reported.take(at(millis), head, PathId(0), link);
    }

    fn first(reported: &Reported) -> &ReportedLink {
        reported.links[0].as_ref().unwrap()
    }

    #[test]
    fn a_session_is_silent_after_three_lost_reports_and_within_a_second() {
        let mut reported = Reported::default();
        take(&mut reported, 0, 1, SENT);
        // Two are lost, and the third is late.
        assert!(!reported.is_silent(at(840), at(0)));
        assert!(reported.is_silent(at(841), at(0)));
    }

    #[test]
    fn path_is_dead_after_a_second_without_delivery() {
        let mut reported = Reported::default();
        take(&mut reported, 0, 1, DataRate::ZERO);
        assert!(!first(&reported).carries_nothing(at(60_000), at(0)), "idle");
        take(&mut reported, 60_000, 2, SENT);
        take(&mut reported, 60_300, 3, SENT);
        assert!(!first(&reported).carries_nothing(at(60_900), at(0)));
        assert!(first(&reported).carries_nothing(at(61_001), at(0)));
        assert!(!first(&reported).carries_nothing(at(61_001), at(60_100)));
    }

    #[test]
    fn a_report_that_was_overtaken_changes_nothing() {
        let mut reported = Reported::default();
        take(&mut reported, 0, u32::MAX, SENT);
        take(&mut reported, 10, 1, DataRate::ZERO);
        take(&mut reported, 20, u32::MAX, SENT);
        assert_eq!(first(&reported).link.sent_rate, DataRate::ZERO);
    }
}
