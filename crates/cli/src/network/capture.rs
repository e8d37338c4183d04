//! Files about packets: each one's fate as CSV, and the packets as pcapng.
//!
//! A thread writes them, so that no disk delays a packet.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use anabranch_emu::{LinkDirection, PacketEvent, PacketFate};
use anyhow::Context;

/// Packets of IP without a link's header (`LINKTYPE_RAW` of the list of the tcpdump group).
const LINKTYPE_RAW: u16 = 101;

/// The files of a run.
pub(super) struct Files {
    names: Vec<String>,
    trace: Option<Box<dyn Write + Send>>,
    pcap: Option<Box<dyn Write + Send>>,
    /// Direction of the packets that the command sends.
    outgoing: LinkDirection,
    /// Time from 1970 to the start of the relay.
    origin: StdDuration,
}

impl Files {
    /// Opens the files.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(super) fn open(
        trace: Option<&Path>,
        pcap: Option<&Path>,
        names: Vec<String>,
        outgoing: LinkDirection,
    ) -> anyhow::Result<Files> {
        let mut files = Files {
            names,
            trace: trace.map(create).transpose()?,
            pcap: pcap.map(create).transpose()?,
            outgoing,
            origin: StdDuration::ZERO,
        };
        files
            .write_heads()
            .context("cannot write --trace or --pcap")?;
        Ok(files)
    }

    /// Writes the events in a thread of its own, until their source has ended. The relay starts
    /// now.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn write_events(
        mut self,
        events: Receiver<PacketEvent>,
    ) -> io::Result<JoinHandle<io::Result<()>>> {
        self.origin = since_1970();
        let thread = std::thread::Builder::new().name("capture".to_owned());
        thread.spawn(move || {
            for event in events {
                self.write(&event)?;
            }
            self.flush()
        })
    }

    fn write_heads(&mut self) -> io::Result<()> {
        if let Some(trace) = &mut self.trace {
            writeln!(trace, "time_s,path,direction,event,bytes,delay_ms")?;
        }
        if let Some(pcap) = &mut self.pcap {
            pcap.write_all(&section_header())?;
            for name in &self.names {
                pcap.write_all(&interface_description(name))?;
            }
        }
        Ok(())
    }

    fn write(&mut self, event: &PacketEvent) -> io::Result<()> {
        if let Some(trace) = &mut self.trace {
            let name = &self.names[event.link_index];
            writeln!(trace, "{}", trace_line(event, name))?;
        }
        let is_outgoing = event.direction == self.outgoing;
        let is_at_the_command = match event.fate {
            PacketFate::Entered => is_outgoing,
            PacketFate::Left { .. } => !is_outgoing,
            PacketFate::Dropped(_) => false,
        };
        if is_at_the_command && let Some(pcap) = self.pcap.as_mut() {
            let at = self.origin + StdDuration::from_nanos(event.at.as_nanos());
            pcap.write_all(&packet_block(event, at, is_outgoing))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        for file in [&mut self.trace, &mut self.pcap].into_iter().flatten() {
            file.flush()?;
        }
        Ok(())
    }
}

fn create(path: &Path) -> anyhow::Result<Box<dyn Write + Send>> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Box::new(BufWriter::new(file)))
}

#[allow(
    clippy::disallowed_methods,
    reason = "captures have times of the wall clock"
)]
fn since_1970() -> StdDuration {
    let elapsed = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    elapsed.unwrap_or_default()
}

fn trace_line(event: &PacketEvent, name: &str) -> String {
    let direction = match event.direction {
        LinkDirection::Forward => "there",
        LinkDirection::Reverse => "back",
    };
    let (fate, delay) = match event.fate {
        PacketFate::Entered => ("in", String::new()),
        PacketFate::Left { delay } => ("out", format!("{:.3}", delay.as_millis_f64())),
        PacketFate::Dropped(cause) => (cause.name(), String::new()),
    };
    let at = event.at.as_nanos() as f64 / 1e9;
    // A route's name may contain anything (RFC 4180 §2).
    let name = if name.contains(['"', ',', '\n']) {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name.to_owned()
    };
    format!(
        "{at:.6},{name},{direction},{fate},{},{delay}",
        event.size_bytes
    )
}

/// Returns the section header block of a file of pcapng (draft-ietf-opsawg-pcapng §4.1).
fn section_header() -> Vec<u8> {
    let mut body = Vec::new();
    body.extend_from_slice(&0x1a2b_3c4d_u32.to_ne_bytes());
    body.extend_from_slice(&1_u16.to_ne_bytes());
    body.extend_from_slice(&0_u16.to_ne_bytes());
    // The section's length is not known.
    body.extend_from_slice(&u64::MAX.to_ne_bytes());
    block(0x0a0d_0d0a, &body)
}

/// Returns an interface description block (§4.2), whose times are in nanoseconds.
fn interface_description(name: &str) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend_from_slice(&LINKTYPE_RAW.to_ne_bytes());
    body.extend_from_slice(&0_u16.to_ne_bytes());
    // No packet is cut.
    body.extend_from_slice(&0_u32.to_ne_bytes());
    append_option(&mut body, 2, name.as_bytes());
    append_option(&mut body, 9, &[9]);
    append_option(&mut body, 0, &[]);
    block(1, &body)
}

/// Returns an enhanced packet block (§4.3).
fn packet_block(event: &PacketEvent, at: StdDuration, is_outgoing: bool) -> Vec<u8> {
    let nanos = at.as_nanos() as u64;
    let length = event.packet.len() as u32;
    let mut body = Vec::new();
    let numbers = [
        event.link_index as u32,
        (nanos >> 32) as u32,
        nanos as u32,
        length,
        length,
    ];
    for number in numbers {
        body.extend_from_slice(&number.to_ne_bytes());
    }
    body.extend_from_slice(&event.packet);
    body.resize(body.len().next_multiple_of(4), 0);
    let flags: u32 = if is_outgoing { 2 } else { 1 };
    append_option(&mut body, 2, &flags.to_ne_bytes());
    append_option(&mut body, 0, &[]);
    block(6, &body)
}

fn append_option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    // A name of 64 KiB would not fit; a scenario's file is shorter.
    let value = &value[..value.len().min(1_024)];
    body.extend_from_slice(&code.to_ne_bytes());
    body.extend_from_slice(&(value.len() as u16).to_ne_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 12).to_ne_bytes();
    [&kind.to_ne_bytes(), &length, body, &length].concat()
}

#[cfg(test)]
mod tests {
    use anabranch_link::DropCause;
    use anabranch_units::{Duration, Instant};

    use super::*;

    fn event(fate: PacketFate, direction: LinkDirection) -> PacketEvent {
        PacketEvent {
            at: Instant::from_millis(1_500),
            link_index: 0,
            direction,
            fate,
            size_bytes: 5,
            packet: vec![0x45, 1, 2, 3, 4],
        }
    }

    #[test]
    fn a_line_of_the_trace_is_an_event() {
        let delay = Duration::from_micros(20_100);
        let left = event(PacketFate::Left { delay }, LinkDirection::Reverse);
        assert_eq!(trace_line(&left, "wifi"), "1.500000,wifi,back,out,5,20.100");
        let fate = PacketFate::Dropped(DropCause::QueueFull);
        let dropped = event(fate, LinkDirection::Forward);
        let line = "1.500000,\"a \"\"b\"\", c\",there,queue full,5,";
        assert_eq!(trace_line(&dropped, "a \"b\", c"), line);
    }

    fn number(at: usize, bytes: &[u8]) -> u32 {
        u32::from_ne_bytes(*bytes[at..].first_chunk().unwrap())
    }

    /// Splits a file into the kinds and bodies of its blocks.
    fn blocks(mut file: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut blocks = Vec::new();
        while !file.is_empty() {
            let length = number(4, file) as usize;
            assert_eq!((length % 4, number(length - 4, file) as usize), (0, length));
            blocks.push((number(0, file), file[8..length - 4].to_vec()));
            file = &file[length..];
        }
        blocks
    }

    #[test]
    fn a_capture_has_the_packets_at_the_commands_interfaces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("packets.pcapng");
        let names = vec!["wifi".to_owned()];
        let outgoing = LinkDirection::Forward;
        let mut files = Files::open(None, Some(&path), names, outgoing).unwrap();
        files.origin = StdDuration::from_secs(10);
        let delay = Duration::from_millis(20);
        for direction in [LinkDirection::Forward, LinkDirection::Reverse] {
            files.write(&event(PacketFate::Entered, direction)).unwrap();
            files
                .write(&event(PacketFate::Left { delay }, direction))
                .unwrap();
        }
        files.flush().unwrap();
        let blocks = blocks(&std::fs::read(&path).unwrap());
        let kinds: Vec<u32> = blocks.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [0x0a0d_0d0a, 1, 6, 6]);
        let packet = &blocks[2].1;
        let nanos = 11_500_000_000_u64;
        assert_eq!(packet[4..8], ((nanos >> 32) as u32).to_ne_bytes());
        assert_eq!(packet[8..12], (nanos as u32).to_ne_bytes());
        assert_eq!(packet[20..28], [0x45, 1, 2, 3, 4, 0, 0, 0]);
        let flags = [packet, &blocks[3].1].map(|block| number(32, block));
        assert_eq!(flags, [2, 1]);
    }
}
