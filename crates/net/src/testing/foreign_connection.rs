//! TCP connections of programs that are not ours.

use std::cell::{Cell, RefCell};
use std::io::ErrorKind;

use super::pipe::VirtualStream;

/// A TCP connection of a machine. Time passes by the world alone: bytes are written and read at
/// once, or wait.
#[derive(Debug)]
pub struct ForeignConnection {
    stream: VirtualStream,
    /// Bytes that found no room yet.
    unsent: RefCell<Vec<u8>>,
    is_closed: Cell<bool>,
}

impl ForeignConnection {
    pub(super) fn of(stream: VirtualStream) -> Self {
        ForeignConnection {
            stream,
            unsent: RefCell::default(),
            is_closed: Cell::new(false),
        }
    }

    /// Writes bytes behind those that wait for the connection, or for room.
    pub fn write(&self, bytes: &[u8]) {
        let mut unsent = self.unsent.borrow_mut();
        unsent.extend_from_slice(bytes);
        // It may not be open yet, or be closed.
        if let Ok(count) = self.stream.write(&unsent) {
            unsent.drain(..count);
        }
    }

    /// Takes the bytes that have come, and writes waiting ones.
    pub fn read(&self) -> Vec<u8> {
        self.write(&[]);
        let (mut bytes, mut buffer) = (Vec::new(), [0; 4_096]);
        loop {
            match self.stream.read(&mut buffer) {
                Ok(count) if count > 0 => bytes.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return bytes,
                Ok(_) | Err(_) => {
                    self.is_closed.set(true);
                    return bytes;
                }
            }
        }
    }

    /// Returns whether the other end has closed, and all its bytes were taken.
    pub fn is_closed(&self) -> bool {
        self.is_closed.get()
    }
}
