//! `anabranch serve --relay`: a relay for receivers behind NATs.

use core::ops::ControlFlow;
use core::time::Duration as StdDuration;
use std::collections::BTreeMap;

use anabranch_net::{Clock, Relay, RelayConfig, RelaySnapshot, RelayedReceiver};
use anabranch_observe::{Observation, StandardOutput, service};
use anabranch_secure::{PairingCode, PublicKey};
use anabranch_terminal::print;
use anabranch_terminal::stop::Stop;
use anabranch_terminal::turns::{Turns, Wake, wait_for_stop};
use anabranch_units::{ByteCount, DataRate, Duration, Instant};
use anyhow::ensure;

use super::Arguments;
use super::admission::FILE_INTERVAL;
use crate::allowed::{AllowList, ListenCommand};
use crate::link::Link;
use crate::open_port;
use crate::pairing::desk::{Desk, Pairs};
use crate::pairing::{address_of, print_link};
use crate::refusals::RefusalLines;
use crate::slowness::Slowness;

/// Maximum rate of each receiver, without another wish.
pub(super) const DEFAULT_RATE: DataRate = DataRate::from_megabits_per_second(100);

impl Pairs for Relay {
    fn start_pairing(&self, code: PairingCode, lasts: Duration) {
        Relay::start_pairing(self, code, lasts);
    }

    fn stop_pairing(&self, code: &PairingCode) {
        Relay::stop_pairing(self, code);
    }

    fn take_pairing_outcomes(&self) -> Vec<anabranch_net::PairingOutcome> {
        Relay::take_pairing_outcomes(self)
    }
}

/// Runs the relay until a signal ends it.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let stop = Stop::new()?;
    stop.on_signals()?;
    let clock = Clock::start();
    let key = arguments.local_key()?;
    let own = key.public_key();
    let list = arguments.list();
    arguments.pairing.make_list(list.as_deref())?;
    let allowed = allowed(arguments)?;
    let observed = arguments
        .observe
        .open(StandardOutput::Free(print::library_line))?;
    let relay = Relay::start(RelayConfig {
        clock,
        rate: arguments.relay_rate,
        ..RelayConfig::new(arguments.listen_address()?, key, allowed.keys())
    })?;
    let observation = observed.start("serve", clock, Vec::new)?;
    print::note(format_args!("relaying at {} as {own}", relay.local_addr()));
    let local = relay.local_addr();
    let port = open_port::requested(arguments.pairing.open_port, local.port());
    let host = arguments.pairing.host_by(port.as_ref());
    let entrance = arguments.entrance(own, local, &host);
    let mut desk = Desk::open(list.as_deref(), &entrance);
    if arguments.pairing.is_asked() {
        let code = desk.invite(&relay, arguments.pairing.name.clone());
        print::note(
            "the link is good once and for ten minutes: anabranch recv --pair OUTPUT --via-relay \
             'LINK'. If receivers and senders reach this machine at another address, name it: \
             --pair=HOST",
        );
        print_link(&Link {
            to: address_of(&host, local),
            key: own,
            code: Some(code),
        })?;
    }
    service::ready();
    let mut watch = Watch {
        relay: &relay,
        allowed,
        desk,
        present: BTreeMap::new(),
        look_at: clock.now(),
        report_at: clock.now(),
        refusal_lines: RefusalLines::default(),
        report: arguments.report,
        slowness: Slowness::default(),
        observation: &observation,
        stop,
        clock,
    };
    watch.tend_and_report(clock.now());
    watch.run_turns();
    watch.print_state();
    Ok(())
}

/// Returns the receivers that may register.
///
/// # Errors
/// There are none, and none can be added.
pub(super) fn allowed(arguments: &Arguments) -> anyhow::Result<AllowList> {
    let list = arguments.list();
    ensure!(
        list.is_some() || !arguments.allow.is_empty(),
        "a relay needs receivers: --pair prints a link for one, --allow KEY names one"
    );
    AllowList::new(
        ListenCommand::Serve,
        arguments.allow.clone(),
        list.as_deref(),
    )
}

/// The relay, as the main thread sees it.
struct Watch<'a> {
    relay: &'a Relay,
    allowed: AllowList,
    desk: Desk,
    /// Receivers that are registered.
    present: BTreeMap<PublicKey, RelayedReceiver>,
    look_at: Instant,
    report_at: Instant,
    refusal_lines: RefusalLines,
    /// Interval of reports.
    report: Option<Duration>,
    slowness: Slowness,
    observation: &'a Observation,
    stop: Stop,
    clock: Clock,
}

impl Turns for Watch<'_> {
    type Event = ();
    type Outcome = ();

    fn wait(&mut self, patience: StdDuration) -> Wake<()> {
        wait_for_stop(&self.stop, &self.clock, patience)
    }

    fn turn(&mut self, _: Wake<()>) -> ControlFlow<()> {
        if self.stop.is_stopped() {
            return ControlFlow::Break(());
        }
        self.tend_and_report(self.clock.now());
        ControlFlow::Continue(())
    }
}

impl Watch<'_> {
    /// Tends the relay, and reports the state of the machine.
    fn tend_and_report(&mut self, now: Instant) {
        self.tend(now);
        let lateness = self.relay.lateness().max(self.stop.lateness(&self.clock));
        self.slowness
            .watch(now, lateness, self.observation, "serve");
        service::turn(now, self.stop.is_stopped());
    }

    /// Admits receivers, reports refused ones, and prints the reports that are due.
    fn tend(&mut self, now: Instant) {
        if self.desk.take_paired(self.relay, &mut self.allowed) {
            self.relay.set_allowed(&self.allowed.keys());
        }
        if now < self.look_at {
            return;
        }
        self.look_at = now + FILE_INTERVAL;
        self.desk.take_invitations(self.relay);
        match self.allowed.refresh() {
            Ok(false) => {}
            Ok(true) => {
                self.relay.set_allowed(&self.allowed.keys());
                let count = self.allowed.all().len();
                print::note(format_args!("{count} receivers may register"));
            }
            Err(error) => print::warn(format_args!("{error:#}; those before may still register")),
        }
        for asked in self.relay.take_refused_senders() {
            let line = self
                .refusal_lines
                .line(now, &asked, |_| "all places are taken".to_owned());
            line.into_iter().for_each(print::warn);
        }
        self.compare(self.relay.snapshot());
        if let Some(report) = self.report
            && now >= self.report_at
        {
            self.report_at = now + report;
            self.print_state();
        }
    }

    /// Prints which receivers have come and gone.
    fn compare(&mut self, snapshot: RelaySnapshot) {
        let now: BTreeMap<_, _> = snapshot
            .receivers
            .iter()
            .map(|one| (one.key, *one))
            .collect();
        for (key, receiver) in &now {
            if !self.present.contains_key(key) {
                let name = self.allowed.name_of(key);
                let (name, address) = (name.as_str(), receiver.address);
                print::note(format_args!(
                    "{name} ({key}) has registered, from {address}"
                ));
            }
        }
        for (key, gone) in &self.present {
            if !now.contains_key(key) {
                let name = self.allowed.name_of(key);
                print::note(format_args!(
                    "{} has gone: {}",
                    name.as_str(),
                    carried(gone)
                ));
            }
        }
        self.present = now;
    }

    /// Prints a line for each registered receiver.
    fn print_state(&mut self) {
        self.compare(self.relay.snapshot());
        for (key, receiver) in &self.present {
            let name = self.allowed.name_of(key);
            print::note(format_args!("{}: {}", name.as_str(), carried(receiver)));
        }
    }
}

fn carried(receiver: &RelayedReceiver) -> String {
    let RelayedReceiver {
        flow_count,
        carried_bytes,
        dropped_count,
        ..
    } = *receiver;
    format!(
        "{flow_count} paths of senders, {} carried, {dropped_count} datagrams dropped",
        ByteCount(carried_bytes)
    )
}
