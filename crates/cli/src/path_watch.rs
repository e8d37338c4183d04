//! Diagnosis of paths that are of little or no use, as far as a sender can distinguish the causes.
//! Either answers never arrive, or UDP is blocked, or the MTU is too small, or no path has an
//! answer.

use core::fmt;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anabranch_core::PathState;
use anabranch_net::{Event, PathSnapshot, Snapshot};
use anabranch_units::{Duration, Instant};

/// Time between checks of the paths.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Time without an answer on a path in use before that is a problem. Another path has answers
/// meanwhile, so the receiver works. The first handshake has the same time. Chosen: the longest
/// round trips, over satellites, take less than a second.
const PATIENCE: Duration = Duration::from_secs(4);
/// Minimum packets sent on the path in that time; challenges alone are ten per second.
const MIN_SENT: u64 = 10;
/// Maximum age of the last answer on the other path if that works.
const HEARD_WITHIN: Duration = Duration::from_secs(2);
/// Advice while no receiver answers.
const NO_ANSWER: &str = "no receiver has answered yet. Does the receiver run, and does it know \
    this key? Many networks of hotels, venues and companies block UDP; a receiver with \
    --listen-tcp is reached from there, too";
/// Folder of the kernel's settings of each interface.
const SYSCTL: &str = "/proc/sys/net/ipv4/conf";
/// Value of `rp_filter` that drops packets whose best return route uses another interface (Linux,
/// ip-sysctl).
const STRICT: &str = "1";

/// A problem that a path's user can solve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// Packets of the path arrive, as the receiver reports over another path, but answers do not.
    Unanswered,
    /// No packet of the path arrives.
    Blocked,
    /// Long packets are lost, short ones arrive.
    SmallMtu,
    /// The first handshake has no answer on any path.
    NoAnswer,
}

impl Problem {
    /// Returns the name for programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Problem::Unanswered => "unanswered",
            Problem::Blocked => "blocked",
            Problem::SmallMtu => "small-mtu",
            Problem::NoAnswer => "no-answer",
        }
    }
}

/// A path's problem with its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathProblem {
    pub(crate) path: usize,
    pub(crate) name: String,
    pub(crate) problem: Problem,
    /// Whether the path's interface drops packets that another interface's route should deliver.
    is_filter_strict: bool,
}

impl fmt::Display for PathProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PathProblem { path, name, .. } = self;
        write!(f, "path {path} ({name}): ")?;
        match self.problem {
            Problem::Unanswered if self.is_filter_strict => write!(
                f,
                "its packets arrive, and no answer comes back by it. The reverse path filter of \
                 {name} is strict and drops answers if another interface has the better route: \
                 `sysctl -w net.ipv4.conf.{name}.rp_filter=2`"
            ),
            Problem::Unanswered => f.write_str(
                "its packets arrive, and no answer comes back by it. Check the firewalls and the \
                 NAT on its way for incoming UDP, and the route by which the receiver answers",
            ),
            Problem::Blocked => f.write_str(
                "nothing that is sent by it arrives, while other paths work. Check whether that \
                 network blocks UDP or wants a login, and whether the routing table sends its \
                 packets by another interface",
            ),
            Problem::SmallMtu => f.write_str(
                "it carries short packets only, and long ones get lost. Its MTU is below the \
                 minimum, 1228 bytes over IPv4 and 1248 over IPv6: raise the MTU of \
                 the tunnel, VPN or interface there, or leave the path out",
            ),
            Problem::NoAnswer => f.write_str(NO_ANSWER),
        }
    }
}

/// Returns the lines for problems: one for all paths without an answer, one for each other problem.
pub(crate) fn lines(problems: &[PathProblem]) -> Vec<String> {
    let (no_answer, others): (Vec<_>, Vec<_>) = problems
        .iter()
        .partition(|reported| reported.problem == Problem::NoAnswer);
    let mut lines: Vec<String> = others.into_iter().map(PathProblem::to_string).collect();
    if !no_answer.is_empty() {
        let paths: Vec<_> = no_answer
            .into_iter()
            .map(|reported| format!("path {} ({})", reported.path, reported.name))
            .collect();
        lines.push(format!("{}: {NO_ANSWER}", paths.join(", ")));
    }
    lines
}

/// Observer of a sender's paths.
#[derive(Debug, Default)]
pub(crate) struct PathWatch {
    look_at: Instant,
    paths: Vec<PathHistory>,
    /// Paths whose interface or address is absent.
    absent: BTreeSet<usize>,
    /// Time of the first check without a session.
    asked_since: Option<Instant>,
    is_no_answer_reported: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct PathHistory {
    received_bytes: u64,
    heard_at: Option<Instant>,
    /// Time of the first check after the path was used.
    sent_since: Option<Instant>,
    is_silence_reported: bool,
    is_mtu_reported: bool,
}

impl PathWatch {
    /// Returns whether a check is due.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.look_at
    }

    /// Records paths that come and go.
    pub(crate) fn on_event(&mut self, event: &Event) {
        match event {
            Event::PathAbsent { path, .. } => self.absent.insert(path.index()),
            Event::PathPresent { path } => self.absent.remove(&path.index()),
            _ => false,
        };
    }

    /// Returns the present paths, once, if the first handshake has no answer for a long time.
    pub(crate) fn without_answer(&mut self, now: Instant, names: &[String]) -> Vec<PathProblem> {
        let since = *self.asked_since.get_or_insert(now);
        let there: Vec<_> = names
            .iter()
            .enumerate()
            .filter(|(path, _)| !self.absent.contains(path))
            .collect();
        if now < since + PATIENCE || there.is_empty() || self.is_no_answer_reported {
            return Vec::new();
        }
        self.is_no_answer_reported = true;
        there
            .into_iter()
            .map(|(path, name)| PathProblem {
                path,
                name: name.clone(),
                problem: Problem::NoAnswer,
                is_filter_strict: false,
            })
            .collect()
    }

    /// Returns new problems; each is reported once per path.
    pub(crate) fn due_report(
        &mut self,
        now: Instant,
        snapshot: &Snapshot,
        names: &[String],
    ) -> Vec<PathProblem> {
        let found = self.find(now, snapshot);
        found
            .into_iter()
            .map(|(path, problem)| {
                let name = names.get(path).cloned().unwrap_or_default();
                PathProblem {
                    path,
                    is_filter_strict: is_filter_strict(Path::new(SYSCTL), &name),
                    name,
                    problem,
                }
            })
            .collect()
    }

    fn find(&mut self, now: Instant, snapshot: &Snapshot) -> Vec<(usize, Problem)> {
        self.look_at = now + POLL_INTERVAL;
        self.paths
            .resize(snapshot.paths.len(), PathHistory::default());
        for (history, path) in self.paths.iter_mut().zip(&snapshot.paths) {
            history.see(now, path);
        }
        let is_any_heard = self
            .paths
            .iter()
            .any(|path| path.heard_at.is_some_and(|at| now <= at + HEARD_WITHIN));
        let paths = self.paths.iter_mut().zip(&snapshot.paths).enumerate();
        let found = paths.filter_map(|(index, (history, path))| {
            let problem = history.problem(now, path, is_any_heard)?;
            Some((index, problem))
        });
        found.collect()
    }
}

impl PathHistory {
    fn see(&mut self, now: Instant, path: &PathSnapshot) {
        let received_bytes = path.counters.received_bytes;
        if received_bytes > self.received_bytes {
            self.heard_at = Some(now);
        }
        self.received_bytes = received_bytes;
        if path.counters.sent_packets > 0 {
            self.sent_since.get_or_insert(now);
        }
    }

    fn problem(
        &mut self,
        now: Instant,
        path: &PathSnapshot,
        is_any_heard: bool,
    ) -> Option<Problem> {
        if path.view.is_mtu_too_small && !core::mem::replace(&mut self.is_mtu_reported, true) {
            return Some(Problem::SmallMtu);
        }
        // Refused datagrams are reported with the operating system's own error.
        let left_count = path
            .counters
            .sent_packets
            .saturating_sub(path.unsent_datagrams);
        let is_long = self.sent_since.is_some_and(|at| now >= at + PATIENCE);
        let is_silent = self.received_bytes == 0
            && is_long
            && left_count >= MIN_SENT
            && path.view.state != PathState::Removed;
        if !is_silent || !is_any_heard || core::mem::replace(&mut self.is_silence_reported, true) {
            return None;
        }
        Some(if path.counters.acked_packets > 0 {
            Problem::Unanswered
        } else {
            Problem::Blocked
        })
    }
}

/// Returns whether an interface drops packets whose best return route uses another interface. The
/// larger of its own value and that of all interfaces counts. Returns `false` if it is no interface
/// or the value is unknown.
fn is_filter_strict(folder: &Path, interface: &str) -> bool {
    if interface.is_empty() || interface.contains('/') {
        return false;
    }
    let own = filter_value(folder, interface);
    own.is_some() && own.max(filter_value(folder, "all")).as_deref() == Some(STRICT)
}

/// Returns Linux's `rp_filter` of an interface or of `all`.
fn filter_value(folder: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(folder.join(name).join("rp_filter")).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two paths that are checked twice a second.
    struct Bed {
        watch: PathWatch,
        snapshot: Snapshot,
    }

    impl Bed {
        fn new() -> Self {
            let snapshot = Snapshot {
                paths: vec![PathSnapshot::default(); 2],
                ..Snapshot::default()
            };
            Bed {
                watch: PathWatch::default(),
                snapshot,
            }
        }

        fn run(&mut self, seconds: u64, change: impl Fn(&mut [PathSnapshot])) -> Vec<PathProblem> {
            let names = ["eth0", "wwan0"].map(str::to_owned);
            let mut reported = Vec::new();
            for _ in 0..2 * seconds {
                self.snapshot.at += POLL_INTERVAL;
                for path in &mut self.snapshot.paths {
                    path.counters.sent_packets += 5;
                }
                change(&mut self.snapshot.paths);
                assert!(self.watch.is_due(self.snapshot.at));
                reported.extend(
                    self.watch
                        .due_report(self.snapshot.at, &self.snapshot, &names),
                );
            }
            reported
        }
    }

    fn hear(path: &mut PathSnapshot) {
        path.counters.received_bytes += 100;
        path.counters.acked_packets += 1;
    }

    #[test]
    fn unanswered_path_is_reported_once_with_cause() {
        for (arrive, problem, part) in [
            (true, Problem::Unanswered, "its packets arrive"),
            (false, Problem::Blocked, "blocks UDP"),
        ] {
            let mut bed = Bed::new();
            let reported = bed.run(20, |paths| {
                hear(&mut paths[0]);
                paths[1].counters.acked_packets += u64::from(arrive);
            });
            assert_eq!(reported.len(), 1, "{reported:?}");
            assert_eq!((reported[0].path, reported[0].problem), (1, problem));
            let text = reported[0].to_string();
            assert!(
                text.starts_with("path 1 (wwan0): ") && text.contains(part),
                "{text}"
            );
        }
    }

    #[test]
    fn silence_of_all_paths_and_of_one_that_was_heard_is_no_such_problem() {
        assert_eq!(Bed::new().run(20, |_| {}), [], "the receiver has gone");
        let mut bed = Bed::new();
        assert_eq!(bed.run(2, |paths| paths.iter_mut().for_each(hear)), []);
        assert_eq!(bed.run(20, |paths| hear(&mut paths[0])), [], "an outage");
    }

    #[test]
    fn refused_datagrams_are_not_called_blocked() {
        let reported = Bed::new().run(20, |paths| {
            hear(&mut paths[0]);
            paths[1].unsent_datagrams = paths[1].counters.sent_packets;
        });
        assert_eq!(reported, []);
    }

    #[test]
    fn small_mtu_is_reported_once() {
        let reported = Bed::new().run(5, |paths| {
            paths.iter_mut().for_each(hear);
            paths[0].view.is_mtu_too_small = true;
        });
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert_eq!(reported[0].problem.name(), "small-mtu");
        assert!(reported[0].to_string().contains("1228"), "{}", reported[0]);
    }

    #[test]
    fn present_paths_are_reported_without_receiver() {
        use anabranch_core::PathId;
        let names = ["eth0", "wwan0"].map(str::to_owned);
        let mut watch = PathWatch::default();
        watch.on_event(&Event::PathAbsent {
            path: PathId(1),
            reason: "it is not there".to_owned(),
        });
        let seconds = (0..20).map(Instant::from_secs);
        let reported: Vec<_> = seconds
            .map(|now| (now, watch.without_answer(now, &names)))
            .filter(|(_, problems)| !problems.is_empty())
            .collect();
        let [(at, problems)] = &reported[..] else {
            panic!("{reported:?}")
        };
        assert_eq!(*at, Instant::ZERO + PATIENCE);
        assert_eq!(problems.len(), 1, "the other is not there");
        let text = lines(problems).concat();
        assert!(
            text.starts_with("path 0 (eth0): ") && text.contains("block UDP"),
            "{text}"
        );
        let both = names.iter().enumerate().map(|(path, name)| PathProblem {
            path,
            name: name.clone(),
            ..problems[0].clone()
        });
        let both = lines(&both.collect::<Vec<_>>());
        assert_eq!(both.len(), 1);
        assert!(
            both[0].starts_with("path 0 (eth0), path 1 (wwan0): "),
            "{both:?}"
        );
    }

    #[test]
    fn the_larger_value_of_the_reverse_path_filter_counts() {
        for (all, own, is_strict) in [
            ("0", "0", false),
            ("0", "1", true),
            ("1", "0", true),
            ("1", "2", false),
            ("2", "1", false),
        ] {
            let folder = tempfile::tempdir().unwrap();
            for (name, value) in [("all", all), ("wwan0", own)] {
                fs::create_dir(folder.path().join(name)).unwrap();
                fs::write(
                    folder.path().join(name).join("rp_filter"),
                    format!("{value}\n"),
                )
                .unwrap();
            }
            assert_eq!(
                is_filter_strict(folder.path(), "wwan0"),
                is_strict,
                "{all} {own}"
            );
            assert!(!is_filter_strict(folder.path(), "10.1.0.2"));
        }
        let strict = PathProblem {
            path: 1,
            name: "wwan0".to_owned(),
            problem: Problem::Unanswered,
            is_filter_strict: true,
        };
        let text = strict.to_string();
        assert!(text.contains("net.ipv4.conf.wwan0.rp_filter=2"), "{text}");
    }
}
