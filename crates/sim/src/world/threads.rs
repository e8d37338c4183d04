//! Movers of shards: this thread, or several at the same time.

use std::sync::mpsc;
use std::thread::Scope;

use super::shard::ObservedShard;
use crate::groups::Window;
use crate::ids::Side;
use crate::network::Network;
use crate::observer::Observer;

/// Strategy for moving shards.
pub(super) trait Mover<'a, O> {
    /// Moves all shards to the end of a window.
    fn move_all(
        &mut self,
        window: Window,
        sides: &'static [Side],
        network: &mut Network,
        shards: &mut Vec<ObservedShard<'a, O>>,
    );
}

/// The mover that uses the calling thread.
pub(super) struct Here;

impl<'a, O: Observer> Mover<'a, O> for Here {
    fn move_all(
        &mut self,
        window: Window,
        sides: &'static [Side],
        network: &mut Network,
        shards: &mut Vec<ObservedShard<'a, O>>,
    ) {
        // With several shards, no oracle reads the network.
        let is_only = shards.len() == 1;
        for ObservedShard { shard, observer } in shards {
            let network = is_only.then_some(&mut *network);
            shard.give_turns(window, sides, network, &mut **observer);
        }
    }
}

/// A thread that moves a shard: the shard is sent to it, and returned at the end of its window.
struct Helper<'a, O> {
    there: mpsc::Sender<(Window, &'static [Side], ObservedShard<'a, O>)>,
    back: mpsc::Receiver<ObservedShard<'a, O>>,
}

/// Movers with a thread per shard; the first shard uses the calling thread.
pub(super) struct Helpers<'a, O>(Vec<Helper<'a, O>>);

impl<'a, O: Observer + Send> Helpers<'a, O> {
    /// Threads for all shards but one.
    fn new<'scope>(scope: &'scope Scope<'scope, '_>, shard_count: usize) -> Self
    where
        'a: 'scope,
        O: 'scope,
    {
        let helpers = (1..shard_count).map(|_| {
            let (there, jobs) = mpsc::channel::<(Window, &'static [Side], ObservedShard<'a, O>)>();
            let (done, back) = mpsc::channel();
            scope.spawn(move || {
                for (window, sides, watched) in jobs {
                    watched
                        .shard
                        .give_turns(window, sides, None, watched.observer);
                    if done.send(watched).is_err() {
                        return;
                    }
                }
            });
            Helper { there, back }
        });
        Helpers(helpers.collect())
    }
}

impl<'a, O: Observer> Mover<'a, O> for Helpers<'a, O> {
    fn move_all(
        &mut self,
        window: Window,
        sides: &'static [Side],
        network: &mut Network,
        shards: &mut Vec<ObservedShard<'a, O>>,
    ) {
        let due = shards.iter().filter(|watched| watched.shard.is_due(window));
        if due.count() < 2 {
            return Here.move_all(window, sides, network, shards);
        }
        for (helper, watched) in self.0.iter().zip(shards.drain(1..)) {
            let sent = helper.there.send((window, sides, watched));
            assert!(sent.is_ok(), "a thread has panicked");
        }
        let ObservedShard { shard, observer } = &mut shards[0];
        shard.give_turns(window, sides, None, &mut **observer);
        let moved = self.0.iter().map(|helper| helper.back.recv());
        shards.extend(moved.map(|moved| moved.expect("a thread has panicked")));
    }
}

/// Lends `shard_count` helpers to `run`, and ends them.
pub(super) fn with_helpers<'a, O: Observer + Send + 'a>(
    shard_count: usize,
    run: impl FnOnce(&mut Helpers<'a, O>),
) {
    std::thread::scope(|scope| run(&mut Helpers::new(scope, shard_count)));
}
