//! The receiving end: takes each frame on arrival, and checks and writes its content in a thread of
//! its own.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::mpsc;

use anabranch_core::{FrameId, ReceivedFrame};
use anabranch_net::{Clock, Event, Receptions};
use anabranch_units::Instant;
use anabranch_video::camera::WIDTH;
use anabranch_video::decoder::{Decoded, H264Decoder};
use anabranch_video::fidelity;
use anabranch_video::input::InputKind;
use anabranch_video::mpeg_ts::{PictureExtractor, TransportStreamWriter, VideoCodec};
use anyhow::Context;

use super::ledger::{Check, Ledger};
use crate::view::Picture;

/// Width in pixels of a key frame's thumbnail on the terminal.
const SMALL_WIDTH: usize = 160;

/// A frame on its way to the checking thread.
#[derive(Debug)]
pub(super) struct Delivery {
    frame: ReceivedFrame,
    is_displayable: bool,
}

/// Takes frames until the session ends.
pub(super) fn take(
    receptions: &Receptions,
    clock: Clock,
    ledger: &Ledger,
    deliveries: &mpsc::Sender<Delivery>,
) {
    let Ok(reception) = receptions.recv() else {
        return;
    };
    for event in reception.events().iter() {
        match event {
            Event::FrameReceived(frame) => {
                let is_displayable = ledger.on_delivered(frame.id, clock.now());
                let delivery = Delivery {
                    frame,
                    is_displayable,
                };
                if deliveries.send(delivery).is_err() {
                    return;
                }
            }
            Event::FrameDropped { .. } => ledger.on_dropped(),
            Event::Ended(_) => return,
            _ => {}
        }
    }
}

/// Treatment of received content.
#[derive(Debug)]
pub(super) enum Viewer {
    /// Pictures of the camera are decoded, and the number in the picture is compared with the
    /// frame's.
    Camera {
        decoder: H264Decoder,
        output: TransportStreamWriter<BufWriter<File>>,
        started_at: Option<Instant>,
        screen: Screen,
    },
    /// Units of a file are compared with the sent ones.
    File(FileOutput),
}

/// The picture that the viewer sees.
#[derive(Debug, Default)]
pub(super) struct Screen {
    /// Luma of the picture that was displayed last, rows without padding.
    luma: Option<Vec<u8>>,
    /// Number of the next frame to compare.
    next_id: u64,
}

impl Screen {
    /// Compares the displayed picture with the frame `id`, and with the frames before it that were
    /// left out.
    fn compare(&mut self, id: FrameId, picture: Option<Vec<u8>>, ledger: &Ledger) {
        for left_out in self.next_id..id.0 {
            self.compare_one(FrameId(left_out), ledger);
        }
        self.luma = picture.or(self.luma.take());
        self.compare_one(id, ledger);
        self.next_id = id.0 + 1;
    }

    fn compare_one(&self, id: FrameId, ledger: &Ledger) {
        if let Some(source) = ledger.take_content(id)
            && let Some(shown) = &self.luma
            && shown.len() == source.len()
        {
            ledger.on_seen(id, fidelity::compare(&source, shown, WIDTH));
        }
    }
}

/// Output of a file's units.
#[derive(Debug)]
pub(super) enum FileOutput {
    /// The units unchanged.
    Verbatim(BufWriter<File>),
    /// Access units, each in a PES packet of a transport stream.
    Muxed {
        output: TransportStreamWriter<BufWriter<File>>,
        started_at: Option<Instant>,
    },
}

impl Viewer {
    /// Creates a viewer for the camera's pictures.
    pub(super) fn of_camera(output: &Path) -> anyhow::Result<Viewer> {
        Ok(Viewer::Camera {
            decoder: H264Decoder::new()?,
            output: TransportStreamWriter::new(create(output)?),
            started_at: None,
            screen: Screen::default(),
        })
    }

    /// Creates a viewer for a file's units.
    pub(super) fn of_file(kind: InputKind, output: &Path) -> anyhow::Result<Viewer> {
        let output = create(output)?;
        Ok(Viewer::File(match kind {
            // All other formats have been remuxed to MPEG-TS before they are sent.
            InputKind::MpegTs | InputKind::Elementary | InputKind::Other => {
                FileOutput::Verbatim(output)
            }
            InputKind::AnnexB => FileOutput::Muxed {
                output: TransportStreamWriter::new(output),
                started_at: None,
            },
        }))
    }

    /// Checks frames until there are no more.
    pub(super) fn look(
        mut self,
        deliveries: &mpsc::Receiver<Delivery>,
        ledger: &Ledger,
    ) -> anyhow::Result<()> {
        for Delivery {
            frame,
            is_displayable,
        } in deliveries
        {
            let check = match &mut self {
                Viewer::Camera { screen, .. } if !is_displayable => {
                    screen.compare(frame.id, None, ledger);
                    None
                }
                Viewer::Camera {
                    decoder, screen, ..
                } => {
                    let (check, picture) = decoded(decoder, &frame, ledger);
                    screen.compare(frame.id, picture, ledger);
                    Some(check)
                }
                Viewer::File(output) => {
                    if frame.importance.is_key() {
                        ledger.on_key_picture(output.small(&frame.bytes));
                    }
                    Some(match ledger.take_content(frame.id) {
                        Some(sent) if sent == frame.bytes => Check::Right,
                        _ => Check::Wrong,
                    })
                }
            };
            if let Some(check) = check {
                ledger.on_checked(frame.id, check);
            }
            self.write(&frame, is_displayable)
                .context("cannot write the video")?;
        }
        self.finish().context("cannot write the video")
    }

    fn write(&mut self, frame: &ReceivedFrame, is_displayable: bool) -> std::io::Result<()> {
        match self {
            // A player would show grey or smeared pictures of a broken chain; a still picture is
            // better.
            Viewer::Camera { .. } if !is_displayable => Ok(()),
            Viewer::Camera {
                output, started_at, ..
            }
            | Viewer::File(FileOutput::Muxed { output, started_at }) => {
                let started_at = *started_at.get_or_insert(frame.captured_at);
                let at = frame.captured_at.saturating_since(started_at);
                output.write(&frame.bytes, at, frame.importance.is_key())
            }
            Viewer::File(FileOutput::Verbatim(output)) => output.write_all(&frame.bytes),
        }
    }

    fn finish(self) -> std::io::Result<()> {
        match self {
            Viewer::Camera { output, .. } | Viewer::File(FileOutput::Muxed { output, .. }) => {
                output.into_inner().flush()
            }
            Viewer::File(FileOutput::Verbatim(mut output)) => output.flush(),
        }
    }
}

fn create(path: &Path) -> anyhow::Result<BufWriter<File>> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(BufWriter::new(file))
}

impl FileOutput {
    /// Returns the thumbnail of a key frame if it is H.264.
    fn small(&self, unit: &[u8]) -> Option<Picture> {
        let mut decoder = H264Decoder::new().ok()?;
        match self {
            FileOutput::Verbatim(_) => {
                let coded = PictureExtractor::new().extract(unit)?;
                let is_known = coded.codec == VideoCodec::H264;
                is_known.then(|| small(&decoder.decode(&coded.bytes).ok()??))?
            }
            FileOutput::Muxed { .. } => small(&decoder.decode(unit).ok()??),
        }
    }
}

fn small(picture: &Decoded<'_>) -> Option<Picture> {
    let small = picture.thumbnail(SMALL_WIDTH);
    Picture::new(small.width, small.height, small.rgb)
}

/// Decodes a frame and returns the check result and its luma. Passes key frames' thumbnails to the
/// ledger.
fn decoded(
    decoder: &mut H264Decoder,
    frame: &ReceivedFrame,
    ledger: &Ledger,
) -> (Check, Option<Vec<u8>>) {
    match decoder.decode(&frame.bytes) {
        Ok(Some(picture)) => {
            if frame.importance.is_key() {
                ledger.on_key_picture(small(&picture));
            }
            let check = match picture.burnt_in_number() == Some(frame.id.0 as u32) {
                true => Check::Right,
                false => Check::Wrong,
            };
            (check, Some(picture.packed_luma()))
        }
        Ok(None) | Err(_) => (Check::Undecodable, None),
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::{DataRate, Duration, Seed};
    use anabranch_video::camera::{Camera, FRAMES_PER_SECOND, HEIGHT};
    use anabranch_video::encoder::{EncoderConfig, H264Encoder};

    use super::*;

    #[test]
    fn a_key_frame_is_made_small_in_a_transport_stream_and_without() {
        let config = EncoderConfig {
            width: WIDTH,
            height: HEIGHT,
            frames_per_second: FRAMES_PER_SECOND,
            bitrate: DataRate::from_megabits_per_second(1),
            key_frame_interval: 25,
        };
        let mut encoder = H264Encoder::new(config).expect("an encoder");
        let mut camera = Camera::new(Seed(1));
        let encoded = encoder.encode(camera.render(0, Duration::ZERO));
        let key_frame = encoded.expect("a key frame").annex_b;
        let mut muxer = TransportStreamWriter::new(Vec::new());
        muxer
            .write(&key_frame, Duration::ZERO, true)
            .expect("memory");
        let unit = muxer.into_inner();

        let file = || BufWriter::new(tempfile::tempfile().expect("a file"));
        let verbatim = FileOutput::Verbatim(file());
        let muxed = FileOutput::Muxed {
            output: TransportStreamWriter::new(file()),
            started_at: None,
        };
        let picture = muxed.small(&key_frame);
        assert!(picture.is_some());
        assert_eq!(verbatim.small(&unit), picture);
        assert_eq!(muxed.small(b"no picture"), None);
        assert_eq!(verbatim.small(b"no picture"), None);
    }
}
