//! Fragmented MP4 (ISO/IEC 14496-12 and -15) of one stream, a fragment a sample, for Media Source
//! Extensions of browsers and for players.

use anabranch_video::parameters::{Parameters, nal_units};
use bytes::Bytes;

use crate::samples::{Format, Kind, Sample};
use crate::sound::Sound;
use anabranch_video::mpeg_ts::TICKS_PER_SECOND;

const VIDEO_TRACK: u32 = 1;
const AUDIO_TRACK: u32 = 2;
/// Flags of a sample on which others depend, and of one that depends on no other (§8.8.3.1).
const KEY_SAMPLE: u32 = 0x0200_0000;
const OTHER_SAMPLE: u32 = 0x0101_0000;
/// Flags of a track fragment's header: its times count from the fragment (§8.8.7.1).
const DEFAULT_BASE_IS_MOOF: u32 = 0x02_0000;
/// Flags of a run: data offset, duration, size, flags and composition time of each (§8.8.8.1).
const RUN_FLAGS: u32 = 0x01 | 0x100 | 0x200 | 0x400 | 0x800;
/// Matrix that leaves the picture as it is (§8.2.2.2).
const UNITY: [u32; 9] = [0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000];

/// Returns the media type with its codecs (RFC 6381), or `None` if no picture is known that MP4
/// viewers can play.
pub fn media_type(format: &Format) -> Option<String> {
    let [profile, constraints, level] = format.parameters.as_ref()?.profile_and_level();
    let sound = match format.sound {
        None => String::new(),
        Some(Sound::Aac { config, .. }) => format!(",mp4a.40.{}", config[0] >> 3),
        Some(Sound::Opus { .. }) => ",opus".to_owned(),
    };
    let video = format!("avc1.{profile:02x}{constraints:02x}{level:02x}");
    Some(format!("video/mp4; codecs=\"{video}{sound}\""))
}

/// Returns the media type of the film without sound.
pub fn silent_media_type(format: &Format) -> Option<String> {
    media_type(&Format {
        sound: None,
        ..format.clone()
    })
}

/// Returns the beginning of a film: its tracks. `None` without pictures.
pub fn head(format: &Format) -> Option<Bytes> {
    let parameters = format.parameters.as_ref()?;
    let mut out = Vec::with_capacity(1_024);
    boxed(&mut out, b"ftyp", |out| {
        out.extend(b"iso5");
        word(out, 0x200);
        out.extend(b"iso5iso6mp41");
    });
    boxed(&mut out, b"moov", |out| {
        full(out, b"mvhd", 0, 0, |out| {
            words(out, &[0, 0, TICKS_PER_SECOND as u32, 0, 0x1_0000]);
            out.extend([1, 0, 0, 0]);
            words(out, &[0, 0]);
            words(out, &UNITY);
            words(out, &[0; 6]);
            word(out, AUDIO_TRACK + 1);
        });
        video_track(out, parameters);
        if let Some(sound) = format.sound {
            audio_track(out, sound);
        }
        boxed(out, b"mvex", |out| {
            let sound = format.sound.map(|_| AUDIO_TRACK);
            for track in [Some(VIDEO_TRACK), sound].into_iter().flatten() {
                full(out, b"trex", 0, 0, |out| words(out, &[track, 1, 0, 0, 0]));
            }
        });
    });
    Some(out.into())
}

/// Returns a fragment with one sample that lasts for `duration` ticks. `number` counts fragments.
pub fn fragment(sample: &Sample, duration: u64, number: u32) -> Bytes {
    let payload = match sample.kind {
        Kind::Picture => with_lengths(&sample.bytes),
        Kind::Sound(_) => sample.bytes.to_vec(),
    };
    let track = match sample.kind {
        Kind::Picture => VIDEO_TRACK,
        Kind::Sound(_) => AUDIO_TRACK,
    };
    let is_free = sample.is_key || sample.kind != Kind::Picture;
    let flags = if is_free { KEY_SAMPLE } else { OTHER_SAMPLE };
    let shift = sample.presented_at.saturating_sub(sample.decoded_at);
    let mut out = Vec::with_capacity(payload.len() + 128);
    let mut offset_at = 0;
    boxed(&mut out, b"moof", |out| {
        full(out, b"mfhd", 0, 0, |out| word(out, number));
        boxed(out, b"traf", |out| {
            full(out, b"tfhd", 0, DEFAULT_BASE_IS_MOOF, |out| {
                word(out, track)
            });
            full(out, b"tfdt", 1, 0, |out| {
                out.extend(sample.decoded_at.to_be_bytes());
            });
            full(out, b"trun", 1, RUN_FLAGS, |out| {
                word(out, 1);
                offset_at = out.len();
                let (duration, shift) = (duration as u32, shift as u32);
                words(out, &[0, duration, payload.len() as u32, flags, shift]);
            });
        });
    });
    let offset = (out.len() + 8) as u32;
    out[offset_at..offset_at + 4].copy_from_slice(&offset.to_be_bytes());
    boxed(&mut out, b"mdat", |out| out.extend_from_slice(&payload));
    out.into()
}

/// Returns an access unit with the length of each NAL unit in front of it (ISO/IEC 14496-15 §5.3).
fn with_lengths(annex_b: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(annex_b.len() + 16);
    for unit in nal_units(annex_b) {
        word(&mut out, unit.len() as u32);
        out.extend_from_slice(unit);
    }
    out
}

fn video_track(out: &mut Vec<u8>, parameters: &Parameters) {
    let Parameters { width, height, .. } = *parameters;
    let size = [u32::from(width) << 16, u32::from(height) << 16];
    let handler = Handler {
        kind: b"vide",
        track: VIDEO_TRACK,
        volume: 0,
        size,
    };
    track_of(out, &handler, |out| {
        full(out, b"vmhd", 0, 1, |out| words(out, &[0, 0]));
        data_reference(out);
        table(out, |out| {
            boxed(out, b"avc1", |out| {
                words(out, &[0, 1, 0, 0, 0, 0]);
                word(out, u32::from(width) << 16 | u32::from(height));
                // 72 dpi, one frame a sample, no name, and a depth of 24 bits.
                words(out, &[0x48_0000, 0x48_0000, 0]);
                out.extend([0, 1]);
                out.extend([0; 32]);
                out.extend([0, 0x18, 0xff, 0xff]);
                boxed(out, b"avcC", |out| configuration(out, parameters));
            });
        });
    });
}

/// Writes the decoder's configuration (ISO/IEC 14496-15 §5.3.3.1): lengths of four bytes, one SPS
/// and one PPS.
fn configuration(out: &mut Vec<u8>, parameters: &Parameters) {
    let Parameters { sps, pps, .. } = parameters;
    let [profile, constraints, level] = parameters.profile_and_level();
    out.extend([1, profile, constraints, level, 0xff, 0xe1]);
    out.extend((sps.len() as u16).to_be_bytes());
    out.extend(sps);
    out.push(1);
    out.extend((pps.len() as u16).to_be_bytes());
    out.extend(pps);
    // High profiles add chroma format and depths, here 4:2:0 of 8 bits.
    if [100, 110, 122, 144].contains(&profile) {
        out.extend([0xfd, 0xf8, 0xf8, 0]);
    }
}

fn audio_track(out: &mut Vec<u8>, sound: Sound) {
    let handler = Handler {
        kind: b"soun",
        track: AUDIO_TRACK,
        volume: 0x100_0000,
        size: [0, 0],
    };
    let (name, channels, rate) = match sound {
        Sound::Aac { rate, channels, .. } => (b"mp4a", channels, rate),
        Sound::Opus { channels } => (b"Opus", channels, 48_000),
    };
    track_of(out, &handler, |out| {
        full(out, b"smhd", 0, 0, |out| word(out, 0));
        data_reference(out);
        table(out, |out| {
            boxed(out, name, |out| {
                words(out, &[0, 1, 0, 0]);
                word(out, u32::from(channels) << 16 | 16);
                // Rates above 65,535 Hz do not fit, and are in the configuration.
                words(out, &[0, rate.min(0xffff) << 16]);
                match sound {
                    Sound::Aac { config, .. } => full(out, b"esds", 0, 0, |out| {
                        // Descriptors of the stream, the decoder, its configuration and the
                        // synchronisation layer (ISO/IEC 14496-1 §7.2.6).
                        out.extend([3, 25, 0, 0, 0, 4, 17, 0x40, 0x15, 0, 0, 0]);
                        words(out, &[0, 0]);
                        out.extend([5, 2, config[0], config[1], 6, 1, 2]);
                    }),
                    Sound::Opus { channels } => boxed(out, b"dOps", |out| {
                        // Version, channels, no samples to skip, rate, no gain, mapping 0.
                        out.extend([0, channels, 0, 0]);
                        word(out, rate);
                        out.extend([0, 0, 0]);
                    }),
                }
            });
        });
    });
}

/// Description of a track.
struct Handler {
    kind: &'static [u8; 4],
    track: u32,
    volume: u32,
    /// Width and height with 16 fractional bits.
    size: [u32; 2],
}

/// Writes a track with the boxes of its media information.
fn track_of(out: &mut Vec<u8>, handler: &Handler, information: impl FnOnce(&mut Vec<u8>)) {
    boxed(out, b"trak", |out| {
        // Enabled, and in the movie.
        full(out, b"tkhd", 0, 3, |out| {
            words(out, &[0, 0, handler.track, 0, 0, 0, 0, 0, handler.volume]);
            words(out, &UNITY);
            words(out, &handler.size);
        });
        boxed(out, b"mdia", |out| {
            full(out, b"mdhd", 0, 0, |out| {
                // The language is undetermined.
                words(out, &[0, 0, TICKS_PER_SECOND as u32, 0, 0x55c4_0000]);
            });
            full(out, b"hdlr", 0, 0, |out| {
                word(out, 0);
                out.extend(handler.kind);
                words(out, &[0, 0, 0]);
                out.push(0);
            });
            boxed(out, b"minf", information);
        });
    });
}

/// Writes a reference to this file for a track's data.
fn data_reference(out: &mut Vec<u8>) {
    boxed(out, b"dinf", |out| {
        full(out, b"dref", 0, 0, |out| {
            word(out, 1);
            full(out, b"url ", 0, 1, |_| ());
        });
    });
}

/// Writes a sample table with one entry and without samples, which are in fragments.
fn table(out: &mut Vec<u8>, entry: impl FnOnce(&mut Vec<u8>)) {
    boxed(out, b"stbl", |out| {
        full(out, b"stsd", 0, 0, |out| {
            word(out, 1);
            entry(out);
        });
        full(out, b"stts", 0, 0, |out| word(out, 0));
        full(out, b"stsc", 0, 0, |out| word(out, 0));
        full(out, b"stsz", 0, 0, |out| words(out, &[0, 0]));
        full(out, b"stco", 0, 0, |out| word(out, 0));
    });
}

fn word(out: &mut Vec<u8>, value: u32) {
    out.extend(value.to_be_bytes());
}

fn words(out: &mut Vec<u8>, values: &[u32]) {
    values.iter().for_each(|value| word(out, *value));
}

/// Writes a box with its length in front.
fn boxed(out: &mut Vec<u8>, name: &[u8; 4], content: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    word(out, 0);
    out.extend(name);
    content(out);
    let len = (out.len() - begin) as u32;
    out[begin..begin + 4].copy_from_slice(&len.to_be_bytes());
}

/// Writes a box with a version and flags.
fn full(
    out: &mut Vec<u8>,
    name: &[u8; 4],
    version: u8,
    flags: u32,
    content: impl FnOnce(&mut Vec<u8>),
) {
    boxed(out, name, |out| {
        word(out, u32::from(version) << 24 | flags);
        content(out);
    });
}
