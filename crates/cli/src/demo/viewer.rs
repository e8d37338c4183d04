//! The receiving end: takes each frame on arrival, and checks and writes its content in a thread of
//! its own.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::mpsc;

use anabranch_core::ReceivedFrame;
use anabranch_net::{Clock, Event, Receptions};
use anabranch_units::Seed;
use anabranch_video::camera::{Camera, WIDTH};
use anabranch_video::decoder::H264Decoder;
use anabranch_video::fidelity;
use anabranch_video::mpeg_ts::{PictureExtractor, VideoCodec};
use anyhow::Context;

use super::ledger::{Check, Ledger};
use super::recording::Source;
use crate::view::Picture;

/// Width in pixels of a key frame's thumbnail on the terminal.
const SMALL_WIDTH: usize = 160;
/// Seed of the grain of the built-in camera, `test:`.
const CAMERA_SEED: Seed = Seed(1);

/// A frame on its way to the checking thread.
#[derive(Debug)]
pub(super) struct Delivery {
    frame: ReceivedFrame,
    /// Index in the ledger.
    index: usize,
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
                let (index, is_displayable) = ledger.on_delivered(frame.id, clock.now());
                let delivery = Delivery {
                    frame,
                    index,
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

/// Decoder, display and output file of the received video.
#[derive(Debug)]
pub(super) struct Viewer {
    decoder: H264Decoder,
    extractor: PictureExtractor,
    output: BufWriter<File>,
    /// Display of the camera's pictures; `None` for a file.
    screen: Option<Screen>,
}

/// The picture that the viewer of the camera sees.
#[derive(Debug)]
struct Screen {
    /// The camera once more, whose pictures are those before encoding.
    camera: Camera,
    /// Luma of the picture that was displayed last, rows without padding.
    luma: Option<Vec<u8>>,
    /// Index of the next frame to compare.
    next_index: usize,
}

impl Screen {
    /// Compares the displayed picture with the frame at `index`, and with the frames before it that
    /// were left out.
    fn compare(&mut self, index: usize, picture: Option<Vec<u8>>, ledger: &Ledger) {
        for left_out in self.next_index..index {
            self.compare_one(left_out, ledger);
        }
        self.luma = picture.or(self.luma.take());
        self.compare_one(index, ledger);
        self.next_index = index + 1;
    }

    fn compare_one(&mut self, index: usize, ledger: &Ledger) {
        let after = ledger.captured_at(index) - ledger.captured_at(0);
        let source = self.camera.render(index as u32, after).luma();
        if let Some(shown) = &self.luma
            && shown.len() == source.len()
        {
            ledger.on_seen(index, fidelity::compare(source, shown, WIDTH));
        }
    }
}

impl Viewer {
    /// Creates a viewer that writes the video to `output`.
    ///
    /// # Errors
    /// A file that cannot be written, or a decoder that cannot be made.
    pub(super) fn open(source: Source, output: &Path) -> anyhow::Result<Viewer> {
        let file =
            File::create(output).with_context(|| format!("cannot write {}", output.display()))?;
        Ok(Viewer {
            decoder: H264Decoder::new()?,
            extractor: PictureExtractor::new(),
            output: BufWriter::new(file),
            screen: (source == Source::Camera).then(|| Screen {
                camera: Camera::new(CAMERA_SEED),
                luma: None,
                next_index: 0,
            }),
        })
    }

    /// Checks frames until there are no more.
    pub(super) fn check_all(
        mut self,
        deliveries: &mpsc::Receiver<Delivery>,
        ledger: &Ledger,
    ) -> anyhow::Result<()> {
        for delivery in deliveries {
            if let Some(check) = self.check(&delivery, ledger) {
                ledger.on_checked(delivery.index, check);
            }
            // A player would show grey or smeared pictures of a broken chain; a still picture is
            // better.
            if self.screen.is_none() || delivery.is_displayable {
                let written = self.output.write_all(&delivery.frame.bytes);
                written.context("cannot write the video")?;
            }
        }
        self.output.flush().context("cannot write the video")
    }

    /// Compares units of a file with the sent ones. Decodes pictures of the camera, and compares
    /// the number in the picture with the frame's; `None` if the picture cannot be displayed.
    fn check(&mut self, delivery: &Delivery, ledger: &Ledger) -> Option<Check> {
        let Delivery { frame, index, .. } = delivery;
        let sent = ledger.take_content(frame.id);
        if self.screen.is_none() {
            if frame.importance.is_key() {
                self.decode(frame, ledger);
            }
            return Some(if sent == frame.bytes {
                Check::Right
            } else {
                Check::Wrong
            });
        }
        let decoded = delivery.is_displayable.then(|| self.decode(frame, ledger));
        let check = decoded.as_ref().map(|picture| match picture {
            Some((number, _)) if *number == Some(*index as u32) => Check::Right,
            Some(_) => Check::Wrong,
            None => Check::Undecodable,
        });
        if let Some(screen) = &mut self.screen {
            let luma = decoded.flatten().map(|(_, luma)| luma);
            screen.compare(*index, luma, ledger);
        }
        check
    }

    /// Decodes a frame, and returns the number in its picture, and its luma. Passes key frames'
    /// thumbnails to the ledger.
    fn decode(&mut self, frame: &ReceivedFrame, ledger: &Ledger) -> Option<(Option<u32>, Vec<u8>)> {
        let coded = self.extractor.extract(&frame.bytes)?;
        if coded.codec != VideoCodec::H264 {
            return None;
        }
        let picture = self.decoder.decode(&coded.bytes).ok()??;
        if frame.importance.is_key() {
            let small = picture.thumbnail(SMALL_WIDTH);
            ledger.on_key_picture(Picture::new(small.width, small.height, small.rgb));
        }
        Some((picture.burnt_in_number(), picture.packed_luma()))
    }
}
