//! Reading the header of a PES packet (ITU-T H.222.0 §2.4.3.6), as far as splitting needs it.

/// Length of a PES packet's start, up to and with its length field.
const START_LEN: usize = 6;

/// Fields of the start of a video PES packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PesHeader {
    /// Decoding time, 33 bits in units of 1/90,000 s: the DTS, or the PTS without a DTS.
    pub(super) timestamp: Option<u64>,
    /// Presentation time, in the same units: the PTS.
    pub(super) presented_at: Option<u64>,
    /// Length of the whole PES packet in bytes; `None` if the stream leaves it open.
    pub(super) packet_len: Option<usize>,
    /// Length of the header: where the elementary stream's bytes start.
    pub(super) header_len: usize,
}

impl PesHeader {
    /// Reads the header at the start of a packet's payload; `None` if there is none.
    pub(super) fn read(payload: &[u8]) -> Option<PesHeader> {
        let [
            0,
            0,
            1,
            _stream_id,
            length_high,
            length_low,
            marker,
            flags,
            rest_len,
            fields @ ..,
        ] = payload
        else {
            return None;
        };
        if marker & 0xc0 != 0x80 {
            return None;
        }
        let (presented_at, timestamp) = match flags >> 6 {
            0b10 => (read_timestamp(fields), read_timestamp(fields)),
            0b11 => (
                read_timestamp(fields),
                fields.get(5..).and_then(read_timestamp),
            ),
            _ => (None, None),
        };
        let len = usize::from(u16::from_be_bytes([*length_high, *length_low]));
        Some(PesHeader {
            timestamp,
            presented_at,
            packet_len: (len > 0).then_some(START_LEN + len),
            header_len: START_LEN + 3 + usize::from(*rest_len),
        })
    }
}

/// Reads 33 bits between marker bits, which must be set.
fn read_timestamp(bytes: &[u8]) -> Option<u64> {
    let &[a, b, c, d, e, ..] = bytes else {
        return None;
    };
    let has_markers = a & c & e & 1 != 0;
    let (a, b, c, d, e) = (
        u64::from(a),
        u64::from(b),
        u64::from(c),
        u64::from(d),
        u64::from(e),
    );
    has_markers.then_some((a >> 1 & 7) << 30 | b << 22 | c >> 1 << 15 | d << 7 | e >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_decoding_timestamp_is_preferred() {
        let largest = [0x3f, 0xff, 0xff, 0xff, 0xff];
        let one = [0x11, 0x00, 0x01, 0x00, 0x03];
        let mut bytes = vec![0, 0, 1, 0xe0, 0, 20, 0x80, 0x80, 10];
        bytes.extend(largest);
        bytes.extend(one);
        let header = PesHeader::read(&bytes).unwrap();
        assert_eq!(header.timestamp, Some((1 << 33) - 1));
        assert_eq!((header.packet_len, header.header_len), (Some(26), 19));
        bytes[7] = 0xc0;
        let header = PesHeader::read(&bytes).unwrap();
        let both = (header.timestamp, header.presented_at);
        assert_eq!(both, (Some(1), Some((1 << 33) - 1)));
        bytes[16] = 0;
        assert_eq!(PesHeader::read(&bytes).unwrap().timestamp, None);
        assert_eq!(PesHeader::read(&bytes[1..]), None);
    }
}
