//! Inputs as sequences of steps. Unlike with `arbitrary`, a seed can be written by the same layout,
//! and a byte of a datagram is a byte of the input.

/// Reads the parts of steps; `None` at the end of the input.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Creates a reader at the beginning of an input.
    pub fn new(input: &'a [u8]) -> Self {
        Reader(input)
    }

    /// Reads a byte.
    pub fn u8(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Reads two bytes, the lower one first.
    pub fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes([self.u8()?, self.u8()?]))
    }

    /// Reads a length of two bytes, and as many bytes, or all that are left.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::from(self.u16()?).min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        Some(bytes)
    }

    /// Returns all remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }
}

/// Writes the format that [`Reader`] reads.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// Writes bytes unchanged.
    pub fn raw(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.0.extend_from_slice(bytes.as_ref());
        self
    }

    /// Writes two bytes.
    pub fn u16(self, number: u16) -> Self {
        self.raw(number.to_le_bytes())
    }

    /// Writes a length and the bytes.
    pub fn bytes(self, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        let length = u16::try_from(bytes.len()).expect("a short part of a seed");
        self.u16(length).raw(bytes)
    }

    /// Returns the seed.
    pub fn done(self) -> Vec<u8> {
        self.0
    }
}
