//! Sessions in worlds in memory: deterministic, and in virtual time.

mod answer_loops;
mod attackers;
mod bed;
mod datagrams;
mod families;
mod growing;
mod initiations;
mod links;
mod names;
mod pairing;
mod paths;
mod reconnect;
mod relay;
mod session;
mod slow;
mod streams;
mod swarm;
mod tcp;
mod versions;
