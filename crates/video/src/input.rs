//! Detection of the kind of a file or stream by its first bytes.

use std::ffi::OsString;
use std::path::Path;

use crate::mpeg_ts::{PACKET_LEN, SYNC_BYTE};
use crate::nal;

/// Bytes that [`probe`] should get if the input has as many: three transport packets, one of them
/// with a cut-off start.
pub const PROBE_LEN: usize = 4 * PACKET_LEN;

/// Kind of content of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// MPEG-TS, which is carried unchanged.
    MpegTs,
    /// A bare H.264 byte stream (ITU-T H.264 annex B).
    AnnexB,
    /// A bare stream of HEVC, MPEG-1 or MPEG-2 video: its pictures have no times, or some of them.
    Elementary,
    /// Something else, such as MP4 or Matroska.
    Other,
}

/// Recognises an input by its first bytes, [`PROBE_LEN`] of them if there are as many.
pub fn probe(first: &[u8]) -> InputKind {
    if is_mpeg_ts(first) {
        InputKind::MpegTs
    } else if is_annex_b(first) {
        InputKind::AnnexB
    } else if is_elementary(first) {
        InputKind::Elementary
    } else {
        InputKind::Other
    }
}

/// Returns whether the bytes are MPEG-TS. The stream may start amid a packet: at least two sync
/// bytes at packet distance decide, from anywhere in the first packet's length.
fn is_mpeg_ts(first: &[u8]) -> bool {
    (0..PACKET_LEN.min(first.len())).any(|offset| {
        let sync_bytes = first[offset..].iter().step_by(PACKET_LEN);
        sync_bytes.len() >= 2 && sync_bytes.into_iter().all(|&byte| byte == SYNC_BYTE)
    }) || (first.len() == PACKET_LEN && first[0] == SYNC_BYTE)
}

/// Returns the bytes after a start code at the front.
fn after_start_code(first: &[u8]) -> Option<&[u8]> {
    let zero_count = first.iter().position(|&byte| byte != 0)?;
    let rest = first[zero_count..].strip_prefix(&[1])?;
    (2..=3).contains(&zero_count).then_some(rest)
}

/// Returns whether the bytes start with a NAL unit that can begin a stream of H.264: slice, SEI,
/// SPS, PPS, AUD.
fn is_annex_b(first: &[u8]) -> bool {
    let header = after_start_code(first).and_then(|unit| unit.first());
    header.is_some_and(|&header| {
        let (reference, kind) = (header >> 5, nal::h264_type(header));
        // HEVC's delimiter looks like an SEI, but a unit without a picture is never a reference.
        match kind {
            1 => reference <= 3,
            5 | 7 | 8 => (1..=3).contains(&reference),
            6 | 9 => reference == 0,
            _ => false,
        }
    })
}

/// Returns whether the bytes start an elementary stream. One of MPEG-1 or 2 starts with a sequence
/// header (ITU-T H.262 table 6-1). One of HEVC starts with a NAL unit of the base layer: VPS, SPS,
/// PPS, AUD, SEI (ITU-T H.265 table 7-1).
fn is_elementary(first: &[u8]) -> bool {
    match after_start_code(first) {
        Some([0xb3, ..]) => true,
        Some(&[header, layer, ..]) => {
            let is_base_layer = header & 0x81 == 0 && (1..=7).contains(&layer);
            is_base_layer && matches!(nal::hevc_type(header), 32..=35 | 39)
        }
        _ => false,
    }
}

/// Returns the arguments with which `ffmpeg` converts the file at `path`, of this kind, into
/// MPEG-TS on its standard output, without recoding. Pictures of an elementary stream without times
/// are spaced at the stream's frame rate, 25 per second if it names none. The caller starts the
/// program.
pub fn remux_arguments(path: &Path, kind: InputKind) -> Vec<OsString> {
    // "file:" keeps a name like "concat:a|b" from being taken for a protocol.
    let mut input = OsString::from("file:");
    input.push(path);
    let before = ["-nostdin", "-v", "error", "-i"].map(OsString::from);
    let times: &[&str] = match kind {
        InputKind::Elementary => &["-bsf:v", ELEMENTARY_TIMES],
        _ => &[],
    };
    // The muxer converts H.264 and HEVC to byte streams itself.
    let copied = ["-c", "copy"].iter().chain(times);
    let after = copied.chain(&["-f", "mpegts", "-"]).map(OsString::from);
    before.into_iter().chain([input]).chain(after).collect()
}

/// The bitstream filter that gives times to pictures without times.
const ELEMENTARY_TIMES: &str = r"setts=ts=if(eq(DTS\,NOPTS)\,N*DURATION\,DTS)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transport_streams_are_known_also_from_amid_a_packet() {
        let mut stream = vec![0xff; PROBE_LEN];
        for start in (0..PROBE_LEN).step_by(PACKET_LEN) {
            stream[start] = SYNC_BYTE;
        }
        assert_eq!(probe(&stream), InputKind::MpegTs);
        assert_eq!(probe(&stream[100..]), InputKind::MpegTs);
        assert_eq!(probe(&stream[..PACKET_LEN]), InputKind::MpegTs);
        stream[2 * PACKET_LEN] = 0;
        assert_eq!(probe(&stream), InputKind::Other);
    }

    #[test]
    fn byte_streams_are_known_by_their_start_code() {
        assert_eq!(probe(&[0, 0, 0, 1, 0x67, 0x42]), InputKind::AnnexB);
        assert_eq!(probe(&[0, 0, 1, 0x09, 0xf0]), InputKind::AnnexB);
        // An MPEG program stream starts with a pack header.
        assert_eq!(probe(&[0, 0, 1, 0xba, 0x44]), InputKind::Other);
    }

    #[test]
    fn elementary_streams_get_times() {
        fn arguments(kind: InputKind) -> Vec<OsString> {
            remux_arguments(Path::new("film"), kind)
        }

        // VPS, SPS, PPS, delimiter and SEI of HEVC; the sequence header of MPEG-2.
        for start in [
            [0x40, 1],
            [0x42, 1],
            [0x44, 1],
            [0x46, 1],
            [0x4e, 1],
            [0xb3, 0x14],
        ] {
            let stream = [&[0, 0, 0, 1][..], &start].concat();
            assert_eq!(probe(&stream), InputKind::Elementary, "{start:x?}");
        }
        // Another layer's VPS, and a header without an end.
        assert_eq!(probe(&[0, 0, 0, 1, 0x40, 9]), InputKind::Other);
        assert_eq!(probe(&[0, 0, 0, 1, 0x40]), InputKind::Other);
        let filter = OsString::from("-bsf:v");
        assert!(arguments(InputKind::Elementary).contains(&filter));
        assert!(!arguments(InputKind::Other).contains(&filter));
    }

    #[test]
    fn other_files_are_left_to_ffmpeg() {
        assert_eq!(probe(b"\0\0\0\x20ftypisom"), InputKind::Other);
        assert_eq!(probe(b"G"), InputKind::Other);
        assert_eq!(probe(b""), InputKind::Other);
        let arguments = remux_arguments(Path::new("-x.mp4"), InputKind::Other);
        assert!(arguments.contains(&OsString::from("file:-x.mp4")));
    }
}
