//! Access units into MPEG-TS, one at a time.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_units::Duration;
use anabranch_video::mpeg_ts::TransportStreamWriter;

/// Makes the MPEG-TS of one access unit after the other.
#[derive(Debug)]
pub(super) struct Muxer {
    writer: TransportStreamWriter<Sink>,
    sink: Sink,
}

/// Lets what the writer has written be taken away.
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

    /// The MPEG-TS of an access unit that is to be shown `at` after the start.
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
