//! Telling what a file or stream holds by its first bytes.

use std::ffi::OsString;
use std::path::Path;

use crate::mpeg_ts::{PACKET_LEN, SYNC_BYTE};
use crate::nal;

/// Bytes that [`probe`] should be given if the input has as many: three transport packets, one of
/// them cut off in front.
pub const PROBE_LEN: usize = 4 * PACKET_LEN;

/// What an input holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// MPEG-TS, to be carried as it is.
    MpegTs,
    /// A bare H.264 byte stream (ITU-T H.264 annex B).
    AnnexB,
    /// Something else, such as MP4 or Matroska: see [`remux_arguments`].
    Other,
}

/// Recognises an input by its first bytes; give it [`PROBE_LEN`] of them where there are as many.
pub fn probe(first: &[u8]) -> InputKind {
    if is_mpeg_ts(first) {
        InputKind::MpegTs
    } else if is_annex_b(first) {
        InputKind::AnnexB
    } else {
        InputKind::Other
    }
}

/// The stream may start amid a packet: sync bytes at packet distance anywhere in the first packet's
/// length, at least two of them, decide.
fn is_mpeg_ts(first: &[u8]) -> bool {
    (0..PACKET_LEN.min(first.len())).any(|offset| {
        let sync_bytes = first[offset..].iter().step_by(PACKET_LEN);
        sync_bytes.len() >= 2 && sync_bytes.into_iter().all(|&byte| byte == SYNC_BYTE)
    }) || (first.len() == PACKET_LEN && first[0] == SYNC_BYTE)
}

/// A start code in front and a NAL unit that a stream can start with: slice, SEI, SPS, PPS, AUD.
fn is_annex_b(first: &[u8]) -> bool {
    let after_zeros = first
        .iter()
        .position(|&byte| byte != 0)
        .unwrap_or(first.len());
    let is_start_code = (2..=3).contains(&after_zeros) && first.get(after_zeros) == Some(&1);
    is_start_code
        && first.get(after_zeros + 1).is_some_and(|&header| {
            let (reference, kind) = (header >> 5, nal::h264_type(header));
            // HEVC's delimiter looks like an SEI, but what is no picture is no reference.
            match kind {
                1 => reference <= 3,
                5 | 7 | 8 => (1..=3).contains(&reference),
                6 | 9 => reference == 0,
                _ => false,
            }
        })
}

/// The arguments with which `ffmpeg` turns the H.264 file at `path` into MPEG-TS on its standard
/// output, without encoding it anew. Starting the program is the caller's business.
pub fn remux_arguments(path: &Path) -> Vec<OsString> {
    // "file:" keeps a name like "concat:a|b" from being taken for a protocol.
    let mut input = OsString::from("file:");
    input.push(path);
    let before = ["-nostdin", "-v", "error", "-i"].map(OsString::from);
    // The muxer makes byte streams of H.264 and HEVC by itself.
    let after = ["-c", "copy", "-f", "mpegts", "-"];
    before
        .into_iter()
        .chain([input])
        .chain(after.map(OsString::from))
        .collect()
}

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
        // An access unit delimiter of HEVC.
        assert_eq!(probe(&[0, 0, 0, 1, 0x46, 1, 0x50]), InputKind::Other);
        // An MPEG program stream starts with a pack header.
        assert_eq!(probe(&[0, 0, 1, 0xba, 0x44]), InputKind::Other);
    }

    #[test]
    fn other_files_are_left_to_ffmpeg() {
        assert_eq!(probe(b"\0\0\0\x20ftypisom"), InputKind::Other);
        assert_eq!(probe(b"G"), InputKind::Other);
        assert_eq!(probe(b""), InputKind::Other);
        let arguments = remux_arguments(Path::new("-x.mp4"));
        assert!(arguments.contains(&OsString::from("file:-x.mp4")));
    }
}
