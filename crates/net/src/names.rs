//! Names, which are resolved while they are needed, without blocking the paths.
//!
//! Each name has a thread of its own: the system's resolver may take seconds, for one name and not
//! for another. A question waits until the last one is answered, and the pause between them
//! doubles.

use core::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use anabranch_units::{Duration, Instant};

use crate::remote::HostName;
use crate::waker::Waker;

/// Pause between the first answer and the next question; each later one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Bound of the doubling; callers set shorter ones.
const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);
/// Interval at which a lasting failure is reported.
const WARNING_INTERVAL: Duration = Duration::from_secs(300);

/// Reason why a name has no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The resolver knows the name, but no address of it.
    #[error("the name has no address")]
    NoAddress,
    /// The resolver has failed, with this text of the system.
    #[error("{0}")]
    Resolver(String),
}

impl From<io::Error> for ResolveError {
    fn from(error: io::Error) -> Self {
        ResolveError::Resolver(error.to_string())
    }
}

/// Finds the addresses of names. May block.
pub(crate) trait Resolve: fmt::Debug + Send + Sync + 'static {
    /// # Errors
    /// [`ResolveError::Resolver`].
    fn resolve(&self, name: &HostName) -> Result<Vec<SocketAddr>, ResolveError>;

    /// Answers without a thread, now or later. Returns whether it does: if not,
    /// [`resolve`](Self::resolve) is called in one.
    fn answer(&self, _name: &HostName, _reply: Reply) -> bool {
        false
    }
}

/// The way back to the asker of a name.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "testing"),
    expect(dead_code, reason = "only resolvers of worlds answer without a thread")
)]
pub(crate) struct Reply {
    desk: Arc<Desk>,
    waker: Arc<Waker>,
}

#[cfg(feature = "testing")]
impl Reply {
    pub(crate) fn send(self, outcome: Result<Vec<SocketAddr>, ResolveError>) {
        self.desk.lock().outcome = Some(outcome);
        self.waker.wake();
    }
}

/// The operating system's resolver: `getaddrinfo`, whose order is that of RFC 6724.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: &HostName) -> Result<Vec<SocketAddr>, ResolveError> {
        let resolved = (name.host(), name.port()).to_socket_addrs();
        Ok(resolved?.collect())
    }
}

/// A resolver's answer for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) name: HostName,
    pub(crate) outcome: Result<Vec<SocketAddr>, ResolveError>,
    /// Whether the user should be notified: a failure that is new or lasts; an address after a
    /// failure; another address than before.
    pub(crate) is_new: bool,
}

/// The names of a client's paths.
#[derive(Debug)]
pub(crate) struct Names {
    resolver: Arc<dyn Resolve>,
    waker: Arc<Waker>,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    name: HostName,
    desk: Arc<Desk>,
    has_thread: bool,
    is_asked: bool,
    /// Time of the next question, unless a question is open.
    next_at: Instant,
    pause: Duration,
    addresses: Vec<SocketAddr>,
    has_failed: bool,
    warn_at: Instant,
}

/// Questions to a name's thread, and its answers.
#[derive(Debug, Default)]
struct Desk {
    slip: Mutex<Slip>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Slip {
    is_wanted: bool,
    is_closed: bool,
    outcome: Option<Result<Vec<SocketAddr>, ResolveError>>,
}

impl Names {
    pub(crate) fn new(resolver: Arc<dyn Resolve>, waker: Arc<Waker>) -> Self {
        Names {
            resolver,
            waker,
            entries: Vec::new(),
        }
    }

    /// Adds a name. Returns its addresses, if they are known.
    pub(crate) fn add(&mut self, name: &HostName) -> &[SocketAddr] {
        let at = self
            .entries
            .iter()
            .position(|entry| entry.name == *name)
            .unwrap_or_else(|| {
                self.entries.push(Entry::new(name.clone()));
                self.entries.len() - 1
            });
        &self.entries[at].addresses
    }

    /// Forgets the names that are not kept.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&HostName) -> bool) {
        self.entries.retain(|entry| is_kept(&entry.name));
    }

    /// Resolves a name, unless its thread is at work or its pause is not over. Pauses grow
    /// to `longest_pause`.
    pub(crate) fn ask(&mut self, now: Instant, name: &HostName, longest_pause: Duration) {
        let entry = self.entries.iter_mut().find(|entry| entry.name == *name);
        if let Some(entry) = entry {
            // A name that is needed more urgently than before is asked earlier.
            entry.next_at = entry.next_at.min(now + longest_pause);
            if !entry.is_asked && entry.next_at <= now {
                entry.pause = entry.pause.min(longest_pause);
                entry.ask(&self.resolver, &self.waker);
            }
        }
    }

    /// Returns the time at which [`ask`](Self::ask) next has something to do.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        let idle = self.entries.iter().filter(|entry| !entry.is_asked);
        idle.map(|entry| entry.next_at).min()
    }

    /// Makes pauses begin with the shortest again, as the session is up.
    pub(crate) fn restart(&mut self) {
        for entry in &mut self.entries {
            entry.pause = FIRST_PAUSE;
        }
    }

    /// Takes the answers that have arrived.
    pub(crate) fn take(&mut self, now: Instant) -> Vec<Answer> {
        let answers = self.entries.iter_mut().filter_map(|entry| entry.take(now));
        answers.collect()
    }
}

impl Entry {
    fn new(name: HostName) -> Self {
        Entry {
            name,
            desk: Arc::default(),
            has_thread: false,
            is_asked: false,
            next_at: Instant::ZERO,
            pause: FIRST_PAUSE,
            addresses: Vec::new(),
            has_failed: false,
            warn_at: Instant::ZERO,
        }
    }

    fn ask(&mut self, resolver: &Arc<dyn Resolve>, waker: &Arc<Waker>) {
        self.is_asked = true;
        let reply = Reply {
            desk: Arc::clone(&self.desk),
            waker: Arc::clone(waker),
        };
        if resolver.answer(&self.name, reply) {
            return;
        }
        self.desk.lock().is_wanted = true;
        self.desk.changed.notify_one();
        if self.has_thread {
            return;
        }
        let (desk, name) = (Arc::clone(&self.desk), self.name.clone());
        let (resolver, waker) = (Arc::clone(resolver), Arc::clone(waker));
        let thread = thread::Builder::new().name("resolver".to_owned());
        let spawned = thread.spawn(move || desk.serve(&name, &*resolver, &waker));
        match spawned {
            // The thread ends without a join; a resolver that hangs must not delay the end of a
            // session.
            Ok(_) => self.has_thread = true,
            Err(error) => self.desk.lock().outcome = Some(Err(error.into())),
        }
    }

    fn take(&mut self, now: Instant) -> Option<Answer> {
        let outcome = self
            .is_asked
            .then(|| self.desk.lock().outcome.take())
            .flatten()?;
        let outcome = match outcome {
            Ok(addresses) if addresses.is_empty() => Err(ResolveError::NoAddress),
            outcome => outcome,
        };
        self.is_asked = false;
        self.next_at = now + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        let is_new = match &outcome {
            Ok(addresses) => self.on_addresses(addresses),
            Err(_) => self.on_failure(now),
        };
        Some(Answer {
            name: self.name.clone(),
            outcome,
            is_new,
        })
    }

    fn on_addresses(&mut self, addresses: &[SocketAddr]) -> bool {
        let had_failed = core::mem::replace(&mut self.has_failed, false);
        let is_other = !self.addresses.is_empty()
            && !addresses
                .iter()
                .all(|address| self.addresses.contains(address));
        self.addresses = addresses.to_vec();
        had_failed || is_other
    }

    fn on_failure(&mut self, now: Instant) -> bool {
        let had_failed = core::mem::replace(&mut self.has_failed, true);
        if had_failed && now < self.warn_at {
            return false;
        }
        self.warn_at = now + WARNING_INTERVAL;
        true
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.desk.lock().is_closed = true;
        self.desk.changed.notify_one();
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Slip> {
        self.slip.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers questions until the desk is closed.
    fn serve(&self, name: &HostName, resolver: &dyn Resolve, waker: &Waker) {
        loop {
            let waited = self
                .changed
                .wait_while(self.lock(), |slip| !slip.is_wanted && !slip.is_closed);
            let mut slip = waited.unwrap_or_else(PoisonError::into_inner);
            if slip.is_closed {
                return;
            }
            slip.is_wanted = false;
            drop(slip);
            let outcome = resolver.resolve(name);
            self.lock().outcome = Some(outcome);
            waker.wake();
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! A scripted resolver.

    use super::{HostName, Mutex, Resolve, ResolveError, SocketAddr};

    /// Answers, of which the last is repeated.
    #[derive(Debug)]
    pub(crate) struct Scripted(pub(crate) Mutex<Vec<Result<Vec<SocketAddr>, ResolveError>>>);

    impl Scripted {
        pub(crate) fn new(answers: Vec<Result<Vec<SocketAddr>, ResolveError>>) -> Self {
            Scripted(Mutex::new(answers))
        }
    }

    impl Resolve for Scripted {
        fn resolve(&self, _: &HostName) -> Result<Vec<SocketAddr>, ResolveError> {
            let mut answers = self.0.lock().unwrap();
            match answers.len() {
                1 => answers[0].clone(),
                _ => answers.remove(0),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::Scripted;
    use super::*;
    use crate::remote::Remote;
    use crate::waker;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use waker::Wakeup;

    const LONGEST: Duration = Duration::from_secs(4);

    fn name() -> HostName {
        match "studio.example:7000".parse() {
            Ok(Remote::Name(name)) => name,
            other => panic!("{other:?}"),
        }
    }

    fn names(answers: Vec<Result<Vec<SocketAddr>, ResolveError>>) -> (Names, Wakeup) {
        let (waker, wakeup) = waker::pair().expect("a pipe");
        let mut names = Names::new(Arc::new(Scripted::new(answers)), Arc::new(waker));
        assert_eq!(names.add(&name()), []);
        (names, wakeup)
    }

    fn is_woken(wakeup: &Wakeup, seconds: i64) -> bool {
        let patience = Timespec {
            tv_sec: seconds,
            tv_nsec: 0,
        };
        let mut awaited = [PollFd::from_borrowed_fd(wakeup.as_fd(), PollFlags::IN)];
        poll(&mut awaited, Some(&patience)).expect("a poll");
        let is_woken = !awaited[0].revents().is_empty();
        wakeup.clear();
        is_woken
    }

    /// Sends the question at `now`, and waits for the answer.
    fn answer(names: &mut Names, wakeup: &Wakeup, now: Instant) -> Answer {
        names.ask(now, &name(), LONGEST);
        assert!(is_woken(wakeup, 10), "the answer wakes the paths");
        let mut answers = names.take(now);
        assert_eq!(answers.len(), 1);
        answers.remove(0)
    }

    #[test]
    fn questions_pause_for_longer_and_longer_until_a_session_is_up() {
        let failure = ResolveError::Resolver("no server".to_owned());
        let (mut names, wakeup) = names(vec![Err(failure)]);
        let mut now = Instant::ZERO;
        for pause in [1, 2, 4, 4] {
            answer(&mut names, &wakeup, now);
            let next_at = names.next_at().unwrap();
            names.ask(now, &name(), LONGEST);
            assert_eq!(next_at, now + Duration::from_secs(pause));
            now = next_at;
        }
        names.restart();
        answer(&mut names, &wakeup, now);
        let next_at = names.next_at().unwrap();
        assert_eq!(next_at, now + FIRST_PAUSE);
    }

    #[test]
    fn failures_are_reported_rarely_and_changes_always() {
        let [first, second, third] =
            [1, 2, 9].map(|last| SocketAddr::from(([10, 1, 0, last], 7_000)));
        let mut answers = vec![Err(ResolveError::Resolver("no server".to_owned())); 3];
        answers.extend([
            Ok(vec![]),
            Ok(vec![first, second]),
            Ok(vec![second, first]),
            Ok(vec![third]),
        ]);
        let (mut names, wakeup) = names(answers);
        for (seconds, is_new) in [
            (0, true),
            (10, false),
            (301, true),
            (310, false),
            (320, true),
            (330, false),
            (340, true),
        ] {
            let answer = answer(&mut names, &wakeup, Instant::from_secs(seconds));
            assert_eq!(answer.is_new, is_new, "{answer:?}");
        }
        assert_eq!(names.add(&name()), [third]);
    }

    #[derive(Debug)]
    struct Hanging;

    impl Resolve for Hanging {
        fn resolve(&self, _: &HostName) -> Result<Vec<SocketAddr>, ResolveError> {
            loop {
                thread::park();
            }
        }
    }

    #[test]
    fn a_resolver_that_hangs_holds_up_nothing_and_is_asked_once() {
        let (waker, wakeup) = waker::pair().expect("a pipe");
        let mut names = Names::new(Arc::new(Hanging), Arc::new(waker));
        names.add(&name());
        for seconds in 0..100 {
            let now = Instant::from_secs(seconds);
            names.ask(now, &name(), LONGEST);
            assert_eq!(names.take(now), []);
            assert_eq!(names.next_at(), None);
        }
        assert!(!is_woken(&wakeup, 0));
    }
}
