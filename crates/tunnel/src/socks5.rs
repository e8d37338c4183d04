//! SOCKS5 between applications and a proxy (RFC 1928), without authentication and for connections
//! alone.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::request::Answer;

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;
const COMMAND_NOT_SUPPORTED: u8 = 7;
const ADDRESS_NOT_SUPPORTED: u8 = 8;

/// Reads the target that an application requests. An application that requests anything else gets a
/// reply, and this returns an error.
pub async fn target(application: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<String> {
    if application.read_u8().await? != VERSION {
        return Err(invalid("this is not SOCKS5"));
    }
    let mut methods = vec![0; usize::from(application.read_u8().await?)];
    application.read_exact(&mut methods).await?;
    if !methods.contains(&NO_AUTHENTICATION) {
        application.write_all(&[VERSION, NO_METHOD]).await?;
        return Err(invalid("the application insists on authentication"));
    }
    application.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    let [version, command, _, kind] = {
        let mut head = [0; 4];
        application.read_exact(&mut head).await?;
        head
    };
    if version != VERSION {
        return Err(invalid("this is not SOCKS5"));
    }
    let host = match kind {
        IPV4 => {
            let mut octets = [0; 4];
            application.read_exact(&mut octets).await?;
            Ipv4Addr::from(octets).to_string()
        }
        IPV6 => {
            let mut octets = [0; 16];
            application.read_exact(&mut octets).await?;
            format!("[{}]", Ipv6Addr::from(octets))
        }
        NAME => {
            let mut name = vec![0; usize::from(application.read_u8().await?)];
            application.read_exact(&mut name).await?;
            String::from_utf8(name).map_err(|_| invalid("a name that is no text"))?
        }
        _ => {
            reply(application, ADDRESS_NOT_SUPPORTED).await?;
            return Err(invalid("an address of unknown kind"));
        }
    };
    let port = application.read_u16().await?;
    if command != CONNECT {
        reply(application, COMMAND_NOT_SUPPORTED).await?;
        return Err(invalid(
            "the application wants something else than to connect",
        ));
    }
    Ok(format!("{host}:{port}"))
}

/// Reports the answer to the application (RFC 1928 §6).
pub async fn answer(application: &mut (impl AsyncWrite + Unpin), answer: Answer) -> io::Result<()> {
    let code = match answer {
        Answer::Connected => 0,
        Answer::NotAllowed => 2,
        Answer::Unreachable | Answer::UnknownHost => 4,
        Answer::Refused => 5,
    };
    reply(application, code).await
}

/// Sends a reply with zeros as the server's bound address, which applications do not need.
async fn reply(application: &mut (impl AsyncWrite + Unpin), code: u8) -> io::Result<()> {
    let reply = [VERSION, code, 0, IPV4, 0, 0, 0, 0, 0, 0];
    application.write_all(&reply).await
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the target of an application that sends these bytes, and the reply that it gets.
    async fn said(bytes: &[u8]) -> (io::Result<String>, Vec<u8>) {
        let (mut client, mut server) = tokio::io::duplex(1_000);
        server.write_all(bytes).await.unwrap();
        server.shutdown().await.unwrap();
        let wanted = target(&mut client).await;
        drop(client);
        let mut heard = Vec::new();
        server.read_to_end(&mut heard).await.unwrap();
        (wanted, heard)
    }

    #[tokio::test]
    async fn rfc1928_targets_of_each_kind() {
        let cases: [(&[u8], &str); 3] = [
            (
                b"\x05\x01\x00\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x50",
                "192.0.2.1:80",
            ),
            (
                b"\x05\x02\x02\x00\x05\x01\x00\x03\x03a.b\x01\xbb",
                "a.b:443",
            ),
            (
                b"\x05\x01\x00\x05\x01\x00\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x1f\x90",
                "[2001:db8::1]:8080",
            ),
        ];
        for (bytes, expected) in cases {
            let (wanted, heard) = said(bytes).await;
            assert_eq!(
                (wanted.unwrap().as_str(), &heard[..]),
                (expected, &b"\x05\x00"[..])
            );
        }
    }

    #[tokio::test]
    async fn other_requests_are_refused() {
        let cases: [(&[u8], &[u8]); 5] = [
            (b"\x04\x01", b""),
            (b"\x05\x01\x02", b"\x05\xff"),
            (
                b"\x05\x01\x00\x05\x03\x00\x01\xc0\x00\x02\x01\x00\x50",
                b"\x05\x00\x05\x07\x00\x01\0\0\0\0\0\0",
            ),
            (
                b"\x05\x01\x00\x05\x01\x00\x09",
                b"\x05\x00\x05\x08\x00\x01\0\0\0\0\0\0",
            ),
            (b"\x05\x01\x00\x05\x01\x00\x03\x09cut", b"\x05\x00"),
        ];
        for (bytes, expected) in cases {
            let (wanted, heard) = said(bytes).await;
            assert!(wanted.is_err(), "{bytes:?}");
            assert_eq!(heard, expected, "{bytes:?}");
        }
    }
}
