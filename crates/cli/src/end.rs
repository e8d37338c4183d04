//! The role of this end of a session, and the content of a tunnel.

/// Role of this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Sender,
    /// The sender of SRTLA, whose snapshot counts packets instead of frames.
    SrtlaSender,
    Receiver,
    /// Either end of a session of streams or datagrams.
    Tunnel(Datagrams),
}

/// Content of a tunnel's datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Datagrams {
    /// UDP flows.
    Udp,
    /// IP packets of a TUN interface.
    Packets,
    /// UDP flows and IP packets.
    Both,
}

impl Datagrams {
    /// Returns the content if UDP flows and packets may be carried or not.
    pub(crate) fn of(has_udp: bool, has_packets: bool) -> Self {
        match (has_udp, has_packets) {
            (true, true) => Datagrams::Both,
            (false, true) => Datagrams::Packets,
            (_, false) => Datagrams::Udp,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Datagrams::Udp => "UDP datagrams",
            Datagrams::Packets => "packets",
            Datagrams::Both => "UDP datagrams and packets",
        }
    }
}
