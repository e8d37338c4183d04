//! Reasons for which a stream's picture is not shown.

use core::fmt;

use anabranch_video::mpeg_ts::VideoCodec;

use crate::samples::Format;

/// Reason why a viewer gets no picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such stream.
    NoStream,
    /// No key picture has come yet.
    NotYet,
    /// Browsers do not play the pictures' codec.
    Codec(VideoCodec),
    /// WebRTC does not carry pictures whose order of decoding is not that of showing.
    Reorders,
    /// All places for viewers are taken.
    TooMany,
    /// The offer cannot be read, or asks for no H.264.
    BadOffer,
    /// The address by which this end was reached is none for viewers.
    NoAddress,
    /// This program was built without WebRTC.
    NoWebRtc,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Refusal::NoStream => "there is no such stream",
            Refusal::NotYet => "no key frame of H.264 has come yet",
            Refusal::Codec(VideoCodec::Hevc) => "the picture is HEVC, which is not shown live",
            Refusal::Codec(VideoCodec::Mpeg2) => {
                "the picture is MPEG-2, which browsers do not decode"
            }
            Refusal::Codec(_) => "browsers do not decode the picture's codec",
            Refusal::Reorders => "the picture has B frames, which WebRTC cannot carry",
            Refusal::TooMany => "all places for viewers are taken",
            Refusal::BadOffer => "the offer cannot be read, or does not ask for H.264",
            Refusal::NoAddress => "this address is none for viewers",
            Refusal::NoWebRtc => "this program was built without the cargo feature `webrtc`",
        };
        f.write_str(text)
    }
}

/// Checks whether pictures of the format can be shown at all.
///
/// # Errors
/// The reason why not.
pub fn check_film(format: &Format) -> Result<(), Refusal> {
    match format.video {
        Some(VideoCodec::H264) if format.parameters.is_some() => Ok(()),
        Some(VideoCodec::H264) | None => Err(Refusal::NotYet),
        Some(codec) => Err(Refusal::Codec(codec)),
    }
}

/// Checks whether pictures of the format can be carried by WebRTC.
///
/// # Errors
/// The reason why not.
pub fn check_webrtc(format: &Format) -> Result<(), Refusal> {
    check_film(format)?;
    if !cfg!(feature = "webrtc") {
        return Err(Refusal::NoWebRtc);
    }
    if format.reorders {
        return Err(Refusal::Reorders);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use anabranch_video::parameters::Parameters;

    use super::*;

    fn format(video: VideoCodec, reorders: bool) -> Format {
        let parameters = Parameters {
            sps: vec![0x67, 0x42, 0, 0x1e],
            pps: vec![0x68],
            width: 640,
            height: 360,
        };
        Format {
            video: Some(video),
            parameters: Some(parameters),
            reorders,
            ..Format::default()
        }
    }

    #[test]
    fn each_codec_is_shown_where_browsers_play_it() {
        assert_eq!(check_film(&Format::default()), Err(Refusal::NotYet));
        let hevc = format(VideoCodec::Hevc, false);
        assert_eq!(check_film(&hevc), Err(Refusal::Codec(VideoCodec::Hevc)));
        let with_b = format(VideoCodec::H264, true);
        assert_eq!(check_film(&with_b), Ok(()));
        let webrtc = if cfg!(feature = "webrtc") {
            Refusal::Reorders
        } else {
            Refusal::NoWebRtc
        };
        assert_eq!(check_webrtc(&with_b), Err(webrtc));
    }
}
