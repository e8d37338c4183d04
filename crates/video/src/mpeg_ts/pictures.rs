//! The coded picture inside a unit of a transport stream.

use super::PACKET_LEN;
use super::packet::Packet;
use super::pes::PesHeader;
use super::tables::{ProgramTables, VideoCodec};

/// Takes the units of a [`TransportUnitSplitter`](super::TransportUnitSplitter), all of them, and
/// leaves their video.
#[derive(Clone, Debug, Default)]
pub struct PictureExtractor {
    tables: ProgramTables,
}

/// The video of one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtractedPicture {
    /// The elementary stream's bytes.
    pub bytes: Vec<u8>,
    /// Codec of the pictures.
    pub codec: VideoCodec,
    /// Presentation time: the PTS, 33 bits in units of 1/90,000 s.
    pub presented_at: Option<u64>,
}

impl PictureExtractor {
    /// Creates an extractor that knows no tables yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the unit's video; `None` if there is none in it, or its packets are scrambled.
    pub fn extract(&mut self, unit: &[u8]) -> Option<ExtractedPicture> {
        let mut bytes = Vec::new();
        let mut codec = VideoCodec::Other;
        let mut presented_at = None;
        for packet in unit.chunks_exact(PACKET_LEN) {
            let Some(packet) = packet.first_chunk::<PACKET_LEN>() else {
                continue;
            };
            let packet = Packet::new(packet);
            if packet.is_opaque() {
                continue;
            }
            self.tables.record(packet);
            let Some(video) = self
                .tables
                .video()
                .filter(|video| video.pid == packet.pid())
            else {
                continue;
            };
            codec = video.codec;
            let payload = packet.payload();
            let start = match packet
                .starts_unit()
                .then(|| PesHeader::read(payload))
                .flatten()
            {
                Some(header) => {
                    presented_at = presented_at.or(header.presented_at);
                    header.header_len.min(payload.len())
                }
                None => 0,
            };
            bytes.extend_from_slice(&payload[start..]);
        }
        (!bytes.is_empty()).then_some(ExtractedPicture {
            bytes,
            codec,
            presented_at,
        })
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Duration;

    use super::super::{TransportStreamWriter, TransportUnitSplitter};
    use super::*;

    #[test]
    fn pictures_come_out_of_a_transport_stream_as_they_went_in() {
        fn picture(number: u8) -> Vec<u8> {
            let mut picture = vec![0, 0, 0, 1, 0x09, 0xf0, 0, 0, 0, 1, 0x65, 0x88];
            picture.resize(100 + 300 * usize::from(number), 0xa0 + number);
            picture
        }

        // An access unit delimiter, and a slice.
        let mut writer = TransportStreamWriter::new(Vec::new());
        for number in 0..5 {
            let at = Duration::from_millis(40 * u64::from(number));
            writer.write(&picture(number), at, number == 0).unwrap();
        }
        let mut splitter = TransportUnitSplitter::new();
        splitter.push(&writer.into_inner());
        let mut extractor = PictureExtractor::new();
        let units = std::iter::from_fn(|| splitter.finish());
        let pictures: Vec<_> = units
            .filter_map(|unit| extractor.extract(&unit.bytes))
            .collect();
        assert_eq!(pictures.len(), 5);
        for (number, extracted) in (0_u8..).zip(&pictures) {
            assert_eq!(extracted.codec, VideoCodec::H264);
            let first = pictures[0].presented_at.unwrap();
            assert_eq!(
                extracted.presented_at,
                Some(first + u64::from(number) * 3_600)
            );
            assert_eq!(extracted.bytes, picture(number), "{number}");
        }
        assert_eq!(extractor.extract(b"no packet"), None);
    }
}
