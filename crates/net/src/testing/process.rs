//! Handles of the processes of a world.

use anabranch_units::Instant;

use super::fabric::{Fabric, Process};

/// A process's number, by which it is woken.
#[derive(Clone, Debug)]
pub(crate) struct ProcessHandle {
    fabric: Fabric,
    number: usize,
}

impl ProcessHandle {
    /// Reserves a process of a machine, which is to be started.
    pub(super) fn new(fabric: Fabric, machine: usize) -> Self {
        let number = fabric.reserve(machine);
        ProcessHandle { fabric, number }
    }

    pub(crate) fn wake(&self) {
        self.fabric.wake(self.number);
    }

    /// Interrupts the process's turn, if its machine does that.
    pub(crate) fn interrupt(&self) {
        self.fabric.lock().interrupt(self.number);
    }

    /// Starts the process.
    pub(crate) fn start(&self, program: Box<dyn Process>) {
        self.fabric.spawn(self.number, program);
    }

    /// Runs the world until the process is over. If nothing is left to do, it was killed.
    pub(crate) fn join(&self) {
        self.run_while(|| true);
    }

    /// Runs the world while the process lives and a condition holds.
    pub(crate) fn run_while(&self, is_awaited: impl Fn() -> bool) {
        // A second panic would hide the first.
        if std::thread::panicking() {
            return;
        }
        let end_of_time = Instant::from_nanos(u64::MAX);
        while is_awaited() && !self.fabric.is_over(self.number) && self.fabric.step(end_of_time) {}
    }
}
