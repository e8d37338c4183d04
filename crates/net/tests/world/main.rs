//! Sessions in worlds in memory: deterministic, and in virtual time.

mod attackers;
mod bed;
mod paths;
mod reconnect;
mod session;
mod slow;
mod swarm;
mod tcp;
