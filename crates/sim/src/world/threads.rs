//! Movers of lanes: this thread, or several at the same time.

use std::sync::mpsc;
use std::thread::Scope;

use super::lane::Watched;
use crate::groups::Window;
use crate::ids::Side;
use crate::network::Network;
use crate::observer::Observer;

/// Strategy for moving lanes.
pub(super) trait Mover<'a, O> {
    /// Moves all lanes to the end of a window.
    fn move_all(
        &mut self,
        window: Window,
        sides: &'static [Side],
        network: &mut Network,
        lanes: &mut Vec<Watched<'a, O>>,
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
        lanes: &mut Vec<Watched<'a, O>>,
    ) {
        // With several lanes, no oracle reads the network.
        let is_only = lanes.len() == 1;
        for Watched { lane, observer } in lanes {
            let network = is_only.then_some(&mut *network);
            lane.give_turns(window, sides, network, &mut **observer);
        }
    }
}

/// A thread that moves a lane: the lane is sent to it, and returned at the end of its window.
struct Helper<'a, O> {
    there: mpsc::Sender<(Window, &'static [Side], Watched<'a, O>)>,
    back: mpsc::Receiver<Watched<'a, O>>,
}

/// Movers with a thread per lane; the first lane uses the calling thread.
pub(super) struct Helpers<'a, O>(Vec<Helper<'a, O>>);

impl<'a, O: Observer + Send> Helpers<'a, O> {
    /// Threads for all lanes but one.
    fn new<'scope>(scope: &'scope Scope<'scope, '_>, lane_count: usize) -> Self
    where
        'a: 'scope,
        O: 'scope,
    {
        let helper = |_| {
            let (there, jobs) = mpsc::channel::<(Window, &'static [Side], Watched<'a, O>)>();
            let (done, back) = mpsc::channel();
            scope.spawn(move || {
                for (window, sides, watched) in jobs {
                    watched
                        .lane
                        .give_turns(window, sides, None, watched.observer);
                    if done.send(watched).is_err() {
                        return;
                    }
                }
            });
            Helper { there, back }
        };
        Helpers((1..lane_count).map(helper).collect())
    }
}

impl<'a, O: Observer> Mover<'a, O> for Helpers<'a, O> {
    fn move_all(
        &mut self,
        window: Window,
        sides: &'static [Side],
        network: &mut Network,
        lanes: &mut Vec<Watched<'a, O>>,
    ) {
        let due = lanes.iter().filter(|watched| watched.lane.is_due(window));
        if due.count() < 2 {
            return Here.move_all(window, sides, network, lanes);
        }
        for (helper, watched) in self.0.iter().zip(lanes.drain(1..)) {
            let sent = helper.there.send((window, sides, watched));
            assert!(sent.is_ok(), "a thread has panicked");
        }
        let Watched { lane, observer } = &mut lanes[0];
        lane.give_turns(window, sides, None, &mut **observer);
        let moved = self.0.iter().map(|helper| helper.back.recv());
        lanes.extend(moved.map(|moved| moved.expect("a thread has panicked")));
    }
}

/// Lends `lane_count` helpers to `run`, and ends them.
pub(super) fn with_helpers<'a, O: Observer + Send + 'a>(
    lane_count: usize,
    run: impl FnOnce(&mut Helpers<'a, O>),
) {
    std::thread::scope(|scope| run(&mut Helpers::new(scope, lane_count)));
}
