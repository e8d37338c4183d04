//! Frames of codecs whose streams are not cut here, as `ffprobe` lists them.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use anabranch_units::{Duration, Importance};
use anabranch_video::frame_trace::{PictureType, TracedFrame};
use anabranch_video::input::{InputKind, PROBE_LEN, probe};
use anyhow::{Context, bail};

/// Names in ffprobe of the codecs that are cut as byte streams.
const CUT: [&str; 4] = ["h264", "hevc", "mpeg1video", "mpeg2video"];

/// Returns the format of the file at `path`.
pub(super) fn kind(path: &Path) -> anyhow::Result<InputKind> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("cannot open {shown}"))?;
    let mut first = Vec::new();
    file.take(PROBE_LEN as u64)
        .read_to_end(&mut first)
        .with_context(|| format!("cannot read {shown}"))?;
    Ok(probe(&first))
}

/// Returns the frames of the first video in coding order. Returns `None` if cutting the stream
/// gives more information, namely which frames are disposable.
pub(super) fn frames(path: &Path) -> anyhow::Result<Option<Vec<TracedFrame>>> {
    let shown = path.display();
    // If ffprobe is missing, so is ffmpeg, and the code that needs ffmpeg reports that.
    let Some(codec) = ffprobe(path, "stream=codec_name")? else {
        return Ok(None);
    };
    let codec = value(&codec, "codec_name").unwrap_or_default();
    if CUT.contains(&codec) {
        return Ok(None);
    }
    let entries = "frame=pkt_dts_time,pts_time,pkt_size,key_frame,pict_type";
    let listed = ffprobe(path, entries)?.unwrap_or_default();
    if let Some(frames) = parse(&listed)
        && frames.iter().all(|frame| frame.bytes > 0)
    {
        return Ok(Some(frames));
    }
    // Some decoders do not report a picture's size (dav1d, for AV1). Packets have sizes, but no
    // types.
    let listed = ffprobe(path, "packet=dts_time,pts_time,size,flags")?.unwrap_or_default();
    let frames = parse(&listed).with_context(|| format!("{shown}: ffprobe lists no sizes"))?;
    Ok(Some(frames))
}

/// Returns ffprobe's output for the first video that is no cover; `None` if it is not installed.
fn ffprobe(path: &Path, entries: &str) -> anyhow::Result<Option<String>> {
    // "file:" prevents that a name like "concat:a|b" is taken for a protocol.
    let mut input = std::ffi::OsString::from("file:");
    input.push(path);
    let output = Command::new("ffprobe")
        .args(["-v", "error", "-select_streams", "V:0", "-show_entries"])
        .args([entries, "-of", "compact"])
        .arg(input)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output();
    match output {
        Ok(output) if output.status.success() => {
            Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned()))
        }
        Ok(_) => bail!(
            "ffprobe cannot read {}, see its message above",
            path.display()
        ),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context("cannot start ffprobe"),
    }
}

/// Returns the value of a key in lines such as `frame|key_frame=1|pict_type=I`.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let cells = text.split(['|', '\n']);
    cells
        .filter_map(|cell| cell.split_once('='))
        .find_map(|(name, value)| (name == key).then_some(value.trim()))
}

/// Parses the frames or packets in such lines, sorted by decoding time; `None` if a size is
/// missing.
fn parse(listed: &str) -> Option<Vec<TracedFrame>> {
    let lines = listed
        .lines()
        .filter(|line| line.starts_with("frame|") || line.starts_with("packet|"));
    let mut frames = Vec::new();
    let mut last = 0.0_f64;
    for line in lines {
        // A frame without a time is due with the one before it.
        let mut times = ["pkt_dts_time", "dts_time", "pts_time"].into_iter();
        let written_at = times.find_map(|key| value(line, key)?.parse::<f64>().ok());
        let at = written_at.unwrap_or(last);
        last = last.max(at);
        let is_key_packet = value(line, "flags").is_some_and(|flags| flags.starts_with('K'));
        let is_key = is_key_packet || value(line, "key_frame") == Some("1");
        let size = value(line, "pkt_size").or(value(line, "size"));
        let frame = TracedFrame {
            at: Duration::ZERO,
            bytes: size?.parse().ok()?,
            kind: match value(line, "pict_type") {
                Some("I") => Some(PictureType::I),
                Some("P" | "S") => Some(PictureType::P),
                Some("B") => Some(PictureType::B),
                _ => is_key.then_some(PictureType::I),
            },
            importance: Importance::key_if(is_key),
        };
        frames.push((at, frame));
    }
    frames.sort_by(|a, b| a.0.total_cmp(&b.0));
    let first = frames.first().map_or(0.0, |(at, _)| *at);
    let frames = frames.into_iter().map(|(at, frame)| TracedFrame {
        at: Duration::from_secs_f64(at - first),
        ..frame
    });
    Some(frames.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_listed_in_coding_order_from_zero() {
        let listed = "frame|key_frame=1|pts_time=1.080000|pkt_dts_time=1.000000|pkt_size=900|\
             pict_type=I\nframe|key_frame=0|pts_time=1.120000|pkt_dts_time=1.080000|pkt_size=100|\
             pict_type=B\nframe|key_frame=0|pts_time=1.160000|pkt_dts_time=1.040000|pkt_size=300|\
             pict_type=P|side_data|\nframe|key_frame=0|pts_time=N/A|pkt_size=80|pict_type=?\n";
        let frames = parse(listed).unwrap();
        let sizes: Vec<u32> = frames.iter().map(|frame| frame.bytes).collect();
        assert_eq!(sizes, [900, 300, 100, 80]);
        let times: Vec<u64> = frames.iter().map(|frame| frame.at.as_millis()).collect();
        assert_eq!(times, [0, 40, 80, 80]);
    }

    #[test]
    fn packets_stand_for_frames_without_their_types() {
        let listed = "packet|pts_time=0.040000|dts_time=0.000000|size=900|flags=K_\n\
             packet|pts_time=0.080000|dts_time=0.040000|size=100|flags=__\n";
        let frames = parse(listed).unwrap();
        let kinds: Vec<_> = frames
            .iter()
            .map(|frame| (frame.bytes, frame.kind))
            .collect();
        assert_eq!(kinds, [(900, Some(PictureType::I)), (100, None)]);
        assert_eq!(frames[0].importance, Importance::Key);
        assert_eq!(frames[1].at, Duration::from_millis(40));
    }

    #[test]
    fn a_frame_without_a_size_is_no_list() {
        assert_eq!(parse("frame|key_frame=1|pts_time=0.0|pict_type=I\n"), None);
        assert_eq!(parse("").unwrap(), []);
    }
}
