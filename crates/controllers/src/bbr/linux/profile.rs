//! Named differences between today's kernel, that of 2016 and `c-mpbbr`.

/// One version of `tcp_bbr.c`. All other behaviour is common to both.
#[derive(Debug)]
pub(super) struct Profile {
    /// Whether the window allows for acknowledgements that come in bursts (kernel 5.1, 2019).
    pub(super) allows_for_aggregation: bool,
    /// Whether two more packets may be in flight while probing, since with a small product 1.25 of
    /// it adds no packet (4.18).
    pub(super) has_room_to_probe: bool,
    /// Whether a round-trip time equal to the least one confirms it (until 5.9).
    pub(super) does_equal_rtt_confirm: bool,
    /// Whether a spurious loss restarts the search for a full pipe (4.15).
    pub(super) has_undo: bool,
    /// Whether an option predicts packets in flight for the time at which the next packet departs
    /// (4.20).
    pub(super) knows_departure_times: bool,
    /// Whether ProbeRTT may end with the first packet after idleness (4.19).
    pub(super) leaves_probe_rtt_when_idle: bool,
    /// Whether the pacing rate may fall at any time after Startup (4.9), or only once the pipe has
    /// been full: a difference for ProbeRTT during Startup.
    pub(super) is_paced_down_after_startup: bool,
    /// `bbr_pacing_margin_percent`: the pacing rate is a little below the bandwidth, so that queues
    /// drain.
    pub(super) paced_share: f64,
}

/// `bbr-linux`: version 1 of kernels since 5.10.
pub(super) const TODAY: Profile = Profile {
    allows_for_aggregation: true,
    has_room_to_probe: true,
    does_equal_rtt_confirm: false,
    has_undo: true,
    knows_departure_times: true,
    leaves_probe_rtt_when_idle: true,
    is_paced_down_after_startup: false,
    paced_share: 0.99,
};

/// `c-mpbbr`, whose author has no margin.
pub(super) const C_MPBBR: Profile = Profile {
    paced_share: 1.0,
    ..TODAY
};

/// `bbr-linux-4.9`: the first version.
pub(super) const LINUX_4_9: Profile = Profile {
    allows_for_aggregation: false,
    has_room_to_probe: false,
    does_equal_rtt_confirm: true,
    has_undo: false,
    knows_departure_times: false,
    leaves_probe_rtt_when_idle: false,
    is_paced_down_after_startup: true,
    paced_share: 0.99,
};
