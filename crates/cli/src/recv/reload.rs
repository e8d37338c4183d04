//! The file of --config, read again: outputs, streams, senders and their limits.

use anabranch_mpegts_io::OutputName;
use anabranch_observe::control::{Change, Order, Refused, Reload as ReloadOrder};
use anabranch_units::Instant;
use anyhow::{Context, bail, ensure};

use super::listen::OtherSource;
use super::outputs::Outputs;
use super::plan::Plan;
use super::{Arguments, ReceivedStreams};
use crate::Command;
use crate::allowed::StreamName;
use crate::config::{Reload, Reread, unchanged};

/// Options that can be changed while the program runs.
const LIVE: [&str; 6] = [
    "allow",
    "allow_from",
    "listen",
    "outputs",
    "phone",
    "rotate",
];

/// The file as it was read last.
pub(super) struct Reloads {
    reload: Reload,
    /// Address of our own protocol, which stays.
    native: Option<String>,
}

/// Outputs of one stream that join and leave.
struct Moves {
    stream: StreamName,
    outputs: Outputs,
    joining: Vec<OutputName>,
    leaving: Vec<OutputName>,
}

impl Reloads {
    /// Remembers the present options.
    ///
    /// # Errors
    /// The system refuses a handler of SIGHUP.
    pub(super) fn new(arguments: &Arguments) -> anyhow::Result<Self> {
        Ok(Reloads {
            reload: Reload::of_program(arguments.observe.config.as_deref())?,
            native: arguments.sources()?.native,
        })
    }
}

impl ReceivedStreams<'_> {
    /// Reads the file again. Describes the new options, and those that need a restart.
    ///
    /// # Errors
    /// The file has a mistake, or an output cannot be opened; nothing has changed. Or a new stream
    /// cannot be opened; all else has.
    pub(super) fn reload(&mut self, now: Instant) -> Result<String, Refused> {
        let reread = self.reloads.reload.reread().map_err(unchanged)?;
        let unopened = self.apply(now, &reread).map_err(unchanged)?;
        let text = self.reloads.reload.adopt(reread, &LIVE);
        if unopened.is_empty() {
            Ok(text)
        } else {
            let reasons = unopened.join("; ");
            Err(Refused::NotNow(format!("{text}; but {reasons}")))
        }
    }

    /// Reads the file again if a signal asks for it.
    pub(super) fn follow_signal(&mut self, now: Instant) {
        if self.reloads.reload.is_due() {
            let order = Order::of_peer(Change::Reload(ReloadOrder {}), "SIGHUP".to_owned());
            let outcome = self.reload(now);
            order.settle(&self.settings.observation, outcome);
        }
    }

    /// Returns the reasons for which new streams are not open.
    fn apply(&mut self, now: Instant, reread: &Reread) -> anyhow::Result<Vec<String>> {
        let Command::Recv(arguments) = &reread.command else {
            bail!("the command is another one");
        };
        arguments.check()?;
        let mut plan = arguments.plan()?;
        arguments.make_secrets(&mut plan.others)?;
        ensure!(
            plan.destinations.are_shared() == self.destinations.are_shared(),
            "output: whether several streams share outputs cannot change while the program runs"
        );
        ensure!(
            plan.native == self.reloads.native,
            "listen: the address of our own protocol changes by a restart alone"
        );
        let joining = self.joining_sources(&plan)?;
        let moves = self.moves(&plan)?;
        let rotation_before = core::mem::replace(&mut self.rotation, arguments.rotate);
        if let Err(error) = self.join(&moves) {
            self.rotation = rotation_before;
            return Err(error);
        }
        for its in &moves {
            for output in &its.leaving {
                // One that has left by itself is gone all the same.
                let _ = its
                    .outputs
                    .remove(&output.to_string(), &self.settings.clock);
            }
        }
        self.destinations = plan.destinations;
        self.end_sources(&plan.others);
        self.use_phones(arguments)?;
        self.allowed = plan.allowed;
        self.use_list(now);
        let mut unopened = Vec::new();
        for source in joining {
            match self.open_other(&source) {
                Ok(()) => source.announce(),
                Err(error) => unopened.push(format!("{}: {error:#}", source.name.as_str())),
            }
        }
        Ok(unopened)
    }

    /// Returns the streams by other protocols that are new.
    ///
    /// # Errors
    /// One has the name of a present stream.
    fn joining_sources(&self, plan: &Plan) -> anyhow::Result<Vec<OtherSource>> {
        let mut joining = Vec::new();
        for source in &plan.others {
            let mut present = self.others.iter().map(|other| &other.source);
            match present.find(|present| present.name == source.name) {
                Some(present) => ensure!(
                    present == source,
                    "listen: the address of {} cannot change while the program runs: give the new \
                     one another name",
                    source.name.as_str()
                ),
                None => joining.push(source.clone()),
            }
        }
        Ok(joining)
    }

    /// Ends streams by other protocols that are not among these.
    fn end_sources(&mut self, kept: &[OtherSource]) {
        let gone = self
            .others
            .extract_if(.., |other| !kept.contains(&other.source));
        for other in gone {
            other.stop.stop();
        }
    }

    /// Returns the outputs of present streams that join and leave.
    ///
    /// # Errors
    /// A stream that stays would have no output.
    fn moves(&self, plan: &Plan) -> anyhow::Result<Vec<Moves>> {
        let of_senders = self.streams.iter().map(|(owner, worker)| {
            let all = self.allowed.all().first();
            (
                owner
                    .clone()
                    .or_else(|| all.map(|allowed| allowed.name.clone())),
                worker.outputs.clone(),
            )
        });
        let of_others = self
            .others
            .iter()
            .map(|its| (Some(its.source.name.clone()), its.outputs.clone()));
        let mut moves = Vec::new();
        for (stream, outputs) in of_senders.chain(of_others) {
            let Some(stream) = stream else { continue };
            let before = self.destinations.of(&stream).unwrap_or_default();
            let stays = plan.allowed.all().iter().any(|its| its.name == stream)
                || plan.others.iter().any(|its| its.name == stream);
            let after = match plan.destinations.of(&stream) {
                Err(error) if stays => return Err(error),
                after => after.unwrap_or_else(|_| before.clone()),
            };
            let joining: Vec<OutputName> = after
                .iter()
                .filter(|its| !before.contains(its))
                .cloned()
                .collect();
            ensure!(
                !joining.contains(&OutputName::Stdout),
                "output: standard output cannot join while the program runs"
            );
            moves.push(Moves {
                leaving: { before.iter() }
                    .filter(|its| !after.contains(its))
                    .cloned()
                    .collect(),
                stream,
                outputs,
                joining,
            });
        }
        Ok(moves)
    }

    /// Opens the outputs that join. If one cannot be opened, none joins.
    fn join(&self, moves: &[Moves]) -> anyhow::Result<()> {
        let mut joined: Vec<(&Moves, &OutputName)> = Vec::new();
        for its in moves {
            for output in &its.joining {
                let Moves {
                    stream, outputs, ..
                } = its;
                let added = outputs.add(output, self.rotation, stream, &self.settings, false);
                if let Err(error) = added.with_context(|| format!("output {output}")) {
                    for (its, output) in joined {
                        let _ = its
                            .outputs
                            .remove(&output.to_string(), &self.settings.clock);
                    }
                    return Err(error);
                }
                joined.push((its, output));
            }
        }
        Ok(())
    }
}
