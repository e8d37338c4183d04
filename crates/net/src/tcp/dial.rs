//! The client's end of a path by TCP, which connects again after failures, with a growing delay.

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use anabranch_units::{Duration, Instant};

use super::connection::Connection;
use crate::io::Network;
use crate::socket::Batch;
use crate::via::Via;

/// Time for a connection to be established.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay before the next attempt after a failure, doubled each time …
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// … up to this.
const LAST_WAIT: Duration = Duration::from_secs(30);

/// The carriers by which a path's datagrams leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Carriers {
    #[default]
    Udp,
    /// Copies by both, until one of them is answered.
    Both,
    /// TCP; UDP while there is no connection.
    Tcp,
    /// TCP only.
    TcpOnly,
}

#[derive(Debug, Default)]
pub(crate) struct Dial {
    carriers: Cell<Carriers>,
    /// Address to connect to; `None`: nowhere.
    target: Cell<Option<SocketAddr>>,
    connection: Option<Connection>,
    began_at: Instant,
    dial_at: Instant,
    wait: Cell<Duration>,
    /// Whether the connection was found open once.
    is_open_recorded: Cell<bool>,
}

impl Dial {
    /// Sets the carriers, and the destination of TCP.
    pub(crate) fn steer(&self, carriers: Carriers, target: Option<SocketAddr>) {
        self.carriers.set(carriers);
        self.target.set(target);
    }

    pub(crate) fn carriers(&self) -> Carriers {
        self.carriers.get()
    }

    pub(crate) fn connection(&self) -> Option<&Connection> {
        self.connection.as_ref()
    }

    /// Returns whether there is a connection that can carry datagrams.
    pub(crate) fn is_open(&self) -> bool {
        self.connection.as_ref().is_some_and(Connection::is_open)
    }

    /// Returns `true` once for each connection that opens.
    pub(crate) fn take_opened(&self) -> bool {
        self.is_open() && !self.is_open_recorded.replace(true)
    }

    /// Records that the connection has brought an authentic datagram.
    pub(crate) fn on_authentic(&self) {
        self.wait.set(FIRST_WAIT);
    }

    /// Sends a batch as [`Connection::send`] does.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn send(&self, batch: &Batch<'_>) -> Result<(), (usize, io::Error)> {
        match &self.connection {
            Some(connection) => connection.send(batch),
            None => {
                let count = batch.bytes.len().div_ceil(batch.datagram_bytes);
                let error = io::Error::new(ErrorKind::NotConnected, "there is no TCP connection");
                Err((count, error))
            }
        }
    }

    /// Returns the time at which [`tend`](Self::tend) has something to do.
    pub(crate) fn tend_at(&self) -> Option<Instant> {
        match (&self.connection, self.target.get()) {
            (Some(connection), target)
                if connection.is_broken() || target != Some(connection.peer()) =>
            {
                Some(Instant::ZERO)
            }
            (Some(connection), _) if !connection.is_open() => Some(self.began_at + CONNECT_TIMEOUT),
            (Some(_), _) | (None, None) => None,
            (None, Some(_)) => Some(self.dial_at),
        }
    }

    /// Closes a connection that is broken or unwanted, and opens a wanted one.
    pub(crate) fn tend(&mut self, now: Instant, network: &Network, via: &Via) {
        if let Some(connection) = &self.connection {
            let is_late = !connection.is_open() && now >= self.began_at + CONNECT_TIMEOUT;
            if connection.is_broken() || is_late {
                self.connection = None;
                let wait = self.wait.get().max(FIRST_WAIT);
                self.dial_at = now + wait;
                self.wait.set((wait * 2).min(LAST_WAIT));
            } else if self.target.get() != Some(connection.peer()) {
                self.connection = None;
                self.dial_at = now;
            }
        }
        if self.connection.is_none()
            && now >= self.dial_at
            && let Some(target) = self.target.get()
        {
            self.began_at = now;
            self.is_open_recorded.set(false);
            self.dial_at = now + FIRST_WAIT;
            self.connection = Connection::dial(network, via, target).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::ReceiveBuffers;
    use crate::testing::{Line, Machine, World};
    use anabranch_units::DataRate;

    /// A client, and a server at which nobody listens yet.
    struct Bed {
        world: World,
        client: Machine,
        server: Machine,
        at: SocketAddr,
    }

    impl Bed {
        fn new() -> Bed {
            let world = World::new(1);
            let rate = DataRate::from_megabits_per_second(10);
            let line = Line::new(rate, Duration::from_millis(1));
            let (client, server) = (world.machine("client"), world.machine("server"));
            client.attach("eth0", &line);
            let at = server.attach("eth0", &line).at(443);
            Bed {
                world,
                client,
                server,
                at,
            }
        }

        fn tend(&self, dial: &mut Dial, now: Instant) {
            dial.tend(now, &self.client.network(), &Via::DefaultRoute);
            self.world.run_for(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_refused_connection_is_tried_again_ever_more_rarely() {
        let bed = Bed::new();
        let mut dial = Dial::default();
        assert_eq!(dial.tend_at(), None);
        dial.steer(Carriers::Both, Some(bed.at));
        let (mut now, mut waits) = (Instant::from_secs(1), Vec::new());
        let (clock, mut buffers) = (bed.client.clock(), ReceiveBuffers::new());
        for _ in 0..7 {
            bed.tend(&mut dial, now);
            let connection = dial.connection().expect("it is refused later");
            connection.serve(0, &clock, &mut buffers, |_, _| {});
            assert!(connection.is_broken());
            bed.tend(&mut dial, now);
            let next_at = dial.tend_at().expect("it is tried again");
            waits.push(next_at.saturating_since(now).as_millis() / 1_000);
            now = next_at;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
        dial.on_authentic();
        assert_eq!(dial.wait.get(), FIRST_WAIT);
    }

    #[test]
    fn a_connection_that_nobody_accepts_in_time_is_given_up() {
        let bed = Bed::new();
        let mut dial = Dial::default();
        dial.steer(Carriers::Both, Some(bed.at));
        let now = Instant::from_secs(1);
        bed.tend(&mut dial, now);
        assert_eq!(dial.tend_at(), Some(now + CONNECT_TIMEOUT));
        bed.tend(&mut dial, now + CONNECT_TIMEOUT);
        assert!(dial.connection().is_none());
    }

    #[test]
    fn a_connection_follows_its_target() {
        let bed = Bed::new();
        let places = [443, 444].map(|port| SocketAddr::new(bed.at.ip(), port));
        let _acceptors =
            places.map(|place| bed.server.network().listen_tcp(place).expect("a free port"));
        let (mut dial, now) = (Dial::default(), Instant::from_secs(1));
        for target in places {
            dial.steer(Carriers::Both, Some(target));
            bed.tend(&mut dial, now);
            assert_eq!(dial.connection().map(Connection::peer), Some(target));
        }
        dial.steer(Carriers::Udp, None);
        bed.tend(&mut dial, now);
        assert!(dial.connection().is_none());
        assert_eq!(dial.tend_at(), None);
    }
}
