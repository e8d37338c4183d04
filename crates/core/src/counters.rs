//! Counters of an endpoint.

use crate::send_reason::ReasonCounts;

/// Counts of one path, since it was added. Bytes are on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounters {
    /// Tracked packets sent: media, padding and challenges.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Padding packets, among the sent.
    pub padding_packets: u64,
    /// Their bytes.
    pub padding_bytes: u64,
    /// Packets that the peer has acknowledged.
    pub acked_packets: u64,
    /// Packets that the peer has received with the mark Congestion Experienced.
    pub marked_packets: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Packets declared lost that arrived after all.
    pub spurious_losses: u64,
    /// Retransmitted fragments and segments, among the sent.
    pub retransmitted_packets: u64,
    /// Their bytes.
    pub retransmitted_bytes: u64,
    /// Repair packets of forward error correction, among the sent.
    pub repair_packets: u64,
    /// Their bytes.
    pub repair_bytes: u64,
    /// Expiries of a stream's retransmission timer.
    pub retransmission_timeouts: u64,
    /// Tracked packets received twice.
    pub duplicate_packets: u64,
    /// Packets received, tracked or not.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Media or stream packets received, duplicates of other paths' among them: the path's
    /// contribution.
    pub received_media_packets: u64,
    /// Bytes of payload in them, headers not counted.
    pub received_media_bytes: u64,
    /// Untracked packets sent: feedback and answers.
    pub control_packets: u64,
    /// Their bytes.
    pub control_bytes: u64,
    /// All datagrams sent, tracked or not, by why they were.
    pub reasons: ReasonCounts,
}

impl PathCounters {
    /// Returns the sum of both, field by field.
    #[must_use]
    pub fn plus(&self, other: &PathCounters) -> PathCounters {
        PathCounters {
            sent_packets: self.sent_packets + other.sent_packets,
            sent_bytes: self.sent_bytes + other.sent_bytes,
            retransmitted_packets: self.retransmitted_packets + other.retransmitted_packets,
            retransmitted_bytes: self.retransmitted_bytes + other.retransmitted_bytes,
            repair_packets: self.repair_packets + other.repair_packets,
            repair_bytes: self.repair_bytes + other.repair_bytes,
            padding_packets: self.padding_packets + other.padding_packets,
            padding_bytes: self.padding_bytes + other.padding_bytes,
            control_packets: self.control_packets + other.control_packets,
            control_bytes: self.control_bytes + other.control_bytes,
            reasons: self.reasons.plus(&other.reasons),
            lost_packets: self.lost_packets + other.lost_packets,
            retransmission_timeouts: self.retransmission_timeouts + other.retransmission_timeouts,
            spurious_losses: self.spurious_losses + other.spurious_losses,
            acked_packets: self.acked_packets + other.acked_packets,
            marked_packets: self.marked_packets + other.marked_packets,
            received_packets: self.received_packets + other.received_packets,
            received_bytes: self.received_bytes + other.received_bytes,
            received_media_packets: self.received_media_packets + other.received_media_packets,
            received_media_bytes: self.received_media_bytes + other.received_media_bytes,
            duplicate_packets: self.duplicate_packets + other.duplicate_packets,
        }
    }
}

impl SessionCounters {
    /// Returns the sum of both, field by field; of peaks the greater.
    #[must_use]
    pub fn plus(&self, other: &SessionCounters) -> SessionCounters {
        SessionCounters {
            frames_sent: self.frames_sent + other.frames_sent,
            media_bytes_sent: self.media_bytes_sent + other.media_bytes_sent,
            frames_late: self.frames_late + other.frames_late,
            frames_acked: self.frames_acked + other.frames_acked,
            frames_received: self.frames_received + other.frames_received,
            frames_dropped: self.frames_dropped + other.frames_dropped,
            media_bytes_received: self.media_bytes_received + other.media_bytes_received,
            reassembly_peak_frames: self
                .reassembly_peak_frames
                .max(other.reassembly_peak_frames),
            reassembly_peak_bytes: self.reassembly_peak_bytes.max(other.reassembly_peak_bytes),
            stream_bytes_received: self.stream_bytes_received + other.stream_bytes_received,
            recovered_fragments: self.recovered_fragments + other.recovered_fragments,
            duplicate_fragments: self.duplicate_fragments + other.duplicate_fragments,
            late_fragments: self.late_fragments + other.late_fragments,
            malformed_datagrams: self.malformed_datagrams + other.malformed_datagrams,
            contradictory_fragments: self.contradictory_fragments + other.contradictory_fragments,
            unknown_path_datagrams: self.unknown_path_datagrams + other.unknown_path_datagrams,
        }
    }
}

/// Counts of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounters {
    /// Frames handed in for sending.
    pub frames_sent: u64,
    /// Their bytes.
    pub media_bytes_sent: u64,
    /// Frames given up at the sender because they would have come too late.
    pub frames_late: u64,
    /// Frames sent that the peer has acknowledged whole.
    pub frames_acked: u64,
    /// Frames received whole.
    pub frames_received: u64,
    /// Frames given up at the receiver.
    pub frames_dropped: u64,
    /// Media bytes received in whole frames.
    pub media_bytes_received: u64,
    /// Maximum number of frames held at a time until they were whole or their turn came, also
    /// frames of which nothing had arrived.
    pub reassembly_peak_frames: u64,
    /// The most bytes of media held so at a time.
    pub reassembly_peak_bytes: u64,
    /// Bytes of the peer's stream that have arrived in order.
    pub stream_bytes_received: u64,
    /// Lost fragments that repairs have recovered, or that are known before they come late.
    pub recovered_fragments: u64,
    /// Fragments that arrived twice, on whatever paths, up to 64 frames later.
    pub duplicate_fragments: u64,
    /// Fragments that arrived after their frame had been given up.
    pub late_fragments: u64,
    /// Datagrams that made no sense, in whole or in part.
    pub malformed_datagrams: u64,
    /// Fragments that contradicted their frame.
    pub contradictory_fragments: u64,
    /// Datagrams on paths that are not there.
    pub unknown_path_datagrams: u64,
}
