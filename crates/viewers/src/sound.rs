//! Frames of sound inside a PES packet: AAC behind ADTS headers (ISO/IEC 13818-7 §6.2), and Opus
//! behind the control headers of its mapping to MPEG-TS (ETSI TS 103 491 §4; as ffmpeg writes it).

use anabranch_video::mpeg_ts::{AudioCodec, TICKS_PER_SECOND};

/// Layout of a sound that browsers can play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sound {
    /// AAC.
    Aac {
        /// AudioSpecificConfig (ISO/IEC 14496-3 §1.6.2.1).
        config: [u8; 2],
        /// Samples a second.
        rate: u32,
        /// Number of channels.
        channels: u8,
    },
    /// Opus at 48 kHz.
    Opus {
        /// Number of channels, 1 or 2.
        channels: u8,
    },
}

/// One frame, without header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) sound: Sound,
    pub(crate) bytes: &'a [u8],
    /// Duration in ticks of 90 kHz.
    pub(crate) ticks: u64,
}

/// Sampling frequencies of AAC by their index (ISO/IEC 14496-3 table 1.18).
const AAC_RATES: [u32; 13] = [
    96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000,
    7_350,
];
/// Samples in a frame of AAC.
const AAC_FRAME_SAMPLES: u64 = 1_024;

/// Returns the whole frames in the payload of a PES packet, up to the first that cannot be read.
pub(crate) fn frames(codec: AudioCodec, payload: &[u8]) -> Vec<Frame<'_>> {
    let read = match codec {
        AudioCodec::Aac => read_adts,
        AudioCodec::Opus => read_opus,
        AudioCodec::Other => return Vec::new(),
    };
    let mut frames = Vec::new();
    let mut rest = payload;
    while let Some((frame, others)) = read(rest) {
        if !frame.bytes.is_empty() {
            frames.push(frame);
        }
        rest = others;
    }
    frames
}

/// Returns the first ADTS frame and the bytes behind it.
fn read_adts(bytes: &[u8]) -> Option<(Frame<'_>, &[u8])> {
    let &[0xff, b, c, d, e, f, g, ..] = bytes else {
        return None;
    };
    // Twelve sync bits, and layer 0. One block of raw data is what encoders write.
    if b & 0xf6 != 0xf0 || g & 0b11 != 0 {
        return None;
    }
    let header_len = if b & 1 == 1 { 7 } else { 9 };
    let (object_type, rate_index) = ((c >> 6) + 1, c >> 2 & 0x0f);
    let channels = (c & 1) << 2 | d >> 6;
    let rate = *AAC_RATES.get(usize::from(rate_index))?;
    // Without a number, the channels are described inside of the frame.
    if channels == 0 {
        return None;
    }
    let len = usize::from(d & 0b11) << 11 | usize::from(e) << 3 | usize::from(f >> 5);
    let (frame, others) = bytes.split_at_checked(len)?;
    let config = [
        object_type << 3 | rate_index >> 1,
        (rate_index & 1) << 7 | channels << 3,
    ];
    let channels = if channels == 7 { 8 } else { channels };
    let frame = Frame {
        sound: Sound::Aac {
            config,
            rate,
            channels,
        },
        bytes: frame.get(header_len..)?,
        ticks: AAC_FRAME_SAMPLES * TICKS_PER_SECOND / u64::from(rate),
    };
    Some((frame, others))
}

/// Returns the first Opus packet behind its control header, and the bytes behind it.
fn read_opus(bytes: &[u8]) -> Option<(Frame<'_>, &[u8])> {
    let &[0x7f, flags, ..] = bytes else {
        return None;
    };
    if flags & 0xe0 != 0xe0 {
        return None;
    }
    let mut at = 2;
    let mut len = 0;
    loop {
        let byte = *bytes.get(at)?;
        (at, len) = (at + 1, len + usize::from(byte));
        if byte != 0xff {
            break;
        }
    }
    // Trims at the start and at the end, and an extension.
    at += 2 * usize::from(flags >> 4 & 1) + 2 * usize::from(flags >> 3 & 1);
    if flags >> 2 & 1 == 1 {
        at += 1 + usize::from(*bytes.get(at)?);
    }
    let packet = bytes.get(at..at + len)?;
    let toc = *packet.first()?;
    let frame = Frame {
        sound: Sound::Opus {
            channels: 1 + (toc >> 2 & 1),
        },
        bytes: packet,
        ticks: opus_ticks(packet),
    };
    Some((frame, &bytes[at + len..]))
}

/// Returns the duration of an Opus packet (RFC 6716 §3.1 and §3.2) in ticks of 90 kHz.
fn opus_ticks(packet: &[u8]) -> u64 {
    let (toc, second) = match packet {
        [] => return 0,
        [toc] => (*toc, 0),
        [toc, second, ..] => (*toc, *second),
    };
    // 10, 20, 40 and 60 ms of SILK; 10 and 20 ms of both; 2.5 to 20 ms of CELT.
    let tenths_of_ms = match toc >> 3 {
        config @ 0..12 => [100, 200, 400, 600][usize::from(config & 3)],
        config @ 12..16 => [100, 200][usize::from(config & 1)],
        config => [25, 50, 100, 200][usize::from(config & 3)],
    };
    let count = match toc & 0b11 {
        0 => 1,
        1 | 2 => 2,
        _ => u64::from(second & 0x3f),
    };
    count * tenths_of_ms * 9
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an ADTS frame of AAC-LC with this payload.
    fn adts(rate_index: u8, channels: u8, payload: &[u8]) -> Vec<u8> {
        let len = payload.len() + 7;
        let mut frame = vec![
            0xff,
            0xf1,
            0x40 | rate_index << 2 | channels >> 2,
            channels << 6 | (len >> 11) as u8,
            (len >> 3) as u8,
            (len << 5) as u8 | 0x1f,
            0xfc,
        ];
        frame.extend_from_slice(payload);
        frame
    }

    #[test]
    fn aac_loses_its_headers_and_keeps_its_layout() {
        let payload = [adts(3, 2, &[1; 300]), adts(3, 2, &[2; 10])].concat();
        let all = frames(AudioCodec::Aac, &payload);
        let lengths: Vec<usize> = all.iter().map(|frame| frame.bytes.len()).collect();
        assert_eq!(lengths, [300, 10]);
        assert_eq!(all[0].ticks, 1_920);
        // AAC-LC, 48 kHz, two channels: 00010 0011 0010 000.
        let sound = Sound::Aac {
            config: [0x11, 0x90],
            rate: 48_000,
            channels: 2,
        };
        assert_eq!(all[0].sound, sound);
        assert_eq!(frames(AudioCodec::Aac, &payload[..320]).len(), 1);
        assert_eq!(frames(AudioCodec::Aac, &payload[1..]).len(), 0);
        assert_eq!(frames(AudioCodec::Other, &payload), []);
    }

    #[test]
    fn opus_loses_its_control_headers() {
        // CELT of 20 ms in stereo, in one frame.
        let packet = [&[0xfc][..], &[9; 299]].concat();
        let plain = [&[0x7f, 0xe0, 255, 45][..], &packet].concat();
        let trimmed = [&[0x7f, 0xf8, 255, 45, 0, 1, 0, 2][..], &packet].concat();
        let extended = [&[0x7f, 0xe4, 255, 45, 2, 7, 7][..], &packet].concat();
        let payload = [plain, trimmed, extended].concat();
        let all = frames(AudioCodec::Opus, &payload);
        assert_eq!(all.len(), 3);
        for frame in &all {
            assert_eq!(frame.bytes, packet);
            assert_eq!(frame.sound, Sound::Opus { channels: 2 });
            assert_eq!(frame.ticks, 1_800);
        }
        assert_eq!(
            frames(AudioCodec::Opus, &payload[..payload.len() - 1]).len(),
            2
        );
    }

    #[test]
    fn durations_of_opus_are_those_of_its_first_bytes() {
        for (packet, tenths_of_ms) in [
            (&[0x18_u8][..], 600),
            (&[0x68], 200),
            (&[0x81], 50),
            (&[0xfb, 3], 600),
            (&[0xfb], 0),
            (&[], 0),
        ] {
            assert_eq!(opus_ticks(packet), tenths_of_ms * 9, "{packet:?}");
        }
    }
}
