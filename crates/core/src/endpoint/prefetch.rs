//! Fetching what the next calls need.

use anabranch_units::{Depth, prefetch, prefetch_ring};

use super::Endpoint;

impl Endpoint {
    /// Has the processor fetch what calls of this endpoint will need. For who drives thousands of
    /// them: ask for the shell some turns before the endpoint's own, and for the contents one turn
    /// before. The endpoint itself should have been fetched by then.
    pub fn prefetch(&self, depth: Depth) {
        let is_sender = self.has_sent_media || self.stream.is_some();
        let is_receiver = !self.has_sent_media;
        for path in &self.paths {
            path.prefetch(depth, is_sender, is_receiver);
        }
        if let Some(stream) = &self.stream {
            match depth {
                Depth::Shell => prefetch(&**stream),
                Depth::Contents => stream.prefetch_contents(),
            }
        } else if is_sender {
            self.send_buffer.prefetch(depth);
            if depth == Depth::Shell {
                prefetch(&*self.scheduler);
            }
        } else {
            self.reassembly.prefetch(depth);
            if depth == Depth::Shell {
                prefetch_ring(&self.events);
                prefetch(&self.scratch.outcomes[..]);
            }
        }
        if let Some(digest) = self.scratch.digest.as_deref().filter(|_| is_sender) {
            match depth {
                Depth::Shell => prefetch(digest),
                Depth::Contents => prefetch(&digest.acked[..]),
            }
        }
    }
}
