//! Statistics of a proxy's UDP flows, one for each `--udp`.

use anabranch_net::Snapshot;
use anabranch_observe::status::Flow;
use anabranch_tunnel::udp::FlowMeter;
use anabranch_units::{ByteCount, Duration, Instant};

/// Minimum time between two warnings about a flow that exceeds its maximum rate.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// Returns the status of a flow.
pub(super) fn flow(meter: &FlowMeter) -> Flow {
    let counts = meter.counts();
    Flow {
        name: meter.name().to_owned(),
        sent_datagrams: counts.to_server.datagrams,
        sent_bytes: counts.to_server.bytes,
        received_datagrams: counts.to_application.datagrams,
        received_bytes: counts.to_application.bytes,
        above_max_datagrams: counts.above_max.datagrams,
    }
}

/// Returns a line for each flow, and one with the overhead of this end's packets: their bytes on
/// the wire beyond those of applications.
pub(super) fn lines(snapshot: &Snapshot, meters: &[FlowMeter]) -> String {
    let mut text = String::new();
    let mut application_bytes = 0;
    for flow in meters.iter().map(flow) {
        application_bytes += flow.sent_bytes;
        text += &format!(
            "\nflow {}: {} datagrams, {} sent; {}, {} received",
            flow.name,
            flow.sent_datagrams,
            ByteCount(flow.sent_bytes),
            flow.received_datagrams,
            ByteCount(flow.received_bytes),
        );
        if flow.above_max_datagrams > 0 {
            text += &format!("; {} above its maximum rate", flow.above_max_datagrams);
        }
    }
    let paths = snapshot.paths.iter().map(|path| &path.counters);
    let wire_bytes: u64 = paths.map(|path| path.sent_bytes + path.control_bytes).sum();
    if application_bytes > 0 {
        let overhead = wire_bytes as f64 / application_bytes as f64 - 1.0;
        text += &format!(
            "\noverhead: {:.1} % of the flows' bytes: headers, encryption, reports, packets sent \
             twice, probes",
            overhead * 100.0
        );
    }
    text
}

/// Warnings about flows that exceed their maximum rates.
#[derive(Debug, Default)]
pub(super) struct Excess {
    /// Counts of dropped datagrams at the last warning.
    reported: Vec<u64>,
    warned_at: Option<Instant>,
}

impl Excess {
    /// Returns a warning if one is due.
    pub(super) fn line(&mut self, now: Instant, meters: &[FlowMeter]) -> Option<String> {
        if self
            .warned_at
            .is_some_and(|at| now.saturating_since(at) < WARNING_INTERVAL)
        {
            return None;
        }
        self.reported.resize(meters.len(), 0);
        for (meter, reported) in meters.iter().zip(&mut self.reported) {
            let count = meter.counts().above_max.datagrams;
            let since = count - core::mem::replace(reported, count);
            if since > 0 {
                self.warned_at = Some(now);
                let name = meter.name();
                return Some(format!(
                    "--udp {name}: {since} datagrams above its max= were dropped"
                ));
            }
        }
        None
    }
}
