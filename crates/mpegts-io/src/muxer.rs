//! Conversion of access units to MPEG-TS, one at a time.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_units::Duration;
use anabranch_video::mpeg_ts::TransportStreamWriter;

/// Converter of single access units to MPEG-TS.
#[derive(Debug)]
pub(super) struct Muxer {
    writer: TransportStreamWriter<Sink>,
    sink: Sink,
}

/// Buffer that the writer fills and the muxer empties.
#[derive(Clone, Debug, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Muxer {
    pub(super) fn new() -> Self {
        let sink = Sink::default();
        Muxer {
            writer: TransportStreamWriter::new(sink.clone()),
            sink,
        }
    }

    /// Returns the MPEG-TS of an access unit that is presented `at` after the start.
    pub(super) fn mux(
        &mut self,
        annex_b: &[u8],
        at: Duration,
        is_key: bool,
    ) -> io::Result<Vec<u8>> {
        self.writer.write(annex_b, at, is_key)?;
        Ok(core::mem::take(
            &mut *self.sink.0.lock().unwrap_or_else(PoisonError::into_inner),
        ))
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
