//! Names and meanings of figures, for `top` and the dashboard: one figure has one explanation.

use serde::Serialize;

/// Name of a figure and its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Word {
    /// Identifier in pages.
    pub key: &'static str,
    /// Name of at most 24 characters, with its unit if values are shown without one.
    pub head: &'static str,
    /// Meaning in plain words.
    pub meaning: &'static str,
}

/// Name of a path.
pub const PATH: Word = Word {
    key: "path",
    head: "path",
    meaning: "the network that it uses: this end's interface or address, or the peer's",
};
/// State of a path.
pub const STATE: Word = Word {
    key: "state",
    head: "state",
    meaning: "active: carries data; suspect: silent for a moment, its packets are sent elsewhere \
              too; out: silent, only probed; standby: in reserve",
};
/// Rate sent by a path.
pub const SENT: Word = Word {
    key: "sent",
    head: "out Mbit/s",
    meaning: "rate that this end sends by it, in millions of bits a second, with headers",
};
/// Rate received by a path.
pub const RECEIVED: Word = Word {
    key: "received",
    head: "in Mbit/s",
    meaning: "rate that this end receives by it, in millions of bits a second, with headers",
};
/// Round-trip time of a path.
pub const RTT: Word = Word {
    key: "rtt",
    head: "RTT (max) ms",
    meaning: "round-trip time in milliseconds: until the answer to a packet is back, mean and \
              longest; – is unknown",
};
/// Loss of a path.
pub const LOSS: Word = Word {
    key: "loss",
    head: "loss %",
    meaning: "how many of a hundred packets sent did not arrive, over about the last hundred; – is \
              unknown",
};
/// Bandwidth estimate of a path.
pub const CAPACITY: Word = Word {
    key: "capacity",
    head: "capacity",
    meaning: "estimated bandwidth of the path for this stream, in Mbit/s; learned by using it, too \
              high while it is used little; – is unknown",
};
/// Used share of a path's volume.
pub const CAP: Word = Word {
    key: "cap",
    head: "cap",
    meaning: "how much of the volume is used that its user allows (--via NAME,cap=10GB); – is \
              without one",
};
/// Backlog of a path.
pub const QUEUE: Word = Word {
    key: "queue",
    head: "queue kB",
    meaning: "thousands of bytes that wait here until the path takes them: each is a delay of 8 ms \
              at 1 Mbit/s",
};

/// Receiver of an output by SRT.
pub const RECEIVER: Word = Word {
    key: "receiver",
    head: "receiver",
    meaning: "address of the program that gets the output, and the stream ID that it gave",
};
/// State of a receiver.
pub const RECEIVER_STATE: Word = Word {
    key: "receiver-state",
    head: "state",
    meaning: "active: connected; suspect: silent for 3 s; ending: the output has ended, and its \
              last packets arrive; calling or nobody: there is no connection",
};
/// Rate sent to a receiver.
pub const RECEIVER_RATE: Word = Word {
    key: "receiver-rate",
    head: "Mbit/s",
    meaning: "rate of the video that leaves to it, in millions of bits a second, with copies and \
              without headers",
};
/// Round-trip time to a receiver.
pub const RECEIVER_RTT: Word = Word {
    key: "receiver-rtt",
    head: "RTT ms",
    meaning: "round-trip time in milliseconds: until the answer to a packet is back; – is unknown",
};
/// Loss on the way to a receiver.
pub const RECEIVER_LOSS: Word = Word {
    key: "receiver-loss",
    head: "loss %",
    meaning: "how many of a hundred packets of the last second it has reported missing",
};
/// Packets that a receiver has reported missing.
pub const MISSING: Word = Word {
    key: "missing",
    head: "missing",
    meaning: "packets that it has reported missing since the connection began",
};
/// Packets sent again to a receiver.
pub const AGAIN: Word = Word {
    key: "again",
    head: "again",
    meaning: "packets sent again since the connection began",
};
/// Packets given up.
pub const DROPPED: Word = Word {
    key: "dropped",
    head: "dropped",
    meaning: "packets given up since the connection began: they would have come too late",
};
/// Latency of a receiver.
pub const RECEIVER_LATENCY: Word = Word {
    key: "receiver-latency",
    head: "latency ms",
    meaning: "SRT's latency in milliseconds: each packet leaves the receiver at this time after \
              its origin; the larger value of both ends counts",
};

/// Figures of the dashboard, including those of `top`.
pub const ALL: [Word; 31] = [
    PATH,
    STATE,
    SENT,
    RECEIVED,
    RTT,
    LOSS,
    CAPACITY,
    CAP,
    QUEUE,
    Word {
        key: "queueing",
        head: "queueing ms",
        meaning: "queueing delay in milliseconds: the time that even the fastest packet of the \
                  last second waited in queues of the network, beyond the path's least round-trip \
                  time; – is unknown",
    },
    Word {
        key: "rate",
        head: "rate (out + in)",
        meaning: "rate of each path in both directions, in millions of bits a second, with headers",
    },
    Word {
        key: "target",
        head: "encoder may send",
        meaning: "the bitrate that the paths carry for the encoder: its target",
    },
    Word {
        key: "media",
        head: "encoder sends",
        meaning: "the bitrate of the video that the encoder produces; above its target, frames are \
                  given up",
    },
    Word {
        key: "payload",
        head: "payload",
        meaning: "the rate of video or connections that arrived here, without headers and copies",
    },
    Word {
        key: "out",
        head: "out",
        meaning: "rate that this end sends by all paths together, with headers and copies",
    },
    Word {
        key: "in",
        head: "in",
        meaning: "rate that this end receives by all paths together, with headers and copies",
    },
    Word {
        key: "latency",
        head: "latency",
        meaning: "the time after which every byte leaves the receiver; both ends agreed on the \
                  larger value that one of them asked for. Lost packets are sent again within it",
    },
    Word {
        key: "kept",
        head: "latency kept",
        meaning: "share of the last two minutes' frames that kept the latency; the others came too \
                  late or not at all",
    },
    Word {
        key: "why",
        head: "why packets were sent",
        meaning: "shares of the last second's bytes by their reason: new data, or why it was sent \
                  again",
    },
    Word {
        key: "events",
        head: "events",
        meaning: "the newest 200 changes of sessions, paths and outputs, the newest first, by the \
                  clock of the machine that runs the program",
    },
    Word {
        key: "picture",
        head: "last key frame",
        meaning: "the newest whole picture that arrived, at most some seconds old; only H.264 is \
                  shown",
    },
    Word {
        key: "receivers",
        head: "receivers by SRT",
        meaning: "programs that get outputs of this one by SRT; the rates above leave them out",
    },
    RECEIVER,
    RECEIVER_STATE,
    RECEIVER_RATE,
    RECEIVER_RTT,
    RECEIVER_LOSS,
    MISSING,
    AGAIN,
    DROPPED,
    RECEIVER_LATENCY,
];

/// Words and the send reasons that they cover, by their names in reports.
pub const REASONS: [(&str, &[&str]); 9] = [
    ("new", &["new"]),
    (
        "again after a loss",
        &[
            "lost",
            "not-recovered",
            "retransmission-timeout",
            "tail-loss-probe",
        ],
    ),
    (
        "again by another path",
        &["path-suspect", "path-out", "path-removed"],
    ),
    (
        "again to be in time",
        &[
            "path-congested",
            "last-try",
            "last-try-same-path",
            "last-call",
            "reinjection",
        ],
    ),
    ("twice by plan", &["duplicate"]),
    ("repairs", &["repair"]),
    (
        "tests of the paths",
        &["path-challenge", "idle-probe", "mtu-probe"],
    ),
    ("padding", &["padding"]),
    ("reports", &["control"]),
];

/// Returns all words and reasons as JSON, for the dashboard.
pub(super) fn json() -> String {
    serde_json::json!({ "words": ALL, "reasons": REASONS }).to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use anabranch_core::SendReason;

    use super::*;

    #[test]
    fn every_reason_has_its_words() {
        let known: Vec<&str> = REASONS
            .iter()
            .flat_map(|(_, of)| of.iter().copied())
            .collect();
        assert_eq!(known.len(), SendReason::ALL.len());
        for reason in SendReason::ALL {
            assert!(known.contains(&reason.name()), "{reason}");
        }
    }

    #[test]
    fn each_figure_is_explained_once() {
        let keys: BTreeSet<&str> = ALL.iter().map(|word| word.key).collect();
        assert_eq!(keys.len(), ALL.len());
        for word in ALL {
            assert!(word.head.chars().count() <= 24, "{word:?}");
            assert!(word.meaning.len() > 30, "{word:?}");
        }
    }
}
