//! Reports of path state changes that last. If the round trip is shorter than the machine's own
//! pauses, a path is sometimes suspect for a moment, which is not reported.

use anabranch_core::{PathId, PathState};
use anabranch_net::Event;
use anabranch_terminal::print::Level;
use anabranch_units::{Duration, Instant};

/// Time after which a state is reported.
const LASTING: Duration = Duration::from_millis(250);

/// Current and reported states of a session's paths.
#[derive(Debug, Default)]
pub(crate) struct PathReports(Vec<Entry>);

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    state: Option<PathState>,
    changed_at: Instant,
    reported: Option<PathState>,
}

impl PathReports {
    /// Records that a path's state has changed.
    pub(crate) fn on_change(&mut self, path: PathId, state: PathState, now: Instant) {
        if self.0.len() <= path.index() {
            self.0.resize(path.index() + 1, Entry::default());
        }
        let entry = &mut self.0[path.index()];
        entry.state = Some(state);
        entry.changed_at = now;
    }

    /// Records a path's current state.
    pub(crate) fn see(&mut self, path: PathId, state: PathState, now: Instant) {
        let known = self.0.get(path.index()).and_then(|entry| entry.state);
        if known != Some(state) {
            self.on_change(path, state, now);
        }
    }

    /// Forgets a path's states, because another path takes its number.
    pub(crate) fn forget(&mut self, index: usize) {
        if let Some(entry) = self.0.get_mut(index) {
            *entry = Entry::default();
        }
    }

    /// Returns the index and state of the next path with a report. The first state is reported at
    /// once.
    pub(crate) fn next(&mut self, now: Instant) -> Option<(usize, PathState)> {
        for (index, entry) in self.0.iter_mut().enumerate() {
            let has_lasted = now.saturating_since(entry.changed_at) >= LASTING;
            if entry.state != entry.reported && (has_lasted || entry.reported.is_none()) {
                entry.reported = entry.state;
                return entry.state.map(|state| (index, state));
            }
        }
        None
    }
}

/// Returns the message for an event of a session's paths or its peer, which is the `other` end.
pub(crate) fn session_message(
    event: &Event,
    names: &[String],
    other: &str,
) -> Option<(Level, String)> {
    let level = match event {
        Event::PathAbsent { .. }
        | Event::NameUnresolved { .. }
        | Event::Reconnecting { .. }
        | Event::ReceiverLeft
        | Event::Refused(_)
        | Event::UdpBlocked { .. } => Level::Warning,
        _ => Level::Info,
    };
    let message = match event {
        Event::PathAbsent { path, reason } => format!(
            "path {path} ({}) is waited for: {reason}",
            names[path.index()]
        ),
        Event::PathPresent { path } => {
            format!("path {path} ({}) is present", names[path.index()])
        }
        Event::NameUnresolved { name, reason } => {
            format!("{name} cannot be resolved now: {reason}: asking again")
        }
        Event::NameResolved { name, addresses } => {
            let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
            format!("{name} is at {}", addresses.join(", "))
        }
        Event::Reconnecting { silent_for } => format!(
            "nothing has come from the {other} for {:.1} s: asking for a new session",
            silent_for.as_secs_f64()
        ),
        Event::TriesTcp { remote } => {
            format!("no answer by UDP for 3 s: TCP at {remote} is tried, too")
        }
        Event::UdpBlocked { remote } => format!(
            "UDP seems blocked on every path: falls back to TCP at {remote}, which is slower: a \
             lost packet holds up those after it. UDP is asked every 10 s"
        ),
        Event::PathCarrier { path, carrier } => {
            format!("path {path} ({}) goes by {carrier}", names[path.index()])
        }
        Event::ReceiverLeft => {
            format!("the {other} has gone away: asking for a new session")
        }
        Event::Refused(refused) => format!("no session yet, asking again: {refused}"),
        Event::Reconnected { silent_for } => format!(
            "connected again, after {:.1} s of silence",
            silent_for.as_secs_f64()
        ),
        _ => return None,
    };
    Some((level, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_net::Carrier;

    #[test]
    fn a_fallback_is_a_warning_and_says_where_to() {
        let remote = "192.0.2.1:443".parse().unwrap();
        let blocked = Event::UdpBlocked { remote };
        let (level, message) = session_message(&blocked, &[], "receiver").expect("it is said");
        assert_eq!(level, Level::Warning);
        for part in ["UDP seems blocked on every path", "192.0.2.1:443", "slower"] {
            assert!(message.contains(part), "{message}");
        }
        let carrier = Event::PathCarrier {
            path: PathId(0),
            carrier: Carrier::Tcp,
        };
        let message = session_message(&carrier, &["wlan0".to_owned()], "receiver");
        assert_eq!(
            message,
            Some((Level::Info, "path 0 (wlan0) goes by TCP".to_owned()))
        );
    }

    #[test]
    fn names_that_fail_are_warned_of_and_new_addresses_noted() {
        let name = "studio.example:7000".to_owned();
        let reason = "temporary failure".to_owned();
        let unresolved = Event::NameUnresolved {
            name: name.clone(),
            reason,
        };
        let (level, said) = session_message(&unresolved, &[], "receiver").expect("a message");
        assert_eq!(level, Level::Warning);
        assert!(said.contains("studio.example:7000") && said.contains("temporary failure"));
        let addresses = vec!["10.1.0.9:7000".parse().unwrap()];
        let resolved = Event::NameResolved { name, addresses };
        let (level, said) = session_message(&resolved, &[], "receiver").expect("a message");
        assert_eq!(level, Level::Info);
        assert_eq!(said, "studio.example:7000 is at 10.1.0.9:7000");
    }

    #[test]
    fn only_lasting_suspicion_is_reported() {
        let mut message = PathReports::default();
        let at = Instant::from_millis;
        let path = PathId(1);
        message.on_change(path, PathState::Active, at(10));
        assert_eq!(message.next(at(10)), Some((1, PathState::Active)));
        assert_eq!(message.next(at(10)), None);
        message.on_change(path, PathState::Suspect, at(500));
        assert_eq!(message.next(at(501)), None);
        message.on_change(path, PathState::Active, at(520));
        assert_eq!(message.next(at(900)), None);
        message.on_change(path, PathState::Suspect, at(1_000));
        message.on_change(path, PathState::Out, at(1_200));
        assert_eq!(message.next(at(1_449)), None);
        assert_eq!(message.next(at(1_450)), Some((1, PathState::Out)));
        assert_eq!(message.next(at(1_500)), None);
        // Another path takes its number.
        message.on_change(path, PathState::Suspect, at(1_600));
        message.forget(1);
        assert_eq!(message.next(at(2_000)), None);
        message.on_change(path, PathState::Active, at(2_000));
        assert_eq!(message.next(at(2_000)), Some((1, PathState::Active)));
    }
}
