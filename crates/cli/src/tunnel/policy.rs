//! Where streams and flows may lead, and the addresses of their targets.

use std::net::SocketAddr;

use anabranch_secure::PublicKey;

use super::Destination;
use super::request::Answer;
use super::resolver::Resolver;

/// Targets that proxies may ask for.
#[derive(Debug)]
pub(crate) struct Policy {
    forward: Option<String>,
    connect: Vec<Destination>,
    resolver: Resolver,
}

impl Policy {
    pub(crate) fn new(forward: Option<String>, connect: Vec<Destination>) -> Self {
        Policy {
            forward,
            connect,
            resolver: Resolver::of_system(),
        }
    }

    /// Returns the target of a request, if it may be asked for. An empty request is for the target
    /// of `--forward`.
    ///
    /// # Errors
    /// The answer for the peer.
    pub(crate) fn target(&self, asked: &str) -> Result<String, Answer> {
        if asked.is_empty() {
            return self.forward.clone().ok_or(Answer::NotAllowed);
        }
        let is_allowed = |destination: &Destination| destination.matches(asked);
        let is_any = self.connect.iter().any(is_allowed);
        is_any.then(|| asked.to_owned()).ok_or(Answer::NotAllowed)
    }

    /// Returns the addresses of a target that `peer` asks for, at least one.
    ///
    /// # Errors
    /// The answer for the peer.
    pub(crate) async fn addresses(
        &self,
        peer: &PublicKey,
        target: &str,
    ) -> Result<Vec<SocketAddr>, Answer> {
        let found = self.resolver.resolve(peer, target).await;
        let found = found.ok().filter(|found| !found.is_empty());
        found.ok_or(Answer::Unreachable)
    }
}
