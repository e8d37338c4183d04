//! What an endpoint has counted.

/// Counts of one path, since it was added. Bytes are on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounters {
    /// Tracked packets sent: media, padding and challenges.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Fragments sent again, among them.
    pub retransmitted_packets: u64,
    /// Their bytes.
    pub retransmitted_bytes: u64,
    /// Padding packets, among the sent.
    pub padding_packets: u64,
    /// Their bytes.
    pub padding_bytes: u64,
    /// Untracked packets sent: feedback and answers.
    pub control_packets: u64,
    /// Their bytes.
    pub control_bytes: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Packets declared lost that arrived after all.
    pub spurious_losses: u64,
    /// Packets that the peer has acknowledged.
    pub acked_packets: u64,
    /// Packets received, tracked or not.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Media packets received, duplicates of other paths' among them: what the path contributes.
    pub received_media_packets: u64,
    /// Bytes of video in them, headers not counted.
    pub received_media_bytes: u64,
    /// Tracked packets received twice.
    pub duplicate_packets: u64,
}

/// Counts of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounters {
    /// Frames handed in for sending.
    pub frames_sent: u64,
    /// Frames given up at the sender because they would have come too late.
    pub frames_late: u64,
    /// Frames received whole.
    pub frames_received: u64,
    /// Frames given up at the receiver.
    pub frames_dropped: u64,
    /// Media bytes received in whole frames.
    pub media_bytes_received: u64,
    /// Fragments that arrived twice, on whatever paths.
    pub duplicate_fragments: u64,
    /// Fragments that arrived after their frame was over.
    pub late_fragments: u64,
    /// Datagrams that made no sense, in whole or in part.
    pub malformed_datagrams: u64,
    /// Fragments that contradicted their frame.
    pub contradictory_fragments: u64,
    /// Datagrams on paths that are not there.
    pub unknown_path_datagrams: u64,
}
