//! Writing H.264 access units as a transport stream for common players.

use std::io::{self, Write};

use anabranch_units::Duration;
use mpeg2ts::es::{StreamId, StreamType};
use mpeg2ts::pes::PesHeader;
use mpeg2ts::time::{ClockReference, Timestamp};
use mpeg2ts::ts::payload::{Bytes, Pat, Pes, Pmt};
use mpeg2ts::ts::{
    AdaptationField, ContinuityCounter, EsInfo, Pid, ProgramAssociation,
    TransportScramblingControl, TsHeader, TsPacket, TsPacketWriter, TsPayload, VersionNumber,
    WriteTsPacket,
};

use crate::nal::{self, h264};

const PROGRAM_NUMBER: u16 = 1;
const MAP_PID: u16 = 0x1000;
const VIDEO_PID: u16 = 0x100;

/// Delay of presentation behind the clock reference sent with the picture: the player's time for
/// reading and decoding. Chosen.
const PRESENTATION_DELAY: Duration = Duration::from_millis(200);

/// Payload of a packet without adaptation field in bytes.
const PAYLOAD_LEN: usize = 184;
/// Payload bytes in the first packet of a picture, less an adaptation field with a clock reference
/// and a PES header with a PTS.
const FIRST_PAYLOAD_LEN: usize = PAYLOAD_LEN - 8 - 14;
/// Bytes of the PES header that its length field counts.
const COUNTED_HEADER_LEN: usize = 8;

/// Access unit delimiter that allows any slice type (ITU-T H.264 §7.3.2.4).
const DELIMITER: [u8; 6] = [0, 0, 0, 1, 0x09, 0xf0];

/// Writes one program with one H.264 video. The tables precede each key frame, and each picture has
/// a clock reference.
#[derive(Debug)]
pub struct TransportStreamWriter<W> {
    sink: W,
    buffer: Vec<u8>,
    association_counter: ContinuityCounter,
    map_counter: ContinuityCounter,
    video_counter: ContinuityCounter,
    is_started: bool,
}

impl<W: Write> TransportStreamWriter<W> {
    /// Creates a writer into `sink`, which gets one write per access unit.
    pub fn new(sink: W) -> Self {
        TransportStreamWriter {
            sink,
            buffer: Vec::new(),
            association_counter: ContinuityCounter::new(),
            map_counter: ContinuityCounter::new(),
            video_counter: ContinuityCounter::new(),
            is_started: false,
        }
    }

    /// Writes one access unit, an Annex B byte stream without B pictures, that is to be shown `at`
    /// after the start. If it has no access unit delimiter, one is added, as H.222.0 §2.14.1
    /// requires.
    ///
    /// # Errors
    /// Errors of the sink.
    pub fn write(&mut self, annex_b: &[u8], at: Duration, is_key: bool) -> io::Result<()> {
        self.buffer.clear();
        if is_key || !self.is_started {
            self.write_tables();
            self.is_started = true;
        }
        if starts_with_delimiter(annex_b) {
            self.write_picture(annex_b, at, is_key);
        } else {
            self.write_picture(&[&DELIMITER, annex_b].concat(), at, is_key);
        }
        self.sink.write_all(&self.buffer)
    }

    /// Returns the sink after all writes.
    pub fn into_inner(self) -> W {
        self.sink
    }

    fn write_tables(&mut self) {
        let association = Pat {
            transport_stream_id: 1,
            version_number: VersionNumber::new(),
            table: vec![ProgramAssociation {
                program_num: PROGRAM_NUMBER,
                program_map_pid: pid(MAP_PID),
            }],
        };
        let map = Pmt {
            program_num: PROGRAM_NUMBER,
            pcr_pid: Some(pid(VIDEO_PID)),
            version_number: VersionNumber::new(),
            program_info: Vec::new(),
            es_info: vec![EsInfo {
                stream_type: StreamType::H264,
                elementary_pid: pid(VIDEO_PID),
                descriptors: Vec::new(),
            }],
        };
        let association_header = header(Pid::PAT, &mut self.association_counter);
        self.write_packet(association_header, None, TsPayload::Pat(association));
        let map_header = header(MAP_PID, &mut self.map_counter);
        self.write_packet(map_header, None, TsPayload::Pmt(map));
    }

    fn write_picture(&mut self, annex_b: &[u8], at: Duration, is_key: bool) {
        let (first, rest) = annex_b.split_at(annex_b.len().min(FIRST_PAYLOAD_LEN));
        // Video may leave its length open, and must if it exceeds 16 bits.
        let pes_packet_len = u16::try_from(COUNTED_HEADER_LEN + annex_b.len()).unwrap_or(0);
        let start = TsPayload::PesStart(Pes {
            header: PesHeader {
                stream_id: StreamId::new(StreamId::VIDEO_MIN),
                priority: false,
                data_alignment_indicator: true,
                copyright: false,
                original_or_copy: false,
                pts: Some(timestamp(at + PRESENTATION_DELAY)),
                dts: None,
                escr: None,
            },
            pes_packet_len,
            data: payload_of(first),
        });
        let adaptation_field = AdaptationField {
            discontinuity_indicator: false,
            random_access_indicator: is_key,
            es_priority_indicator: false,
            pcr: Some(ClockReference::from(timestamp(at))),
            opcr: None,
            splice_countdown: None,
            transport_private_data: Vec::new(),
            extension: None,
        };
        let start_header = header(VIDEO_PID, &mut self.video_counter);
        self.write_packet(start_header, Some(adaptation_field), start);
        for chunk in rest.chunks(PAYLOAD_LEN) {
            let chunk_header = header(VIDEO_PID, &mut self.video_counter);
            self.write_packet(
                chunk_header,
                None,
                TsPayload::PesContinuation(payload_of(chunk)),
            );
        }
    }

    fn write_packet(
        &mut self,
        header: TsHeader,
        adaptation_field: Option<AdaptationField>,
        payload: TsPayload,
    ) {
        let packet = TsPacket {
            header,
            adaptation_field,
            payload: Some(payload),
        };
        TsPacketWriter::new(&mut self.buffer)
            .write_ts_packet(&packet)
            .expect("packets are made to fit, and memory takes them");
    }
}

fn starts_with_delimiter(annex_b: &[u8]) -> bool {
    nal::header_positions(annex_b)
        .next()
        .is_some_and(|at| nal::h264_type(annex_b[at]) == h264::ACCESS_UNIT_DELIMITER)
}

fn header(pid_number: u16, counter: &mut ContinuityCounter) -> TsHeader {
    let continuity_counter = *counter;
    counter.increment();
    TsHeader {
        transport_error_indicator: false,
        transport_priority: false,
        pid: pid(pid_number),
        transport_scrambling_control: TransportScramblingControl::NotScrambled,
        continuity_counter,
    }
}

fn pid(number: u16) -> Pid {
    Pid::new(number).expect("our PIDs have 13 bits")
}

fn payload_of(bytes: &[u8]) -> Bytes {
    Bytes::new(bytes).expect("chunks are at most a packet's payload")
}

/// Returns the stream's clock at `at`: 33 bits in units of 1/90,000 s, which wrap after 26 hours.
fn timestamp(at: Duration) -> Timestamp {
    let ticks = u128::from(at.as_nanos()) * 90_000 / 1_000_000_000;
    Timestamp::new(ticks as u64 & Timestamp::MAX).expect("33 bits were kept")
}
