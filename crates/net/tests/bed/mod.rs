//! Help for tests of streams.

use std::io;

use anabranch_net::ByteStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Sends bytes, ends the writing half, and reads the answer to its end.
pub async fn there_and_back(mut stream: ByteStream, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut back = Vec::new();
    let (mut reader, mut writer) = tokio::io::split(&mut stream);
    let write = async {
        writer.write_all(bytes).await?;
        writer.shutdown().await
    };
    let (written, read) = tokio::join!(write, reader.read_to_end(&mut back));
    written.and(read)?;
    Ok(back)
}
